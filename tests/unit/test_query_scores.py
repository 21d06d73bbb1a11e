"""Predictions of scores: which are above 0, how they are scaled, and which do not depend on the text."""

from __future__ import annotations

from typing import Any

import pytest

from resift.query.questions import question_clause
from resift.query.scores import always_scores, replaces_scores, text_score_factor
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


FIELDS = {"multi_match": {"query": "fire", "fields": ["title", "text"]}}
BOOSTED = {"multi_match": {**FIELDS["multi_match"], "boost": 5}}
DAY = {"gauss": {"day": {"origin": "now", "scale": "7d"}}}


@pytest.mark.parametrize(
    ("clause", "factor"),
    [
        (FIELDS, 1),
        (BOOSTED, 5),
        # as the boost of a field
        ({"match": {"title": {"query": "fire", "boost": 5}}}, 1),
        ({"bool": {"must": [BOOSTED], "boost": 2, "filter": [TAG]}}, 10),
        ({"bool": {"must": [FIELDS], "should": [BOOSTED, TAG]}}, 1),
        ({"bool": {"must": [{"multi_match": {**FIELDS["multi_match"], "boost": 0}}], "should": [BOOSTED]}}, 5),
        ({"dis_max": {"queries": [BOOSTED], "boost": 0.001}}, 0.005),
        ({"bool": {"filter": [BOOSTED], "boost": 7}}, 1),
        ({"constant_score": {"filter": BOOSTED, "boost": 7}}, 1),
        ({"function_score": {"query": FIELDS, "boost": 100}}, 100),
        ({"function_score": {"query": BOOSTED, "weight": 100, "boost_mode": "multiply"}}, 500),
        ({"function_score": {"query": FIELDS, "weight": 100, "max_boost": 20}}, 20),
        # as OpenSearch writes it before a search pipeline reads it
        ({"function_score": {"query": FIELDS, "functions": [{"filter": {"match_all": {}}, "weight": 100}]}}, 100),
        ({"function_score": {"query": FIELDS, "functions": [{"filter": TAG, "weight": 100}]}}, 1),
        ({"function_score": {"query": FIELDS, "functions": [{"weight": 100, **DAY}], "boost": 3}}, 3),
        ({"function_score": {"query": FIELDS, "weight": 100, "boost_mode": "sum", "boost": 3}}, 3),
        ({"function_score": {"query": FIELDS, "functions": [{"weight": 100}, DAY]}}, 1),
        ({"script_score": {"query": FIELDS, "script": {"source": "_score * 0.01"}}}, 1),
        # Boosts that only some of the text clauses have do not scale the whole query.
        ({"bool": {"should": [TEXT, {"multi_match": {**FIELDS["multi_match"], "boost": 0.1}}]}}, 1),
        ({"bool": {"should": [{"multi_match": {**FIELDS["multi_match"], "boost": 0.1}}, BOOSTED]}}, 5),
        ({"function_score": {"query": {"bool": {"should": [FIELDS, BOOSTED]}}, "weight": 100}}, 100),
        ({"bool": {"should": [BOOSTED, BOOSTED]}}, 5),
        ({"bool": {"should": [{"bool": {"must": [BOOSTED], "boost": 2}}, {"bool": {"must": [BOOSTED]}}]}}, 5),
        ({"bool": {"should": [{"bool": {"must": [FIELDS], "boost": 0}}, BOOSTED]}}, 5),
        ({"multi_match": {"query": "fire", "fields": ["title"], "boost": 10**400}}, 1.0),  # OpenSearch refuses it
    ],
)
def test_constant_factors_of_text_scores(clause: dict[str, Any], factor: float) -> None:
    assert text_score_factor(parse_clause(clause)) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("clause", "factor"),
    [
        ({"match": {"title": {"query": "fire", "boost": 5}}}, 5),
        ({"multi_match": {"query": "fire", "fields": ["title^3", "text", "tag^0"], "boost": 5}}, 10),
        ({"multi_match": {"query": "fire", "fields": ["title^0"]}}, 1),
        ({"query_string": {"query": "fire", "boost": 5}}, 5),
        ({"bool": {"should": [TEXT, {"match_phrase": {"title": {"query": "fire", "boost": 5}}}], "boost": 2}}, 2),
    ],
)
def test_boosts_of_fields_can_be_part_of_the_factor(clause: dict[str, Any], factor: float) -> None:
    assert text_score_factor(parse_clause(clause), with_field_boosts=True) == pytest.approx(factor)


@pytest.mark.parametrize("fields", [["title"], ["title", "text"]])
def test_the_small_boost_of_function_words_does_not_scale_a_query(fields: list[str]) -> None:
    question = question_clause("what is a bush fire", fields)
    assert text_score_factor(parse_clause(question)) == 1
    assert text_score_factor(parse_clause({"function_score": {"query": question, "weight": 100}})) == 100


REPLACING = {"query": TEXT, **DAY, "boost_mode": "replace"}


@pytest.mark.parametrize(
    ("clause", "is_replaced"),
    [
        ({"function_score": REPLACING}, True),
        (
            {
                "function_score": {
                    "query": TEXT,
                    "functions": [DAY, {"filter": TAG, "weight": 2}],
                    "boost_mode": "REPLACE",
                }
            },
            True,
        ),
        ({"function_score": {**REPLACING, "query": {"match_all": {}}}}, True),
        ({"bool": {"must": [{"function_score": REPLACING}], "filter": [TEXT], "should": [TAG]}}, True),
        ({"bool": {"must": [{"function_score": REPLACING}], "should": [TEXT]}}, False),
        ({"function_score": {"query": TEXT, **DAY}}, False),
        # without a function, the mode has no effect
        ({"function_score": {"query": TEXT, "boost_mode": "replace"}}, False),
        ({"function_score": {"query": TEXT, "script_score": {"script": "_score + 1"}, "boost_mode": "replace"}}, False),
        ({"function_score": {"query": TEXT, "script_score": {"script": {"id": "a"}}, "boost_mode": "replace"}}, False),
        (
            {"function_score": {"query": TEXT, "script_score": {"script": {"source": "5"}}, "boost_mode": "replace"}},
            True,
        ),
        (TEXT, False),
    ],
)
def test_functions_that_replace_the_scores_of_a_text(clause: dict[str, Any], is_replaced: bool) -> None:
    assert replaces_scores(parse_clause(clause)) is is_replaced
