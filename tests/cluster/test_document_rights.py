"""Tests of document-level security: a session does not use or show documents that its caller may not read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flask import Flask
from secured_node import EVERYTHING, PASSWORD, SecuredNode, authorization

from resift import Model
from resift.cli.main import main
from resift.cli.role import role_definition
from resift.contracts.documents import Document
from resift.errors import EngineError, EngineUnavailable
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app
from resift.reviews.reviews import ReviewSettings

INDEX = "library"
TEXTS = {
    "p1": "fire in the bush",
    "p2": "the army fired a gun",
    "p3": "smoke over the forest",
    "p4": "rain water in the river",
    "p5": "a flame in the dry forest",
    "s1": "fire aboard the zeppelin over Lakehurst",
    "s2": "a zeppelin burned",
}
FIRE = {"match": {"text": "fire"}}


def reading(*documents: str) -> dict[str, Any]:
    """Return a role that may search the index, or only the documents with some labels."""
    block: dict[str, Any] = role_definition("serve", [INDEX], "x", [])["index_permissions"][0]  # type: ignore[index]
    limited = {"dls": json.dumps({"terms": {"label": documents}})} if documents else {}
    return {"cluster_permissions": ["indices:data/read/msearch"], "index_permissions": [{**block, **limited}]}


@pytest.fixture(scope="module")
def node(secured_node: SecuredNode, packaged: Model) -> Iterator[SecuredNode]:
    """Yield a node with an index.

    bob, and the service called narrow, may only read public documents. finn may not read the field ``text`` and its
    vectors.
    """
    wide = role_definition("serve", [INDEX], "reading_sessions", ["reading_events", "reading_queries"])
    narrow: dict[str, Any] = json.loads(json.dumps(wide))
    narrow["index_permissions"][0]["dls"] = json.dumps({"term": {"label": "public"}})
    finn = reading()
    finn["index_permissions"][0]["fls"] = ["~text", "~resift_vector*"]  # as docs/security.md says
    roles = {"anna": reading(), "bob": reading("public"), "finn": finn, "wide": wide, "narrow": narrow}
    secured_node.grant(roles)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OPENSEARCH_CA_CERTS", str(secured_node.folder / "ca.pem"))
        engine = OpenSearchEngine(secured_node.as_user(EVERYTHING), timeout=60)
        engine.create(INDEX, ["text"], packaged)
        engine.client.indices.put_mapping(index=INDEX, body={"properties": {"label": {"type": "keyword"}}})
        sources = {id: {"text": text, "label": "public" if id[0] == "p" else "secret"} for id, text in TEXTS.items()}
        vectors = packaged.encode(list(TEXTS.values()))
        engine.bulk(INDEX, [Document(id, sources[id], vectors[n]) for n, id in enumerate(sources)])
        engine.refresh(INDEX)
        engine.close()
    yield secured_node
    secured_node.ask("DELETE", f"/{INDEX}")


@pytest.fixture(autouse=True)
def trusting(here: Path, node: SecuredNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make connections trust the node's certificate authority, without other environment variables."""
    monkeypatch.setenv("OPENSEARCH_CA_CERTS", str(node.folder / "ca.pem"))


@pytest.fixture(params=["wide", "narrow"])
def app(request: pytest.FixtureRequest, node: SecuredNode, packaged: Model, trusting: None) -> Iterator[Flask]:
    """Yield a service that may read everything, or only public documents. anna has marked a secret document."""
    url = node.as_user(request.param)
    config = Config(
        engine=url,
        store=url,
        session_index="reading_sessions",
        ubi_events="reading_events",
        ubi_queries="reading_queries",
    )
    app = create_app(config, model=packaged)
    app.extensions["resift"].words.wait_seconds = 20
    marks = {"session": "shared", "index": INDEX, "query": "fire", "relevant": ["s1"], "irrelevant": ["p2"]}
    learned = ask(app, "/v1/feedback", "anna", {**marks, "explain": True})
    assert "zeppelin" in learned
    assert "s1" in learned
    assert "zeppelin" in ask(app, "/v1/search", "anna", {"index": INDEX, "query": "fire", "session": "shared"})
    yield app
    service = app.extensions["resift"]
    service.engine.close()
    service.sessions.store.close()
    node.ask("DELETE", "/reading_sessions")


