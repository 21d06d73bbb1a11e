"""Data of the differential tests: a multilingual corpus on both engines, and random queries."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from resift.contracts.documents import Document, ModelDescription
from resift.contracts.engine import Engine
from resift.embedded.engine import SqliteEngine
from resift.query.dsl import VECTOR_FIELD

BOUNDED = settings(
    max_examples=int(os.environ.get("RESIFT_TEST_CASES", "4")),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # no shrinking, because the message names the body that differed
)


@dataclass
class Twins:
    """The same index on both engines."""

    embedded: Engine
    cluster: Engine
    index: str

    @classmethod
    @contextmanager
    def of(
        cls, path: Path, cluster: Engine, model: ModelDescription, analyzer: str, documents: Sequence[Document]
    ) -> Iterator[Twins]:
        """Create an index of these documents on both engines. The embedded engine uses a file at ``path``."""
        twins = cls(SqliteEngine(str(path)), cluster, f"resift-twins-{uuid.uuid4().hex[:8]}")
        for engine in (twins.embedded, twins.cluster):
            engine.create(twins.index, FIELDS, model, analyzer=analyzer)
            assert engine.bulk(twins.index, documents) == []
            engine.refresh(twins.index)
        yield twins
        cluster.drop(twins.index)
        twins.embedded.close()

    def hits(self, bodies: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Any, Any]]:
        """Return each body with the responses of both engines."""
        answers = (engine.search_all(self.index, bodies) for engine in (self.embedded, self.cluster))
        for body, ours, theirs in zip(bodies, *answers, strict=True):
            yield body, ours.response["hits"], theirs.response["hits"]


def ranking(hits: dict[str, Any]) -> dict[str, float]:
    """Return ids and scores, best first."""
    return {hit["_id"]: hit["_score"] for hit in hits["hits"]}


SENTENCES = [
    line
    for line in (Path(__file__).parent / "sentences.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]
FIELDS = ["title", "text", "meta.note"]
LANGUAGES = ["en", "de", "日本語", "en-GB"]
_EXTRA = ["covid19", "covid", "19", "2001", "3.14", "1,000", "C++", "罢工", "罢", "工", "café", "cafe", "", "-", "'s"]


def documents(count: int) -> list[Document]:
    """Return documents whose fields have words of one or more sentences. Some fields are missing, empty or lists."""
    rng = random.Random(11)
    return [Document(f"d{number}", _source(rng, number)) for number in range(count)]


def _source(rng: random.Random, number: int) -> dict[str, Any]:
    source: dict[str, Any] = {
        "text": SENTENCES[number] if number < len(SENTENCES) else _text(rng),
        "year": rng.randint(1990, 2010),
        "tags": rng.sample(["red", "green", "Blue sky", "2001"], rng.randint(0, 3)),
        "rating": rng.choice([0.5, 1.0, 2.25, -3.0]),
        "flag": rng.random() < 0.5,
    }
    if rng.random() < 0.8:
        source["title"] = rng.choice([_words(rng, 3), "", [_words(rng, 2), _words(rng, 4)], rng.randint(1, 3000)])
    if rng.random() < 0.5:
        source["meta"] = rng.choice([{"note": _words(rng, 5)}, [{"note": _words(rng, 2)}, {"note": _words(rng, 1)}]])
    if rng.random() < 0.5:
        source["langs"] = [{"code": code, "n": rng.randint(0, 3)} for code in rng.sample(LANGUAGES, 2)]
    if rng.random() < 0.2:
        source["maybe"] = rng.choice([None, [], {"inner": None}, {"inner": "y"}])
    return source


def _text(rng: random.Random) -> str:
    return " ".join(rng.choice([rng.choice(SENTENCES), _words(rng, 12)]) for _ in range(rng.choice([1, 1, 2, 4])))


def _words(rng: random.Random, count: int) -> str:
    """Draw words of a few sentences, in combinations that no single sentence has."""
    pool = " ".join(rng.sample(SENTENCES, 2)).split() + _EXTRA
    return " ".join(rng.choice(pool) for _ in range(count))


WORDS = st.sampled_from(sorted({word for line in SENTENCES for word in line.split()} | set(_EXTRA)))
PIECES = st.sampled_from(
    SENTENCES
).flatmap(  # a few characters of a sentence, including parts of words
    lambda line: st.tuples(st.integers(0, len(line)), st.integers(1, 8)).map(lambda cut: line[cut[0] : sum(cut)])
)
TEXTS = st.lists(st.one_of(WORDS, WORDS, PIECES), min_size=1, max_size=5).map(" ".join)
BOOSTS = st.sampled_from([0, 0.3, 1, 2.5])


def _numbers(low: int, high: int) -> st.SearchStrategy[Any]:
    return st.one_of(st.integers(low, high), st.integers(low, high).map(str))


@st.composite
def text_clauses(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a match or multi_match query with or without settings."""
    settings: dict[str, Any] = {"query": draw(TEXTS)}
    if draw(st.booleans()):
        settings["operator"] = draw(st.sampled_from(["and", "or", "AND"]))
    if draw(st.booleans()):
        settings["boost"] = draw(BOOSTS)
    if draw(st.integers(0, 5)) == 0:
        settings["zero_terms_query"] = "all"
    if draw(st.booleans()):
        settings["lenient"] = draw(st.booleans())
    if draw(st.booleans()):
        return {"match": {draw(st.sampled_from(FIELDS)): settings}}
    names = draw(st.lists(st.sampled_from([*FIELDS, "title^3", "te*", "meta.*"]), min_size=1, max_size=3, unique=True))
    if draw(st.booleans()):
        settings["tie_breaker"] = draw(st.sampled_from([0, 0.3, "0.7", 1.0]))
    return {"multi_match": {**settings, "fields": names}}


