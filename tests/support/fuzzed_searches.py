"""Random search bodies, generated from the allow-list of clauses and from other clauses that OpenSearch accepts.

The same seed always generates the same body.
"""

from __future__ import annotations

import json
from base64 import b64encode
from random import Random
from typing import Any

from odd_bodies import CLAUSES, ODD, PARTS, paths

from resift.query.allow_list import _allowed_keys, _json_type, _shapes_by_type, read_allow_list

Body = dict[str, Any]
HIDDEN = "zanzibar"  # a word in each field of the hidden documents, and nowhere else
MAPPING: Body = {
    "text": {"type": "text", "term_vector": "with_positions_offsets", "fielddata": True},
    "tag": {"type": "keyword"},
    "n": {"type": "integer"},
    "price": {"type": "double"},
    "day": {"type": "date"},
    "place": {"type": "geo_point"},
    "parts": {"type": "nested", "properties": {"word": {"type": "keyword"}, "text": {"type": "text"}}},
    "rank": {"type": "rank_feature"},
    "flag": {"type": "boolean"},
    "v": {"type": "knn_vector", "dimension": 4, "method": {"name": "hnsw", "engine": "lucene", "space_type": "l2"}},
}
FIELDS = [*MAPPING, "parts.word", "parts.text"]
ODD_NAMES = [
    "nothing",
    "_id",
    "_score",
    "*",
    "t*",
    "_source",
    "_all",
    "",
    "match_x",
    "wrapper",
    "terms",
    "script",
]
WORDS = [
    "fire",
    "bush",
    "army gun",
    "fire AND (bush OR army)",
    "/f.*/",
    "fi*",
    "fire~2",
    HIDDEN,
    "1",
    "",
    "-",
    "of the",
]
NUMBERS = [0, 1, 2, 3, 10, -1, 0.5, 1e-3, 1e9, 1e308, -1e308, 2**31, 2**63, 1e-300]
# Values that OpenSearch accepts for a key. Without them, its parser would refuse almost all searches.
_SENSIBLE: dict[str, list[Any]] = {
    "operator default_operator": ["and", "or"],
    "field fields default_field matched_fields docvalue_fields use_field": FIELDS,
    "fuzziness minimum_should_match": ["AUTO", "1", 2, "2<75%"],
    "analyzer quote_analyzer": ["standard", "english", "whitespace"],
    "rewrite fuzzy_rewrite": ["constant_score", "scoring_boolean", "top_terms_10"],
    "weight factor tie_breaker negative_boost pivot decay": [0.5, 0.1, 0.3],
    "scale fixed_interval minimum_interval": ["1d", "day", "2"],
    "boost": [0.5, 2],
    "_name": ["mine"],
    "zero_terms_query": ["none", "all"],
    "timeout": ["1s", "100ms"],
    "path": ["parts"],
    "distance": ["10km", "1000km", 5000],
    "distance_type": ["arc", "plane"],
    "unit": ["km", "m"],
    "order": ["asc", "desc", {"_count": "asc"}, {"_key": "desc"}],
    "score_mode": ["sum", "avg", "max", "multiply"],
    "boost_mode": ["sum", "replace", "multiply"],
    "multi_value_mode": ["min", "avg"],
    "modifier": ["log1p", "sqrt", "none", "reciprocal"],
    "mode": ["min", "max", "avg", "ordered"],
    "missing": ["_last", 0, "fire"],
    "type": ["best_fields", "phrase", "unified", "fvh", "plain", "memory"],
    "calendar_interval": ["day", "month", "1y"],
    "time_zone": ["UTC", "+01:00"],
    "collect_mode": ["breadth_first", "depth_first"],
    "execution_hint": ["map", "global_ordinals"],
    "buckets_path": ["_count", "a", "b>_count"],
    "gap_policy": ["skip", "insert_zeros"],
    "validation_method": ["STRICT", "COERCE"],
    "relation": ["intersects", "within"],
    "space_type": ["l2", "cosinesimil"],
    "fragmenter": ["span", "simple"],
    "encoder": ["html", "default"],
    "boundary_scanner": ["word", "sentence", "chars"],
    "model_id": ["x"],
    "format": ["yyyy", "0.0"],
    "flags": ["ALL", "AND|OR", "NONE"],
    "vector": [[0.1, 0.2, 0.3, 0.4], [0, 0, 0, 1]],
    "query_value": [[0.1, 0.2, 0.3, 0.4]],
    "k": [1, 3, 100],
    "interval": [1, 2.5, 1e-9, 1e300],
    "size": [0, 1, 5, 100],
    "from": [0, 1, 5],
    "window_size": [1, 10],
    "search_after": [[1], [1, "x"]],
}
SENSIBLE = {key: values for keys, values in _SENSIBLE.items() for key in keys.split()}
# Keys that clauses require.
NEEDED = "query queries value field path distance vector k filter positive negative negative_boost terms like "
NEEDED += "values ranges interval origin scale pivot script lang source params query_value pattern prefix term "
NEEDED += "intervals filters buckets_path text rescore_query query_text top_left bottom_right lat lon "
NEEDED += "calendar_interval functions"


