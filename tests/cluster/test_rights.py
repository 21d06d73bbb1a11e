"""Tests of the roles for OpenSearch's security plugin: each role is sufficient for its task, and needs all its rights.

By default, every 24th right is removed in turn. With ``RESIFT_TEST_RIGHTS=all``, each right is removed in turn.
"""

from __future__ import annotations

import copy
import itertools
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opensearch_fixture import ENVIRONMENT
from secured_node import EVERYTHING, SecuredNode
from ubi_events import event, query

from resift import Model
from resift.cli.main import main
from resift.cli.role import ROLES, role_definition
from resift.errors import EngineError
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.install import Guard
from resift.reranker import Config, create_app

INDICES, SESSIONS, UBI = ["mine-*"], "mine_sessions", ["mine_events", "mine_queries"]
NAMED = "no permissions for ["
OPTIONAL = [
    # without this right, searches go through Resift's own default pipeline, which is slower and returns the same hits
    ("serve", "indices:monitor/settings/get"),
    # only searches with clauses that use a model of the cluster need this right
    ("serve", "cluster:admin/opensearch/ml/predict"),
    # without this right, too, searches go through Resift's own default pipeline
    ("serve", "cluster:admin/search/pipeline/get"),
]
Task = Callable[[SecuredNode, str, Path], str]  # the message for a user who lacks the right