FILTERS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.sampled_from(["red", "green", "Blue sky", "2001", "blue", 2001]).map(lambda tag: {"term": {"tags": tag}}),
    _numbers(1988, 2012).map(lambda year: {"term": {"year": year}}),
    st.lists(_numbers(1990, 2010), max_size=4).map(lambda years: {"terms": {"year": years}}),
    st.tuples(
        st.sampled_from(["gt", "gte"]), _numbers(1990, 2010), st.sampled_from(["lt", "lte"]), _numbers(1990, 2010)
    ).map(lambda two: {"range": {"year": {two[0]: two[1], two[2]: two[3]}}}),
    st.sampled_from([0.5, "1.0", 2.25, -3, "-3.0", 7]).map(lambda rating: {"term": {"rating": {"value": rating}}}),
    st.sampled_from([{"gte": 1}, {"lt": 0.5}, {"gt": "0"}]).map(lambda bounds: {"range": {"rating": bounds}}),
    st.sampled_from(["red", "green", "a", "日本語"]).map(lambda tag: {"range": {"tags": {"gte": tag}}}),
    st.sampled_from([True, False, "true"]).map(lambda flag: {"bool": {"filter": [{"term": {"flag": flag}}]}}),
    st.sampled_from([*LANGUAGES, "fr"]).map(lambda code: {"term": {"langs.code": code}}),
    st.integers(0, 4).map(lambda n: {"term": {"langs.n": n}}),
    st.sampled_from(["fire", "storm", "2001", "罢", "Storm", "café"]).map(lambda word: {"term": {"text": word}}),
    st.sampled_from([["storm", "2001"], ["город", "αa"]]).map(lambda words: {"terms": {"text": words}}),
    st.sampled_from([*FIELDS, "maybe", "maybe.inner", "langs", "langs.code", "nothing", "meta"]).map(
        lambda name: {"exists": {"field": name}}
    ),
    st.lists(st.integers(0, 400).map(lambda n: f"d{n}"), max_size=30).map(lambda ids: {"ids": {"values": ids}}),
    st.just({"match_all": {}}),
)


