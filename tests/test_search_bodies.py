"""Bodies of a search whose parts are of another form than they should be, on both engines: refused, and why."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from reranker_app import app as app
from reranker_app import client as client
from reranker_app import config as config
from reranker_app import filled as filled
from reranker_app import post

from resift.plugin.engine import Engine

FIRE = {"match": {"text": "fire"}}


@pytest.mark.parametrize("name", ["size", "from"])
@pytest.mark.parametrize("value", ["ten", -1, True, 1.5, None, [1]])
def test_sizes_and_starts_that_are_no_numbers(client: FlaskClient, filled: str, name: str, value: Any) -> None:
    error = post(client, "/v1/search", 400, index=filled, query={"query": FIRE, name: value})["error"]
    assert (error["code"], error["expected"]) == ("bad_input", "a whole number, 0 or more")
    assert f"{name} is {value!r}" in error["message"]


@pytest.mark.parametrize("query", ["fire", 3, [FIRE], None])
def test_queries_that_are_no_clauses(client: FlaskClient, filled: str, query: Any) -> None:
    error = post(client, "/v1/search", 400, index=filled, query={"query": query, "size": 3})["error"]
    assert (error["code"], error["expected"]) == ("bad_input", "a query clause")


def test_what_is_alone_is_a_clause_or_a_body(client: FlaskClient, filled: str, engine: Engine) -> None:
    whole = [hit["_id"] for hit in engine.search(filled, {"query": FIRE}).hits]
    for body in (FIRE, {"query": FIRE}, {"query": FIRE, "size": 10, "from": 0}):
        answer = post(client, "/v1/search", index=filled, query=body, alpha=0)
        assert [hit["_id"] for hit in answer["hits"]["hits"]] == whole
    for body, count in (({"size": 2}, 2), ({"from": 3}, 4)):
        assert len(post(client, "/v1/search", index=filled, query=body)["hits"]["hits"]) == count
