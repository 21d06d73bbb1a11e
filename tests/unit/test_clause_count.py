"""The number of clauses that OpenSearch counts in a query, and rewritten queries that stay below its limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from resift.contracts.documents import IndexInfo, VectorField
from resift.feedback.feedback import Feedback
from resift.feedback.field_feedback import FieldFeedback
from resift.feedback.judgements import JudgedDocument, Judgement
from resift.plugin.opensearch.mappings import field_types
from resift.query.body import parse
from resift.query.clause_count import MAX_ENGINE_CLAUSES, ClauseCounter
from resift.query.dsl import REWRITTEN_NAME
from resift.query.tree import parse_clause
from resift.rewriting.knowledge import FieldKnowledge, Knowledge
from resift.rewriting.options import Options
from resift.rewriting.outcome import Outcome, Rewritten
from resift.rewriting.rewrite import rewrite

WIDE = {"title": "text", "day": "date", **{f"attr_{number:02}": "text" for number in range(60)}}
TEXT = {"match": {"title": "bush fire"}}
MARKED = np.eye(2, dtype=np.float32)
SESSION = Knowledge(
    text="bush fire",
    field_types=[WIDE],
    expansion_words={f"word{rank}": 1 / rank for rank in range(1, 26)},
    judged=(("i", "good"), ("i", "bad")),
    feedback=Feedback.learn(MARKED[:1], MARKED[1:]),
    documents=[
        JudgedDocument(Judgement("i", id, grade), vector, "")
        for id, grade, vector in zip(("good", "bad"), (1.0, -1.0), MARKED, strict=True)
    ],
)
OPTIONS = Options(alpha=0.5, window=100)


def count(query: Any, types: Mapping[str, str] = WIDE) -> int:
    """Return the number of clauses of a query."""
    return ClauseCounter([types]).count_clauses(parse_clause(query))


def rewritten(query: Any, knowledge: Knowledge = SESSION, **options: Any) -> Rewritten:
    """Return a rewritten search."""
    return rewrite(parse({"query": query}), knowledge, structs.replace(OPTIONS, **options))


def terms(number: int) -> list[dict[str, Any]]:
    """Return ``term`` clauses of different words."""
    return [{"term": {"title": f"word{at}"}} for at in range(number)]


@pytest.mark.parametrize(
    ("query", "number"),
    [
        (TEXT, 2),
        ({"match": {"title": "bush fire bush fire"}}, 2),
        ({"match": {"title": {"query": "bush fire bush", "operator": "and"}}}, 2),
        ({"match": {"title": {"query": "bush fire bush", "minimum_should_match": 2}}}, 3),
        ({"match": {"title": "what is a ~ bush? fire*"}}, 5),
        ({"match": {"title": "ああいい ああいい"}}, 4),
        ({"match_phrase": {"title": "bush fire bush"}}, 3),
        ({"multi_match": {"query": "fire bush fire", "fields": ["title", "attr_00"], "type": "most_fields"}}, 2 * 2),
        ({"multi_match": {"query": "fire bush fire", "fields": ["title"], "type": "bool_prefix"}}, 3),
        ({"combined_fields": {"query": "fire bush fire", "fields": ["title", "attr_00"]}}, 2 * 2),
        ({"query_string": {"query": "(fire bush) (bush fire)", "default_field": "title"}}, 4),
        ({"match": {"title": {"query": "bush fire", "fuzziness": "AUTO"}}}, 100),
        ({"match": {"title": {"query": "bush fire", "fuzziness": 1, "max_expansions": 10}}}, 20),
        ({"multi_match": {"query": "bush fire", "fields": ["title^3", "attr_*"]}}, 2 * 61),
        ({"multi_match": {"query": "fire", "fields": ["*"]}}, 61 + 2),
        ({"simple_query_string": {"query": "fire"}}, 61 + 2),
        ({"query_string": {"query": "attr_*:fire", "default_field": "title"}}, 4 * 63),
        ({"query_string": {"query": "fire~1 bush", "default_field": "title"}}, 52),
        ({"query_string": {"query": "fire~1 bush", "default_field": "title", "fuzziness": "AUTO"}}, 52),
        ({"bool": {"must": [TEXT], "filter": terms(7), "must_not": terms(1)}}, 10),
        ({"term": {"day": "2025-01-01"}}, 2),
        ({"range": {"day": {"gte": "2025-01-01"}}}, 2),
        ({"terms": {"title": [str(value) for value in range(5000)]}}, 2),
        ({"exists": {"field": "title"}}, 1),
        ({"prefix": {"title": {"value": "f", "rewrite": "top_terms_20"}}}, 20),
        ({"prefix": {"title": {"value": "f", "rewrite": "scoring_boolean"}}}, MAX_ENGINE_CLAUSES),
        ({"span_multi": {"match": {"prefix": {"title": "f"}}}}, MAX_ENGINE_CLAUSES),
        ({"more_like_this": {"fields": ["title"], "like": "fire"}}, 25),
        ({"function_score": {"query": TEXT, "functions": [{"filter": {"term": {"title": "fire"}}, "weight": 2}]}}, 3),
        ({"knn": {"v": {"vector": [0.5] * 768, "k": 10, "filter": {"bool": {"filter": terms(4)}}}}}, 5),
        ({"neural_sparse": {"tokens": {"query_tokens": {"fire": 1.0, "bush": 0.5}}}}, 2),
        ({"clause_of_a_plugin": {"clauses": [{"text": "fire"}, {"text": "bush"}]}}, 2),
        ({"bool": {}}, 1),
        ({"match_all": {}}, 1),
    ],
)
def test_clauses_are_counted_as_opensearch_counts_them_or_higher(query: Any, number: int) -> None:
    assert count(query) == number


def test_an_object_exists_if_any_of_its_fields_does() -> None:
    assert count({"exists": {"field": "parts"}}, {"parts.a": "text", "parts.b": "text", "other": "text"}) == 2


def test_patterns_match_no_vectors_and_the_widest_of_several_indices_counts() -> None:
    mapping = {"properties": {"title": {"type": "text"}, "v": {"type": "knn_vector"}, "parts": {"properties": {}}}}
    assert ClauseCounter([field_types(mapping)]).clauses_per_term(["*"]) == 1
    assert ClauseCounter([field_types(mapping), WIDE]).clauses_per_term(["*"]) == 63
    assert ClauseCounter().clauses_per_term(["*"]) == 50


def test_thousands_of_patterns_count_as_a_pattern_of_all_fields() -> None:
    counter = ClauseCounter([WIDE])
    patterns = [f"other_{number}*" for number in range(20_000)]
    # To compare each field with each pattern would take seconds.
    assert counter.clauses_per_term(patterns) == counter.clauses_per_term(["*"])
    assert counter.clauses_per_term(patterns[:100]) == 1
    assert counter.clauses_per_term(["attr_0*"] * 20_000) == 10


def test_equal_mappings_of_several_indices_are_kept_once() -> None:
    days = [replace(IndexInfo.from_meta(f"logs-{day}", {}), field_types=(WIDE,)) for day in range(30)]
    combined = IndexInfo.combine("logs-*", [*days, replace(days[0], field_types=({"title": "text"},))])
    assert combined.field_types == (WIDE, {"title": "text"})


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("judged", ["keep", "hide", "demote"])
@pytest.mark.parametrize(
    "query",
    [
        {"multi_match": {"query": "bush fire", "fields": ["title", "attr_*"]}},
        {"multi_match": {"query": "bush fire", "fields": ["*"]}},
        {"query_string": {"query": "bush fire"}},
        {"bool": {"should": [TEXT, *terms(1000)]}},
        {"bool": {"must": [TEXT], "filter": [{"bool": {"should": terms(1020)}}]}},
        {"bool": {"should": [{"multi_match": {"query": "bush fire", "fields": ["attr_*"]}} for _ in range(8)]}},
        {"hybrid": {"queries": [{"multi_match": {"query": "bush fire", "fields": ["*"]}}, TEXT]}},
        {"hybrid": {"queries": [TEXT, {"bool": {"should": terms(1020)}}]}},
    ],
)
def test_no_rewritten_query_exceeds_the_limit(query: Any, judged: str, attached: bool) -> None:
    knowledge = replace(SESSION, vector=MARKED[0] if attached else None, fields=("title",) if attached else ())
    for known in (knowledge, replace(knowledge, judged=(("a", "good"), ("b", "bad")), has_several_indices=True)):
        result = rewritten(query, known, judged=judged)
        assert count(result.body["query"]) <= max(count(query), MAX_ENGINE_CLAUSES)
        if count(query) > MAX_ENGINE_CLAUSES - 10:
            assert result.body["query"] == query
        for stage in result.body.get("rescore", []):
            assert count(stage["query"]["rescore_query"]) <= MAX_ENGINE_CLAUSES


def test_fewer_words_are_added_to_a_query_of_many_fields() -> None:
    narrow = rewritten(TEXT, scroll=True).body["query"]
    multi_match = {"multi_match": {"query": "bush fire", "fields": ["title", "attr_*"]}}
    wide = rewritten(multi_match, scroll=True).body["query"]
    assert len(SESSION.expansion_words) == str(narrow).count("word")
    assert 0 < str(wide).count("word") < 15


def test_a_query_of_too_many_clauses_stays_as_it_came() -> None:
    query = {"bool": {"must": [TEXT], "filter": [{"bool": {"should": terms(1020)}}]}}
    # Without a scroll, the words are a rescore stage, which is a query of its own.
    result = rewritten(query, scroll=True)
    assert (result.body, result.outcome) == ({"query": query}, Outcome.TOO_MANY_CLAUSES)
    assert result.reason == "the query has almost as many clauses as OpenSearch allows"


def long_hybrid(knn: dict[str, Any]) -> dict[str, Any]:
    """Return a hybrid query with almost as many clauses as OpenSearch allows."""
    return {"hybrid": {"queries": [{"bool": {"must": [TEXT], "should": terms(1020)}}, {"knn": {"v": knn}}]}}


def with_own_vectors() -> Knowledge:
    """Return the session in an index with own vectors of two dimensions."""
    feedback = SESSION.feedback
    assert feedback is not None
    own = FieldKnowledge(
        mapped={"v": VectorField("v", dim=2)}, vectors={"v": FieldFeedback(feedback, np.ones(2, np.float64))}
    )
    return replace(SESSION, own_fields=own)


def test_a_vector_that_cannot_be_moved_is_reported_beside_too_many_clauses() -> None:
    knowledge = with_own_vectors()
    for vector, field, outcome in (
        ([0.6, 0.8, 0.1], "v", Outcome.OTHER_DIMENSION),
        ([0.6, 0.8], "absent", Outcome.NOT_MOVED),
    ):
        near = {"knn": {field: {"vector": vector, "k": 5}}}
        query = {"hybrid": {"queries": [{"bool": {"must": [TEXT], "should": terms(1020)}}, near]}}
        result = rewritten(query, knowledge)
        assert result.body == {"query": query}
        assert [note.outcome for note in result.notes] == [outcome, Outcome.TOO_MANY_CLAUSES]
        assert repr(field) in result.reason


def test_the_vector_of_a_query_of_too_many_clauses_is_moved() -> None:
    knowledge, knn = with_own_vectors(), {"vector": [0.6, 0.8], "k": 5, "filter": {"term": {"title": "a"}}}
    query = long_hybrid(knn)
    result = rewritten(query, knowledge)
    text, moved = result.body["query"]["hybrid"]["queries"]
    assert text == query["hybrid"]["queries"][0]
    assert moved["knn"]["v"].pop("vector") != knn["vector"]
    assert moved["knn"]["v"] == {"k": 5, "filter": knn["filter"], "_name": REWRITTEN_NAME}
    assert (result.outcome, result.is_changed) == (Outcome.TOO_MANY_CLAUSES, True)
    assert count(result.body["query"]) == count(query)
    assert parse(result.body).is_rewritten
    for judged in ("hide", "demote"):
        assert rewritten(query, knowledge, judged=judged).body == rewritten(query, knowledge).body
    # These stay unchanged: a clause with a name of the user's own, and a search with a threshold or another order.
    named = long_hybrid({**knn, "_name": "mine"})
    assert rewritten(named, knowledge).body == {"query": named}
    for more in ({"min_score": 0.1}, {"sort": ["day"]}):
        body = {"query": query, **more}
        assert rewrite(parse(body), knowledge, OPTIONS).body == body


def test_with_vectors_a_query_of_too_many_clauses_is_rescored_once() -> None:
    query = {"bool": {"must": [TEXT], "filter": [{"bool": {"should": terms(1020)}}]}}
    attached = replace(SESSION, vector=MARKED[0], fields=("title",))
    result = rewritten(query, attached)
    assert (result.body["query"], result.outcome) == (query, Outcome.REWRITTEN)
    words, similarity = (stage["query"]["rescore_query"] for stage in result.body["rescore"])
    assert words["bool"]["filter"] == [{"match_all": {"_name": REWRITTEN_NAME}}]
    assert "script_score" in str(similarity)
    again = rewrite(parse(result.body), attached, OPTIONS)
    assert (again.body, again.outcome) == (result.body, Outcome.ALREADY_REWRITTEN)
    hidden = rewritten(query, attached, judged="hide")
    assert hidden.outcome is Outcome.IN_PART
    assert hidden.reason == "the query has almost as many clauses as OpenSearch allows"