def _bools(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    clauses = st.lists(inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "must": st.one_of(inner, clauses),
            "should": clauses,
            "filter": st.lists(st.one_of(FILTERS, inner), max_size=2),
            "must_not": st.lists(st.one_of(FILTERS, inner), max_size=2),
            "minimum_should_match": st.integers(0, 3),
            "boost": BOOSTS,
        },
    ).map(lambda body: {"bool": body})


QUERIES = st.one_of(text_clauses(), FILTERS, st.recursive(st.one_of(text_clauses(), FILTERS), _bools, max_leaves=6))


def _function_scores(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    function = st.fixed_dictionaries({"filter": FILTERS, "weight": st.sampled_from([0, 0.25, 1, 3])})
    return st.fixed_dictionaries(
        {"query": inner, "functions": st.lists(function, min_size=1, max_size=3)},
        optional={"score_mode": st.sampled_from(["first", "multiply"]), "boost": BOOSTS},
    ).map(lambda body: {"function_score": body})


WEIGHTED = st.one_of(QUERIES, _function_scores(QUERIES), _bools(_function_scores(QUERIES)))


DIM = 8


def vectors(space: str) -> ModelDescription:
    """Return the description of a model for a k-NN index with this space type. It has DIM dimensions."""
    return SimpleNamespace(name="random", hash="0" * 16, dim=DIM, space_type=space, bags=None)


def documents_with_vectors(count: int) -> list[Document]:
    """Return the documents with vectors, some of which are equal or missing, and with a field of at most one value."""
    rng, extended = np.random.default_rng(7), []
    pool = rng.normal(size=(count // 2, DIM)).round(2).astype(np.float32)
    for document in documents(count):
        vector = None if rng.random() < 0.15 else pool[rng.integers(len(pool))]
        place = {} if rng.random() < 0.2 else {"place": f"p{rng.integers(12)}"}
        extended.append(Document(document.id, {**document.source, **place}, vector))
    return extended


_QUERY_VECTORS = st.integers(0, 10**6).map(lambda seed: np.random.default_rng(seed).normal(size=DIM).round(3).tolist())
KNN = st.fixed_dictionaries(
    {"vector": _QUERY_VECTORS, "k": st.integers(1, 60)},
    optional={"filter": FILTERS, "boost": st.sampled_from([0.3, 2])},
).map(lambda body: {"knn": {VECTOR_FIELD: body}})


@st.composite
def hybrids(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a body with a hybrid query of some depth, optionally filtered, and a search pipeline."""
    kinds = st.one_of(KNN, text_clauses(), WEIGHTED, FILTERS)
    queries = draw(st.lists(kinds, min_size=1, max_size=5))
    if draw(st.booleans()):
        queries[0] = draw(KNN)
    body: dict[str, Any] = {"queries": queries, "pagination_depth": draw(st.integers(1, 120))}
    if draw(st.booleans()):
        body["filter"] = draw(FILTERS)
    shares = draw(st.lists(st.integers(1, 9), min_size=len(queries), max_size=len(queries)))
    weights = [share / sum(shares) for share in shares]
    parameters = {"parameters": {"weights": weights}} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        constant = {"rank_constant": draw(st.integers(1, 100))} if draw(st.booleans()) else {}
        processor = {"score-ranker-processor": {"combination": {"technique": "rrf", **constant, **parameters}}}
    else:
        name = draw(st.sampled_from(["min_max", None]))
        technique = draw(st.sampled_from([{}, {"technique": "arithmetic_mean"}]))
        config: dict[str, Any] = {"combination": {**technique, **parameters}}
        processor = {"normalization-processor": config | ({"normalization": {"technique": name}} if name else {})}
    return {"query": {"hybrid": body}, "search_pipeline": {"phase_results_processors": [processor]}}
