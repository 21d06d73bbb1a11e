"""A node with OpenSearch's security plugin: HTTPS, certificates, users and roles."""

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
# A bcrypt hash of the password with few rounds. The node itself would use many rounds for each user, which is slow.
_HASH = "$2y$04$abcdefghijklmnopqrstuuuvskQp.vdVAFA0L7EKBuJsswwEcYFNK"
VERSION = "2.19.1"  # the last version whose security plugin is in Maven Central
EVERYTHING = "everything"  # the user with all rights
_ALL = {"cluster_permissions": ["*"], "index_permissions": [{"index_patterns": ["*"], "allowed_actions": ["*"]}]}


@dataclass
class SecuredNode:
    """A node with the security plugin.

    Attributes:
        url: The address of the node.
        folder: The folder with the authority's certificate ca.pem, and the certificates of the administrator and anna.
        context: Sends the administrator's certificate.
    """

    url: str
    folder: Path
    context: ssl.SSLContext

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> Any:
        """Return the JSON response to a request of the administrator, who has all rights."""
        connection = HTTPSConnection(urlsplit(self.url).netloc, context=self.context, timeout=60)
        sent = {"Content-Type": "application/json", **headers}
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status < 300, (path, text)
        return json.loads(text)

    def wait(self) -> None:
        """Wait until the security plugin has read its settings. A healthy node may not have read them yet."""
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
        """Create roles, and a user for each role with the same name and the password PASSWORD."""
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
        """Return the address of the node with a user and the password in it."""
        return self.url.replace("https://", f"https://{name}:{PASSWORD}@")


def authorization(user: str) -> dict[str, str]:
    """Return the Authorization header of a user with the password PASSWORD."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()}


@contextmanager
def started_node(folder: Path, native: bool = False) -> Iterator[SecuredNode]:
    """Start a node to which only the administrator, the user EVERYTHING and users of the tests have access.

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
    """Return a node with the security plugin, without Resift's plugin."""
    with started_node(tmp_path_factory.mktemp("certificates")) as node:
        yield node
