"""Tests of sessions in hybrid, knn and neural searches under OpenSearch's security plugin.

The printed roles are sufficient without a right to write to indices, and a caller's search does not depend on documents
that the caller may not read.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from click.testing import CliRunner
from flask import Flask, Response
from flask import request as flask_request
from secured_node import SecuredNode, authorization
from werkzeug.serving import make_server

from resift import Model
from resift.cli.main import main
from resift.cli.role import role_definition
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.cluster.remote_model import RemoteModel
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

Body = dict[str, Any]
INDEX, PUBLIC, PRIVATE, SESSIONS, UBI = "articles", "articles-public", "diary", "own_sessions", ["own_events", "own_qs"]
TEXTS = {
    "p1": "fire in the bush",
    "p2": "smoke over the forest and a burning tree",
    "p3": "the army fired a gun",
    "p4": "rain water in the river",
    "p5": "a flame in the dry forest",
    "p6": "the soldiers left and there was peace",
    "p7": "a cold winter with snow in the mountains",
    "p8": "the parliament voted on taxes",
    "p9": "fire and rescue services of the town",
    "p10": "a recipe for bread with olives",
    "p11": "the orchestra played a symphony",
    "p12": "shares fell on the stock market",
    "p13": "a striker scored two goals",
    "p14": "vaccines for children and their parents",
    "p15": "the telescope sees distant galaxies",
    "p16": "trains to the coast are late",
    "p17": "a novel about two sisters",
    "p18": "teachers want smaller classes",
    "p19": "the spacecraft landed on the moon",
    "s1": "fire aboard the zeppelin over Lakehurst",
    "s2": "a zeppelin burned",
}
MATCH: Body = {"match": {"text": "fire"}}
MIXED: Body = {"phase_results_processors": [{"normalization-processor": {}}]}
ASKED: Body = {"query": "fire", "session": "shared"}


@dataclass
class Secured:
    """A node, a service with the role ``serve``, and the responses of the service to search pipelines."""

    node: SecuredNode
    app: Flask
    model: Model
    query_model: str
    rewritten: list[Body] = field(default_factory=list)

    def post(self, path: str, user: str | None, status: int = 200, **body: Any) -> Any:
        """Return the response of the service to a user of the cluster, or to an anonymous caller."""
        headers = authorization(user) if user else {}
        answer = self.app.test_client().post(path, json=body, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.get_json()

    def rewrite(self, user: str | None, query: Body, session: str = "shared", index: str = INDEX) -> tuple[Body, str]:
        """Return the rewritten query of a user, and the outcome."""
        asked = {"query": query, "ext": {"ml_inference": {**ASKED, "session": session}}}
        answer = self.post("/v1/rewrite", user, index=index, body=asked)
        return answer["body"]["query"], answer["resift"]["outcome"]

    def hybrid(self) -> Body:
        """Return a hybrid query with words, and k-NN by the words' vector."""
        return {"hybrid": {"queries": [MATCH, self.near()]}}

    def near(self) -> Body:
        """Return a k-NN query by the vector of the words."""
        vector = [round(float(value), 5) for value in self.model.encode_one("fire")]
        return {"knn": {"embedding": {"vector": vector, "k": 20}}}


def reading(asks_models: bool = True, **limits: Any) -> Body:
    """Return a role that may search the indices with some limits, and use models, as neural queries need."""
    block: Body = role_definition("serve", [INDEX, PUBLIC], "x", [])["index_permissions"][0]  # type: ignore[index]
    cluster = ["indices:data/read/msearch", *(["cluster:admin/opensearch/ml/predict"] if asks_models else [])]
    return {"cluster_permissions": cluster, "index_permissions": [{**block, **limits}]}


ROLES: Body = {
    "installer": role_definition("install", [INDEX], SESSIONS, UBI),
    "attacher": role_definition("attach", [INDEX], SESSIONS, UBI),
    "server": role_definition("serve", [INDEX, PUBLIC], SESSIONS, UBI),
    "anna": reading(),
    "bob": reading(dls=json.dumps({"term": {"label": "public"}})),
    "carol": reading(fls=["~embedding"]),
    "dave": reading(masked_fields=["text"]),
    "erin": reading(asks_models=False),
}


