"""Marks in indices that do not keep the JSON of their documents, on a real OpenSearch."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from three_ways import OpenSearchClient

Body = dict[str, Any]

pytestmark = pytest.mark.filterwarnings("ignore::opensearchpy.exceptions.OpenSearchWarning")

WORDS = "spark blaze fire"
MAPPINGS: dict[str, Body] = {
    "stored": {"type": "text", "store": True},
    "vectors": {"type": "text", "term_vector": "with_positions"},
    "unordered": {"type": "text", "term_vector": "yes"},
    "neither": {"type": "text"},
}


@pytest.fixture(scope="module")
def prefix(opensearch_client: OpenSearchClient) -> Iterator[str]:
    """The beginning of the names of the indices, one for each mapping, and one with ``_source``."""
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    for kind, field in {**MAPPINGS, "kept": {"type": "text"}}.items():
        mapping: Body = {"_source": {"enabled": kind == "kept"}, "properties": {"text": field}}
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        body = {"mappings": mapping, "settings": settings, "aliases": {f"{name}-all": {}}}
        assert opensearch_client.request("PUT", f"{name}-{kind}", body).status == 200
        for number, text in enumerate([WORDS, "blaze", "war peace", "fire"]):
            path = f"{name}-{kind}/_doc/{kind}-{number}"
            assert opensearch_client.request("PUT", path, {"text": text}, refresh=True, routing="r").status == 201
    yield name
    opensearch_client.request("DELETE", f"{name}-*")


@pytest.fixture(scope="module")
def client(app: Flask) -> FlaskClient:
    """A client of the service."""
    return app.test_client()


def mark(client: FlaskClient, index: str, id: str) -> Body:
    """Mark a document in a new session, and return the explained session."""
    request = {"session": f"s-{uuid.uuid4().hex}", "index": index, "query": "fire", "relevant": [id], "explain": True}
    response = client.post("/v1/feedback", json=request)
    assert response.status_code == 200, response.text
    session: Body = response.get_json()
    return session


def rewritten(client: FlaskClient, index: str, session: str) -> Body:
    """Return the answer of ``/v1/rewrite`` to a search in a session."""
    body = {"query": {"match": {"text": "fire"}}, "ext": {"ml_inference": {"session": session}}}
    answer: Body = client.post("/v1/rewrite", json={"index": index, "body": body}).get_json()
    return answer


@pytest.mark.parametrize("kind", ["stored", "vectors", "unordered"])
def test_stored_fields_and_term_vectors_are_learned_from(client: FlaskClient, prefix: str, kind: str) -> None:
    session = mark(client, f"{prefix}-{kind}", f"{kind}-0")
    assert {"spark", "blaze"} <= {*session["learned"]["asked"]}
    assert "notes" not in session
    answer = rewritten(client, f"{prefix}-{kind}", session["session"])
    assert answer["resift"] == {"rewritten": True, "outcome": "rewritten"}
    assert "blaze" in str(answer["body"])


def test_a_mark_that_teaches_nothing_is_stored_and_says_so(client: FlaskClient, prefix: str) -> None:
    session = mark(client, f"{prefix}-neither", "neither-0")
    note = "nothing was learned from marked documents whose text could not be read: 1"
    assert (len(session["judgements"]), session["notes"]) == (1, [note])
    answer = rewritten(client, f"{prefix}-neither", session["session"])
    assert answer["resift"]["rewritten"] is False
    assert note in answer["resift"]["reason"]


def test_an_alias_of_indices_with_and_without_source_can_be_marked(client: FlaskClient, prefix: str) -> None:
    for id in ("kept-0", "stored-0", "vectors-0"):
        session = mark(client, f"{prefix}-all", id)
        assert "blaze" in session["learned"]["asked"]
        assert rewritten(client, f"{prefix}-all", session["session"])["resift"]["rewritten"] is True


@pytest.mark.parametrize("kinds", [["stored"], ["vectors"], ["kept", "stored"]], ids=",".join)
def test_documents_that_the_filter_of_an_alias_hides_are_not_read(
    client: FlaskClient, opensearch_client: OpenSearchClient, prefix: str, kinds: list[str]
) -> None:
    alias = f"{prefix}-war-{'-'.join(kinds)}"
    actions = [
        {"add": {"index": f"{prefix}-{kind}", "alias": alias, "filter": {"match": {"text": "war"}}}} for kind in kinds
    ]
    assert opensearch_client.request("POST", "_aliases", {"actions": actions}).status == 200
    for kind in kinds:
        assert "peace" in mark(client, alias, f"{kind}-2")["learned"]["asked"]
        # The first document is visible, the second is not.
        ids = [f"{kinds[-1]}-2", f"{kind}-0"]
        request = {"session": f"s-{uuid.uuid4().hex}", "index": alias, "relevant": ids, "explain": True}
        response = client.post("/v1/feedback", json=request)
        assert (response.status_code, response.get_json().get("learned")) == (404, None)


def test_a_document_that_does_not_exist_is_still_refused(client: FlaskClient, prefix: str) -> None:
    request = {"session": "s", "index": f"{prefix}-stored", "query": "fire", "relevant": ["none"]}
    response = client.post("/v1/feedback", json=request)
    assert (response.status_code, response.get_json()["error"]["code"]) == (404, "not_found")
