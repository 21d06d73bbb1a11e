"""Tests of rewritten searches on both engines: rescoring, Resift's scripts, k-NN inside queries, and clause names.

The embedded engine returns the same hits in the same order as OpenSearch, with the same scores and names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from differential import BOUNDED, FIELDS, FILTERS, QUERIES, TEXTS, Twins, documents, ranking
from engine_documents import documents as five_documents
from hypothesis import given
from hypothesis import strategies as st

from resift import Model, ResiftError
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.embedded.engine import SqliteEngine
from resift.errors import UnsupportedQuery
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.dsl import VECTOR_FIELD
from resift.rewriting.similarity import script_source
from resift.vectors.similarity import SIMILARITIES

COUNT, DIM = 400, 8
SCRIPTS = {"cosine": script_source("masked_cosine"), "jaccard": script_source("fuzzy_jaccard")}


def vector_of(number: int) -> np.ndarray[Any, np.dtype[np.float32]] | None:
    """Return the vector of a document. Some vectors are missing, some are zero and some are equal."""
    if number % 9 == 0:
        return None
    if number % 13 == 0:
        return np.zeros(DIM, np.float32)
    seed = number - number % 3 if number % 7 == 0 else number
    return np.random.default_rng(seed).normal(size=DIM).astype(np.float32)


@pytest.fixture(scope="module")
def twins(cluster: OpenSearchEngine, model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    """Return an index of documents with vectors, zero vectors and no vectors, on both engines."""
    batch = [replace(document, vector=vector_of(i)) for i, document in enumerate(documents(COUNT))]
    with Twins.of(tmp_path_factory.mktemp("twins") / "engine.db", cluster, model, "english", batch) as found:
        yield found


# Use each vector only once. If two k-NN clauses differ only in k, OpenSearch counts one of them twice.
VECTORS = st.integers(0, 10**6).map(lambda seed: np.random.default_rng(1000 + seed).normal(size=DIM).tolist())
MASKS = st.one_of(
    st.none(), st.lists(st.sampled_from([0, 0.25, 1, -0.5, 1.75]), min_size=DIM, max_size=DIM), st.just([0] * DIM)
)
BETAS = st.one_of(st.none(), st.integers(0, 32), st.floats(0, 32).map(lambda beta: round(beta, 3)))
BOOSTS = st.sampled_from([0.5, 1, 3])


@st.composite
def scripted(draw: st.DrawFn, query: st.SearchStrategy[dict[str, Any]] = FILTERS) -> dict[str, Any]:
    """Return a scripted query with the name of a script, which :func:`spelt_out` replaces by its source."""
    vector = draw(st.one_of(VECTORS, VECTORS, st.just([0] * DIM)))
    params = {"field": draw(st.sampled_from([VECTOR_FIELD] * 5 + ["nothing"])), "query": vector}
    optional = {"mask": draw(MASKS), "beta": draw(BETAS)}
    params |= {name: value for name, value in optional.items() if value is not None}
    script = {"lang": "painless", "source": draw(st.sampled_from(sorted(SCRIPTS))), "params": params}
    settings = {"query": draw(query), "boost": draw(BOOSTS)}
    if draw(st.booleans()):
        return {"script_score": {**settings, "script": script}}
    return {"function_score": {**settings, "script_score": {"script": script}, "boost_mode": "replace"}}


@st.composite
def nearest(draw: st.DrawFn) -> dict[str, Any]:
    """Return a knn clause."""
    clause = {"vector": draw(VECTORS), "k": draw(st.integers(1, 60)), "boost": draw(BOOSTS)}
    if draw(st.integers(0, 2)) == 0:
        clause["filter"] = {"range": {"year": {"gte": draw(st.integers(1990, 2010))}}}
    return {"knn": {VECTOR_FIELD: clause}}


IDS = st.lists(st.integers(0, COUNT).map(lambda number: f"d{number}"), max_size=30).map(
    lambda ids: {"ids": {"values": ids}}
)
CONSTANTS = st.builds(
    lambda query, boost: {"constant_score": {"filter": query, "boost": boost}}, st.one_of(FILTERS, QUERIES), BOOSTS
)
# Like a session's rewriting: some documents are scored by similarity, and known documents by a fixed score.
JUDGED = st.builds(
    lambda known, similarity, constant: {"bool": {"should": [*similarity, constant], "must_not": [known]}},
    IDS,
    st.lists(scripted(IDS.map(lambda known: {"bool": {"must_not": [known]}})), min_size=1, max_size=1),
    st.builds(lambda known, boost: {"constant_score": {"filter": known, "boost": boost}}, IDS, BOOSTS),
)
LEAVES = st.one_of(QUERIES, QUERIES, scripted(), nearest(), CONSTANTS, JUDGED, st.just({"match_none": {}}))


def named(clauses: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return a bool query of the clauses, each of which has a name."""
    return [{"bool": {"must": [clause], "_name": f"{name}{i}"}} for i, clause in enumerate(clauses)]


