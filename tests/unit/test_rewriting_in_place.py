"""Requests that rank by vectors of the index's own: what a session changes in their clauses, and what stays."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from resift.contracts.documents import VectorField
from resift.feedback.feedback import Feedback
from resift.feedback.field_feedback import FieldFeedback
from resift.feedback.judgements import JudgedDocument, Judgement
from resift.feedback.ridge import Background
from resift.query.body import parse
from resift.query.dsl import REWRITTEN_NAME, NestedField
from resift.rewriting.knowledge import FieldKnowledge, JudgedTokens, Knowledge, RequiredData, TextToEncode
from resift.rewriting.moving import required_data
from resift.rewriting.options import Options
from resift.rewriting.outcome import Outcome, Rewritten
from resift.rewriting.rewrite import rewrite
from resift.rewriting.words import average_boosts

RNG = np.random.default_rng(5)
MAPPED = {
    "v": VectorField("v", dim=4, space="cosinesimil"),
    "bytes": VectorField("bytes", "byte", 4),
    "bits": VectorField("bits", "binary", 4),
    "parts.v": VectorField("parts.v", dim=4, nested=True),
    "said": VectorField("said_semantic_info.embedding", dim=4, model="m1"),
    "tokens": VectorField("tokens", "tokens"),
    "halves": VectorField("halves", "half_float", 4),
    "selected": VectorField("selected_semantic_info.embedding", dim=4),
}
QUERY = [1.0, 0.0, 0.0, 0.0]
MARKED = np.array([[0.9, 0.9, 0, 0], [0.8, -0.7, 0, 0]], np.float32)
FEEDBACK = replace(
    Feedback.learn(MARKED[:1], MARKED[1:]), background=Background(RNG.normal(size=(40, 4)).astype(np.float32))
)
OWN = FieldFeedback(FEEDBACK, np.linalg.norm(MARKED, axis=1))
DOCUMENTS = [
    JudgedDocument(Judgement("i", id, grade), vector, "")
    for id, grade, vector in zip(("good", "bad"), (1.0, -1.0), MARKED, strict=True)
]
KNOWN = FieldKnowledge(
    mapped=MAPPED,
    vectors=dict.fromkeys(
        ("v", "bytes", "halves", "said_semantic_info.embedding", "selected_semantic_info.embedding"), OWN
    ),
    tokens={"tokens": JudgedTokens([{"fire": 1.0, "bush": 2.0}, {"fire": 1.0, "army": 2.0}], [1.0, -1.0])},
    encoded={
        TextToEncode("fire", "m1"): np.array(QUERY, np.float32),
        TextToEncode("fire", "m2", as_tokens=True): {"fire": 1.0},
    },
)
TERMS = {f"word{rank}": 1 / rank for rank in range(1, 31)}
SESSION = Knowledge(
    text="bush fire",
    expansion_words=TERMS,
    judged=(("i", "good"), ("i", "bad")),
    feedback=FEEDBACK,
    documents=DOCUMENTS,
    own_fields=KNOWN,
)
OPTIONS = Options(alpha=0.5, window=100)
TEXT = {"match": {"title": "bush fire"}}
KNN = {"knn": {"v": {"vector": QUERY, "k": 7, "boost": 2.0, "filter": {"term": {"n": 1}}, "_name": "near"}}}
NAMED = {"match_all": {"_name": REWRITTEN_NAME}}


def rewritten(
    query: Any, knowledge: Knowledge = SESSION, body: dict[str, Any] | None = None, **changes: Any
) -> Rewritten:
    """Rewrite a query in a ``body``, and assert that neither is changed."""
    whole = {"query": query, **(body or {})}
    before = copy.deepcopy(whole)
    result = rewrite(parse(whole), knowledge, structs.replace(OPTIONS, **changes))
    assert whole == before
    json.dumps(result.body, allow_nan=False)
    return result


def queries_of(result: Rewritten) -> list[Any]:
    """Return the sub-queries of a rewritten hybrid query."""
    queries: list[Any] = result.body["query"]["hybrid"]["queries"]
    return queries


def clause_of(result: Rewritten) -> Any:
    """Return the clause of a rewritten query, without the function that demotes irrelevant documents."""
    (clause,) = result.body["query"]["bool"]["must"]
    return without_sinking(clause)


def without_sinking(clause: Any) -> Any:
    """Assert that a clause demotes irrelevant documents, and return the query inside it."""
    functions = [{"filter": {"ids": {"values": ["bad"]}}, "weight": 0.001}]
    query = clause["function_score"].pop("query")
    assert clause == {"function_score": {"functions": functions, "score_mode": "first"}}
    return query


def test_a_hybrid_query_gets_expansion_words_and_moved_vectors() -> None:
    result = rewritten({"hybrid": {"queries": [TEXT, KNN], "pagination_depth": 50}})
    assert (result.outcome, result.reason, result.is_changed, result.has_resift_scores) == (
        Outcome.REWRITTEN,
        "",
        True,
        False,
    )
    assert result.body["query"]["hybrid"]["pagination_depth"] == 50
    text, near = queries_of(result)
    assert text["bool"]["filter"] == [NAMED]
    (inner,) = text["bool"]["must"]
    assert inner["bool"]["must"] == [TEXT]
    (added,) = inner["bool"]["should"]
    (relevant,) = added["function_score"]["functions"]
    assert relevant["filter"] == {"ids": {"values": ["good"]}}
    assert 0 < relevant["weight"] < 1
    words = added["function_score"]["query"]["bool"]
    assert words["must_not"] == [{"ids": {"values": ["bad"]}}]
    assert [expansion["match"]["title"]["query"] for expansion in words["should"]] == list(TERMS)
    assert words["should"][0]["match"]["title"]["boost"] == pytest.approx(0.5 * 2**0.5, abs=1e-3)
    clause = near.get("bool", {"must": [near]})["must"][0]["knn"]["v"]
    assert {**clause, "vector": QUERY} == KNN["knn"]["v"]
    assert np.linalg.norm(clause["vector"]) == pytest.approx(1)


def test_a_query_vector_moves_by_how_well_vectors_separate_documents() -> None:
    near = FEEDBACK.background.vectors[:, 0].mean() if FEEDBACK.background else 0
    assert near < 0.5
    clause = clause_of(rewritten(KNN))
    vector = np.array(clause["knn"]["v"]["vector"])
    topic_separation = OWN.topic_separation(np.array(QUERY))
    assert 0 < topic_separation <= 1
    assert vector @ MARKED[0] > np.array(QUERY) @ MARKED[0]
    assert vector @ MARKED[1] < np.array(QUERY) @ MARKED[1]
    # a space in which the marked documents are no nearer than any others says nothing
    everywhere = replace(FEEDBACK, background=Background(np.tile(MARKED, (10, 1)) + 1e-3))
    same = FieldFeedback(everywhere, OWN.lengths)
    assert same.topic_separation(np.array(QUERY)) == 0
    assert same.move_query(np.array(QUERY), 0) == pytest.approx(QUERY)


def test_half_floats_move_as_floats_do() -> None:
    moved = clause_of(rewritten({"knn": {"v": {"vector": QUERY, "k": 3}}}))["knn"]["v"]
    assert clause_of(rewritten({"knn": {"halves": {"vector": QUERY, "k": 3}}})) == {"knn": {"halves": moved}}


@pytest.mark.parametrize("space", ["cosinesimil", "l2", "innerproduct"])
def test_relevant_documents_get_a_bonus_in_lists_with_similar_scores(space: str) -> None:
    vector = np.array([0.0, 3.0, 0.0, 0.0])
    assert OWN.relevant_bonus(vector, 1.0, space) == 0
    bonuses = [OWN.relevant_bonus(vector, topic_separation, space) for topic_separation in (0.99, 0.97, 0.9)]
    assert 0 < bonuses[0] < bonuses[1] < bonuses[2]
    known = replace(KNOWN, mapped={"v": VectorField("v", dim=4, space=space)})
    _, near = queries_of(
        rewritten(
            {"hybrid": {"queries": [TEXT, {"knn": {"v": {"vector": [0, 0, 0, 2], "k": 3}}}]}},
            replace(SESSION, own_fields=known),
        )
    )
    (bonus,) = near["bool"]["should"]
    assert bonus["constant_score"]["filter"] == {"ids": {"values": ["good"]}}
    assert bonus["constant_score"]["boost"] > 0


def test_moved_vectors_keep_their_length_and_byte_range() -> None:
    clause = clause_of(rewritten({"knn": {"bytes": {"vector": [100, 0, 0, 0], "k": 3}}}))
    vector = clause["knn"]["bytes"]["vector"]
    assert all(isinstance(value, int) for value in vector)
    assert np.linalg.norm(vector) == pytest.approx(100, abs=2)
    most = clause_of(rewritten({"knn": {"bytes": {"vector": [127, 127, -128, 0], "k": 3}}}))
    assert all(-128 <= value <= 127 for value in most["knn"]["bytes"]["vector"])


def test_a_text_encoded_by_a_model_becomes_a_moved_vector() -> None:
    neural = {
        "query_text": "fire",
        "k": 5,
        "filter": {"term": {"n": 1}},
        "boost": 3.0,
        "method_parameters": {"ef_search": 9},
    }
    clause = clause_of(rewritten({"neural": {"v": {**neural, "model_id": "m1"}}}))
    rest = {name: value for name, value in neural.items() if name != "query_text"}
    assert clause == {"knn": {"v": {**rest, "vector": clause["knn"]["v"]["vector"]}}}
    semantic = clause_of(rewritten({"neural": {"said": {"query_text": "fire"}}}))
    assert list(semantic["knn"]) == ["said_semantic_info.embedding"]
    assert semantic["knn"]["said_semantic_info.embedding"]["k"] == 10


def test_the_vector_of_a_script_score_is_moved() -> None:
    params = {"field": "v", "query_value": QUERY, "space_type": "cosinesimil"}
    script = {"lang": "knn", "source": "knn_score", "params": params}
    query = {"script_score": {"query": {"term": {"n": 1}}, "script": script, "boost": 2.0}}
    clause = clause_of(rewritten(query))
    moved = clause["script_score"]["script"]["params"].pop("query_value")
    assert clause["script_score"]["script"]["params"] == {"field": "v", "space_type": "cosinesimil"}
    assert clause["script_score"]["query"] == {"term": {"n": 1}}
    assert moved != QUERY


def test_tokens_of_relevant_documents_are_added() -> None:
    query = {"neural_sparse": {"tokens": {"query_tokens": {"fire": 1.0}, "boost": 2.0}}}
    own, added = clause_of(rewritten(query))["bool"].values()
    (required,), (optional,) = own, added
    assert required["neural_sparse"]["tokens"]["boost"] == optional["neural_sparse"]["tokens"]["boost"] == 2.0
    tokens = required["neural_sparse"]["tokens"]["query_tokens"], optional["neural_sparse"]["tokens"]["query_tokens"]
    assert [list(weights) for weights in tokens] == [["fire"], ["bush"]]
    assert sum(weight**2 for weights in tokens for weight in weights.values()) == pytest.approx(1, abs=1e-3)
    by_text = {"neural_sparse": {"tokens": {"query_text": "fire", "model_id": "m2", "_name": "mine"}}}
    assert clause_of(rewritten(by_text)) == {
        "bool": {
            "must": [{"neural_sparse": {"tokens": {"query_tokens": tokens[0], "_name": "mine"}}}],
            "should": [{"neural_sparse": {"tokens": {"query_tokens": tokens[1]}}}],
        }
    }


def test_a_query_s_own_tokens_keep_matching() -> None:
    query = {"neural_sparse": {"tokens": {"query_tokens": {"fire": 1.0, "army": 0.01}}}}
    irrelevant = JudgedTokens([{"army": 5.0}, {"army": 3.0}], [-1.0, -1.0])
    knowledge = replace(SESSION, own_fields=replace(KNOWN, tokens={"tokens": irrelevant}))
    weights = clause_of(rewritten(query, knowledge))["neural_sparse"]["tokens"]["query_tokens"]
    assert weights["fire"] > 0.9
    assert weights["army"] == 0.0001


def test_a_widened_search_finds_documents_by_further_tokens() -> None:
    query = {"neural_sparse": {"tokens": {"query_tokens": {"fire": 1.0}}}}
    clause = clause_of(rewritten(query, widen=True))
    assert set(clause["neural_sparse"]["tokens"]["query_tokens"]) == {"fire", "bush"}


def test_tokens_that_are_numbers_only_add_score() -> None:
    field = VectorField("tokens", "token_numbers")
    judged = JudgedTokens([{"1": 1.0, "7": 2.0}, {"1": 1.0, "3": 2.0}], [1.0, -1.0])
    knowledge = replace(SESSION, own_fields=replace(KNOWN, mapped={"tokens": field}, tokens={"tokens": judged}))
    query = {"neural_sparse": {"tokens": {"query_tokens": {"1": 1.0}, "method_parameters": {"k": 9}}}}
    clause = clause_of(rewritten(query, knowledge))
    assert clause["bool"]["must"] == [query]
    (optional,) = clause["bool"]["should"]
    assert optional["neural_sparse"]["tokens"]["method_parameters"] == {"k": 9}
    assert list(optional["neural_sparse"]["tokens"]["query_tokens"]) == ["7"]
    by_text = {"neural_sparse": {"tokens": {"query_text": "fire", "analyzer": "bert-uncased"}}}
    left = rewritten(by_text, knowledge)
    assert (left.body["query"], left.outcome) == (by_text, Outcome.TOKENS_UNKNOWN)
    assert required_data(parse({"query": by_text}), {"tokens": field}).texts == frozenset()


@pytest.mark.parametrize(
    ("query", "outcome"),
    [
        ({"knn": {"bits": {"vector": [1, 2, 3, 4], "k": 3}}}, Outcome.NOT_MOVED),
        ({"knn": {"parts.v": {"vector": QUERY, "k": 3}}}, Outcome.NOT_MOVED),
        ({"knn": {"unknown": {"vector": QUERY, "k": 3}}}, Outcome.NOT_MOVED),
        ({"nested": {"path": "parts", "query": {"knn": {"parts.v": {"vector": QUERY, "k": 3}}}}}, Outcome.NOT_MOVED),
        ({"knn": {"v": {"vector": QUERY, "min_score": 0.7}}}, Outcome.THRESHOLD),
        ({"knn": {"v": {"vector": QUERY, "max_distance": 2}}}, Outcome.THRESHOLD),
        ({"knn": {"v": {"vector": [1.0, 2.0], "k": 3}}}, Outcome.OTHER_DIMENSION),
        ({"knn": {"v": {"vector": ["a", "b"], "k": 3}}}, Outcome.OTHER_DIMENSION),
        ({"knn": {"v": {"vector": [1e39, 0.0, 0.0, 0.0], "k": 3}}}, Outcome.OTHER_DIMENSION),  # too large for 32 bits
        ({"knn": {"v": {"vector": [10**400, 0, 0, 0], "k": 3}}}, Outcome.OTHER_DIMENSION),
        ({"neural": {"v": {"query_text": "fire", "model_id": "gone"}}}, Outcome.MODEL_UNAVAILABLE),
        ({"neural": {"v": {"query_text": "fire", "query_image": "…", "model_id": "m1"}}}, Outcome.MODEL_UNAVAILABLE),
        ({"neural_sparse": {"tokens": {"query_text": "fire"}}}, Outcome.MODEL_UNAVAILABLE),
        ({"neural": {"v": {"query_text": "fire"}}}, Outcome.MODEL_NOT_NAMED),
        ({"neural": {"selected": {"query_text": "fire"}}}, Outcome.MODEL_NOT_NAMED),
        ({"neural_sparse": {"v": {"query_tokens": {"fire": 1}}}}, Outcome.NOT_MOVED),
    ],
)
def test_a_clause_that_cannot_be_moved_is_unchanged_and_reported(query: dict[str, Any], outcome: Outcome) -> None:
    alone = rewritten(query)
    assert (alone.body["query"], alone.outcome, alone.is_changed) == (query, outcome, False)
    mixed = rewritten({"hybrid": {"queries": [query, TEXT]}})
    assert (mixed.outcome, mixed.is_changed) == (outcome, True)
    assert queries_of(mixed)[0]["bool"]["must"] == [query]
    assert (
        rewritten({"hybrid": {"queries": [query, TEXT]}}, replace(SESSION, missing_documents=2)).outcome
        is Outcome.IN_PART
    )


def test_fields_without_values_in_judged_documents_are_unchanged() -> None:
    knowledge = replace(SESSION, own_fields=replace(KNOWN, vectors={}, tokens={}))
    for query in (KNN, {"neural_sparse": {"tokens": {"query_tokens": {"fire": 1.0}}}}):
        result = rewritten(query, knowledge)
        assert (result.body["query"], result.outcome) == (query, Outcome.NO_VECTORS)


def test_marks_for_another_query_add_words_but_move_no_vectors() -> None:
    carried = replace(FEEDBACK, grades=np.array([0.15, 0.0]), is_for_query=(False, False))
    known = replace(
        SESSION,
        feedback=carried,
        judged_elsewhere={("i", "good"), ("i", "bad")},
        unaffected={("i", "good"): 0.5, ("i", "bad"): 0.1},
        own_fields=FieldKnowledge(mapped=MAPPED, encoded=KNOWN.encoded),
    )
    result = rewritten({"hybrid": {"queries": [TEXT, KNN]}}, known)
    assert (result.outcome, result.reason) == (Outcome.REWRITTEN, "")
    text, near = queries_of(result)
    assert "word1" in json.dumps(text)
    assert near == KNN
    alone = rewritten(KNN, known)
    assert (alone.outcome, alone.is_changed) == (Outcome.NOTHING_TO_ADD, False)


def test_marks_of_deleted_documents_are_reported() -> None:
    result = rewritten(KNN, replace(SESSION, missing_documents=1))
    assert (result.outcome, result.reason) == (Outcome.MARKS_GONE, "marked documents that no longer exist: 1")


MMR = {"ext": {"mmr": {"diversity": 0.5}}}
UNNAMED = {"knn": {"v": {name: value for name, value in KNN["knn"]["v"].items() if name != "_name"}}}
AGENTIC = {"agentic": {"query_text": "fire in the forest"}}


def test_a_clause_for_maximal_marginal_relevance_stays_at_the_top() -> None:
    result = rewritten(UNNAMED, body=MMR)
    clause = result.body["query"]["knn"]["v"]
    assert (result.outcome, result.body["ext"]) == (Outcome.REWRITTEN, MMR["ext"])
    assert {**clause, "vector": QUERY} == {**UNNAMED["knn"]["v"], "_name": REWRITTEN_NAME}
    assert clause["vector"] != QUERY
    hidden = rewritten(UNNAMED, body=MMR, judged="hide").body["query"]["knn"]["v"]
    assert hidden["filter"]["bool"]["must_not"] == [{"ids": {"values": ["good", "bad"]}}]
    demoted = rewritten(UNNAMED, body=MMR, judged="demote")
    assert ("rescore" in demoted.body, demoted.outcome) == (False, Outcome.NOT_DEMOTED)


def test_a_clause_for_maximal_marginal_relevance_is_rewritten_once() -> None:
    unnamed = {"neural": {"v": {"query_text": "fire", "model_id": "m1", "k": 3}}}
    body = rewritten(unnamed, body=MMR).body
    assert body["query"]["knn"]["v"]["_name"] == REWRITTEN_NAME
    again = rewritten(body["query"], body=MMR)
    assert (again.outcome, again.body) == (Outcome.ALREADY_REWRITTEN, body)


def test_a_named_clause_for_maximal_marginal_relevance_is_left_alone() -> None:
    """The name would be the only mark of the rewritten clause, so that it would be rewritten twice."""
    result = rewritten(KNN, body=MMR)
    assert (result.outcome, result.body) == (Outcome.MMR, {"query": KNN, **MMR})


@pytest.mark.parametrize(
    "settings", [{"vector": QUERY}, {"v": 1}, {"v": {"vector": QUERY}, "w": {"vector": QUERY}}, {}]
)
@pytest.mark.parametrize("judged", ["keep", "demote", "hide"])
def test_a_malformed_clause_for_maximal_marginal_relevance_is_left_alone(settings: dict[str, Any], judged: str) -> None:
    result = rewritten({"knn": settings}, body=MMR, judged=judged)
    assert (result.outcome, result.body) == (Outcome.MALFORMED, {"query": {"knn": settings}, **MMR})


@pytest.mark.parametrize("query", [TEXT, {"bool": {"must": [KNN]}}, {"hybrid": {"queries": [TEXT, KNN]}}])
@pytest.mark.parametrize("judged", ["keep", "demote", "hide"])
def test_other_queries_with_maximal_marginal_relevance_are_left_alone(query: dict[str, Any], judged: str) -> None:
    result = rewritten(query, body=MMR, judged=judged)
    assert (result.outcome, result.body) == (Outcome.MMR, {"query": query, **MMR})


@pytest.mark.parametrize(
    "query",
    [
        AGENTIC,
        {"bool": {"must": [TEXT], "should": [AGENTIC]}},
        {"bool": {"must": [KNN], "filter": [{"plugin": {}}]}},
        {"function_score": {"query": AGENTIC}},
        {"hybrid": {"queries": [AGENTIC, {"bool": {"must": [TEXT, "malformed"]}}]}},
    ],
)
@pytest.mark.parametrize("judged", ["keep", "demote", "hide"])
def test_a_query_with_an_unknown_clause_is_left_alone(query: dict[str, Any], judged: str) -> None:
    result = rewritten(query, judged=judged)
    assert (result.outcome, result.is_changed, result.body) == (Outcome.UNKNOWN_CLAUSE, False, {"query": query})


@pytest.mark.parametrize("judged", ["keep", "hide"])
def test_an_unknown_clause_in_a_hybrid_query_stays_beside_the_others(judged: str) -> None:
    result = rewritten({"hybrid": {"queries": [AGENTIC, TEXT]}}, judged=judged)
    assert (result.outcome, result.is_changed) == (Outcome.UNKNOWN_CLAUSE, True)
    unknown, text = queries_of(result)
    assert unknown == AGENTIC
    assert text["bool"]["filter"] == [NAMED]


@pytest.mark.parametrize("judged", ["keep", "demote", "hide"])
def test_a_hybrid_query_inside_another_clause_is_left_alone(judged: str) -> None:
    query = {"bool": {"must": [{"hybrid": {"queries": [TEXT, KNN]}}]}}
    result = rewritten(query, judged=judged)
    assert (result.outcome, result.body) == (Outcome.INNER_HYBRID, {"query": query})


CONDITION = {"term": {"n": 1}}


@pytest.mark.parametrize(
    ("query", "text_at"),
    [
        ({"bool": {"filter": [CONDITION], "should": [TEXT]}}, ["bool", "should", 0]),
        ({"bool": {"must": [{"term": {"n": {"value": 1, "boost": 0}}}], "should": [TEXT]}}, ["bool", "should", 0]),
        (
            {"function_score": {"query": TEXT, "functions": [{"filter": CONDITION, "weight": 0}]}},
            ["function_score", "query"],
        ),
        ({"dis_max": {"queries": [TEXT, {"bool": {"filter": [CONDITION]}}]}}, ["dis_max", "queries", 0]),
    ],
)
def test_words_give_no_score_to_documents_that_a_hybrid_query_leaves_out(query: Any, text_at: list[Any]) -> None:
    (list_of_text, _) = queries_of(rewritten({"hybrid": {"queries": [query, KNN]}}))
    (inner,) = list_of_text["bool"]["must"]
    for step in text_at:
        inner = inner[step]
    assert inner["bool"]["must"] == [TEXT]
    assert "word1" in json.dumps(inner["bool"]["should"])
    # without normalisation, documents with the score 0 are hits as well
    mixed = clause_of(rewritten({"bool": {"must": [query, KNN]}}))
    assert mixed["bool"]["must"][0]["bool"]["must"] == [query]


@pytest.mark.parametrize(
    "query",
    [
        {"nested": {"path": "parts", "query": {"match": {"parts.text": "fire"}}, "score_mode": "none"}},
        {"match": {"title": {"query": "bush fire", "boost": 0}}},
        {"simple_query_string": {"query": "fire | -army", "fields": ["title"]}},
    ],
)
def test_a_text_clause_without_scores_is_left_alone_in_a_hybrid_query(query: dict[str, Any]) -> None:
    (text, _) = queries_of(rewritten({"hybrid": {"queries": [query, KNN]}}))
    assert text == {"bool": {"must": [query], "filter": [NAMED]}}


@pytest.mark.parametrize("query", [KNN, {"hybrid": {"queries": [TEXT, KNN]}}, {"bool": {"should": [TEXT, KNN]}}])
@pytest.mark.parametrize("judged", ["keep", "demote", "hide"])
def test_without_a_session_nothing_changes(query: dict[str, Any], judged: str) -> None:
    ours = Knowledge(text="bush fire", vector=np.ones(3, np.float32))
    result = rewritten(query, ours, judged=judged, widen=True, knn=5)
    assert (result.outcome, result.is_changed, result.ranks_by_text_scores) == (Outcome.NOTHING_TO_ADD, False, False)
    assert result.body["query"] is query


@pytest.mark.parametrize("query", [KNN, {"hybrid": {"queries": [TEXT, KNN]}}, {"hybrid": {"queries": [KNN, KNN]}}])
def test_rewritten_bodies_are_not_rewritten_again(query: dict[str, Any]) -> None:
    body = rewritten(query).body
    # OpenSearch fills in defaults on the way
    body = json.loads(json.dumps(body).replace('{"_name": "resift"}', '{"boost": 1.0, "_name": "resift"}'))
    again = rewritten(body["query"])
    assert (again.outcome, again.body["query"]) == (Outcome.ALREADY_REWRITTEN, body["query"])


def test_hidden_documents_are_excluded_from_all_lists() -> None:
    ids = [{"ids": {"values": ["good", "bad"]}}]
    result = rewritten({"hybrid": {"queries": [TEXT, KNN, {"knn": {"v": {"vector": QUERY, "k": 2}}}]}}, judged="hide")
    assert all(query["bool"]["must_not"] == ids for query in queries_of(result))
    filters = [_knn_of(query)["filter"]["bool"] for query in queries_of(result)[1:]]
    assert filters == [{"filter": [{"term": {"n": 1}}], "must_not": ids}, {"must_not": ids}]
    alone = rewritten(KNN, judged="hide").body["query"]["bool"]
    assert alone["must_not"] == ids


def _knn_of(clause: Any) -> Any:
    while "knn" not in clause:
        clause = clause["bool"]["must"][0]
    return next(iter(clause["knn"].values()))


def test_irrelevant_documents_are_demoted_without_relevant_documents() -> None:
    feedback = replace(
        Feedback.learn(MARKED[:0], MARKED[1:]), background=Background(RNG.normal(size=(40, 4)).astype(np.float32))
    )
    only = replace(SESSION, expansion_words={}, judged=(("i", "bad"),), feedback=feedback, documents=DOCUMENTS[1:])
    text, _ = queries_of(rewritten({"hybrid": {"queries": [TEXT, KNN]}}, only))
    assert text["bool"]["must"] == [
        {
            "function_score": {
                "query": TEXT,
                "functions": [{"filter": {"ids": {"values": ["bad"]}}, "weight": 0.001}],
                "score_mode": "first",
            }
        }
    ]
    for judged in ("hide", "demote"):  # which say it themselves
        assert "weight" not in json.dumps(rewritten(KNN, only, judged=judged).body)


@pytest.mark.parametrize("boost", ["2.0", None, [1], "x", True])
def test_a_boost_may_be_a_text_or_nonsense_that_the_engine_refuses(boost: Any) -> None:
    queries = [
        {"match": {"title": {"query": "fire", "boost": boost}}},
        {"knn": {"v": {**KNN["knn"]["v"], "boost": boost}}},
    ]
    result = rewritten({"hybrid": {"queries": queries}})
    assert result.outcome is Outcome.REWRITTEN
    assert queries_of(result)[0]["bool"]["must"][0]["bool"]["must"][0] == queries[0]
    assert ('"title^2"' in json.dumps(result.body)) == (boost == "2.0")


def test_judged_documents_are_demoted_only_in_unmixed_lists() -> None:
    assert rewritten(KNN, judged="demote").body["rescore"][0]["query"]["score_mode"] == "multiply"
    for query, body in (({"hybrid": {"queries": [TEXT, KNN]}}, {}), (KNN, {"collapse": {"field": "n"}})):
        result = rewritten(query, body=body, judged="demote")
        assert ("rescore" in result.body, result.outcome) == (False, Outcome.NOT_DEMOTED)


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ({"hybrid": {"queries": [TEXT, KNN]}}, {}),
        (KNN, {"collapse": {"field": "n"}}),
        (KNN, {"search_after": [0.5]}),
    ],
)
@pytest.mark.parametrize("documents", [DOCUMENTS, DOCUMENTS[1:]], ids=["both", "irrelevant"])
def test_documents_that_cannot_be_demoted_are_ranked_as_with_keep(
    query: Any, body: dict[str, Any], documents: list[JudgedDocument]
) -> None:
    knowledge = replace(SESSION, documents=documents, judged=tuple(one.judgement.key for one in documents))
    kept = rewritten(query, knowledge, body)
    assert "0.001" in json.dumps(kept.body) or len(documents) > 1
    assert rewritten(query, knowledge, body, judged="demote").body == kept.body


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ({"sort": [{"n": "desc"}]}, Outcome.SORTED),
        ({"sort": [{"_score": "asc"}]}, Outcome.SORTED),
        ({"min_score": 0.2}, Outcome.THRESHOLD),
        ({"size": 0}, Outcome.NO_HITS),
    ],
)
def test_another_sort_order_is_unchanged(body: dict[str, Any], outcome: Outcome) -> None:
    result = rewritten({"hybrid": {"queries": [TEXT, KNN]}}, body=body)
    assert (result.outcome, result.is_changed, result.body["query"]) == (
        outcome,
        False,
        {"hybrid": {"queries": [TEXT, KNN]}},
    )


@pytest.mark.parametrize(
    "body",
    [
        {"sort": ["_score"]},
        {"sort": [{"_score": "desc"}, {"n": "asc"}], "search_after": [0.5, 3]},
        {"collapse": {"field": "n"}},
    ],
)
def test_pages_and_groups_by_score_are_rewritten(body: dict[str, Any]) -> None:
    result = rewritten(KNN, body=body)
    assert (result.outcome, "rescore" in result.body) == (Outcome.REWRITTEN, False)
    assert {name: result.body[name] for name in body} == body


NEWEST = {"gauss": {"day": {"origin": "now", "scale": "7d"}}, "boost_mode": "replace"}


@pytest.mark.parametrize("documents", [DOCUMENTS, DOCUMENTS[1:]], ids=["both", "irrelevant"])
def test_an_order_by_functions_alone_stays(documents: list[JudgedDocument]) -> None:
    knowledge = replace(SESSION, documents=documents, judged=tuple(document.judgement.key for document in documents))
    query = {"function_score": {"query": KNN, **NEWEST}}
    result = rewritten(query, knowledge)
    assert (result.outcome, result.is_changed, result.body) == (Outcome.SCORES_REPLACED, False, {"query": query})
    demoted = rewritten(query, knowledge, judged="demote")
    assert (demoted.outcome, demoted.body) == (Outcome.IN_PART, {"query": query})
    assert [note.outcome for note in demoted.notes] == [Outcome.SCORES_REPLACED, Outcome.NOT_DEMOTED]
    hidden = rewritten(query, knowledge, judged="hide").body["query"]["bool"]
    assert (hidden["must"], len(hidden["must_not"])) == ([query], 1)
    by_date = rewritten(query, knowledge, {"sort": ["day"]})
    assert by_date.outcome is Outcome.SORTED


@pytest.mark.parametrize("documents", [DOCUMENTS, DOCUMENTS[1:]], ids=["both", "irrelevant"])
@pytest.mark.parametrize("inner", [TEXT, {"bool": {"must": [TEXT], "should": [KNN]}}], ids=["text", "vector"])
def test_a_part_whose_scores_are_replaced_stays(inner: dict[str, Any], documents: list[JudgedDocument]) -> None:
    knowledge = replace(SESSION, documents=documents, judged=tuple(document.judgement.key for document in documents))
    replaced = {"function_score": {"query": inner, **NEWEST}}
    first, second = queries_of(rewritten({"hybrid": {"queries": [replaced, KNN]}}, knowledge))
    assert first["bool"]["must"] == [replaced]
    assert second != KNN
    clause = clause_of(rewritten({"bool": {"must": [replaced, KNN]}}, knowledge))
    assert clause["bool"]["must"][0] == replaced
    assert clause["bool"]["must"][1] != KNN


def test_highlights_use_the_original_query() -> None:
    query = {"hybrid": {"queries": [TEXT, KNN]}}
    assert rewritten(query, body={"highlight": {"fields": {"title": {}}}}).body["highlight"] == {
        "highlight_query": {"hybrid": {"queries": [TEXT, {"match_all": {}}]}},
        "fields": {"title": {}},
    }
    own = {"fields": {"title": {}}, "highlight_query": TEXT}
    assert rewritten(query, body={"highlight": own}).body["highlight"] == own


def test_expansion_words_search_the_fields_of_the_query() -> None:
    several = {"multi_match": {"query": "fire", "fields": ["title^2", "text"]}}
    nested = {"nested": {"path": "parts", "query": {"match": {"parts.text": "fire"}}, "inner_hits": {}}}
    texts = [
        several,
        nested,
        {"bool": {"must": [TEXT], "filter": [{"match": {"other": "x"}}]}},
        {"query_string": {"query": "fire"}},
    ]
    queries = queries_of(rewritten({"hybrid": {"queries": [*texts, KNN]}}))
    for query, text, fields in zip(queries, texts, (["title", "text"], ["parts.text"], "title", ["*"]), strict=False):
        inner = query["bool"]["must"][0] if query is queries[0] else query
        assert inner["bool"]["must"] == [text]
        assert json.dumps(fields) in json.dumps(inner["bool"]["should"])
    assert '"path": "parts"' in json.dumps(queries[1]["bool"]["should"])


@pytest.mark.parametrize("is_hybrid", [True, False])
def test_expansion_words_have_the_mean_boost_of_the_fields(is_hybrid: bool) -> None:
    def boosts(*fields: str) -> tuple[list[str], list[float]]:
        text = {"multi_match": {"query": "fire", "fields": list(fields)}}
        result = rewritten({"hybrid": {"queries": [text, KNN]}} if is_hybrid else text)
        clauses = re.findall(r'{"multi_match": {[^}]*}}', json.dumps(result.body))
        words = [json.loads(clause)["multi_match"] for clause in clauses if '"boost"' in clause]
        return words[0]["fields"], [word["boost"] for word in words]

    names, plain = boosts("title", "text")
    assert names == ["title", "text"]
    assert plain
    assert boosts("title^3", "text") == (names, pytest.approx([2 * boost for boost in plain], abs=2e-4))
    assert boosts("title^0.5", "text^1.5") == (names, plain)
    assert boosts("title^3", "text^3") == (["title^3", "text^3"], plain)  # the fields multiply all words


def test_fields_without_their_boosts_stay_nested() -> None:
    fields, boost = average_boosts([NestedField("parts.text^2", "parts"), "title", "title^3"])
    assert (fields, boost) == (["parts.text", "title"], 2.0)
    assert [getattr(field, "path", None) for field in fields] == ["parts", None]


def test_only_clauses_that_can_be_moved_need_fields_and_texts() -> None:
    queries = [
        KNN,
        {"knn": {"bits": {"vector": [1], "k": 1}}},
        {"knn": {"bytes": {"vector": [1], "max_distance": 1}}},
        {"neural": {"said": {"query_text": "fire"}}},
        {"neural_sparse": {"tokens": {"query_text": "fire", "model_id": "m2"}}},
        TEXT,
    ]
    needs = required_data(parse({"query": {"hybrid": {"queries": queries}}}), MAPPED)
    texts = {TextToEncode("fire", "m1"), TextToEncode("fire", "m2", as_tokens=True)}
    assert needs == RequiredData(
        fields=frozenset(MAPPED[name] for name in ("v", "said", "tokens")), texts=frozenset(texts)
    )
    assert required_data(parse({"query": TEXT}), MAPPED) == required_data(parse({}), MAPPED) == RequiredData()


LEAVES = st.sampled_from(
    [
        TEXT,
        KNN,
        {"term": {"tag": "a"}},
        {"match": {"text": {"query": "fire", "_name": "mine", "operator": "and"}}},
        {"knn": {"parts.v": {"vector": QUERY, "k": 3}}},
        {"neural": {"v": {"query_text": "fire", "model_id": "m1", "k": 4}}},
        {"neural_sparse": {"tokens": {"query_tokens": {"fire": 1.0}}}},
        {"match_all": {}},
        "malformed",
        {"knn": "malformed"},
        {"knn": {"v": {"vector": QUERY, "k": 3, "boost": "much"}}},
        {"knn": {"v": {"vector": [[1.0], 2.0, None, "x"], "k": "few", "filter": 3}}},
        {"neural": {"v": {"query_text": 3, "model_id": ["m1"]}}},
        {"neural_sparse": {"tokens": {"query_tokens": {"fire": "much"}, "query_text": 3}}},
        {"script_score": {"script": {"lang": "knn", "source": "knn_score", "params": 3}}},
        {"multi_match": {"query": "fire", "fields": 3}},
        {"match": {"title": {"query": "fire", "boost": "much"}}},
        {"nested": {"path": 3, "query": {"match": {"parts.text": "fire"}}}},
        {"hybrid": {"queries": "malformed"}},
        {"hybrid": "malformed"},
    ]
)
CLAUSES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {
                "bool": st.dictionaries(
                    st.sampled_from(["must", "should", "filter", "must_not"]), st.lists(inner, max_size=3)
                )
            }
        ),
        st.fixed_dictionaries({"dis_max": st.fixed_dictionaries({"queries": st.lists(inner, max_size=3)})}),
        st.fixed_dictionaries(
            {"function_score": st.fixed_dictionaries({"query": inner, "min_score": st.none() | st.just(1)})}
        ),
        st.fixed_dictionaries({"boosting": st.fixed_dictionaries({"positive": inner, "negative": inner})}),
        st.fixed_dictionaries({"nested": st.fixed_dictionaries({"path": st.just("parts"), "query": inner})}),
    ),
    max_leaves=8,
)


def without_additions(clause: Any) -> Any:
    """Return a rewritten clause without the clauses that rewriting has added. Changed vectors and tokens remain."""
    if isinstance(clause, list):
        return [without_additions(item) for item in clause]
    if not isinstance(clause, dict):
        return clause
    inner = clause.get("bool")
    if isinstance(inner, dict) and set(inner) <= {"must", "should", "filter"} and len(inner.get("must", [])) == 1:
        added = json.dumps(inner.get("should", []))
        is_resift_field = inner.get("filter") == [NAMED] or any(
            name in added for name in ('"lenient"', '"constant_score"', '"bush"')
        )
        if is_resift_field and inner.get("filter") in (None, [NAMED]):
            return without_additions(inner["must"][0])
    sinking = clause.get("function_score", {})
    if isinstance(sinking, dict) and sinking.get("score_mode") == "first":
        return without_additions(sinking["query"])
    if set(clause) == {"neural"}:
        settings = clause["neural"]["v"]
        clause = {
            "knn": {"v": {name: value for name, value in settings.items() if name not in ("query_text", "model_id")}}
        }
    return {name: without_additions(value) for name, value in clause.items() if name not in ("vector", "query_tokens")}


@settings(max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(
    st.one_of(
        CLAUSES,
        st.fixed_dictionaries({"hybrid": st.fixed_dictionaries({"queries": st.lists(CLAUSES, max_size=3)})}),
    )
)
def test_nothing_but_scores_changes(query: Any) -> None:
    body = {"aggs": {"n": {"sum": {"field": "n"}}}, "from": 3, "size": 5, "post_filter": {"term": {"n": 1}}}
    result = rewritten(query, body=body)
    for judged in ("hide", "demote"):
        assert rewritten(query, body=body, judged=judged).in_place == result.in_place
    if result.in_place:
        assert {name: value for name, value in result.body.items() if name != "query"} == body
        assert without_additions(result.body["query"]) == without_additions(query)
