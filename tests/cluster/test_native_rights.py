"""Resift's plugin on a node with OpenSearch's security plugin: roles, and searches of users with few rights."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from native_node import PATIENT, real_service
from secured_node import SecuredNode, authorization, started_node
from service_app import post

from resift import Model
from resift.cli.main import main
from resift.cli.role import role_definition
from resift.plugin.opensearch.engine import OpenSearchEngine

INDEX = "news"
TEXTS = {"1": "fire in the bush", "2": "the army returned fire", "3": "a bush in the garden"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    """Yield a node with both plugins, an index, and two users: ``attacher`` and ``anna``, who may only search."""
    with started_node(tmp_path_factory.mktemp("certificates"), native=True) as node:
        readable = {"index_patterns": [INDEX], "allowed_actions": ["indices:data/read/search"]}
        node.grant(
            {
                "attacher": role_definition("attach", [INDEX], "sessions", []),
                "anna": {"cluster_permissions": [], "index_permissions": [readable]},
            }
        )
        node.ask("PUT", f"/{INDEX}", {"settings": {"number_of_shards": 1, "number_of_replicas": 0}})
        for id, text in TEXTS.items():
            node.ask("PUT", f"/{INDEX}/_doc/{id}?refresh=true", {"text": text})
        yield node


@pytest.fixture(autouse=True)
def trusting(here: Path, node: SecuredNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make connections trust the node's certificate authority, without other environment variables."""
    monkeypatch.setenv("OPENSEARCH_CA_CERTS", str(node.folder / "ca.pem"))


def search(node: SecuredNode, user: str, session: str) -> tuple[int, Any]:
    """Return status and JSON of a user's search in a session, through the pipeline of the index."""
    context = ssl.create_default_context(cafile=str(node.folder / "ca.pem"))
    connection = HTTPSConnection(urlsplit(node.url).netloc, context=context, timeout=60)
    body = {"query": {"match": {"text": "fire"}}, "ext": {"resift": {"session": session}}}
    headers = {"Content-Type": "application/json", **authorization(user)}
    connection.request("POST", f"/{INDEX}/_search?search_pipeline=resift-{INDEX}", json.dumps(body), headers)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    return answer.status, found


def test_the_role_attach_needs_no_right_to_search(node: SecuredNode, packaged: Model, tmp_path: Path) -> None:
    to = ("--engine", node.as_user("attacher"))
    with (
        closing(OpenSearchEngine(node.as_user("everything"), timeout=60)) as engine,
        real_service(engine, packaged, tmp_path / "sessions.db") as service,
    ):
        attached = CliRunner().invoke(main, ["attach", INDEX, "--yes", "--service", service.url, *to])
        assert attached.exit_code == 0, attached.output
        assert "route       Resift's plugin, which all nodes have" in attached.output
        assert "not tested: " in attached.output
        # a busy machine may exceed the timeout of the processor
        pipeline = node.ask("GET", f"/_search/pipeline/resift-{INDEX}")[f"resift-{INDEX}"]
        pipeline["request_processors"][0]["resift"]["timeout"] = PATIENT
        node.ask("PUT", f"/_search/pipeline/resift-{INDEX}", pipeline)
        assert search(node, "attacher", "anna")[0] == 403
        # a user who may only search gets rewritten hits
        client = service.app.test_client()
        post(client, "/v1/feedback", session="anna", index=INDEX, query="fire", relevant=["1"])
        status, found = search(node, "anna", "anna")
        assert (status, found["hits"]["total"]["value"]) == (200, 2)
        assert [hit["_id"] for hit in found["hits"]["hits"]] == ["1", "2"]
        assert "resift" in found["hits"]["hits"][0]["matched_queries"]
        detached = CliRunner().invoke(main, ["detach", INDEX, "--yes", *to])
        assert detached.exit_code == 0, detached.output