@st.composite
def rescores(draw: st.DrawFn) -> dict[str, Any]:
    """Return a rescore."""
    settings: dict[str, Any] = {"rescore_query": draw(LEAVES)}
    if draw(st.booleans()):
        settings["score_mode"] = draw(st.sampled_from(["total", "multiply"]))
    if draw(st.integers(0, 3)) == 0:
        settings["rescore_query"] = {"bool": {"should": named([settings["rescore_query"]], "rescore")}}
    return {"query": settings} | draw(st.sampled_from([{}] + [{"window_size": n} for n in (0, 1, 7, 25, 60, 150)]))


@st.composite
def rewritten(draw: st.DrawFn) -> dict[str, Any]:
    """Return a search body as a session rewrites it."""
    words = st.builds(
        lambda text, boost: {"multi_match": {"query": text, "fields": FIELDS, "boost": boost}}, TEXTS, BOOSTS
    )
    should = draw(st.lists(st.one_of(words, nearest()), max_size=3))
    query = {draw(st.sampled_from(["must", "should", "filter"])): draw(st.lists(LEAVES, min_size=1, max_size=2))}
    query["should"] = [*query.get("should", []), *named(should, "words")]
    if draw(st.integers(0, 3)) == 0:
        query["must_not"] = draw(st.lists(LEAVES, max_size=1))
    body: dict[str, Any] = {"query": {"bool": {**query, "_name": "resift"}}, "_source": False}
    found = draw(st.lists(rescores(), max_size=3))
    body["rescore"] = found[0] if len(found) == 1 else found
    return body | {"size": draw(st.sampled_from([0, 1, 10, 30, COUNT])), "from": draw(st.sampled_from([0, 0, 1, 20]))}