def ask(app: Flask, path: str, user: str | None, body: dict[str, Any] | None = None, status: int = 200) -> str:
    """Return the text of a response to a user of the cluster, or to an anonymous caller."""
    headers = authorization(user) if user else {}
    client = app.test_client()
    answer = client.get(path, headers=headers) if body is None else client.post(path, json=body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.text


def test_a_session_shows_only_documents_that_its_caller_may_read(app: Flask) -> None:
    body = {"query": FIRE, "explain": True, "highlight": {"fields": {"text": {}}}}
    # the judgement of p2 counts for bob, too, because he may read p2
    for asked in ({"query": "fire"}, {"query": {**body, "ext": {"ml_inference": {"session": "shared"}}}}):
        answer = ask(app, "/v1/search", "bob", {"index": INDEX, "session": "shared", **asked})
        assert "zeppelin" not in answer
        assert '"s1"' not in answer
        assert '"s2"' not in answer
    described = ask(app, "/v1/sessions/shared", "bob")
    assert "zeppelin" not in described
    assert "s1" not in described
    assert "p2" in described
    assert {one["document"] for one in json.loads(ask(app, "/v1/sessions/shared", "anna"))["judgements"]} == {
        "s1",
        "p2",
    }
    rewritten = ask(app, "/v1/rewrite", "bob", {"index": INDEX, "body": _in_session(FIRE)})
    assert "zeppelin" not in rewritten
    assert "lakehurst" not in rewritten


def test_a_session_learns_only_from_documents_that_its_caller_may_read(app: Flask) -> None:
    marks = {"session": "own", "index": INDEX, "query": "fire", "irrelevant": ["p2"]}
    ask(app, "/v1/feedback", "bob", marks)
    shared, own = (
        json.loads(ask(app, "/v1/search", "bob", {"index": INDEX, "query": "fire", "session": session}))
        for session in ("shared", "own")
    )
    assert [(hit["_id"], hit["_score"]) for hit in shared["hits"]["hits"]] == [
        (hit["_id"], hit["_score"]) for hit in own["hits"]["hits"]
    ]
    assert shared["hits"]["total"] == own["hits"]["total"]
    # a secret document cannot be marked by guessing its id: the response is the same as for a missing document
    for id in ("s1", "s0"):
        refused = json.loads(ask(app, "/v1/feedback", "bob", {**marks, "irrelevant": [id]}, 404))["error"]
        assert (refused["code"], refused["value"]) == ("not_found", id)


def test_suggestions_come_from_documents_that_the_caller_may_read(app: Flask) -> None:
    asked = {"index": INDEX, "query": "zepelin"}
    assert json.loads(ask(app, "/v1/search", "anna", asked))["resift"]["did_you_mean"] == "zeppelin"
    assert "zeppelin" not in ask(app, "/v1/search", "bob", asked)


def test_what_an_index_is_for_is_told_by_documents_that_the_caller_may_read(app: Flask) -> None:
    fire = {
        "index": INDEX,
        "query": "fire",
        "facets": ["label"],
        "documents": "card",
        "session": "shared",
    }
    for user, count in (("anna", 7), ("bob", 5)):
        told = ask(app, f"/v1/indices/{INDEX}", user)
        found = ask(app, "/v1/search", user, fire)
        assert json.loads(told)["documents"] == count
        assert json.loads(told)["examples"]
        labels = {one["value"] for one in json.loads(found)["resift"]["facets"]["label"]}
        assert labels == ({"public", "secret"} if user == "anna" else {"public"})
        if user == "bob":
            assert "zeppelin" not in told + found
            assert '"s1"' not in found


def test_texts_are_hidden_from_a_caller_who_may_not_read_their_field(app: Flask) -> None:
    asked = {"index": INDEX, "query": "fire", "session": "shared", "reasons": True, "highlight": True}
    answers = [
        ask(app, "/v1/search", "finn", asked),
        ask(app, "/v1/search", "finn", {**asked, "query": "zepelin"}),
        ask(app, "/v1/rewrite", "finn", {"index": INDEX, "body": _in_session(FIRE)}),
        ask(app, "/v1/sessions/shared", "finn"),
        ask(app, "/v1/feedback", "finn", {"session": "finn", "index": INDEX, "relevant": ["p1"], "explain": True}),
        ask(app, f"/v1/indices/{INDEX}", "finn"),
        ask(app, f"/v1/indices/{INDEX}/suggestions?q=zep", "finn"),
    ]
    hidden = {word for text in TEXTS.values() for word in text.split() if len(word) > 3} - {"fire"}
    for answer in answers:
        assert not [word for word in hidden if word in answer], answer


@pytest.mark.parametrize("app", ["wide"], indirect=True)
def test_a_review_shows_the_fields_and_documents_that_its_caller_may_read(app: Flask) -> None:
    review = "/v1/reviews/rights"
    service = app.extensions["resift"]
    service.reviews.begin("rights", INDEX, ReviewSettings(fields=["text", "label"]))
    try:
        service.reviews.open("rights").judge(["p1", "s1"], ["p2"])
        assert "zeppelin" in ask(app, f"{review}/next", "anna", {"size": 7, "by": "anna"})
        exported = {user: ask(app, f"{review}/export", user) for user in ("anna", "bob", "finn")}
        assert ["Lakehurst" in text for text in exported.values()] == [True, False, False]
        assert ["bush" in text for text in exported.values()] == [True, True, False]
        for user in ("bob", "finn"):
            ask(app, f"{review}/release", None, {"by": "anna" if user == "bob" else "bob"})
            batch = json.loads(ask(app, f"{review}/next", user, {"size": 7, "by": user}))["documents"]
            shown = json.dumps(batch)
            assert "zeppelin" not in shown
            assert ("forest" in shown) == (user == "bob")
            assert {document["id"][0] for document in batch} == ({"p"} if user == "bob" else {"p", "s"})
            assert all(document["words"] for document in batch) == (user == "bob"), batch
    finally:
        service.reviews.delete("rights")


@pytest.mark.parametrize("app", ["narrow", "wide"], indirect=True)
def test_through_a_pipeline_a_session_knows_what_the_service_may_read(app: Flask, request: Any) -> None:
    """OpenSearch does not tell the service who searches. explain shows the words of the query."""
    rewritten = ask(app, "/v1/rewrite", None, {"index": INDEX, "body": _in_session(FIRE)})
    is_wide = "wide" in request.node.name
    assert ("zeppelin" in rewritten) == is_wide


def _in_session(query: dict[str, Any]) -> dict[str, Any]:
    return {"query": query, "ext": {"ml_inference": {"session": "shared"}}}


def test_users_passwords_and_certificates(node: SecuredNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> int:
        engine = OpenSearchEngine(node.url)
        try:
            return len(engine.search(INDEX, {"query": {"match_all": {}}}).hits)
        finally:
            engine.close()

    with pytest.raises(EngineError) as caught:
        found()
    assert caught.value.status == 401
    assert "does not accept these credentials" in caught.value.message
    monkeypatch.setenv("OPENSEARCH_USER", "bob")
    monkeypatch.setenv("OPENSEARCH_PASSWORD", "wrong")
    told = CliRunner().invoke(main, ["search", INDEX, "fire", "--engine", node.url])
    assert told.exit_code == 1
    assert "does not accept these credentials (401)" in told.output
    assert "wrong" not in told.output
    monkeypatch.setenv("OPENSEARCH_PASSWORD", PASSWORD)
    assert found() == 5
    for name in ("USER", "PASSWORD"):
        monkeypatch.delenv(f"OPENSEARCH_{name}")
    monkeypatch.setenv("OPENSEARCH_CLIENT_CERT", str(node.folder / "anna.pem"))
    monkeypatch.setenv("OPENSEARCH_CLIENT_KEY", str(node.folder / "anna.key"))
    assert found() == 7
    monkeypatch.delenv("OPENSEARCH_CA_CERTS")
    with pytest.raises(EngineUnavailable, match="certificate"):
        found()
