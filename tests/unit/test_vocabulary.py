"""Other words: which words of an index are near to a query's, and when its own find enough."""

from __future__ import annotations

import numpy as np
import pytest

from resift.query.dsl import Body
from resift.rewriting.clauses import WIDENED
from resift.rewriting.request import RewriteSettings
from resift.rewriting.rewrite import rewrite
from resift.sessions.knowledge import Knowledge
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
    """The packaged word vectors."""
    return load_vectors()


def test_what_finds_nothing_gets_the_nearest_words_of_the_index(table: WordVectors) -> None:
    near = Vocabulary(DOCUMENTS, 80, stems=True, table=table).other_words("the billing of 2026")
    assert list(near) == ["billing"], "neither stop words nor numbers"
    assert {"invoice", "fee"} <= set(near["billing"]) <= {word for document in DOCUMENTS for word in document}
    weights = list(near["billing"].values())
    assert all(0 < weight < 1 for weight in weights)
    assert len(near["billing"]) <= MAX_NEAREST
    assert len({"charged", "charges", "charge"} & set(near["billing"])) <= 1, "to the index they are one word"


def test_what_finds_hardly_enough_gets_words_that_weigh_less(table: WordVectors) -> None:
    others = ("fee", "payment", "bank", "charge", "customer", "account", "price", "cost")
    vocabulary = Vocabulary([("invoice",)] * 4 + [others] * 76, 80, stems=True, table=table)
    weak, strong = (vocabulary.other_words(text)["billing"] for text in ("billing invoice", "billing"))
    assert 0 < len(weak) <= len(strong) == MAX_NEAREST
    assert max(weak.values()) == pytest.approx(max(strong.values()) * WEAK_WEIGHT / STRONG_WEIGHT)


def test_inflections_are_other_words_where_the_index_does_not_stem(table: WordVectors) -> None:
    documents = [("charges",), *[("weather",)] * 79]
    assert Vocabulary(documents, 80, stems=True, table=table).other_words("charge") == {}
    assert "charges" in Vocabulary(documents, 80, stems=False, table=table).other_words("charge")["charge"]
    assert inflected_pairs(DOCUMENTS) == [("charged", "charges"), ("charged", "charge")]


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("charged", 80),  # one of two documents has it
        ("invoice", 80_000),  # a quarter of the sample stands for more than thirty documents
        (" ".join(["charge", "fee", *(f"unknown{'x' * n}" for n in range(MAX_QUERY_WORDS))]), 80),
        ("zzzzz 12345 the", 80),
        ("", 80),
    ],
)
def test_what_finds_enough_or_is_unknown_stays_as_it_is(table: WordVectors, text: str, total: int) -> None:
    assert Vocabulary(DOCUMENTS, total, stems=True, table=table).other_words(text) == {}


def test_an_index_without_words_has_no_other_ones(table: WordVectors) -> None:
    assert Vocabulary([], 0, stems=True, table=table).other_words("billing") == {}
    assert Vocabulary([("日本", "42")], 1, stems=False, table=table).other_words("billing") == {}


KNOWN = Knowledge("billing", None, other_words={"billing": {"invoice": 0.5, "charged": 0.4}})


def widened(body: Body, **settings: bool) -> list[str]:
    """The words that a body is widened by."""
    found = rewrite(body, ["text"], KNOWN, RewriteSettings(0.5, 100, **{"widen": True, **settings}))
    assert bool(found.widened) == (WIDENED in str(found.body)), "it says so if it is so"
    return list(found.widened)


def test_only_a_query_that_may_be_widened_is() -> None:
    match = {"match": {"text": "billing"}}
    assert widened({"query": match}) == ["invoice", "charged"]
    assert widened({"query": {"bool": {"must": [match], "filter": [{"term": {"n": 1}}]}}}) == ["invoice", "charged"]
    assert widened({"query": match}, widen=False) == []
    assert widened({"query": match, "min_score": 1}) == []
    assert widened({"query": match, "sort": [{"n": "asc"}]}) == []
    assert widened({"query": {"bool": {"must": [match, {"term": {"n": 1}}]}}}) == []


def test_the_best_of_the_other_words_counts_where_the_word_itself_is_missing() -> None:
    body = rewrite(
        {"query": {"match": {"text": "billing"}}}, ["text"], KNOWN, RewriteSettings(0.5, 100, widen=True)
    ).body
    (_, clause, told) = body["query"]["bool"]["must"][0]["bool"]["must"][0]["bool"]["should"]
    boosts = [one["match"]["text"]["boost"] for one in clause["bool"]["must"][0]["dis_max"]["queries"]]
    assert boosts == [0.5, 0.4]
    assert clause["bool"]["must_not"][0]["match"]["text"]["query"] == "billing"
    assert told["bool"]["must"] == [{"bool": {"must_not": [{"match": {"text": "billing"}}], "_name": WIDENED}}]


def test_many_fields_leave_room_for_few_words() -> None:
    near = {f"word{n}": dict.fromkeys((f"other{m}" for m in range(24)), 0.5) for n in range(16)}
    known = Knowledge(" ".join(near), None, other_words=near)
    query = {"match": {"text": known.text}}
    found = rewrite({"query": query}, [f"f{n}" for n in range(20)], known, RewriteSettings(0.5, 100, widen=True))
    assert str(found.body).count("multi_match") * 20 <= 1024
    assert np.isfinite(len(found.widened))
