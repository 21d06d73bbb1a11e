"""Tests of marks under a pattern or alias: an id is ambiguous if several indices contain it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from service_app import ids, post

from resift import Model
from resift.contracts.documents import Document
from resift.errors import AmbiguousDocument
from resift.feedback.judgements import GRADES
from resift.library import Library
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

ONLY_A, BOTH, ONLY_B = "bush fire near the forest", "fire and smoke", "the army returned fire"


@pytest.fixture
def pattern(cluster: OpenSearchEngine, model: Model) -> Iterator[str]:
    """Return a pattern for two indices that contain documents with the same ids."""
    prefix = f"resift-test-{uuid.uuid4().hex[:8]}"
    texts = {"a": {"1": BOTH, "2": ONLY_A, "0": "rain"}, "b": {"1": "soldier of the army", "3": ONLY_B, "0": "river"}}
    for name, documents in texts.items():
        cluster.create(f"{prefix}-{name}", ["text"], model)
        found = [Document(id, {"text": text}, model.encode_one(text)) for id, text in documents.items()]
        assert cluster.bulk(f"{prefix}-{name}", found) == []
        cluster.refresh(f"{prefix}-{name}")
    yield f"{prefix}-*"
    for name in texts:
        cluster.drop(f"{prefix}-{name}")


@pytest.fixture
def client(cluster: OpenSearchEngine, model: Model, tmp_path: Path) -> FlaskClient:
    """Return a client of the service."""
    return create_app(Config(store=str(tmp_path / "s.db")), engine=cluster, model=model).test_client()


@pytest.mark.parametrize("grade", GRADES)
def test_an_id_of_several_indices_is_refused(client: FlaskClient, pattern: str, grade: str) -> None:
    mark = {"session": "anna", "query": "fire"}
    error = post(client, "/v1/feedback", 400, index=pattern, **mark, **{grade: ["2", "1", "3"]})["error"]
    assert (error["code"], error["value"]) == ("ambiguous_document", "1")
    assert pattern.replace("*", "a, ") in error["message"]
    assert "_index" in error["expected"]
    assert client.get("/v1/sessions/anna").status_code == 404, "nothing is noted"
    assert post(client, "/v1/feedback", index=pattern, **mark, **{grade: ["2", "3"]})["steps"] == 1
    assert post(client, "/v1/feedback", 404, index=pattern, **mark, relevant=["2", "9"])["error"]["value"] == "9"
    own = post(client, "/v1/feedback", index=pattern.replace("*", "b"), **mark, **{grade: ["1"]}, explain=True)
    assert own["judgements"][-1]["index"] == pattern.replace("*", "b")


def test_other_judgements_count_if_an_id_became_ambiguous(
    client: FlaskClient, cluster: OpenSearchEngine, model: Model, pattern: str
) -> None:
    body = {"session": "anna", "index": pattern, "query": "fire", "relevant": ["2", "3"], "explain": True}
    learned = post(client, "/v1/feedback", **body)["learned"]
    assert [one["document"] for one in learned["because"]] == ["2", "3"]
    text = "peace"
    cluster.bulk(pattern.replace("*", "b"), [Document("2", {"text": text}, model.encode_one(text))])
    cluster.refresh(pattern)
    fresh = create_app(client.application.config["RESIFT"], engine=cluster, model=model).test_client()
    assert [one["document"] for one in fresh.get("/v1/sessions/anna").get_json()["learned"]["because"]] == ["3"]
    found = post(fresh, "/v1/search", index=pattern, query="fire", session="anna")
    assert (found["resift"]["reranked"], found["resift"]["session"]) == (True, "anna")
    assert set(ids(found)) >= {"1", "2", "3"}


def test_hits_say_which_document_they_are(client: FlaskClient, pattern: str) -> None:
    library = Library(client.application.extensions["resift"])
    session = library.index(pattern).session("anna")
    hits = {(hit["_index"][-1], hit.id): hit for hit in session.search("fire army")}
    session.mark(relevant=[hits["b", "1"]])
    assert session.explain()["judgements"][0]["index"] == pattern.replace("*", "b")
    with pytest.raises(AmbiguousDocument):
        session.mark(relevant=[hits["b", "1"], "2"])
    with pytest.raises(AmbiguousDocument):
        session.mark(relevant=[hits["b", "1"]], irrelevant=[hits["a", "2"]])
    session.mark(relevant=[hits["a", "2"], hits["b", "3"]])
    assert session.explain()["steps"] == 2


@pytest.mark.parametrize("judged", ["hide", "demote", "keep"])
def test_another_index_s_document_of_the_same_id_is_not_the_judged_one(
    client: FlaskClient, pattern: str, judged: str
) -> None:
    own = pattern.replace("*", "b")
    post(client, "/v1/feedback", index=own, session="anna", query="river", relevant=["1"])
    query = {"match": {"text": "fire smoke army"}}
    answer = post(client, "/v1/search", index=pattern, query=query, session="anna", judged=judged)
    found = [(hit["_index"], hit["_id"]) for hit in answer["hits"]["hits"]]
    other = (pattern.replace("*", "a"), "1")
    assert other in found
    assert ((own, "1") in found) is (judged != "hide")
    if judged == "demote":
        assert found.index(other) < found.index((own, "1")) == len(found) - 1


def test_documents_of_two_indices_with_the_same_id_have_their_own_marks(client: FlaskClient, pattern: str) -> None:
    blog, shop = (pattern.replace("*", name) for name in "ab")
    for index, kind in ((blog, "relevant"), (shop, "irrelevant")):
        post(client, "/v1/feedback", index=index, session="anna", query="fire soldier", **{kind: ["1"]})

    search = {"query": {"match": {"text": "fire soldier"}}, "session": "anna"}
    both = post(client, "/v1/search", index=pattern, **search)
    hits = [(hit["_index"], hit["_id"]) for hit in both["hits"]["hits"]]
    assert len(hits) == 4
    assert (hits[0], hits[-1]) == ((blog, "1"), (shop, "1"))

    single = post(client, "/v1/search", index=blog, **search)
    assert ids(single)[0] == "1"


def test_a_reranker_leaves_only_the_judged_one_of_two_documents_with_the_same_id_behind(
    client: FlaskClient, pattern: str
) -> None:
    alias, shop = f"{pattern[:-2]}-shop", pattern.replace("*", "b")
    engine = client.application.extensions["resift"].engine
    engine.client.indices.put_alias(index=shop, name=alias)
    post(client, "/v1/feedback", index=alias, session="anna", query="river", relevant=["1"])
    query = {"match": {"text": "fire smoke army soldier"}}
    body = {"index": pattern, "query": query, "session": "anna", "judged": "demote", "method": "dynamax"}
    hits = [(hit["_index"], hit["_id"]) for hit in post(client, "/v1/search", **body)["hits"]["hits"]]
    assert (hits[0], hits[-1]) == ((pattern.replace("*", "a"), "1"), (shop, "1"))


@pytest.fixture
def plain_pattern(cluster: OpenSearchEngine) -> Iterator[str]:
    """Return a pattern for two indices without vectors that contain documents with the same ids."""
    prefix = f"resift-test-{uuid.uuid4().hex[:8]}"
    client = cluster.client
    texts = {
        "a": {"1": "bush fire forest", "2": "fire forest", "3": "fire", "4": "fire rain rain", "5": "fire tree"},
        "b": {"1": "fire army gun", "2": "fire gun", "3": "fire", "4": "fire river river", "5": "fire war"},
    }
    for name, documents in texts.items():
        client.indices.create(index=f"{prefix}-{name}", body={"mappings": {"properties": {"text": {"type": "text"}}}})
        for id, text in documents.items():
            client.index(index=f"{prefix}-{name}", id=id, body={"text": text}, refresh=True)
    yield f"{prefix}-*"
    for name in texts:
        client.indices.delete(index=f"{prefix}-{name}")


def test_a_reason_names_the_judgement_of_the_hit_in_its_own_index(client: FlaskClient, plain_pattern: str) -> None:
    first, second = (plain_pattern.replace("*", name) for name in "ab")
    for index, kind in ((first, "relevant"), (second, "irrelevant")):
        post(client, "/v1/feedback", index=index, session="anna", query="fire", **{kind: ["1"]})
    search = {"index": plain_pattern, "query": {"match": {"text": "fire"}}, "session": "anna", "judged": "keep"}
    hits = post(client, "/v1/search", **search, reasons=True)["hits"]["hits"]
    reasons = {(hit["_index"], hit["_id"]): hit["resift"]["because"] for hit in hits}
    for index, grade in ((first, 1), (second, -1)):
        reason = reasons[index, "1"]
        assert reason, reasons
        assert (reason["index"], reason["document"], reason["grade"]) == (index, "1", grade)
    reordered = post(client, "/v1/search", **search, reasons=True, method="dynamax")["hits"]["hits"]
    assert [hit["resift"]["because"] for hit in reordered] == [None] * len(hits), "DynaMax moved these hits, too"


def test_a_deleted_document_is_reported_if_another_one_was_marked_under_an_alias(
    client: FlaskClient, plain_pattern: str
) -> None:
    index, alias = plain_pattern.replace("*", "a"), f"{plain_pattern[:-2]}-alias"
    engine = client.application.extensions["resift"].engine
    engine.client.indices.put_alias(index=index, name=alias)
    for name, id in ((alias, "1"), (index, "2")):
        post(client, "/v1/feedback", index=name, session="anna", query="fire", relevant=[id])
    engine.client.delete(index=index, id="2", params={"refresh": "true"})
    client.application.extensions["resift"].knowledge.clear_document_cache()
    body = {"query": {"match": {"text": "fire"}}, "ext": {"resift": {"session": "anna"}}}
    answer = post(client, "/v1/rewrite", index=index, body=body, scroll=True)
    assert answer["resift"]["reason"] == "marked documents that no longer exist: 1"
