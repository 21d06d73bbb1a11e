"""A node with OpenSearch's security plugin: TLS, certificates, users, and roles of our own making."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

PASSWORD = "Quiet-river-47"
# of the password, made in few rounds: the node would make as many as are safe for each user, which takes long
_HASH = "$2y$04$abcdefghijklmnopqrstuuuvskQp.vdVAFA0L7EKBuJsswwEcYFNK"
VERSION = "2.19.1"  # the last one whose security plugin is in Maven Central
EVERYTHING = "everything"  # the user who may do everything
_ALL = {"cluster_permissions": ["*"], "index_permissions": [{"index_patterns": ["*"], "allowed_actions": ["*"]}]}


@dataclass
class SecuredNode:
    """The node at ``url``. ``folder`` holds the authority ca.pem, and certificates of its administrator and of anna."""

    url: str
    folder: Path
    context: ssl.SSLContext

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> Any:
        """The JSON of an answer to the administrator, who may do everything."""
        connection = HTTPSConnection(urlsplit(self.url).netloc, context=self.context, timeout=60)
        sent = {"Content-Type": "application/json", **headers}
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status < 300, (path, text)
        return json.loads(text)

    def wait(self) -> None:
        """Wait until the security plugin has read its settings, which a node that is healthy may not have yet."""
        deadline = time.monotonic() + 180
        while True:
            try:
                self.ask("GET", "/_plugins/_security/api/roles")
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def grant(self, roles: Mapping[str, Mapping[str, Any]]) -> None:
        """Make roles, each with a user of the role's name and the usual password."""
        security = "/_plugins/_security/api"
        patches: dict[str, dict[str, Any]] = {"roles": {}, "internalusers": {}, "rolesmapping": {}}
        for name, role in roles.items():
            patches["roles"][name] = role
            patches["internalusers"][name] = {"hash": _HASH}
            patches["rolesmapping"][name] = {"users": [name]}
        for kind, entries in patches.items():
            operations = [{"op": "add", "path": f"/{name}", "value": value} for name, value in entries.items()]
            self.ask("PATCH", f"{security}/{kind}", operations)

    def as_user(self, name: str) -> str:
        """The node's address with a user and the usual password."""
        return self.url.replace("https://", f"https://{name}:{PASSWORD}@")


def authorization(user: str) -> dict[str, str]:
    """The headers of a user with the usual password."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()}


@contextmanager
def started_node(folder: Path, native: bool = False) -> Iterator[SecuredNode]:
    """Start a node that lets nobody in but the administrator, EVERYTHING, and users that a test makes.

    Args:
        folder: The folder for the certificates.
        native: Whether the node has Resift's plugin.
    """
    node = pytest.importorskip("node", reason="nodes are started where there are file locks")
    from node_releases import NodeUnavailable
    from node_security import Certificates

    if shutil.which("openssl") is None:
        pytest.skip("needs OpenSearch with its security plugin, and openssl for certificates")
    certificates = Certificates.make(folder)
    certificates.issue("anna")
    try:
        started = node.start(version=VERSION, heap="640m", quick=True, certificates=certificates, native=native)
    except NodeUnavailable as error:
        pytest.skip(f"needs OpenSearch {VERSION} with its security plugin: {error}")
    secured = SecuredNode(started.url, certificates.folder, certificates.context())
    secured.wait()
    secured.grant({EVERYTHING: _ALL})
    yield secured
    started.stop()


@pytest.fixture(scope="session")
def secured_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    """A node with the security plugin."""
    with started_node(tmp_path_factory.mktemp("certificates")) as node:
        yield node