@pytest.fixture(scope="module")
def secured(secured_node: SecuredNode, packaged: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Yield an index with its own vectors, and a second index with its public documents.

    anna has marked p1 and a secret document of the first index, and p1 of the second.
    """
    node = secured_node
    node.grant(ROLES)
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    vector = {"type": "knn_vector", "dimension": packaged.dim, "method": method}
    properties = {"text": {"type": "text"}, "label": {"type": "keyword"}, "embedding": vector}
    for index in (INDEX, PUBLIC, PRIVATE):
        settings = {"index.knn": True, "number_of_shards": 1, "number_of_replicas": 0}
        node.ask("PUT", f"/{index}", {"settings": settings, "mappings": {"properties": properties}})
    for id, text in TEXTS.items():
        source = {"text": text, "label": "public" if id[0] == "p" else "secret"}
        source["embedding"] = np.round(packaged.encode_one(text).astype(float), 5).tolist()
        for index in (INDEX, PRIVATE, *([PUBLIC] if id[0] == "p" else [])):
            node.ask("PUT", f"/{index}/_doc/{id}?refresh=true", source)
    node.ask("PUT", "/_search/pipeline/theirs", MIXED)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OPENSEARCH_CA_CERTS", str(node.folder / "ca.pem"))
        url, answers = node.as_user("server"), list[Body]()
        config = Config(engine=url, store=url, session_index=SESSIONS, ubi_events=UBI[0], ubi_queries=UBI[1])
        app = create_app(config, model=packaged)

        @app.after_request
        def keep(response: Response) -> Response:
            if flask_request.path == "/v1/rewrite":
                answers.append(response.get_json())
            return response

        server = make_server("127.0.0.1", 0, app, threaded=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        engine = OpenSearchEngine(node.as_user("installer"), timeout=60)
        installer = Installer(
            engine, Installation("own", packaged, ("text",), f"http://127.0.0.1:{server.server_port}")
        )
        try:
            installer.install()
            made = Secured(
                node, app, packaged, RemoteModel(installer.cluster, "query", installer.template_values).model_id
            )
            made.rewritten = answers
            made.post("/v1/feedback", "anna", session="shared", index=INDEX, query="fire", relevant=["p1", "s1"])
            for session, index in (("own", INDEX), ("public", PUBLIC)):
                made.post("/v1/feedback", "anna", session=session, index=index, query="fire", relevant=["p1"])
            yield made
            installer.uninstall()
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
            engine.close()
            app.extensions["resift"].engine.close()
            app.extensions["resift"].sessions.store.close()
            node.ask("DELETE", "/_search/pipeline/theirs")
            node.ask("DELETE", f"/{INDEX},{PUBLIC},{PRIVATE},{SESSIONS}")


@pytest.fixture(autouse=True)
def trusting(here: Path, secured_node: SecuredNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make connections trust the node's certificate authority, without other environment variables."""
    monkeypatch.setenv("OPENSEARCH_CA_CERTS", str(secured_node.folder / "ca.pem"))


def answer_to(node: SecuredNode, user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Return status and JSON of the node's response to a user without a certificate."""
    context = ssl.create_default_context(cafile=str(node.folder / "ca.pem"))
    connection = HTTPSConnection(urlsplit(node.url).netloc, context=context, timeout=60)
    sent = {"Content-Type": "application/json", **authorization(user)}
    connection.request(method, path, None if body is None else json.dumps(body), sent)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    return answer.status, found


def status_of(node: SecuredNode, user: str, method: str, path: str, body: Any = None) -> int:
    """Return the status of the response."""
    return answer_to(node, user, method, path, body)[0]


def command(node: SecuredNode, name: str, *flags: str) -> str:
    """Run a command on the index as a user with the role ``attach``, and return its output."""
    result = CliRunner().invoke(main, [name, INDEX, "--engine", node.as_user("attacher"), "--yes", *flags])
    assert result.exit_code == 0, result.output
    return result.output


def contents(node: SecuredNode) -> str:
    """Return everything about the index, and its documents with their sequence numbers."""
    body = {"size": 100, "version": True, "seq_no_primary_term": True, "sort": ["_doc"], "search_pipeline": "_none"}
    return json.dumps([node.ask("GET", f"/{INDEX}"), node.ask("POST", f"/{INDEX}/_search", body)["hits"]["hits"]])


def test_the_printed_roles_do_for_all_of_it(secured: Secured) -> None:
    node, theirs = secured.node, "/_search/pipeline/theirs"
    before, pipeline = contents(node), node.ask("GET", theirs)
    neural = {"neural": {"embedding": {"query_text": "fire", "model_id": secured.query_model, "k": 20}}}
    command(node, "attach", "--pipeline", "theirs")
    try:
        for query in (secured.hybrid(), secured.near(), neural, {"hybrid": {"queries": [MATCH, neural]}}):
            secured.rewritten.clear()
            body = {"query": query, "ext": {"ml_inference": ASKED}}
            status, found = answer_to(node, "anna", "POST", f"/{INDEX}/_search?search_pipeline=theirs", body)
            assert status == 200, found
            assert [one["resift"]["outcome"] for one in secured.rewritten] == ["rewritten"]
            assert "p1" in [hit["_id"] for hit in found["hits"]["hits"]]
        assert contents(node) == before
    finally:
        command(node, "detach")
    assert (contents(node), node.ask("GET", theirs)) == (before, pipeline)


def test_the_roles_read_and_write_nothing_else(secured: Secured) -> None:
    node, document = secured.node, {"text": "x"}
    for user in ("attacher", "server", "anna"):
        for path in (f"/{INDEX}/_doc/x", f"/{PRIVATE}/_doc/x"):
            assert status_of(node, user, "PUT", path, document) == 403
        assert status_of(node, user, "PUT", f"/{INDEX}/_mapping", {"_meta": {"x": 1}}) == 403
        assert status_of(node, user, "PUT", f"/{INDEX}/_settings", {"index.search.default_pipeline": "_none"}) == 403
        assert status_of(node, user, "POST", f"/{PRIVATE}/_search", {}) == 403
    assert status_of(node, "attacher", "POST", f"/{INDEX}/_search", {}) == 403
    assert status_of(node, "attacher", "POST", f"/{SESSIONS}/_search", {}) == 403
    assert status_of(node, "anna", "POST", f"/{SESSIONS}/_search", {}) == 403
    asked = {"query": secured.near(), "ext": {"ml_inference": ASKED}}
    refused = secured.post("/v1/search", None, 403, index=PRIVATE, query=asked)
    assert "zeppelin" not in json.dumps(refused)
    # The search itself is refused for its own rights, so its body comes back unchanged.
    unchanged = secured.post("/v1/rewrite", None, index=PRIVATE, body=asked)
    assert (unchanged["body"], unchanged["resift"]["outcome"]) == (asked, "failed")
    assert "zeppelin" not in json.dumps(unchanged["resift"])


def vectors_of(query: Body) -> list[float]:
    """Return the vector in the first clause with a vector."""
    left: list[Any] = [query]
    while left:
        one = left.pop(0)
        if isinstance(one, dict) and "knn" in one:
            return list(one["knn"]["embedding"]["vector"])
        left += list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else []
    raise AssertionError(query)


def test_nothing_moves_by_documents_that_a_caller_may_not_read(secured: Secured) -> None:
    shared, outcome = secured.rewrite("bob", secured.hybrid())
    own, _ = secured.rewrite("bob", secured.hybrid(), "own")
    assert outcome == "marks_gone"
    assert shared == own
    assert "zeppelin" not in json.dumps(shared)
    assert "s1" not in json.dumps(shared)
    # the background sample does not contain them, either
    without, _ = secured.rewrite("anna", secured.hybrid(), "public", PUBLIC)
    assert vectors_of(own) == pytest.approx(vectors_of(without), abs=1e-4)
    seen, _ = secured.rewrite("anna", secured.hybrid())
    assert vectors_of(seen) != pytest.approx(vectors_of(own), abs=1e-3)
    assert "zeppelin" in json.dumps(seen)
    answer = secured.post("/v1/search", "bob", index=INDEX, query={"query": secured.near()}, session="shared")
    assert {hit["_id"][0] for hit in answer["hits"]["hits"]} == {"p"}


def test_nothing_moves_by_vectors_that_a_caller_may_not_read(secured: Secured) -> None:
    hybrid, near = secured.hybrid(), secured.near()
    assert secured.rewrite("anna", near)[0] != near
    assert secured.rewrite("carol", near) == (near, "vectors_not_moved")
    rewritten, outcome = secured.rewrite("carol", hybrid)
    assert (vectors_of(rewritten), outcome) == (vectors_of(hybrid), "vectors_not_moved")
    assert "bush" in json.dumps(rewritten)  # the words come from the text, which carol may read


def test_nothing_is_learned_of_texts_that_are_masked(secured: Secured) -> None:
    rewritten = json.dumps(secured.rewrite("dave", secured.hybrid())[0])
    for word in ("zeppelin", "lakehurst", "bush", "aboard"):
        assert word not in rewritten


def test_who_may_not_ask_models_is_answered_as_without_a_session(secured: Secured) -> None:
    node, asked = secured.node, {"ext": {"ml_inference": ASKED}}
    neural = {"neural": {"embedding": {"query_text": "fire", "model_id": secured.query_model, "k": 20}}}
    assert secured.rewrite("erin", neural) == (neural, "model_unavailable")
    assert secured.rewrite("erin", secured.near()) == secured.rewrite("anna", secured.near())
    command(node, "attach", "--pipeline", "theirs")
    try:
        path, body = f"/{INDEX}/_search?search_pipeline=", {"query": secured.hybrid()}
        plain = answer_to(node, "erin", "POST", f"{path}_none", {"query": MATCH})[1]["hits"]["hits"]
        status, found = answer_to(node, "erin", "POST", f"{path}theirs", {"query": MATCH, **asked})
        assert (status, found["hits"]["hits"]) == (200, plain)
        assert answer_to(node, "erin", "POST", f"{path}theirs", {**body, **asked})[0] == 200
    finally:
        command(node, "detach")
