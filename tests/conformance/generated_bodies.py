"""Search bodies that are generated from a number, and the documents that they search.

Half of the bodies are composed of clauses that OpenSearch accepts. The other half are those of ``fuzzed_searches``,
which OpenSearch often refuses. The same number always gives the same body.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from fuzzed_searches import MAPPING, fuzzed

Body = dict[str, Any]

WORDS = ["fire", "bush", "forest", "smoke", "flame", "army", "gun", "soldier", "war", "peace", "river", "rain", "water"]
TAGS = ["t0", "t1", "t2"]
COUNT = 50
_DEPTH = 3
_DAY = "2025-01-"
# Kinds of ``fuzzed_searches`` that do not endanger the node: the others end nodes that no service protects.
_HARMLESS = ("listed", "listed clause", "changed")


def documents() -> list[tuple[str, Body]]:
    """Return the ids and sources of documents that fit MAPPING."""
    random = np.random.default_rng(3)
    return [(f"d{number}", _source(number, random)) for number in range(COUNT)]


def _source(number: int, random: np.random.Generator) -> Body:
    words = random.choice(WORDS, 4 + number % 9).tolist()
    return {
        "text": " ".join(words),
        "tag": TAGS[number % 3],
        "n": number,
        "price": float(random.normal()) + 10,
        "day": f"{_DAY}{number % 28 + 1:02}",
        "place": {"lat": float(random.uniform(40, 60)), "lon": float(random.uniform(-5, 20))},
        "parts": [{"word": word, "text": f"{word} {words[0]}"} for word in words[: number % 4]],
        "rank": number + 1,
        "flag": number % 2 == 0,
        "v": random.normal(size=4).tolist(),
    }


def generated_body(number: int, index: str) -> Body:
    """Return the search body of a number, for documents in ``index``."""
    if number % 2:
        return Generator(number).body()
    for attempt in range(number, number + 1_000_000_000, 1_000_000):
        kind, body = fuzzed(attempt, index)
        if kind == "listed clause":
            return {"query": body}
        if kind in _HARMLESS:
            if isinstance(body.get("ext"), dict):  # options of Resift itself
                body["ext"].pop("ml_inference", None)
                body["ext"].pop("resift", None)  # a node without the plugin refuses this section
            return body
    raise AssertionError("unreachable")


class Generator:
    """Composes one body of clauses that OpenSearch accepts.

    Args:
        number: The seed.
    """

    def __init__(self, number: int) -> None:
        self.random = Random(number)

    def body(self) -> Body:
        """Return a body with a query and up to four other parts."""
        parts = self.random.sample(_PARTS, self.random.randint(0, 4))
        body: Body = {}
        if self.random.random() < 0.95:
            hybrid = self.random.random() < 0.12
            body["query"] = self._hybrid() if hybrid else self.clause(_DEPTH)
        body["size"] = self.random.choice([COUNT, COUNT, COUNT, 10, 3, 0])
        for part in parts:
            body |= part(self)
        # OpenSearch refuses these parts together
        if "collapse" in body or "sort" in body:
            body.pop("rescore", None)
        if "search_after" in body:
            body.pop("collapse", None)
            body.pop("from", None)
        return body

    def clause(self, depth: int) -> Body:
        """Return a clause with at most so many levels of compound clauses."""
        kinds = _LEAVES if depth == 0 or self.random.random() < 0.4 else _COMPOUNDS
        return self.random.choice(kinds)(self, depth)

    def clauses(self, depth: int, most: int = 3) -> list[Body]:
        """Return one clause or several."""
        return [self.clause(depth - 1) for _ in range(self.random.randint(1, most))]

    def text(self) -> str:
        """Return words of the documents, of which some may be misspelt."""
        words = self.random.choices(WORDS, k=self.random.randint(1, 4))
        return " ".join(word[:-1] if self.random.random() < 0.1 else word for word in words)

    def word(self) -> str:
        """Return one word."""
        return self.random.choice(WORDS)

    def boosted(self, **options: Any) -> Body:
        """Return options of a clause, sometimes with a boost or a name."""
        if self.random.random() < 0.2:
            options["boost"] = self.random.choice([0.5, 2, 3.0])
        if self.random.random() < 0.2:
            options["_name"] = self.random.choice(["mine", "other"])
        return options

    def _hybrid(self) -> Body:
        return {"hybrid": {"queries": [self.clause(1) for _ in range(self.random.randint(1, 3))]}}


Make = Callable[[Generator, int], Body]
Part = Callable[[Generator], Body]


def _match(make: Generator, _: int) -> Body:
    if make.random.random() < 0.5:
        return {"match": {"text": make.text()}}
    operator = make.random.choice(["and", "or"])
    return {"match": {"text": make.boosted(query=make.text(), operator=operator)}}


def _multi_match(make: Generator, _: int) -> Body:
    kind = make.random.choice(["best_fields", "most_fields", "cross_fields", "phrase", "bool_prefix"])
    fields = make.random.choice([["text"], ["text^2", "tag"], ["te*"]])
    return {"multi_match": make.boosted(query=make.text(), fields=fields, type=kind)}


def _phrase(make: Generator, _: int) -> Body:
    kind = make.random.choice(["match_phrase", "match_phrase_prefix", "match_bool_prefix"])
    return {kind: {"text": make.boosted(query=make.text())}}


def _query_string(make: Generator, _: int) -> Body:
    first, second = make.word(), make.word()
    text = make.random.choice(
        [f"{first} AND {second}", f"text:({first} {second})^2 -tag:t1", f"{first}~1", f"{first[:3]}*"]
    )
    return {"query_string": make.boosted(query=text, default_field="text")}


def _simple_query_string(make: Generator, _: int) -> Body:
    return {"simple_query_string": make.boosted(query=f"{make.word()} | -{make.word()}", fields=["text"])}


def _combined_fields(make: Generator, _: int) -> Body:
    return {"combined_fields": {"query": make.text(), "fields": ["text"]}}


def _intervals(make: Generator, _: int) -> Body:
    return {"intervals": {"text": {"match": {"query": make.text(), "max_gaps": make.random.choice([-1, 2])}}}}


def _span(make: Generator, _: int) -> Body:
    terms = [{"span_term": {"text": make.word()}} for _ in range(2)]
    return {"span_near": {"clauses": terms, "slop": 5, "in_order": False}}


def _more_like_this(make: Generator, _: int) -> Body:
    like = {"fields": ["text"], "like": make.text(), "min_term_freq": 1, "min_doc_freq": 1}
    return {"more_like_this": make.boosted(**like)}


def _term(make: Generator, _: int) -> Body:
    return make.random.choice(
        [
            {"term": {"tag": make.random.choice(TAGS)}},
            {"term": {"text": {"value": make.word()}}},
            {"terms": {"tag": make.random.sample(TAGS, 2)}},
            {"range": {"n": {"gte": make.random.randint(0, 40)}}},
            {"range": {"day": {"lt": f"{_DAY}{make.random.randint(10, 28)}"}}},
            {"exists": {"field": "parts.word"}},
            {"ids": {"values": [f"d{make.random.randint(0, COUNT)}" for _ in range(9)]}},
            {"prefix": {"text": make.word()[:2]}},
            {"wildcard": {"text": {"value": f"{make.word()[0]}*e"}}},
            {"fuzzy": {"text": {"value": make.word()[:-1]}}},
            {"regexp": {"text": "f.*e"}},
            {"match_all": {}},
            {"match_none": {}},
        ]
    )


def _near(make: Generator, _: int) -> Body:
    return make.random.choice(
        [
            {"geo_distance": {"distance": "500km", "place": {"lat": 50, "lon": 7}}},
            {"distance_feature": {"field": "day", "origin": f"{_DAY}15", "pivot": "3d"}},
            {"rank_feature": {"field": "rank", "saturation": {"pivot": 8}}},
        ]
    )


def _knn(make: Generator, depth: int) -> Body:
    vector = [round(make.random.gauss(0, 1), 3) for _ in range(4)]
    # a moved vector finds other documents unless k is the number of documents
    clause: Body = {"vector": vector, "k": COUNT}
    if make.random.random() < 0.3:
        clause["filter"] = make.clause(0)
    return {"knn": {"v": clause}}


def _bool(make: Generator, depth: int) -> Body:
    kinds = make.random.sample(["must", "should", "filter", "must_not"], make.random.randint(1, 3))
    clauses: Body = {kind: make.clauses(depth) for kind in kinds}
    if "should" in kinds and make.random.random() < 0.3:
        clauses["minimum_should_match"] = make.random.choice([0, 1, "50%"])
    if make.random.random() < 0.2:
        clauses = {kind: value[0] if isinstance(value, list) else value for kind, value in clauses.items()}
    return {"bool": make.boosted(**clauses)}


def _dis_max(make: Generator, depth: int) -> Body:
    return {"dis_max": make.boosted(queries=make.clauses(depth), tie_breaker=0.3)}


def _boosting(make: Generator, depth: int) -> Body:
    positive, negative = make.clause(depth - 1), make.clause(0)
    return {"boosting": {"positive": positive, "negative": negative, "negative_boost": 0.4}}


def _constant_score(make: Generator, depth: int) -> Body:
    return {"constant_score": make.boosted(filter=make.clause(depth - 1))}


def _function_score(make: Generator, depth: int) -> Body:
    functions = [
        {"filter": make.clause(0), "weight": 2},
        {"field_value_factor": {"field": "n", "modifier": "ln2p"}},
        {"gauss": {"n": {"origin": 10, "scale": 5}}},
        {"random_score": {"seed": 7, "field": "_seq_no"}},
    ]
    chosen = make.random.sample(functions, make.random.randint(1, 2))
    mode = make.random.choice(["multiply", "sum", "replace"])
    return {"function_score": {"query": make.clause(depth - 1), "functions": chosen, "boost_mode": mode}}


def _script_score(make: Generator, depth: int) -> Body:
    script = {"source": "_score + doc['n'].value * params.f", "params": {"f": 0.5}}
    return {"script_score": {"query": make.clause(depth - 1), "script": script}}


def _nested(make: Generator, _: int) -> Body:
    inner = make.random.choice([{"match": {"parts.text": make.text()}}, {"term": {"parts.word": make.word()}}])
    clause: Body = {"path": "parts", "query": inner, "score_mode": make.random.choice(["avg", "max", "none"])}
    return {"nested": clause}


_LEAVES: list[Make] = [
    _match,
    _match,
    _multi_match,
    _phrase,
    _query_string,
    _simple_query_string,
    _combined_fields,
    _intervals,
    _span,
    _more_like_this,
    _term,
    _term,
    _near,
    _knn,
]
_COMPOUNDS: list[Make] = [
    _bool,
    _bool,
    _bool,
    _dis_max,
    _boosting,
    _constant_score,
    _function_score,
    _script_score,
    _nested,
]


def _aggregations(make: Generator) -> Body:
    kinds = [
        {"terms": {"field": "tag"}, "aggs": {"n": {"max": {"field": "n"}}}},
        {"histogram": {"field": "n", "interval": 10}},
        {"filter": make.clause(1)},
        {"filters": {"filters": {"a": make.clause(0), "b": make.clause(0)}}},
        {"nested": {"path": "parts"}, "aggs": {"words": {"terms": {"field": "parts.word"}}}},
        {"top_hits": {"size": COUNT, "_source": ["n"]}},
        {"top_hits": {"size": 2, "sort": [{"n": "desc"}]}},
        {"date_histogram": {"field": "day", "calendar_interval": "week"}},
        {"global": {}, "aggs": {"n": {"stats": {"field": "n"}}}},
        {"significant_terms": {"field": "tag"}},
    ]
    return {"aggs": {"a": make.random.choice(kinds), "b": make.random.choice(kinds)}}


def _sort(make: Generator) -> Body:
    sorts: list[Any] = [
        ["_score"],
        [{"n": "desc"}],
        [{"_score": "desc"}, {"n": "asc"}],
        ["tag", "_score", "n"],
        [{"price": {"order": "asc"}}],
        [{"_script": {"type": "number", "script": {"source": "doc['n'].value % 7"}}}, "n"],
        [{"_geo_distance": {"place": {"lat": 50, "lon": 7}, "order": "asc", "unit": "km"}}],
    ]
    if make.random.random() < 0.3:
        return {"sort": [{"n": "asc"}], "search_after": [make.random.randint(0, COUNT)]}
    return {"sort": make.random.choice(sorts)}


def _collapse(make: Generator) -> Body:
    collapse: Body = {"field": "tag"}
    if make.random.random() < 0.5:
        collapse["inner_hits"] = {"name": "all", "size": COUNT}
    return {"collapse": collapse}


def _highlight(make: Generator) -> Body:
    kind = make.random.choice(["unified", "plain", "fvh"])
    return {"highlight": {"fields": {"text": {"type": kind, "number_of_fragments": 0}}}}


def _rescore(make: Generator) -> Body:
    return {"rescore": {"window_size": COUNT, "query": {"rescore_query": make.clause(1), "query_weight": 0.7}}}


def _suggest(make: Generator) -> Body:
    return {"suggest": {"s": {"text": make.text()[:-1], "term": {"field": "text"}}}}


def _small_parts(make: Generator) -> Body:
    """Return a part that needs nothing but its value."""
    return make.random.choice(
        [
            {"_source": ["n", "t*"]},
            {"_source": False, "fields": ["tag", "day"]},
            {"docvalue_fields": ["n"], "stored_fields": ["_none_"]},
            {"script_fields": {"twice": {"script": {"source": "doc['n'].value * 2"}}}},
            {"track_total_hits": make.random.choice([True, False, 5])},
            {"min_score": make.random.choice([0.1, 1])},
            {"explain": True},
            {"version": True, "seq_no_primary_term": True},
            {"track_scores": True},
            {"timeout": "10s"},
            {"from": 2},
            {"indices_boost": [{"resift-*": 1.5}]},
            {"profile": True},
            {"stats": ["a"]},
        ]
    )


def _post_filter(make: Generator) -> Body:
    return {"post_filter": make.clause(1)}


_PARTS: list[Part] = [
    _aggregations,
    _sort,
    _collapse,
    _highlight,
    _rescore,
    _suggest,
    _small_parts,
    _small_parts,
    _post_filter,
]

__all__ = ["COUNT", "MAPPING", "Generator", "documents", "generated_body"]