def spelt_out(part: Any) -> Any:
    """Return a body with the sources of scripts in place of their names, which failing tests print."""
    if isinstance(part, list):
        return [spelt_out(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {key: SCRIPTS[value] if key == "source" else spelt_out(value) for key, value in part.items()}


def assert_alike(body: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Assert that both engines return the same hits in the same order with the same scores and names."""
    found, expected = ranking(ours), ranking(theirs)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-9), body
    assert list(found) == list(expected), body
    assert [sorted(hit.get("matched_queries", ())) for hit in ours["hits"]] == [
        sorted(hit.get("matched_queries", ())) for hit in theirs["hits"]
    ], body
    if "exists" not in str(body):  # OpenSearch's counts of these are wrong
        assert ours["total"] == theirs["total"], body
    assert (ours["max_score"] or 0) == pytest.approx(theirs["max_score"] or 0, rel=1e-5), body


@pytest.mark.since(3, "scores of words are 2.2 times as high")
@BOUNDED
@given(bodies=st.lists(rewritten(), min_size=20, max_size=20))
def test_the_same_answer_to_rewritten_searches(twins: Twins, bodies: list[dict[str, Any]]) -> None:
    for body, ours, theirs in twins.hits(spelt_out(bodies)):
        assert_alike(body, ours, theirs)


@pytest.mark.since(3, "scores of words are 2.2 times as high")
@BOUNDED
@given(body=rewritten(), size=st.integers(1, 90))
def test_pages_within_a_window_and_past_it(twins: Twins, body: dict[str, Any], size: int) -> None:
    """Each page equals OpenSearch's page, which sorts the hits of the page and the window with the hits before it."""
    pages = [{**body, "from": start, "size": size} for start in range(0, COUNT, size)]
    for page, ours, theirs in twins.hits(spelt_out(pages)):
        assert_alike(page, ours, theirs)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("beta", [None, 0, 3, 32])
def test_scripts(twins: Twins, similarity: str, beta: float | None) -> None:
    """Both engines compute the functions of ``resift.vectors.similarity``. Scores are finite for all beta."""
    rng = np.random.default_rng(4)
    query, mask = rng.normal(size=DIM), rng.normal(size=DIM)
    params = {"field": VECTOR_FIELD, "query": query.tolist(), "mask": mask.tolist(), "beta": beta}
    script = {"source": SCRIPTS[similarity], "params": params}
    scored = {"script_score": {"query": {"match_all": {}}, "script": script}}
    vectors = [vector_of(i) for i in range(COUNT)]
    similarities = [
        0.0 if vector is None else SIMILARITIES[similarity](mask * query, (mask * vector)[None])[0]
        for vector in vectors
    ]
    plus = float(similarity == "cosine")
    if beta is None:
        expected = [0 if v is None else s + plus for v, s in zip(vectors, similarities, strict=True)]
    else:
        expected = [np.exp(beta * (s + plus)) for s in similarities]
    for engine in (twins.embedded, twins.cluster):
        hits = engine.search(twins.index, {"query": scored, "size": COUNT, "_source": False}).response["hits"]["hits"]
        found = [score for _, score in sorted((int(hit["_id"][1:]), hit["_score"]) for hit in hits)]
        np.testing.assert_allclose(found, expected, rtol=1e-4 if beta else 1e-5, atol=1e-6)
    # Multiplied scores of a window of lexical hits: all are finite, and none is below the hits beyond the window.
    words = {"match": {"text": {"query": "the storm fire of 2001 and in", "boost": 100}}}
    rescore = {"window_size": 20, "query": {"rescore_query": scored, "score_mode": "multiply"}}
    (plain, *_), (rescored, *_) = (
        twins.hits([{"query": words, "size": 40, "_source": False, **more}]) for more in ({}, {"rescore": rescore})
    )
    for before, after in zip(plain[1:], rescored[1:], strict=True):
        assert np.isfinite(list(ranking(after).values())).all()
        if beta is not None:
            assert set(list(ranking(after))[:20]) == set(list(ranking(before))[:20])
    assert list(ranking(rescored[1])) == list(ranking(rescored[2]))


@pytest.mark.since(3, "clauses of a rescoring tell no names")
def test_names_of_clauses(engine: Engine, indexed: str) -> None:
    def match(field: str, text: str, name: str) -> dict[str, Any]:
        return {"match": {field: {"query": text, "_name": name}}}

    tags = {"terms": {"tags": ["odd"], "_name": "odd"}}
    query = {
        "bool": {"must": match("title", "title", "all"), "should": [tags], "must_not": match("text", "rain", "no")}
    }
    rescore = {"query": {"rescore_query": {"constant_score": {"filter": match("text", "fires", "fires")}}}}
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"query": query}, {"0": ["all"], "1": ["all", "odd"], "2": ["all"], "4": ["all"]}),
        ({"query": query, "rescore": rescore}, {"0": ["all", "fires"], "1": ["all", "fires", "odd"]}),
        ({"query": tags}, {"1": ["odd"], "3": ["odd"]}),
        # If two clauses have the same name, the last one counts, and a rescore comes last.
        ({"query": match("title", "title", "x"), "rescore": {"query": {"rescore_query": match("text", "war", "x")}}},
         {"2": ["x"], "0": None}),
        ({"query": {"match": {"text": "war"}}}, {"2": None}),
    ]  # fmt: skip
    for body, expected in cases:
        found = {hit["_id"]: hit.get("matched_queries") for hit in engine.search(indexed, body).hits}
        assert {id: sorted(found[id] or ()) or None for id in expected} == expected


MATCH: dict[str, Any] = {"match_all": {}}
OURS: dict[str, Any] = {"source": SCRIPTS["cosine"], "params": {"field": VECTOR_FIELD, "query": [0.5] * DIM}}


def with_script(**settings: Any) -> dict[str, Any]:
    """Return a body with a script_score query with changed parameters."""
    return {"query": {"script_score": {"query": MATCH, "script": {**OURS, "params": {**OURS["params"], **settings}}}}}


def with_rescore(**settings: Any) -> dict[str, Any]:
    """Return a body with a rescore with these settings."""
    return {"rescore": {"query": {"rescore_query": MATCH, **settings}}}


def with_knn(**settings: Any) -> dict[str, Any]:
    """Return a body with a knn clause with these settings inside a bool query."""
    clause = {"vector": [0.5] * DIM, "k": 3, **settings}
    return {"query": {"bool": {"must": [{"knn": {VECTOR_FIELD: clause}}]}}}