class Fuzzer:
    """A generator of a search body from a seed."""

    def __init__(self, number: int) -> None:
        self.random = Random(number)
        self.left = 60  # remaining number of values, so that generation ends

    def body(self) -> tuple[str, Body]:
        """Return a whole search body or a clause, and the kind of values that it contains."""
        kind = self.random.choice(["listed", "listed", "listed clause", "changed", "hidden"])
        if kind == "listed clause":
            return kind, self.made("clause")
        parts = self.random.sample(list(_allowed_keys("body")), self.random.randint(0, 3))
        body: Body = {
            "query": self.made("clause"),
            **{name: self.made(_allowed_keys("body")[name], name) for name in parts},
        }
        if kind == "changed":
            self._change(body, [*ODD, *CLAUSES, *PARTS])
        elif kind == "hidden":
            self._change(body, [*unlisted_clauses(), *unlisted_parts()])
        return kind, body

    def made(self, shape: str, key: str = "") -> Any:
        """Return a value of a shape in allow_list.json for a key, in most cases one that OpenSearch accepts."""
        self.left -= 1
        kinds = _shapes_by_type(shape)
        sensible = [value for value in SENSIBLE.get(key, ()) if _json_type(value) in kinds]
        if sensible and self.random.random() < 0.9:
            return self.random.choice(sensible)
        kind = self.random.choice(list(kinds))
        inner = kinds[kind]
        if kind == "object":
            return self._object(inner)
        if kind == "list":
            return [self.made(inner, key) for _ in range(self.random.randint(1, 3))] if self.left > 0 else []
        if kind == "text":
            return inner[2:] if inner[0] == "=" else self._text(inner)
        if kind == "number":
            return self._number(inner)
        return self.random.random() < 0.5 if kind == "boolean" else None

    def _object(self, shape: str) -> Body:
        keys = _allowed_keys(shape)
        if shape in ("clause", "interval"):
            if self.left <= 0:
                return {"match_all": {}} if shape == "clause" else {"match": {"query": "fire"}}
            name = self.random.choice(list(keys))
            return {name: self.made(keys[name])}
        if shape == "aggregation":
            names = [self.random.choice(list(read_allow_list()["aggregations"]))]
            names += [name for name in ("aggs", "meta") if self.left > 0 and self.random.random() < 0.3]
        else:
            names = [key for key in keys if key in NEEDED.split() or key == "*"]
            names += self.random.sample(list(keys), min(len(keys), self.random.choice([0, 0, 1, 2, 3])))
        return {
            self.random.choice([*FIELDS, *FIELDS, *ODD_NAMES]) if key == "*" else key: self.made(keys[key], key)
            for key in dict.fromkeys(names)
        }

    def _text(self, shape: str) -> str:
        if shape == "place":
            return self.random.choice(["51.5,-0.1", "u10", "now", "2025-01-01"])
        if shape == "name":
            return self.random.choice([*FIELDS, "a", "b", *ODD_NAMES])
        text = self.random.choice(WORDS)
        return text * self.random.choice([1, 1, 1, 40]) if shape != "pattern" else text

    def _number(self, shape: str) -> float:
        numbers: list[float] = list(NUMBERS)
        if "=" in shape:
            limit = float(shape.rpartition("= ")[2])
            numbers = [n for n in numbers if (n <= limit if "<" in shape else n >= limit)] + [limit]
        number = self.random.choice([1, 1, 3, 3, *numbers])
        return int(number) if float(number).is_integer() and abs(number) < 2**62 else number

    def _change(self, body: Body, values: list[Any]) -> None:
        """Insert one to three of the values at random positions into a body."""
        for _ in range(self.random.randint(1, 3)):
            *path, key = self.random.choice([path for path in paths(body) if path])
            container: Any = body
            for step in path:
                container = container[step]
            value = json.loads(json.dumps(self.random.choice(values)))
            if isinstance(container, dict) and isinstance(value, dict) and self.random.random() < 0.4:
                container.update(value)
            else:
                container[key] = value


def wrapped(query: Any) -> Body:
    """Return a query in base64, as in ``wrapper`` clauses."""
    return {"wrapper": {"query": b64encode(json.dumps(query).encode()).decode()}}


