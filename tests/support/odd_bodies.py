"""Valid request bodies of each endpoint, and random changes that make them invalid or unusual."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

Path = tuple[Any, ...]
MATCH = {"match": {"text": "fire forest"}}
CLAUSES: list[dict[str, Any]] = [
    MATCH,
    {"match": {"text": {"query": "fire", "operator": "and", "boost": 2}}},
    {"multi_match": {"query": "fire gun", "fields": ["text^2", "n"], "type": "best_fields"}},
    {"match_phrase": {"text": {"query": "fire in", "slop": 1}}},
    {"bool": {"must": [MATCH], "filter": [{"range": {"n": {"gte": 1, "lt": 6}}}], "must_not": {"term": {"n": 3}}}},
    {"bool": {"should": [MATCH, {"term": {"n": 2}}], "minimum_should_match": 1}},
    {"terms": {"n": [1, 2, 3]}},
    {"ids": {"values": ["bush", "war"]}},
    {"exists": {"field": "n"}},
    {"query_string": {"query": "text:fire AND n:[1 TO 5]", "default_field": "text"}},
    {"knn": {"resift_vector": {"vector": [1.0] * 8, "k": 3}}},
    {"function_score": {"query": MATCH, "functions": [{"weight": 2}], "score_mode": "sum"}},
    {"nested": {"path": "parts", "query": MATCH, "ignore_unmapped": True}},
    {"constant_score": {"filter": {"prefix": {"text": "fi"}}}},
    {"match_all": {}},
    {"dis_max": {"queries": [MATCH, {"fuzzy": {"text": {"value": "fier", "fuzziness": 1}}}], "tie_breaker": 0.3}},
    {"hybrid": {"queries": [MATCH, {"wildcard": {"text": {"value": "fi*e"}}}]}},
    {"more_like_this": {"fields": ["text"], "like": ["fire", {"_id": "bush"}], "min_term_freq": 1, "min_doc_freq": 1}},
    {"span_near": {"clauses": [{"span_term": {"text": "fire"}}, {"span_term": {"text": "army"}}], "slop": 3}},
    {"intervals": {"text": {"match": {"query": "fire army", "max_gaps": 3, "ordered": True}}}},
    {"script_score": {"query": MATCH, "script": {"source": "_score * params.f", "params": {"f": 2}}, "min_score": 0}},
    {"geo_shape": {"place": {"shape": {"type": "polygon", "coordinates": [[[0, 0], [0, 1], [1, 1], [0, 0]]]}}}},
]
PARTS: list[dict[str, Any]] = [
    {"from": 1, "size": 3},
    {"sort": [{"n": {"order": "desc"}}, "_score"], "search_after": [3, 0.5]},
    {"_source": {"includes": ["text"], "excludes": ["n"]}, "stored_fields": ["_none_"]},
    {"fields": ["text", {"field": "n"}], "docvalue_fields": ["n"]},
    {"highlight": {"fields": {"text": {"number_of_fragments": 2}}, "pre_tags": ["<b>"], "post_tags": ["</b>"]}},
    {"aggs": {"all": {"terms": {"field": "n"}, "aggs": {"most": {"max": {"field": "n"}}}}}},
    {"post_filter": {"range": {"n": {"gt": 0}}}, "min_score": 0.01},
    {"rescore": {"window_size": 5, "query": {"rescore_query": MATCH, "query_weight": 0.5}}},
    {"collapse": {"field": "n", "inner_hits": {"name": "same", "size": 2}}},
    {"explain": True, "version": True, "track_total_hits": 3, "profile": True},
    {"suggest": {"mine": {"text": "fier", "term": {"field": "text"}}}},
    {"script_fields": {"twice": {"script": {"source": "doc['n'].value * params.f", "params": {"f": 2}}}}},
    {"timeout": "2s", "terminate_after": 5, "track_scores": True, "seq_no_primary_term": True},
    {"indices_boost": [{"*": 1.5}], "ext": {}, "stats": ["a"]},
    {"aggs": {"steps": {"histogram": {"field": "n", "interval": 2, "min_doc_count": 0, "order": {"_key": "asc"}}}}},
    {"aggs": {"pages": {"composite": {"size": 2, "sources": [{"n": {"terms": {"field": "n"}}}], "after": {"n": 1}}}}},
    {"sort": [{"_script": {"type": "number", "script": {"source": "doc['n'].value"}}}], "slice": {"id": 0, "max": 2}},
    {"derived": {"twice": {"type": "long", "script": {"source": "emit(doc['n'].value * 2)"}}}, "fields": ["twice"]},
    {"search_pipeline": {"request_processors": [{"filter_query": {"query": MATCH}}]}},
]
QUERIES: list[Any] = [
    "fire",
    "fire in the forest with flame",
    *CLAUSES,
    *({"query": clause, **part} for clause, part in zip(CLAUSES, PARTS, strict=False)),
]
SEARCHES: list[dict[str, Any]] = [
    *({"query": query, "session": "anna", "size": 5, "from": 1, "window": 3} for query in QUERIES),
    *({"query": query, "filter": {"range": {"n": {"lt": 5}}}, "highlight": True} for query in QUERIES[:2]),
    {"query": "fire", "session": "anna", "knn": 4, "alpha": 0.7, "method": "vectors"},
]
BODIES: dict[str, list[dict[str, Any]]] = {
    "search": SEARCHES,
    "feedback": [
        {"session": "new", "query": "fire", "relevant": ["bush"], "irrelevant": ["war"], "neutral": ["tree"]},
        {"session": "anna", "clicked": ["bush"], "skipped": ["army", "rain"]},
    ],
    "rerank": [
        {"query": "fire", "documents": ["bush", {"text": "army"}, None], "top_n": 2, "return_documents": True},
        {"query": "fire gun", "documents": ["bush fire", "army"], "method": "vectors", "truncate": True},
    ],
    "embeddings": [{"input": ["fire", "", None, {"text": "bush"}], "encoding_format": "base64", "truncate": True}],
}


def nested(depth: int, inner: Any) -> Any:
    """Return ``inner``, nested in lists and objects."""
    for level in range(depth):
        inner = [inner] if level % 2 else {"bool": inner}
    return inner


ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        7,
        1.5,
        -0.0,
        1e-320,
        1e308,
        -1e308,
        2**31,
        2**63,
        10**30,
        float("nan"),
        float("inf"),
    ),
    *(
        "",
        " ",
        "\0",
        "a\0b",
        "\ud800",
        "é",
        "\u202e",
        "fire",
        "n",
        "text",
        "resift_vector",
        "_id",
        "_all",
        "*",
        ".",
        "..",
        "-",
    ),
    *(
        "x" * 600,
        "fire " * 500,
        "1",
        "1e400",
        "now/d",
        "${x}",
        "<b>",
        "'; --",
        '"',
        "\\",
        "%00",
        "text^-1",
        "text:[",
        "(((",
        "/(/",
    ),
    *(
        [],
        [[]],
        [None],
        [0] * 300,
        ["fire", 1],
        [{}],
        {},
        {"": {}},
        {"": ""},
        {"query": {}},
        {"match": {}},
        {"bool": []},
    ),
    *(MATCH, {"match_all": []}, {"text": {}}, {"script": "1"}, nested(40, MATCH), nested(120, []), ["bush"] * 101),
]


def paths(value: Any, path: Path = ()) -> list[Path]:
    """Return the path of each value in a body: the keys and positions that lead to it."""
    inner = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [path, *(below for key, child in inner for below in paths(child, (*path, key)))]


@st.composite
def changed(draw: st.DrawFn, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one of the bodies, with up to three random changes."""
    body = copy.deepcopy(draw(st.sampled_from(bodies)))
    for _ in range(draw(st.integers(1, 3))):
        if not body:
            return body
        *path, key = draw(st.sampled_from([path for path in paths(body) if path]))
        container = body
        for step in path:
            container = container[step]
        how = draw(st.sampled_from(["replace", "replace", "swap", "drop", "add", "wrap"]))
        if how == "replace":
            container[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
        elif how == "swap":
            container[key] = copy.deepcopy(draw(st.sampled_from([*CLAUSES, *PARTS])))
        elif how == "drop":
            del container[key]
        elif how == "wrap":
            container[key] = [container[key]] if draw(st.booleans()) else {"query": container[key]}
        elif isinstance(container, dict):
            name = draw(st.sampled_from(["", "boost", "query", "\0", "bool", "fields", "size", "_name"]))
            container[name] = copy.deepcopy(draw(st.sampled_from(ODD)))
        else:
            container.insert(key, copy.deepcopy(draw(st.sampled_from(ODD))))
    return body