MALFORMED: list[dict[str, Any]] = [
    {"rescore": None},
    {"rescore": {}},
    {"rescore": "x"},
    {"rescore": [{"window_size": 3}]},
    {"rescore": {"query": {}}},
    {"rescore": {"query": {"rescore_query": None}}},
    {"rescore": {"query": {"rescore_query": {"match_all": {"boost": "x"}}}}},
    {"rescore": {"window_size": 10_001, "query": {"rescore_query": MATCH}}},
    with_rescore(score_mode="median"),
    with_rescore(score_mode=["total"]),
    with_rescore(query_weight="x"),
    with_rescore(query_weight=[1]),
    with_rescore(weight=1),
    {"query": {"match_all": {"_name": 3}}},
    {"query": {"match_all": {"_name": None}}},
    {"query": {"constant_score": {}}},
    {"query": {"constant_score": {"filter": [MATCH]}}},
    {"query": {"script_score": {"script": OURS}}},
    {"query": {"script_score": {"query": MATCH}}},
    with_script(query=[1, 2]),
    with_script(mask=[1, 2]),
    with_script(query="x"),
    with_script(beta="x"),
    with_knn(k=0),
    with_knn(k=10_001),
    with_knn(vector=[1, 2]),
    with_knn(vector=None),
    with_knn(filter={"nothing": {}}),
    {"query": {"knn": {}}},
]


@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_bodies(twins: Twins, body: dict[str, Any]) -> None:
    for engine in (twins.embedded, twins.cluster):
        with pytest.raises(ResiftError) as caught:
            engine.search(twins.index, body)
        assert caught.value.status == 400


@pytest.fixture
def embedded(tmp_path: Path, model: Model) -> Iterator[Engine]:
    """Return the embedded engine with the five documents."""
    with closing(SqliteEngine(str(tmp_path / "engine.db"))) as engine:
        engine.create("docs", ["title", "text"], model)
        engine.bulk("docs", five_documents(model))
        yield engine


@pytest.mark.parametrize(
    "script",
    [
        {"source": "_score * 2"},
        {"source": SCRIPTS["cosine"] + " ", "params": OURS["params"]},
        {"id": "resift-masked-cosine", "params": OURS["params"]},
        {**OURS, "lang": "expression"},
        None,
    ],
)
def test_other_scripts_are_unknown_to_the_embedded_engine(embedded: Engine, script: Any) -> None:
    with pytest.raises(UnsupportedQuery, match="only runs Resift's own scripts"):
        embedded.search("docs", {"query": {"script_score": {"query": MATCH, "script": script}}})


@pytest.mark.parametrize(
    "body",
    [
        {"rescore": {"window_size": -1, "query": {"rescore_query": MATCH}}},
        {"rescore": {"window_size": "3", "query": {"rescore_query": MATCH}}},
        with_rescore(query_weight=0.5),
        with_script(beta=33),
        with_script(beta=-1),
        with_script(mask=[1e39] * DIM),
        with_script(field=3),
        with_script(more=3),
    ],
)
def test_what_only_the_embedded_engine_refuses(embedded: Engine, body: dict[str, Any]) -> None:
    with pytest.raises(ResiftError) as caught:
        embedded.search("docs", body)
    assert caught.value.status == 400


def test_an_infinite_score_is_the_largest_number(embedded: Engine) -> None:
    """JSON has no infinity. OpenSearch returns the largest number as text."""
    large = {"match_all": {"boost": 3e38}}
    body = {"query": large, **with_rescore(rescore_query=large)}
    assert {hit["_score"] for hit in embedded.search("docs", body).hits} == {float(np.finfo(np.float32).max)}


def test_vectors_are_those_of_now(embedded: Engine) -> None:
    """A document is scored with its new vector after an update."""
    body = with_script()
    first = [hit["_id"] for hit in embedded.search("docs", body).hits]
    batch = [Document(first[-1], {"text": "x"}, np.full(DIM, 0.5, np.float32)), Document("new", {"text": "y"}, None)]
    assert embedded.bulk("docs", batch) == []
    found = embedded.search("docs", body).hits
    assert (found[0]["_id"], found[0]["_score"]) == (first[-1], 2)
    assert (found[-1]["_id"], found[-1]["_score"]) == ("new", 0)
