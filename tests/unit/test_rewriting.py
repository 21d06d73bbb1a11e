"""Rewriting by itself, without an engine: what is added to a search body, and what stays as it was."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from resift.feedback.feedback import Feedback
from resift.feedback.judgements import JudgedDocument, Judgement
from resift.query.body import parse
from resift.query.clause_count import MAX_ENGINE_CLAUSES, ClauseCounter
from resift.query.dsl import REWRITTEN_NAME, VECTOR_FIELD
from resift.rewriting.clauses import NOT_DEMOTED_FACTOR
from resift.rewriting.knowledge import Knowledge
from resift.rewriting.options import Options
from resift.rewriting.outcome import Outcome, Rewritten
from resift.rewriting.rescored import WIDENING_WORDS, rank_keeping_factor
from resift.rewriting.rewrite import rewrite
from resift.rewriting.similarity import script_source
from resift.vectors.weights import MAX_BETA

FIELDS = ["title", "text"]
VECTOR = np.array([0.6, 0.8, 0], np.float32)
MASK = np.array([1, 0.5, 0], np.float32)
TERMS = {f"word{rank}": 1 / rank for rank in range(1, 9)}
QUERY = {"match": {"text": "bush fire"}}
NAMED = {"match_all": {"_name": REWRITTEN_NAME}}
PLAIN = Knowledge(text="bush fire", fields=FIELDS, vector=VECTOR)
JUDGED = (("i", "k"), ("i", "j"))
SESSION = replace(PLAIN, mask=MASK, expansion_words=TERMS, unaffected={("i", "k"): 0.5}, judged=JUDGED)
OPTIONS = Options(alpha=0.5, window=100)


def rewritten(body: dict[str, Any], knowledge: Knowledge = SESSION, **changes: Any) -> Rewritten:
    """Rewrite a body with these settings, and assert that the body itself is not changed."""
    before = copy.deepcopy(body)
    result = rewrite(parse(body), knowledge, structs.replace(OPTIONS, **changes))
    assert body == before
    json.dumps(result.body, allow_nan=False)
    return result


def rescore_stages(result: Rewritten) -> list[tuple[str, dict[str, Any]]]:
    """Return the score mode and the query of each rescore step of a rewritten body."""
    return [(stage["query"]["score_mode"], stage["query"]["rescore_query"]) for stage in result.body["rescore"]]


def clauses_of(value: Any, kind: str) -> list[Any]:
    """Return all clauses of a kind, at any depth of a JSON value."""
    if isinstance(value, (list, tuple)):
        return [clause for item in value for clause in clauses_of(item, kind)]
    if not isinstance(value, dict):
        return []
    return [*([value[kind]] if kind in value else []), *clauses_of(list(value.values()), kind)]


def added_word_queries(value: Any) -> list[str]:
    """Return the query texts of the clauses that rewriting has added for expansion words."""
    return [clause["query"] for clause in added_word_clauses(value)]


def added_word_clauses(value: Any) -> list[Any]:
    """Return the clauses that rewriting has added for expansion words."""
    several, of_one = clauses_of(value, "multi_match"), clauses_of(value, "match")
    return [
        *several,
        *({"fields": list(clause), **next(iter(clause.values()))} for clause in of_one if "lenient" in str(clause)),
    ]


@pytest.mark.parametrize(("similarity", "file"), [("cosine", "masked_cosine"), ("jaccard", "fuzzy_jaccard")])
@pytest.mark.parametrize("mask", [None, MASK])
def test_the_similarity_multiplies_scores_in_the_rescore_window(similarity: str, file: str, mask: Any) -> None:
    body = {"query": QUERY, "size": 3, "aggs": {"n": {"sum": {"field": "n"}}}}
    result = rewritten(body, replace(PLAIN, similarity=similarity, mask=mask), window=7, alpha=0.75)
    assert result.body == {
        **body,
        "query": {"bool": {"must": [QUERY], "filter": [NAMED]}},
        "rescore": result.body["rescore"],
    }
    (stage,) = result.body["rescore"]
    assert stage["window_size"] == 7
    ((mode, clause),) = rescore_stages(result)
    params = {"field": VECTOR_FIELD, "query": pytest.approx(VECTOR.tolist()), "beta": 3.0}
    params |= {} if mask is None else {"mask": MASK.tolist()}
    script = {"lang": "painless", "source": script_source(file), "params": params}
    scored = {"query": {"match_all": {}}, "script_score": {"script": script}, "boost_mode": "replace"}
    assert (mode, clause) == ("multiply", {"function_score": scored})
    assert (result.outcome, result.reason, result.has_resift_scores, result.ranks_by_text_scores) == (
        Outcome.REWRITTEN,
        "",
        True,
        True,
    )


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.01, 0.010101), (0.3, 0.428571), (0.5, 1), (0.98, MAX_BETA), (1, MAX_BETA)]
)
def test_beta_follows_from_alpha(alpha: float, beta: float) -> None:
    (params,) = clauses_of(rewritten({"query": QUERY}, PLAIN, alpha=alpha).body, "params")
    assert params["beta"] == pytest.approx(beta)


def test_an_alpha_of_0_gives_lexical_scores() -> None:
    without = rewritten({"query": QUERY}, PLAIN, alpha=0)
    assert (without.body, without.outcome, without.has_resift_scores) == (
        {"query": QUERY},
        Outcome.NOTHING_TO_ADD,
        False,
    )
    assert without.ranks_by_text_scores
    result = rewritten({"query": QUERY}, replace(SESSION, unaffected={}), alpha=0)
    assert [mode for mode, _ in rescore_stages(result)] == ["total"]
    assert clauses_of(result.body, "script_score") == []


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({"match": {"title": "fire"}}, ["title"]),
        ({"query_string": {"query": "fire"}}, ["*"]),
        ({"match_all": {}}, ["*"]),
    ],
)
def test_expansion_words_use_the_querys_fields_if_the_index_has_none(query: Any, fields: list[str]) -> None:
    result = rewrite(parse({"query": query}), replace(SESSION, fields=(), unaffected={}), OPTIONS)
    assert {tuple(clause["fields"]) for clause in added_word_clauses(result.body["rescore"])} == {tuple(fields)}


def test_expansion_words_in_the_query_are_not_highlighted() -> None:
    body = {"query": QUERY, "highlight": {"fields": {"text": {}}}, "collapse": {"field": "n"}}
    result = rewritten(body, replace(SESSION, vector=None, mask=None))
    assert added_word_queries(result.body["query"])
    assert result.body["highlight"] == {"highlight_query": QUERY, "fields": {"text": {}}}


@pytest.mark.parametrize("vector", [None, VECTOR])
def test_a_range_of_numbers_is_not_highlighted(vector: Any) -> None:
    """The plain highlighter of OpenSearch 3 fails at a range that is not the whole query."""
    types = [{"n": "integer", "tag": "keyword"}]
    knowledge = replace(SESSION, vector=vector, fields=(), field_types=types)
    for field, highlighted in (("n", {"match_all": {}}), ("tag", {"range": {"tag": {"gte": "2"}}})):
        body = {"query": {"range": {field: {"gte": "2"}}}, "highlight": {"fields": {"text": {}}}}
        result = rewritten(body, knowledge).body
        if field == "n":
            assert result["highlight"]["highlight_query"] == highlighted
        else:
            assert result["highlight"] == body["highlight"]


def test_an_index_without_vectors_uses_expansion_words_only() -> None:
    wordy = replace(SESSION, vector=None, mask=None, unaffected={})
    result = rewritten({"query": QUERY}, wordy, alpha=1, knn=5)
    assert result.outcome is Outcome.REWRITTEN
    assert result.body["query"] == {"bool": {"must": [QUERY], "filter": [NAMED]}}
    ((mode, words),) = rescore_stages(result)
    assert (mode, added_word_queries(words)) == ("total", list(TERMS))
    widened = rewritten({"query": QUERY}, wordy, alpha=1, knn=5, widen=True)
    assert clauses_of(widened.body, "knn") == []
    # each word once: the strongest as alternatives of the query, the others in the rescore stage
    assert (
        added_word_queries(widened.body["query"]["bool"]["must"][0]["bool"]["should"][1:])
        == list(TERMS)[:WIDENING_WORDS]
    )
    assert added_word_queries(rescore_stages(widened)) == list(TERMS)[WIDENING_WORDS:]
    assert rewritten({"query": QUERY}, replace(PLAIN, vector=None)).outcome is Outcome.NOTHING_TO_ADD


def test_without_vectors_words_are_searched_in_the_fields_of_the_query() -> None:
    for query, fields in ((QUERY, ["text"]), ({"term": {"n": 1}}, FIELDS)):
        result = rewritten({"query": query}, replace(SESSION, vector=None, mask=None, unaffected={}))
        assert {tuple(clause["fields"]) for clause in added_word_clauses(rescore_stages(result))} == {tuple(fields)}


@pytest.mark.parametrize("vector", [None, VECTOR])
@pytest.mark.parametrize("more", [{}, {"collapse": {"field": "n"}}])
@pytest.mark.parametrize("factor", [100, 0.0001])
def test_expansion_words_have_the_constant_factors_of_the_text(
    vector: Any, more: dict[str, Any], factor: float
) -> None:
    knowledge = replace(SESSION, vector=vector, mask=None, unaffected={})
    plain = rewritten({"query": QUERY, **more}, knowledge)
    scaled = rewritten({"query": {"function_score": {"query": QUERY, "weight": factor}}, **more}, knowledge)
    added, expected = ([clause["boost"] for clause in added_word_clauses(each.body)] for each in (scaled, plain))
    assert len(added) == len(TERMS)
    assert added == pytest.approx([boost * factor for boost in expected], rel=1e-3)


@pytest.mark.parametrize("more", [{}, {"collapse": {"field": "n"}}])
def test_with_vectors_all_boosts_of_a_text_scale_the_expansion_words(more: dict[str, Any]) -> None:
    knowledge = replace(SESSION, mask=None, unaffected={})

    def first_word_boost(query: dict[str, Any]) -> float:
        clauses = added_word_clauses(rewritten({"query": query, **more}, knowledge).body)
        (boost,) = (clause["boost"] for clause in clauses if clause["query"] == "word1")
        return float(boost)

    text = {"query": "bush fire"}
    for query in (
        {"match": {"text": {**text, "boost": 5}}},
        {"multi_match": {**text, "fields": ["text"], "boost": 5}},
        {"multi_match": {**text, "fields": ["text^5"]}},
        {"bool": {"must": [QUERY], "boost": 5}},
    ):
        assert first_word_boost(query) == pytest.approx(5 * first_word_boost(QUERY), rel=1e-3)


@pytest.mark.parametrize("vector", [None, VECTOR])
@pytest.mark.parametrize("more", [{}, {"collapse": {"field": "n"}}])
def test_an_order_by_functions_alone_stays(vector: Any, more: dict[str, Any]) -> None:
    newest = {"gauss": {"day": {"origin": "now", "scale": "7d"}}, "boost_mode": "replace"}
    body = {"query": {"function_score": {"query": QUERY, **newest}}, **more}
    knowledge = replace(SESSION, vector=vector, unaffected={})
    result = rewritten(body, knowledge)
    assert result.body is body
    assert result.outcome is (Outcome.COLLAPSED if more else Outcome.SCORES_REPLACED)
    hidden = rewritten(body, knowledge, judged="hide").body
    assert hidden["query"]["bool"]["must"] == [body["query"]]
    assert "rescore" not in hidden


@pytest.mark.parametrize("slice", [{}, {"slice": {"id": 0, "max": 2}}])
def test_words_are_part_of_the_query_of_a_scroll(slice: dict[str, Any]) -> None:
    body, lexical = {"query": QUERY, **slice}, replace(SESSION, vector=None, mask=None, unaffected={})
    result = rewritten(body, lexical, scroll=not slice)
    assert "rescore" not in result.body
    assert added_word_queries(result.body["query"]) == list(TERMS)
    # with vectors, a slice is left alone, and so is the similarity in a scroll
    with_vectors = rewritten(body, SESSION, scroll=not slice)
    assert with_vectors.outcome is Outcome.SLICED
    assert "rescore" not in with_vectors.body


def knowledge_with(grade: float) -> Knowledge:
    """Return the knowledge of a session with a single judgement, which has this grade."""
    documents = [JudgedDocument(Judgement("i", "bad", grade), VECTOR, "")]
    feedback = Feedback.learn(np.zeros((0, 3), np.float32), VECTOR[None], grades=[grade])
    return Knowledge(text="bush fire", fields=FIELDS, judged=(("i", "bad"),), documents=documents, feedback=feedback)


@pytest.mark.parametrize(("grade", "factor"), [(-1.0, 0.001), (-0.5, 0.001), (-0.25, 0.8)])
def test_a_document_that_is_marked_irrelevant_sinks_and_a_skipped_one_loses_score(grade: float, factor: float) -> None:
    known, bad = knowledge_with(grade), {"ids": {"values": ["bad"]}}
    rescored = rewritten({"query": QUERY}, known)
    fixed = {"constant_score": {"filter": bad, "boost": pytest.approx(factor, rel=1e-6)}}
    assert rescore_stages(rescored) == [("multiply", fixed)]
    for more in ({"collapse": {"field": "n"}}, {"search_after": [1.0], "sort": ["_score", "n"]}):
        (inner,) = rewritten({"query": QUERY, **more}, known).body["query"]["bool"]["must"]
        assert inner["function_score"]["functions"] == [{"filter": bad, "weight": factor}]
    # with vectors, the similarity moves a skipped hit down, and no longer counts for a document that sinks
    ((_, factors),) = rescore_stages(rewritten({"query": QUERY}, replace(known, vector=VECTOR)))
    if grade > -0.5:
        assert factors["function_score"]["query"] == {"match_all": {}}
    else:
        similarity, sinking = factors["bool"]["should"]
        assert (similarity["function_score"]["query"], sinking) == ({"bool": {"must_not": [bad]}}, fixed)
    # min_score applies to the score of the query itself, which rescoring does not change
    by_score = {"query": QUERY, "min_score": 1}
    assert rescore_stages(rewritten(by_score, known)) == rescore_stages(rescored)
    grouped = {**by_score, "collapse": {"field": "n"}}
    assert rewritten(grouped, known).body == grouped


@pytest.mark.parametrize(("text", "length"), [("bush fire", 2**0.5), ("fire, bush fire", 5**0.5)])  # of its words
def test_a_query_that_is_not_widened_is_rescored_with_all_expansion_words(text: str, length: float) -> None:
    result = rewritten({"query": QUERY}, replace(SESSION, text=text, unaffected={}))
    assert result.body["query"] == {"bool": {"must": [QUERY], "filter": [NAMED]}}
    (mode, words), (_, similarity) = rescore_stages(result)
    assert mode == "total"
    settings = {"fields": FIELDS, "lenient": True}
    expected = [
        {"multi_match": {"query": word, **settings, "boost": pytest.approx(weight * length, abs=1e-4)}}
        for word, weight in TERMS.items()
    ]
    assert words == {"bool": {"should": expected}}
    assert set(similarity) == {"function_score"}
    assert [stage["window_size"] for stage in result.body["rescore"]] == [100, 100]


def test_a_widened_query_matches_the_strongest_expansion_words() -> None:
    result = rewritten({"query": QUERY}, replace(SESSION, unaffected={}), widen=True)
    outer = result.body["query"]["bool"]
    assert (set(outer), outer["filter"]) == ({"must", "filter"}, [NAMED])
    query = outer["must"][0]["bool"]
    assert set(query) == {"should", "minimum_should_match"}
    assert query["minimum_should_match"] == 1
    assert query["should"][0] == QUERY
    assert added_word_queries(query) == list(TERMS)[:WIDENING_WORDS]
    assert added_word_queries(rescore_stages(result)[0]) == list(TERMS)[WIDENING_WORDS:]
    without = rewritten({"query": QUERY}, PLAIN, widen=True)
    assert without.body["query"] == {"bool": {"must": [QUERY], "filter": [NAMED]}}


def test_expansion_words_find_no_documents_for_a_query_that_finds_enough() -> None:
    knowledge = replace(SESSION, unaffected={}, has_enough_hits=True)
    found = rewritten({"query": QUERY}, knowledge, widen=True)
    query = found.body["query"]["bool"]
    assert (query["must"], query["filter"]) == ([QUERY], [NAMED])
    assert "minimum_should_match" not in query
    assert added_word_queries(query) == list(TERMS)[:WIDENING_WORDS]
    assert added_word_queries(rescore_stages(found)[0]) == list(TERMS)[WIDENING_WORDS:]
    # approximate k-NN, which the caller requests, finds documents all the same, but the words do not
    query = rewritten({"query": QUERY}, knowledge, widen=True, knn=5).body["query"]["bool"]
    own, nearest = query["must"][0]["bool"]["should"]
    assert (own, set(nearest)) == (QUERY, {"knn"})
    assert added_word_queries(query["should"]) == list(TERMS)[:WIDENING_WORDS]


@pytest.mark.parametrize(
    ("query", "conditions"),
    [
        (QUERY, {}),
        ({"bool": {"must": QUERY}}, {}),
        (
            {"bool": {"must": [QUERY], "filter": {"term": {"n": 1}}, "must_not": [{"term": {"n": 2}}]}},
            {"filter": [{"term": {"n": 1}}], "must_not": [{"term": {"n": 2}}]},
        ),
        (  # as OpenSearch writes it to a pipeline
            {"bool": {"must": [QUERY], "filter": [{"term": {"n": 1}}], "adjust_pure_negative": True, "boost": 1.0}},
            {"filter": [{"term": {"n": 1}}]},
        ),
    ],
)
def test_a_widened_query_keeps_its_conditions(query: dict[str, Any], conditions: dict[str, Any]) -> None:
    result = rewritten({"query": query}, SESSION, widen=True, knn=9).body["query"]["bool"]
    assert result["filter"].pop() == NAMED
    assert {name: result[name] for name in result if name in ("filter", "must_not") and result[name]} == conditions
    assert result["must"][0]["bool"]["should"][0] == QUERY
    (nearest,) = clauses_of(result, "knn")
    clause = nearest[VECTOR_FIELD]
    assert clause["k"] == 9
    assert clause["ignore_unmapped"] is True
    assert clause["vector"] == pytest.approx((MASK**2 * VECTOR).tolist())
    if conditions:
        assert clause["filter"] == {"bool": {"filter": [], "must_not": [], **conditions}}
    else:
        assert "filter" not in clause


@pytest.mark.parametrize(
    "query",
    [
        {"match_all": {}},
        {"bool": {"must": [QUERY], "should": [{"term": {"n": 1}}]}},
        {"bool": {"must": [QUERY], "boost": 2.0}},
        {"bool": {"must": [QUERY, QUERY]}},
        {"bool": {"filter": [QUERY]}},
        {"bool": {}},
        {"function_score": {"query": QUERY}},
    ],
)
def test_queries_with_other_scores_are_not_widened(query: dict[str, Any]) -> None:
    result = rewritten({"query": query}, SESSION, widen=True, knn=9)
    assert result.body["query"] == {"bool": {"must": [query], "filter": [NAMED]}}
    assert added_word_queries(rescore_stages(result)[0]) == list(TERMS)


def test_min_score_applies_to_the_original_score() -> None:
    result = rewritten({"query": QUERY, "min_score": 2}, SESSION, widen=True, knn=9)
    assert result.body["query"] == {"bool": {"must": [QUERY], "filter": [NAMED]}}
    assert result.body["min_score"] == 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"query": QUERY, "size": 0}, "no hits are requested"),
        ({"query": QUERY, "slice": {"id": 0, "max": 2}}, "OpenSearch does not rescore a scroll"),
        ({"suggest": {"s": {"text": "x", "term": {"field": "text"}}}}, "there is no query"),
        ({"query": {"bool": {"must": [QUERY], "filter": [NAMED]}}}, "the query is rewritten already"),
        # as OpenSearch hands it on
        (
            {"query": {"bool": {"filter": [{"match_all": {"boost": 1.0, "_name": REWRITTEN_NAME}}]}}},
            "the query is rewritten already",
        ),
        ({"query": None}, "the query is malformed"),
        ({"query": {}}, "the query is malformed"),
        ({"query": []}, "the query is malformed"),
        ({"query": "fire"}, "the query is malformed"),
        ({"query": {"match": {"text": "a"}, "term": {"n": 1}}}, "the query is malformed"),
    ],
)
@pytest.mark.parametrize("judged", ["keep", "hide", "demote"])
def test_bodies_that_cannot_be_rewritten_stay_unchanged(body: dict[str, Any], reason: str, judged: str) -> None:
    result = rewritten(body, SESSION, widen=True, knn=5, judged=judged)
    assert result.body is body
    assert (result.reason, result.ranks_by_text_scores, result.has_resift_scores) == (reason, False, False)


@pytest.mark.parametrize(
    "more",
    [{"sort": [{"n": "desc"}]}, {"sort": "n"}, {"search_after": [1], "sort": ["n"]}, {"sort": [{"_score": "asc"}]}],
)
@pytest.mark.parametrize("widen", [False, True])
def test_sorted_searches_change_only_by_hidden_documents(more: dict[str, Any], widen: bool) -> None:
    body = {"query": QUERY, **more}
    result = rewritten(body, widen=widen)
    assert result.body is body
    assert result.outcome in (Outcome.SORTED, Outcome.SEARCH_AFTER)
    hidden = rewritten(body, widen=widen, judged="hide")
    excluded = [{"ids": {"values": ["k", "j"]}}]
    assert hidden.body == {**body, "query": {"bool": {"must": [QUERY], "must_not": excluded, "filter": [NAMED]}}}


def test_expansion_words_choose_the_best_hit_of_a_group() -> None:
    body = {"query": QUERY, "collapse": {"field": "n"}}
    result = rewritten(body, replace(SESSION, unaffected={}))
    assert result.outcome is Outcome.COLLAPSED
    assert "rescore" not in result.body
    query = result.body["query"]["bool"]
    assert (query["must"], added_word_queries(query["should"])) == ([QUERY], list(TERMS))
    for more in ({"sort": "n"}, {"min_score": 1}):
        assert rewritten({**body, **more}, replace(SESSION, unaffected={})).body == {**body, **more}


@pytest.mark.parametrize("more", [{}, {"search_after": [1.5, 3]}])
def test_expansion_words_count_on_each_page_sorted_by_score(more: dict[str, Any]) -> None:
    body = {"query": QUERY, "sort": [{"_score": "desc"}, {"n": "asc"}], **more}
    result = rewritten(body, replace(SESSION, unaffected={}))
    assert result.outcome in (Outcome.SORTED, Outcome.SEARCH_AFTER)
    assert {**result.body, "query": QUERY} == body
    assert added_word_queries(result.body["query"]["bool"]["should"]) == list(TERMS)


def test_judged_documents_keep_their_positions_among_groups() -> None:
    body = {"query": QUERY, "collapse": {"field": "n"}}
    unaffected = {"filter": {"ids": {"values": ["k"]}}, "weight": SESSION.word_gain_factor}
    must = rewritten(body).body["query"]["bool"]["must"]
    assert must == [{"function_score": {"query": QUERY, "functions": [unaffected]}}]
    hidden = rewritten(body, replace(SESSION, expansion_words={}), judged="hide").body["query"]["bool"]
    assert hidden["must"] == rewritten(body, judged="demote").body["query"]["bool"]["must"] == [QUERY]


@pytest.mark.parametrize(
    ("more", "scroll"), [({"collapse": {"field": "n"}}, False), ({"search_after": [1.5]}, False), ({}, True)]
)
@pytest.mark.parametrize("vector", [None, VECTOR])
def test_irrelevant_documents_that_cannot_be_demoted_sink_as_with_keep(
    more: dict[str, Any], scroll: bool, vector: Any
) -> None:
    body, knowledge = {"query": QUERY, **more}, replace(knowledge_with(-1), vector=vector)
    kept = rewritten(body, knowledge, scroll=scroll)
    demoted = rewritten(body, knowledge, scroll=scroll, judged="demote")
    assert "0.001" in json.dumps(kept.body)
    assert demoted.body == kept.body
    assert Outcome.NOT_DEMOTED in [note.outcome for note in demoted.notes]
    assert Outcome.NOT_DEMOTED not in [note.outcome for note in kept.notes]


@pytest.mark.parametrize("sort", [[], None, "_score", ["_score"], [{"_score": "desc"}], {"_score": {"order": "desc"}}])
def test_hits_sorted_by_scores_are_rescored(sort: Any) -> None:
    assert rewritten({"query": QUERY, "sort": sort}).has_resift_scores


@pytest.mark.parametrize("sort", [["_score", "_score"], ["_score", "n"], [{"_score": "asc"}], ["_doc"], {"a": 1}, [[]]])
def test_hits_sorted_by_more_than_scores_are_not_rescored(sort: Any) -> None:
    assert rewritten({"query": QUERY, "sort": sort}).outcome is Outcome.SORTED


@pytest.mark.parametrize("as_list", [False, True])
def test_the_callers_own_rescoring_comes_first(as_list: bool) -> None:
    own = {"window_size": 5, "query": {"rescore_query": {"term": {"n": 1}}}}
    result = rewritten({"query": QUERY, "rescore": [own] if as_list else own})
    assert result.body["rescore"][0] == own
    assert len(result.body["rescore"]) == 3
    for nothing in (None, []):
        assert len(rewritten({"query": QUERY, "rescore": nothing}).body["rescore"]) == 2


def test_judged_documents_keep_their_position_without_the_session() -> None:
    for alpha in (0.5, 0):
        knowledge = SESSION
        result = rewritten({"query": QUERY}, knowledge, widen=True, alpha=alpha)
        beta = 1.0 if alpha else 0.0
        others = [{"ids": {"values": ["k"]}}]
        alternatives = result.body["query"]["bool"]["must"][0]["bool"]["should"][1]["bool"]
        (_, words), (mode, factors) = rescore_stages(result)
        for part in (alternatives, words["bool"]["should"][0]["bool"]):
            assert part["must_not"] == others
            assert added_word_queries(part)
        share = 1 + sum(weight**2 for weight in TERMS.values()) ** 0.5
        fixed = {"filter": {"ids": {"values": ["k"]}}, "boost": pytest.approx(share * np.exp(beta * 1.5), rel=1e-6)}
        *similarity, own = factors["bool"]["should"] if beta else [factors]
        assert (mode, own) == ("multiply", {"constant_score": fixed})
        assert [item["function_score"]["query"] for item in similarity] == [{"bool": {"must_not": others}}] * bool(beta)


def test_documents_judged_for_other_queries_get_no_word_scores_without_vectors() -> None:
    for widen in (False, True):
        result = rewritten({"query": QUERY}, replace(SESSION, vector=None, mask=None), widen=widen)
        lists = [clause for clause in clauses_of(result.body, "bool") if added_word_queries(clause.get("should", []))]
        wordy = [clause for clause in lists if len(added_word_queries(clause["should"])) == len(clause["should"])]
        assert wordy
        assert all("k" in clause["must_not"][0]["ids"]["values"] for clause in wordy)


def test_judged_documents_may_be_hidden_or_come_last() -> None:
    excluded = [{"ids": {"values": ["k", "j"]}}]
    for widen in (False, True):
        hidden = rewritten({"query": QUERY}, judged="hide", widen=widen)
        assert hidden.body["query"]["bool"]["must_not"] == excluded
        assert clauses_of(hidden.body["rescore"], "must_not") == []
    alone = rewritten({"query": QUERY}, replace(PLAIN, judged=JUDGED), judged="hide", alpha=0)
    assert alone.body == {"query": {"bool": {"must": [QUERY], "must_not": excluded, "filter": [NAMED]}}}
    assert alone.outcome is Outcome.REWRITTEN
    demoted = rewritten({"query": QUERY}, judged="demote")
    assert "must_not" not in demoted.body["query"]["bool"]
    *_, (mode, clause) = rescore_stages(demoted)
    assert (mode, clause["constant_score"]["boost"]) == ("multiply", NOT_DEMOTED_FACTOR)
    assert clause["constant_score"]["filter"] == {"bool": {"must_not": excluded}}


@pytest.mark.parametrize("fields", [1, 3, 18, 60, 250, 1000, 5000])
@pytest.mark.parametrize("words", [1, 20, 200])
def test_no_query_has_more_clauses_than_opensearch_takes(fields: int, words: int) -> None:
    names = [f"f{number}" for number in range(fields)]
    terms = {f"word{rank}": 1.0 for rank in range(60)}
    text = " ".join(f"own{number}" for number in range(words))
    knowledge = replace(SESSION, text=text, expansion_words=terms, fields=names)
    query = {"multi_match": {"query": text, "fields": names}}
    for body in ({"query": query}, {"query": query, "collapse": {"field": "n"}}):
        result = rewrite(parse(body), knowledge, structs.replace(OPTIONS, widen=True))
        added = len(added_word_clauses(result.body["query"])) - len(added_word_queries(body["query"]))
        assert added == 0 or (added + words) * fields <= 1000
        for rescoring in result.body.get("rescore", []):
            assert len(added_word_clauses(rescoring)) * fields <= 1000


@pytest.mark.parametrize("fields", [1, 8, 20, 40, 300])
@pytest.mark.parametrize("kind", ["plain", "collapse", "hybrid", "widened"])
@pytest.mark.parametrize("vector", [SESSION.vector, None])
def test_words_that_analyzers_split_stay_within_the_clause_limit(fields: int, kind: str, vector: Any) -> None:
    names = [f"f{number}" for number in range(fields)]
    # Analyzers split pairs of Han characters, and the analyzer "cjk" also splits runs of Katakana.
    terms = dict.fromkeys(("像処", "データベースサーバー", *(f"画{chr(0x4E00 + rank)}" for rank in range(23))), 1.0)
    near = {"画": {f"other{rank}": 0.5 for rank in range(24)}} if kind == "widened" else {}
    knowledge = replace(
        SESSION,
        vector=vector,
        text="画",
        expansion_words=terms,
        related_words=near,
        fields=names,
        has_enough_hits=False,
    )
    query: dict[str, Any] = {"multi_match": {"query": "画", "fields": names}}
    body = {"query": {"hybrid": {"queries": [query]}} if kind == "hybrid" else query}
    result = rewritten(body | ({"collapse": {"field": "n"}} if kind == "collapse" else {}), knowledge, widen=True)
    assert "画" in str(result.body)
    rescoring = [stage["query"]["rescore_query"] for stage in result.body.get("rescore", [])]
    for clause in (result.body["query"], *rescoring):
        assert ClauseCounter().count_clauses(parse({"query": clause}).root) <= MAX_ENGINE_CLAUSES


@pytest.mark.parametrize(
    "more", [{}, {"sort": ["n"]}, {"collapse": {"field": "n"}}, {"ext": {"resift": {"scroll": True}}}]
)
@pytest.mark.parametrize("words", [{}, TERMS])
@pytest.mark.parametrize("is_hybrid", [False, True])
def test_judged_documents_that_cannot_be_hidden_in_a_large_query_are_reported(
    more: dict[str, Any], words: dict[str, float], is_hybrid: bool
) -> None:
    query = {"bool": {"should": [{"match": {"text": f"a{n} b{n} c{n}"}} for n in range(400)]}}
    body = {"query": {"hybrid": {"queries": [query]}} if is_hybrid else query, **more}
    knowledge = Knowledge(text="fire", fields=FIELDS, judged=(("i", "k"),), expansion_words=words)
    result = rewritten(body, knowledge, judged="hide", scroll="ext" in more)
    assert result.body["query"] == body["query"]
    assert Outcome.TOO_MANY_CLAUSES.english in result.reason
    if more and not is_hybrid and not words:
        assert result.outcome.english in result.reason, "the reason of the outcome is not replaced"


CLAUSES = st.recursive(
    st.sampled_from(
        [QUERY, {"match_all": {}}, {"term": {"n": 1}}, {"multi_match": {"query": "fire", "fields": ["a"]}}]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "must": st.one_of(inner, st.lists(inner, max_size=2)),
            "should": st.lists(inner, max_size=2),
            "filter": st.lists(inner, max_size=2),
            "must_not": inner,
            "boost": st.sampled_from([1.0, 2.0]),
        },
    ).map(lambda body: {"bool": body}),
    max_leaves=4,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "query": CLAUSES | VALUES,
        "rescore": st.sampled_from([None, [], {"window_size": 2, "query": {"rescore_query": QUERY}}]),
        "sort": st.sampled_from([None, "_score", ["n"], ["_score", "n"]]) | VALUES,
        "collapse": st.just({"field": "n"}),
        "search_after": st.just([1]),
        "suggest": VALUES,
        "min_score": st.just(1.5),
        "size": st.sampled_from([0, 3]),
        "aggs": VALUES,
        "_source": VALUES,
        "ext": VALUES,
    },
)
KNOWLEDGE = st.builds(
    Knowledge,
    text=st.sampled_from(["", "fire", "bush fire fire"]),
    vector=st.sampled_from([None, VECTOR]),
    similarity=st.sampled_from(["cosine", "jaccard"]),
    mask=st.sampled_from([None, MASK]),
    fields=st.just(FIELDS),
    expansion_words=st.sampled_from([{}, {"flame": 0.5}, TERMS]),
    unaffected=st.sampled_from([{}, {("i", "k"): 0.5}]),
    judged=st.sampled_from([(), JUDGED]),
)
CHOSEN = st.builds(
    Options,
    alpha=st.sampled_from([0, 0.3, 1]),
    window=st.sampled_from([1, 100]),
    widen=st.booleans(),
    knn=st.sampled_from([0, 3]),
    judged=st.sampled_from(["keep", "demote", "hide"]),
)


@settings(max_examples=400, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(BODIES, KNOWLEDGE, CHOSEN)
def test_only_query_and_rescoring_change_and_only_once(
    body: dict[str, Any], knowledge: Knowledge, chosen: Options
) -> None:
    before = copy.deepcopy(body)
    result = rewrite(parse(body), knowledge, chosen)
    assert body == before
    json.dumps(result.body, allow_nan=False)
    changed = {name for name in {*body, *result.body} if name not in body or result.body.get(name) != body[name]}
    assert changed <= {"query", "rescore"}
    if "rescore" in changed:
        assert result.has_resift_scores or result.in_place
    again = rewrite(parse(result.body), knowledge, chosen)
    assert again.body == result.body
    # what a body matches without being widened is what its own query does
    if changed and not chosen.widen:
        (clause,) = result.body["query"]["bool"]["must"]
        # among groups documents keep their places by a function of the query's own score
        own = clause["function_score"]["query"] if "rescore" not in changed and "function_score" in clause else clause
        # words alone are alternatives of the query, which find nothing by themselves
        if result.in_place and own != body.get("query") and knowledge.expansion_words:
            (own,) = own["bool"]["must"]
        assert own == body.get("query", {"match_all": {}})


def test_function_words_do_not_change_the_weight_of_expansion_words() -> None:
    plain = rewritten({"query": QUERY}, replace(SESSION, unaffected={}))
    wordy = rewritten({"query": QUERY}, replace(SESSION, unaffected={}, text="the fire is in the bush"))
    assert rescore_stages(plain) == rescore_stages(wordy)
    nothing, single = (
        rewritten({"query": QUERY}, replace(SESSION, unaffected={}, text=text)) for text in ("the of", "bush")
    )
    assert rescore_stages(nothing) == rescore_stages(single)


def test_factors_of_scores_are_never_below_1() -> None:
    def factors(similarity: str, *values: float) -> list[float]:
        unaffected = {("i", str(number)): value for number, value in enumerate(values)}
        known = Knowledge(text="fire", vector=VECTOR, similarity=similarity, unaffected=unaffected)
        return [rank_keeping_factor(known, document, 2) for document in known.unaffected]

    cosines = factors("cosine", -1.0000001, -1, 0, 0.5)
    assert cosines == pytest.approx([1, 1, np.exp(2), np.exp(3)])
    assert cosines[0] == 1
    assert factors("jaccard", 0, 0.5) == pytest.approx([1, np.e])
