"""Which clauses give a score above 0 to each document that they match."""

from __future__ import annotations

from typing import Any

import pytest

from resift.query.scores import always_scores
from resift.query.tree import parse_clause

TEXT = {"match": {"title": "fire"}}
TAG = {"term": {"tag": "new"}}
UNSCORED = {"bool": {"filter": [TAG]}}


@pytest.mark.parametrize(
    "clause",
    [
        TEXT,
        {"bool": {"must": [TEXT], "filter": [TAG]}},
        {"bool": {"must": [UNSCORED, TEXT]}},
        {"bool": {"should": [TEXT, TAG]}},
        {"dis_max": {"queries": [TEXT, TAG]}},
        {"boosting": {"positive": TEXT, "negative": TAG}},
        {"constant_score": {"filter": TEXT}},
        {"nested": {"path": "parts", "query": TEXT}},
        {"has_child": {"type": "part", "query": TEXT, "score_mode": "max"}},
        {"has_parent": {"parent_type": "whole", "query": TEXT, "score": True}},
        {"query_string": {"query": "fire -army e-mail"}},
        {"simple_query_string": {"query": "fire e-mail"}},
    ],
)
def test_these_clauses_score_all_their_matches(clause: dict[str, Any]) -> None:
    assert always_scores(parse_clause(clause))


@pytest.mark.parametrize(
    "clause",
    [
        "malformed",
        UNSCORED,
        {"match": {"title": {"query": "fire", "boost": 0}}},
        {"multi_match": {"query": "fire", "fields": ["title"], "boost": 0.0}},
        {"bool": {"must": [UNSCORED], "should": [TEXT]}},
        {"bool": {"should": [TEXT], "filter": [TAG]}},
        {"bool": {"should": [TEXT], "minimum_should_match": 0}},
        {"bool": {"should": [TEXT, UNSCORED]}},
        {"bool": {"must": [TEXT], "boost": 0}},
        {"dis_max": {"queries": [TEXT, UNSCORED]}},
        {"boosting": {"positive": UNSCORED, "negative": TEXT}},
        {"nested": {"path": "parts", "query": TEXT, "score_mode": "none"}},
        {"has_child": {"type": "part", "query": TEXT}},
        {"has_parent": {"parent_type": "whole", "query": TEXT}},
        {"function_score": {"query": TEXT, "weight": 2}},
        {"script_score": {"query": TEXT, "script": {"source": "0"}}},
        {"query_string": {"query": "-army"}},
        {"query_string": {"query": "fire OR (-army)"}},
        {"query_string": {"query": "fire^0"}},
        {"simple_query_string": {"query": "fire | -army"}},
    ],
)
def test_these_clauses_may_match_without_a_score(clause: Any) -> None:
    assert not always_scores(parse_clause(clause))
