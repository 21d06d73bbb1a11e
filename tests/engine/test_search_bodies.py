"""Bodies of a search whose parts are of another form than they should be, on both engines: refused, and why."""

from __future__ import annotations

import pytest
from flask import Flask
from flask.testing import FlaskClient
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import filled as filled
from service_app import post

from resift.contracts.engine import Engine
from resift.query.body import parse
from resift.service.bodies import Search, rewriting_options, search_body

FIRE = {"match": {"text": "fire"}}


@pytest.mark.parametrize("name", ["size", "from"])
def test_sizes_and_starts_that_are_no_numbers(client: FlaskClient, filled: str, name: str) -> None:
    for value in ("ten", -1, True, 1.5, None, [1]):
        error = post(client, "/v1/search", 400, index=filled, query={"query": FIRE, name: value})["error"]
        assert (error["code"], error["expected"]) == ("bad_input", "a whole number, 0 or more"), value
        assert f"{name} is {value!r}" in error["message"]


def test_queries_that_are_no_clauses(client: FlaskClient, filled: str) -> None:
    for query in ("fire", 3, [FIRE], None):
        error = post(client, "/v1/search", 400, index=filled, query={"query": query, "size": 3})["error"]
        assert (error["code"], error["expected"]) == ("bad_input", "a query clause"), query


def test_what_is_alone_is_a_clause_or_a_body(client: FlaskClient, filled: str, engine: Engine) -> None:
    whole = [hit["_id"] for hit in engine.search(filled, {"query": FIRE}).hits]
    for body in (FIRE, {"query": FIRE}, {"query": FIRE, "size": 10, "from": 0}):
        answer = post(client, "/v1/search", index=filled, query=body, alpha=0)
        assert [hit["_id"] for hit in answer["hits"]["hits"]] == whole
    for body, count in (({"size": 2}, 2), ({"from": 3}, 4)):
        assert len(post(client, "/v1/search", index=filled, query=body)["hits"]["hits"]) == count


def test_a_whole_document_as_a_query_is_searched_by_its_telling_words(client: FlaskClient, filled: str) -> None:
    pasted = " ".join(f"w{number}" for number in range(1300)) + " fire" * 40 + " forest" * 40
    answer = post(client, "/v1/search", index=filled, query=pasted, size=2)
    assert {hit["_id"] for hit in answer["hits"]["hits"]} == {"wood", "tree"}
    assert answer["resift"]["reranked"]
    assert (
        answer["resift"]["reason"] == "the query is too long for the engine: only its 100 most distinctive words count"
    )
    post(client, "/v1/feedback", session="anna", index=filled, query=pasted, relevant=["army"])
    answer = post(client, "/v1/search", index=filled, query=pasted, size=2, session="anna")
    assert answer["resift"]["session"] == "anna"
    # a clause of the caller's own is asked as it is
    error = post(client, "/v1/search", 400, index=filled, query={"match": {"text": pasted}})["error"]
    assert error["code"] in ("bad_input", "engine_error")


def test_words_of_a_session_weigh_as_beside_the_words_that_are_asked_for(
    client: FlaskClient, filled: str, app: Flask
) -> None:
    service = app.extensions["resift"]
    pasted = " ".join(f"w{number}" for number in range(1300)) + " fire" * 40
    info, search = service.infos.get(filled), Search(pasted, index=filled)
    body = search_body(search, info, service.model.table.idf)
    query = parse(body)
    options = rewriting_options(search, query)
    assert options.text == pasted  # by which marks for this very query are known
    assert len(service.rewriter.rewrite_search(info, query, options).knowledge.text.split()) == 100
