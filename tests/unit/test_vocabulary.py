"""Tests of related words: which words of an index are chosen, and for which queries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resift.query.body import parse
from resift.query.clause_count import MAX_ENGINE_CLAUSES, ClauseCounter
from resift.query.dsl import Body
from resift.rewriting.clauses import WIDENED_NAME
from resift.rewriting.knowledge import Knowledge
from resift.rewriting.options import Options
from resift.rewriting.rewrite import rewrite
from resift.vectors.packaged import load_vectors
from resift.vectors.table import WordVectors
from resift.vectors.vocabulary import (
    MAX_NEAREST,
    MAX_QUERY_WORDS,
    STRONG_WEIGHT,
    WEAK_WEIGHT,
    Vocabulary,
    inflected_pairs,
)

DOCUMENTS = [
    ("charged", "twice", "card"),
    ("charges", "charge", "fee"),
    ("charged", "invoice"),
    ("crash", "login"),
] * 20


@pytest.fixture(scope="module")
def table() -> WordVectors:
    """Return the packaged word vectors."""
    return load_vectors()


def test_a_query_without_matches_gets_the_nearest_words_of_the_index(table: WordVectors) -> None:
    near = Vocabulary(DOCUMENTS, 80, stems=True, table=table).related_words("the billing of 2026")
    assert list(near) == ["billing"], "stop words and numbers have no related words"
    assert {"invoice", "fee"} <= set(near["billing"]) <= {word for document in DOCUMENTS for word in document}
    weights = list(near["billing"].values())
    assert all(0 < weight < 1 for weight in weights)
    assert len(near["billing"]) <= MAX_NEAREST
    assert len({"charged", "charges", "charge"} & set(near["billing"])) <= 1, "the index treats them as the same word"


def test_a_query_with_some_matches_gets_related_words_of_lower_weight(table: WordVectors) -> None:
    other_words = ("fee", "payment", "bank", "charge", "customer", "account", "price", "cost")
    vocabulary = Vocabulary([("invoice",)] * 4 + [other_words] * 76, 80, stems=True, table=table)
    weak, strong = (vocabulary.related_words(text)["billing"] for text in ("billing invoice", "billing"))
    assert 0 < len(weak) <= len(strong) == MAX_NEAREST
    assert max(weak.values()) == pytest.approx(max(strong.values()) * WEAK_WEIGHT / STRONG_WEIGHT)


def test_inflected_forms_are_related_words_if_the_index_does_not_stem(table: WordVectors) -> None:
    documents = [("charges",), *[("weather",)] * 79]
    assert Vocabulary(documents, 80, stems=True, table=table).related_words("charge") == {}
    assert "charges" in Vocabulary(documents, 80, stems=False, table=table).related_words("charge")["charge"]
    assert inflected_pairs(DOCUMENTS) == [("charged", "charges"), ("charged", "charge")]


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("charged", 80),  # half of the documents contain it
        ("invoice", 80_000),  # a quarter of the sample stands for far more than ten documents
        (" ".join(["charge", "fee", *(f"unknown{'x' * n}" for n in range(MAX_QUERY_WORDS))]), 80),
        ("zzzzz 12345 the", 80),
        ("", 80),
    ],
)
def test_matching_or_unknown_queries_get_no_related_words(table: WordVectors, text: str, total: int) -> None:
    assert Vocabulary(DOCUMENTS, total, stems=True, table=table).related_words(text) == {}


def test_an_index_without_content_words_gives_no_related_words(table: WordVectors) -> None:
    assert Vocabulary([], 0, stems=True, table=table).related_words("billing") == {}
    assert Vocabulary([("日本", "42")], 1, stems=False, table=table).related_words("billing") == {}


KNOWN = Knowledge(text="billing", fields=("text",), related_words={"billing": {"invoice": 0.5, "charged": 0.4}})


def widened(body: Body, **settings: bool) -> list[str]:
    """Return the related words that rewriting adds to a body."""
    rewritten = rewrite(parse(body), KNOWN, Options(**{"alpha": 0.5, "window": 100, "widen": True, **settings}))
    assert bool(rewritten.added_related_words) == (WIDENED_NAME in str(rewritten.body)), (
        "the outcome agrees with the body"
    )
    return list(rewritten.added_related_words)


def test_related_words_are_added_only_where_widening_is_allowed() -> None:
    match = {"match": {"text": "billing"}}
    assert widened({"query": match}) == ["invoice", "charged"]
    assert widened({"query": {"bool": {"must": [match], "filter": [{"term": {"n": 1}}]}}}) == ["invoice", "charged"]
    assert widened({"query": match}, widen=False) == []
    assert widened({"query": match, "min_score": 1}) == []
    assert widened({"query": match, "sort": [{"n": "asc"}]}) == []
    assert widened({"query": {"bool": {"must": [match, {"term": {"n": 1}}]}}}) == []


def test_the_best_related_word_counts_in_documents_without_the_query_word() -> None:
    query = parse({"query": {"match": {"text": "billing"}}})
    body = rewrite(query, KNOWN, Options(alpha=0.5, window=100, widen=True)).body
    (_, clause, marker) = body["query"]["bool"]["must"][0]["bool"]["should"]
    boosts = [query["match"]["text"]["boost"] for query in clause["bool"]["must"][0]["dis_max"]["queries"]]
    assert boosts == [0.5, 0.4]
    assert clause["bool"]["must_not"][0]["match"]["text"]["query"] == "billing"
    assert marker["bool"]["must"] == [{"bool": {"must_not": [{"match": {"text": "billing"}}], "_name": WIDENED_NAME}}]


@pytest.mark.parametrize("expansion_words", [0, 25])
@pytest.mark.parametrize(
    ("fields", "words", "related"), [(20, 16, 24), (20, 10, 4), (40, 3, 8), (60, 2, 24), (1, 16, 24)]
)
def test_related_words_stay_within_the_clause_limit_for_many_fields(
    fields: int, words: int, related: int, expansion_words: int
) -> None:
    near = {f"word{n}": {f"other{n}x{m}": 0.5 for m in range(related)} for n in range(words)}
    known = Knowledge(
        text=" ".join(near),
        fields=[f"f{n}" for n in range(fields)],
        related_words=near,
        expansion_words={f"learned{n}": 1.0 for n in range(expansion_words)},
        has_enough_hits=False,
    )
    query = parse({"query": {"multi_match": {"query": known.text, "fields": known.fields}}})
    rewritten = rewrite(query, known, Options(alpha=0.5, window=100, widen=True))
    assert ClauseCounter().count_clauses(parse(rewritten.body).root) <= MAX_ENGINE_CLAUSES
    added = {word for word in str(rewritten.body["query"]).replace("'", " ").split() if word.startswith("other")}
    assert set(rewritten.added_related_words) == added, "only words that fit are reported"


def test_related_words_leave_room_for_expansion_words_in_groups() -> None:
    near = {f"word{n}": {f"other{n}x{m}": 0.5 for m in range(24)} for n in range(8)}
    known = Knowledge(
        text=" ".join(near),
        fields=[f"f{n}" for n in range(20)],
        related_words=near,
        expansion_words={f"learned{n}": 1.0 for n in range(25)},
    )
    body = {"query": {"multi_match": {"query": known.text, "fields": known.fields}}, "collapse": {"field": "n"}}
    options = Options(alpha=0.5, window=100, widen=True)
    assert (
        rewrite(parse(body), known, options).body
        == rewrite(parse(body), replace(known, related_words={}), options).body
    )