def unlisted_clauses() -> list[Body]:
    """Return clauses outside the allow-list: they crash nodes, or reveal other documents."""
    shape = {"geo_shape": {"place": {"shape": "GEOMETRYCOLLECTION (" * 5000 + "POINT (1 1)" + ")" * 5000}}}
    lookup = {"terms": {"text": {"index": "INDEX", "id": "hidden-1", "path": "text"}}}
    like = {"fields": ["text"], "min_term_freq": 1, "min_doc_freq": 1}
    hidden: list[Body] = [{"_id": "hidden-1"}, {"_index": "INDEX", "_id": "hidden-1"}]
    return [
        wrapped(shape),
        shape,
        wrapped(lookup),
        lookup,
        *({"more_like_this": {**like, "like": [document]}} for document in hidden),
        *({"script_score": {"query": {"match_all": {}}, "script": script}} for script in SCRIPTS),
        {"script": {"script": SCRIPTS[0]}},
        {"percolate": {"field": "text", "index": "INDEX", "id": "hidden-1"}},
        {"has_child": {"type": "x", "query": {"match_all": {}}}},
        {"template": {"bool": {"must": []}}},
        {"intervals": {"text": {"regexp": {"pattern": "a?" * 50_000}}}},
        {"regexp": {"text": "(a|b)" * 200}},
        {"query_string": {"query": "(" * 500}},
    ]


# The first script has deeply nested operators, which a check of the brackets does not notice. The second never ends.
SCRIPTS: list[Any] = [{"lang": "expression", "source": "-" * 30_000 + "1"}, "while (true) {}"]


def unlisted_parts() -> list[Body]:
    """Return forbidden parts of search bodies."""
    suggest = {"text": HIDDEN[:-1], "term": {"field": "text", "suggest_mode": "always"}}
    return [
        {"sort": {"_script": {"type": "number", "script": SCRIPTS[0]}}},
        {"aggs": {"a": {"terms": {"field": "tag", "min_doc_count": 0}}}},
        {"aggs": {"a": {"significant_text": {"field": "text"}}}},
        {"aggs": {"a": {"scripted_metric": {"map_script": "state.x = params._source"}}}},
        {"aggs": {"a": {"max": {"script": SCRIPTS[1]}}}},
        {"suggest": {"s": suggest}},
        {"suggest": {"s": {"text": HIDDEN[:-1], "phrase": {"field": "text"}}}},
        {"explain": True},
        {"profile": True},
        {"derived": {"d": {"type": "keyword", "script": {"source": "emit('x')"}}}},
        {"runtime_mappings": {"d": {"type": "keyword"}}},
        {"search_pipeline": {"request_processors": [{"script": {"source": "ctx._source['size'] = 10000"}}]}},
        {"pit": {"id": "x"}},
        {"indices_boost": [{"INDEX": 2}]},
        {"script_fields": {"x": {"script": {"source": "params._source"}}}},
        {"ext": {"rerank": {"query_context": {"query_text": "x"}}}},
    ]


def places_of(clause: Body) -> dict[str, Body]:
    """Return whole search bodies with a clause in every possible position."""
    match = {"match": {"text": "fire"}}
    query: dict[str, Body] = {
        "at the top": clause,
        "in a bool": {"bool": {"should": [match, {"bool": {"must_not": clause}}]}},
        "in a dis_max": {"dis_max": {"queries": [clause]}},
        "in a hybrid": {"hybrid": {"queries": [match, clause]}},
        "as a knn's filter": {"knn": {"v": {"vector": [1, 1, 1, 1], "k": 2, "filter": clause}}},
        "as a function's filter": {"function_score": {"functions": [{"filter": clause, "weight": 2}]}},
        "in a script_score": {"script_score": {"query": clause, "script": {"lang": "knn", "source": "knn_score"}}},
        "in nested objects": {"nested": {"path": "parts", "query": clause}},
    }
    body: dict[str, Body] = {
        "as a post_filter": {"post_filter": clause},
        "as a rescore": {"rescore": {"query": {"rescore_query": clause}}},
        "as an aggregation's filter": {"aggs": {"terms": {"filter": clause}}},
        "as a filter of an odd name": {"aggs": {"match_x": {"filters": {"filters": {"match_x": clause}}}}},
        "in an aggregation below": {"aggs": {"a": {"filter": match, "aggs": {"match": {"filter": clause}}}}},
        "in a sort": {"sort": {"parts.word": {"nested": {"path": "parts", "filter": clause}}}},
        "as a highlight's query": {"highlight": {"fields": {"text": {"highlight_query": clause}}}},
    }
    return {name: {"query": variant} for name, variant in query.items()} | {
        name: {"query": match, **part} for name, part in body.items()
    }


def fuzzed(number: int, index: str) -> tuple[str, Body]:
    """Return the source and the search of a seed. Lookups in the search refer to ``index``."""
    kind, body = Fuzzer(number).body()
    made: Body = json.loads(json.dumps(body).replace("INDEX", index))
    return kind, made