@pytest.fixture(autouse=True)
def trusting(here: Path, secured_node: SecuredNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make connections trust the node's certificate authority, without other environment variables."""
    monkeypatch.setenv("OPENSEARCH_CA_CERTS", str(secured_node.folder / "ca.pem"))


def run(*arguments: str) -> str:
    """Run a command, and return its output."""
    return CliRunner().invoke(main, arguments).output


def installing(node: SecuredNode, user: str, folder: Path) -> str:
    """Install, run doctor and guard, and uninstall."""
    to = ("--engine", node.as_user(user), "--name", "rights")
    # an address that the cluster does not trust yet, even after an installation that failed for lack of a right
    told = [run("install", *to, "--yes", "--service", f"http://127.0.0.1:{next(PORTS)}") for _ in range(2)]
    # the installation for whose model the index has a pipeline, which doctor tests
    told += [run("doctor", *to), run("doctor", "--engine", node.as_user(user), "--name", "resift")]
    engine = OpenSearchEngine(node.as_user(user))
    try:
        Guard(
            Installer(engine, Installation("resift", PACKAGED[0], ("text",), "http://127.0.0.1:18081")).cluster,
            "rights",
            "",
        ).switch(False)
    except EngineError as error:
        told.append(error.message)
    finally:
        engine.close()
    return "\n".join([*told, run("uninstall", "--yes", *to)])


def attaching(node: SecuredNode, user: str, folder: Path) -> str:
    """Attach an index and detach it, without writing to it."""
    index, to = f"mine-{uuid.uuid4().hex[:8]}", ("--engine", node.as_user(user))
    node.ask("PUT", f"/{index}", {})
    told = [run(command, index, "--yes", *to) for command in ("attach", "detach")]
    node.ask("DELETE", f"/{index}")
    return "\n".join(told)


def encoding(node: SecuredNode, user: str, folder: Path) -> str:
    """Index documents, attach vectors to an index, repair them, and detach it."""
    new, old = (f"mine-{uuid.uuid4().hex[:8]}" for _ in range(2))
    to = ("--engine", node.as_user(user))
    mapped = {"settings": {"index.knn": True}, "mappings": {"properties": {"text": {"type": "text"}}}}
    node.ask("PUT", f"/{old}", mapped)
    for number, text in enumerate(("fire in the bush", "rain in the river")):
        node.ask("PUT", f"/{old}/_doc/{number}?refresh=true", {"text": text})
    (folder / "documents.jsonl").write_text('{"_id": "1", "text": "a strike"}\n')
    told = [run("index", str(folder / "documents.jsonl"), "--index", new, "--fields", "text", *to)]
    told.append(run("attach", old, "--vectors", "--model", "resift-en", "--yes", "--default-pipelines", *to))
    node.ask("POST", f"/{old}/_update/0?refresh=true", {"doc": {"text": "snow"}})
    told += [run("verify", old, "--repair", *to), run("detach", old, "--yes", *to)]
    for index in (new, old):
        node.ask("DELETE", f"/{index}?ignore_unavailable=true")
    return "\n".join(told)


def serving(node: SecuredNode, user: str, folder: Path) -> str:
    """Search, mark, rewrite, review, read and delete sessions over HTTP. Errors that are only logged also count."""
    url = node.as_user(user)
    config = Config(engine=url, store=url, session_index=SESSIONS, ubi_events=UBI[0], ubi_queries=UBI[1])
    app = create_app(config, model=PACKAGED[0])
    service, client = app.extensions["resift"], app.test_client()
    service.words.wait_seconds = 10
    marks = {"session": "anna", "index": "mine-served", "query": "fire", "relevant": ["0"]}
    told = [client.get("/readyz").text]
    for path, body in (
        ("/v1/feedback", marks),
        ("/v1/search", {"index": "mine-served", "query": "fier", "session": "anna"}),
        ("/v1/search", {"index": "mine-served", "query": "fire", "session": "anna", "reasons": True}),
        ("/v1/rewrite", {"index": "mine-served", "body": {"query": {"match": {"text": "rain"}}}}),
        ("/v1/sessions/anna/undo", {}),
        ("/v1/feedback", marks),
        ("/ubi_events", [event("click", "0")]),
        ("/ubi_queries", [query()]),
    ):
        told.append(client.post(path, json=body).text)
    try:
        list(service.sessions.store.scan())  # while there is a session to list
        service.sessions.store.purge(1.0)
    except Exception as error:
        told.append(str(error))
    told.append(client.delete("/v1/sessions/anna").text)
    told.append(client.put("/v1/reviews/r", json={"index": "mine-served", "topic": "fire"}).text)
    told.append(client.post("/v1/reviews/r/next", json={"sample": True}).text)
    told.append(client.post("/v1/reviews/r/judgements", json={"relevant": ["0"]}).text)
    told += [client.get(f"/v1/reviews{path}").text for path in ("", "/r", "/r/export")]
    told.append(client.delete("/v1/reviews/r").text)
    service.engine.close()
    service.sessions.store.close()
    node.ask("DELETE", f"/{SESSIONS},{SESSIONS}-reviews,{','.join(UBI)}?ignore_unavailable=true")
    return "\n".join(told)


PORTS = itertools.count(18081)  # no service listens at this address
TASKS: dict[str, Task] = {"install": installing, "attach": attaching, "vectors": encoding, "serve": serving}
PACKAGED: list[Model] = []


@pytest.fixture(scope="module", autouse=True)
def prepared(secured_node: SecuredNode, packaged: Model) -> Iterator[None]:
    """Yield an installation, and an index that the service serves."""
    node = secured_node
    PACKAGED.append(packaged)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OPENSEARCH_CA_CERTS", str(node.folder / "ca.pem"))
        engine = OpenSearchEngine(node.as_user(EVERYTHING), timeout=60)
        engine.create("mine-served", ["text"], packaged)
        installer = Installer(engine, Installation("resift", packaged, ("text",), "http://127.0.0.1:18080"))
        installer.install()
    node.ask("PUT", "/mine-served/_doc/0?refresh=true", {"text": "fire in the bush"})
    yield
    PACKAGED.clear()
    node.ask("DELETE", "/mine-served")
    installer.uninstall()
    engine.close()


def rights(body: dict[str, Any]) -> list[tuple[int, str]]:
    """Yield each right of a role with the number of its list: -1 for cluster rights, or that of the index block."""
    blocks = [(-1, body["cluster_permissions"])]
    blocks += [(number, block["allowed_actions"]) for number, block in enumerate(body["index_permissions"])]
    return [(number, right) for number, block in blocks for right in block]


def without(body: dict[str, Any], number: int, right: str) -> dict[str, Any]:
    """Return a role without a right."""
    changed = copy.deepcopy(body)
    (changed["cluster_permissions"] if number < 0 else changed["index_permissions"][number]["allowed_actions"]).remove(
        right
    )
    return changed


@pytest.mark.parametrize("name", ROLES)
def test_a_role_is_enough_and_each_right_is_needed_and_named(
    secured_node: SecuredNode, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="resift")
    node = secured_node
    body, users = role_definition(name, INDICES, SESSIONS, UBI), {}
    every = ENVIRONMENT.get("RESIFT_TEST_RIGHTS") == "all"
    for place, (number, right) in enumerate(rights(body)):
        if every or place % 24 == 3:
            users[f"{name}-{place}"] = right, without(body, number, right)
    node.grant({f"{name}-whole": body, **{user: role for user, (_, role) in users.items()}})

    told = TASKS[name](node, f"{name}-whole", tmp_path) + caplog.text
    assert NAMED not in told, told
    assert "Error: " not in told, told
    silent = []
    for user, (right, _) in users.items():
        caplog.clear()
        told = TASKS[name](node, user, tmp_path) + caplog.text
        if (name, right) not in OPTIONAL and (right not in told or NAMED not in told):
            silent.append((right, [line[:300] for line in told.splitlines() if "rror" in line or NAMED in line]))
        assert "Traceback" not in told
        if name == "install":
            cleaned = run("uninstall", "--yes", "--engine", node.as_user(EVERYTHING), "--name", "rights")
            assert "Error: " not in cleaned, cleaned
    assert silent == []
