"""Searches of every kind in OpenSearch's documentation that searches for words, values, shapes or joined documents.

Each search finds something, and OpenSearch answers it. Searches by vectors are in ``test_clauses.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Body = dict[str, Any]

COUNT = 40
WORDS = [
    *("fire", "bush", "forest", "smoke", "flame", "army", "gun", "soldier"),
    *("war", "peace", "river", "rain", "water", "valley", "lake"),
]
TEXT: Body = {"match": {"text": "fire forest"}}
NESTED: Body = {"nested": {"path": "parts", "query": {"match": {"parts.text": "fire"}}}}
SQUARE = [[[0, 40], [20, 40], [20, 60], [0, 60], [0, 40]]]
SCRIPT: Body = {"source": "_score + doc['n'].value"}

MAPPING: Body = {
    "title": {"type": "text", "term_vector": "with_positions_offsets", "fields": {"raw": {"type": "keyword"}}},
    "text": {"type": "text", "fielddata": True},
    "typed": {"type": "search_as_you_type"},
    "logged": {"type": "match_only_text"},
    "stored": {"type": "text", "store": True},
    "also": {"type": "alias", "path": "text"},
    "tag": {"type": "keyword"},
    "code": {"type": "wildcard"},
    "flat": {"type": "flat_object"},
    "n": {"type": "integer"},
    "price": {"type": "scaled_float", "scaling_factor": 100},
    "span": {"type": "integer_range"},
    "day": {"type": "date"},
    "flag": {"type": "boolean"},
    "address": {"type": "ip"},
    "place": {"type": "geo_point"},
    "area": {"type": "geo_shape"},
    "rank": {"type": "rank_feature"},
    "ranks": {"type": "rank_features"},
    "suggested": {"type": "completion"},
    "percolated": {"type": "percolator"},
    "family": {"type": "join", "relations": {"parent": "child"}},
    "parts": {"type": "nested", "properties": {"text": {"type": "text"}, "tag": {"type": "keyword"}}},
    "object": {"properties": {"inner": {"type": "text"}}},
}


def documents() -> list[tuple[str, Body]]:
    """Return the ids and sources of documents that fit MAPPING."""
    random = np.random.default_rng(11)
    return [(f"d{number}", _source(number, random)) for number in range(COUNT)]


def _source(number: int, random: np.random.Generator) -> Body:
    words = random.choice(WORDS, 7).tolist()
    text = " ".join(words)
    family: Any = {"name": "parent"} if number % 4 == 0 else {"name": "child", "parent": f"d{number - number % 4}"}
    longitude, latitude = float(random.uniform(0, 20)), float(random.uniform(40, 60))
    source: Body = {
        "title": f"{words[0]} {words[1]}",
        **dict.fromkeys(("text", "typed", "logged", "stored"), text),
        "tag": f"t{number % 3}",
        "code": f"AB-{number:03}",
        "flat": {"color": ["red", "blue"][number % 2]},
        "n": number,
        "price": number / 4,
        "span": {"gte": number, "lte": number + 5},
        "day": f"2025-01-{number % 28 + 1:02}",
        "flag": number % 2 == 0,
        "address": f"10.0.0.{number}",
        "place": {"lon": longitude, "lat": latitude},
        "area": {"type": "point", "coordinates": [longitude, latitude]},
        "rank": number + 1,
        "ranks": {word: float(random.uniform(0.1, 3)) for word in words},
        "suggested": words[:2],
        "family": family,
        "parts": [{"text": word, "tag": f"t{number % 2}"} for word in words[: 1 + number % 3]],
        "object": {"inner": words[2]},
    }
    if number % 10 == 0:
        source["percolated"] = {"match": {"text": words[0]}}
    return source


@dataclass(frozen=True)
class Kind:
    """A kind of search.

    Attributes:
        body: The search body. Its page has all documents.
        params: Query parameters of the URL.
        since: The oldest version, major and minor, that has what is searched.
    """

    body: Body
    params: tuple[tuple[str, Any], ...] = ()
    since: tuple[int, int] = (2, 0)


def query(clause: Body, since: tuple[int, int] = (2, 0), **parts: Any) -> Kind:
    """Return a search of a query."""
    return Kind({"query": clause, "size": COUNT, **parts}, since=since)


def option(since: tuple[int, int] = (2, 0), params: tuple[tuple[str, Any], ...] = (), **parts: Any) -> Kind:
    """Return a search for a text, with an option."""
    return Kind({"query": TEXT, "size": COUNT, **parts}, params, since)


def span(word: str, field: str = "text") -> Body:
    """Return a ``span_term`` clause."""
    return {"span_term": {field: word}}


def intervals(**rule: Any) -> Kind:
    """Return a search with an ``intervals`` rule."""
    return query({"intervals": {"text": rule}})


ALL_OF = {"all_of": {"intervals": [{"match": {"query": "fire"}}, {"match": {"query": "forest"}}]}}
QUERIES: Mapping[str, Kind] = {
    "match": query(TEXT),
    "match with operator and": query({"match": {"text": {"query": "fire forest", "operator": "and"}}}),
    "match with fuzziness": query({"match": {"text": {"query": "fier forst", "fuzziness": "AUTO"}}}),
    "match with zero_terms_query": query({"match": {"title": {"query": "", "zero_terms_query": "all"}}}),
    "match of a number": query({"match": {"n": 7}}),
    "match of a boolean": query({"match": {"flag": True}}),
    "match of an alias": query({"match": {"also": "fire"}}),
    "match of match_only_text": query({"match": {"logged": "fire forest"}}, since=(2, 12)),
    "match_phrase": query({"match_phrase": {"text": {"query": "fire forest", "slop": 9}}}),
    "match_phrase_prefix": query({"match_phrase_prefix": {"text": "fi"}}),
    "match_bool_prefix": query({"match_bool_prefix": {"text": "forest fi"}}),
    **{
        f"multi_match, {type}": query(
            {"multi_match": {"query": "fire forest", "fields": ["text", "title^2"], "type": type}}
        )
        for type in ("best_fields", "most_fields", "cross_fields", "phrase", "phrase_prefix", "bool_prefix")
    },
    "multi_match of search_as_you_type": query(
        {"multi_match": {"query": "fire fo", "type": "bool_prefix", "fields": ["typed", "typed._2gram"]}}
    ),
    "multi_match of all fields": query({"multi_match": {"query": "fire", "fields": ["*"], "lenient": True}}),
    "combined_fields": query({"combined_fields": {"query": "fire", "fields": ["text", "title"]}}, since=(3, 0)),
    "query_string": query({"query_string": {"query": "text:(fire OR forest)^2 AND NOT tag:t9 AND n:[0 TO 99]"}}),
    "query_string with wildcards": query(
        {"query_string": {"query": "title:fi* OR te\\*t:forest OR text:fier~1 OR _exists_:tag"}}
    ),
    "query_string with a regular expression": query({"query_string": {"query": "text:/fi.*/"}}),
    "simple_query_string": query({"simple_query_string": {"query": "fire | forest + -xyz fi*", "fields": ["text"]}}),
    "intervals, match": intervals(match={"query": "fire forest", "max_gaps": 6}),
    "intervals, all_of": intervals(**ALL_OF),
    "intervals, any_of": intervals(any_of={"intervals": [{"match": {"query": "fire"}}, {"prefix": {"prefix": "for"}}]}),
    "intervals with a filter": intervals(match={"query": "fire", "filter": {"before": {"match": {"query": "forest"}}}}),
    "intervals, wildcard": intervals(wildcard={"pattern": "f*e"}),
    "intervals, regexp": intervals(regexp={"pattern": "f.*e"}),
    "intervals, fuzzy": intervals(fuzzy={"term": "fier"}),
    "term": query({"term": {"tag": "t1"}}),
    "term, case_insensitive": query({"term": {"tag": {"value": "T1", "case_insensitive": True}}}),
    "terms": query({"terms": {"tag": ["t1", "t2"]}}),
    "terms lookup": query({"terms": {"tag": {"index": "INDEX", "id": "d1", "path": "tag"}}}),
    "terms_set": query({"terms_set": {"tag": {"terms": ["t1"], "minimum_should_match_script": {"source": "1"}}}}),
    "ids": query({"ids": {"values": ["d1", "d2", "d3"]}}),
    "exists": query({"exists": {"field": "object"}}),
    "range of numbers": query({"range": {"n": {"gte": 5}}}),
    "range of dates": query({"range": {"day": {"gte": "2025-01-05||-1d", "lt": "2025-01-20"}}}),
    "range of words": query({"range": {"tag": {"gte": "t1"}}}),
    "range of a range field": query({"range": {"span": {"gte": 5, "lte": 9, "relation": "intersects"}}}),
    "prefix": query({"prefix": {"text": "fi"}}),
    "wildcard": query({"wildcard": {"text": "f*e"}}),
    "wildcard of a wildcard field": query({"wildcard": {"code": "*-01*"}}, since=(2, 15)),
    "regexp": query({"regexp": {"text": "f.*e"}}),
    "fuzzy": query({"fuzzy": {"text": "fier"}}),
    "term of a flat_object": query({"term": {"flat.color": "red"}}),
    "term of an IP range": query({"term": {"address": "10.0.0.0/28"}}),
    "bool": query(
        {"bool": {"must": [TEXT], "should": [{"term": {"tag": "t1"}}], "must_not": [{"term": {"n": 3}}], "filter": []}}
    ),
    "bool of filters": query({"bool": {"filter": [TEXT, {"term": {"tag": "t1"}}]}}),
    "bool of must_not alone": query({"bool": {"must_not": [TEXT]}}),
    "bool with minimum_should_match": query(
        {"bool": {"should": [TEXT, {"term": {"tag": "t1"}}, {"term": {"flag": True}}], "minimum_should_match": 2}}
    ),
    "boosting": query({"boosting": {"positive": TEXT, "negative": {"term": {"tag": "t1"}}, "negative_boost": 0.3}}),
    "constant_score": query({"constant_score": {"filter": TEXT, "boost": 2}}),
    "dis_max": query({"dis_max": {"queries": [TEXT, {"match": {"title": "fire"}}], "tie_breaker": 0.3}}),
    "function_score": query(
        {
            "function_score": {
                "query": TEXT,
                "functions": [
                    {"filter": {"term": {"tag": "t1"}}, "weight": 3},
                    {"field_value_factor": {"field": "n", "modifier": "log1p"}},
                    {"gauss": {"day": {"origin": "2025-01-10", "scale": "5d"}}},
                    {"random_score": {"seed": 7, "field": "_seq_no"}},
                ],
                "score_mode": "sum",
                "boost_mode": "sum",
            }
        }
    ),
    "function_score with min_score": query({"function_score": {"query": TEXT, "weight": 2, "min_score": 1}}),
    "function_score with a script": query({"function_score": {"query": TEXT, "script_score": {"script": SCRIPT}}}),
    "script_score": query({"script_score": {"query": TEXT, "script": SCRIPT}}),
    "script_score with min_score": query({"script_score": {"query": TEXT, "script": SCRIPT, "min_score": 3}}),
    "nested": query(NESTED),
    **{
        f"nested, score_mode {mode}": query({"nested": {**NESTED["nested"], "score_mode": mode}})
        for mode in ("max", "min", "sum", "none")
    },
    "nested with inner_hits": query(
        {"nested": {**NESTED["nested"], "inner_hits": {"highlight": {"fields": {"*": {}}}}}}
    ),
    "has_child": query({"has_child": {"type": "child", "query": TEXT, "score_mode": "max"}}),
    "has_child with inner_hits": query(
        {"has_child": {"type": "child", "query": TEXT, "min_children": 1, "inner_hits": {}}}
    ),
    "has_parent": query({"has_parent": {"parent_type": "parent", "query": TEXT, "score": True}}),
    "parent_id": query({"parent_id": {"type": "child", "id": "d4"}}),
    "span_term": query(span("fire")),
    "span_first": query({"span_first": {"match": span("fire"), "end": 4}}),
    "span_near": query({"span_near": {"clauses": [span("fire"), span("forest")], "slop": 9, "in_order": False}}),
    "span_or": query({"span_or": {"clauses": [span("fire"), span("forest")]}}),
    "span_not": query({"span_not": {"include": span("fire"), "exclude": span("war")}}),
    "span_containing": query(
        {
            "span_containing": {
                "little": span("fire"),
                "big": {"span_near": {"clauses": [span("fire"), span("forest")], "slop": 9}},
            }
        }
    ),
    "span_within": query(
        {
            "span_within": {
                "little": span("fire"),
                "big": {"span_near": {"clauses": [span("fire"), span("forest")], "slop": 9}},
            }
        }
    ),
    "span_multi": query({"span_multi": {"match": {"prefix": {"text": "f"}}}}),
    "field_masking_span": query(
        {
            "span_near": {
                "clauses": [span("fire"), {"field_masking_span": {"query": span("fire", "title"), "field": "text"}}],
                "slop": 9,
                "in_order": False,
            }
        }
    ),
    "geo_distance": query({"geo_distance": {"distance": "900km", "place": {"lat": 50, "lon": 10}}}),
    "geo_bounding_box": query(
        {"geo_bounding_box": {"place": {"top_left": {"lat": 60, "lon": 0}, "bottom_right": {"lat": 45, "lon": 20}}}}
    ),
    "geo_polygon": query({"geo_polygon": {"place": {"points": [[0, 40], [20, 40], [20, 60], [0, 60]]}}}),
    "geo_shape": query({"geo_shape": {"area": {"shape": {"type": "polygon", "coordinates": SQUARE}}}}),
    "distance_feature": query({"distance_feature": {"field": "day", "origin": "2025-01-10", "pivot": "3d"}}),
    "more_like_this": query(
        {"more_like_this": {"fields": ["text"], "like": "fire forest", "min_term_freq": 1, "min_doc_freq": 1}}
    ),
    "more_like_this of a document": query(
        {"more_like_this": {"fields": ["text"], "like": {"_id": "d1"}, "min_term_freq": 1, "min_doc_freq": 1}}
    ),
    "percolate": query({"percolate": {"field": "percolated", "document": {"text": " ".join(WORDS)}}}),
    "rank_feature": query({"rank_feature": {"field": "rank", "saturation": {"pivot": 8}}}),
    "rank_feature beside a text": query(
        {"bool": {"must": [TEXT], "should": [{"rank_feature": {"field": "ranks.fire"}}]}}
    ),
    "script": query({"script": {"script": {"source": "doc['n'].value % 2 == 0"}}}),
    "wrapper": query({"wrapper": {"query": "eyJtYXRjaCI6eyJ0ZXh0IjoiZmlyZSBmb3Jlc3QifX0="}}),
    "template": query({"template": {"match": {"text": "fire"}}}, since=(3, 2)),
    "match_all": query({"match_all": {}}),
    "match_none": query({"match_none": {}}),
    "no query": Kind({"size": COUNT}),
    "a long text": query({"match": {"text": " ".join([*WORDS, *(f"word{number}" for number in range(900))])}}),
    "bool of 1,000 terms": query({"bool": {"should": [{"term": {"text": f"w{at}"}} for at in range(999)] + [TEXT]}}),
    "bool of 510 ranges": query(
        {"bool": {"must": [TEXT], "should": [{"range": {"n": {"gte": at}}} for at in range(510)]}}
    ),
}

AGGREGATIONS: Body = {
    "tags": {"terms": {"field": "tag"}, "aggs": {"n": {"avg": {"field": "n"}}}},
    "words": {"significant_text": {"field": "text"}},
    "days": {"date_histogram": {"field": "day", "calendar_interval": "week"}},
    "sampled": {"sampler": {"shard_size": 200}, "aggs": {"n": {"sum": {"field": "n"}}}},
    "best": {"top_hits": {"size": COUNT}},
    "parts": {"nested": {"path": "parts"}, "aggs": {"tags": {"terms": {"field": "parts.tag"}}}},
    "everything": {"global": {}, "aggs": {"n": {"stats": {"field": "n"}}}},
    "filtered": {"filter": {"match": {"text": "fire"}}},
}
DERIVED: Body = {"half": {"type": "long", "script": {"source": "emit(doc['n'].value / 2)"}}}
OPTIONS: Mapping[str, Kind] = {
    "from and size": option(**{"from": 2, "size": 5}),
    "size 0": option(size=0, aggs=AGGREGATIONS),
    "aggregations": option(aggs=AGGREGATIONS),
    "aggregations of a range": query({"range": {"n": {"gte": 5}}}, aggs=AGGREGATIONS),
    "sort by a field": option(sort=[{"n": "desc"}]),
    "sort by a field with track_scores": option(sort=[{"n": "desc"}], track_scores=True),
    "sort by _score": option(sort=["_score"]),
    "sort by _score and a field": option(sort=["_score", {"n": "asc"}]),
    "sort by _score, worst first": option(sort=[{"_score": "asc"}, {"n": "asc"}]),
    "sort by _doc": option(sort=["_doc"]),
    "sort by a script": option(sort=[{"_script": {"type": "number", "script": {"source": "doc['n'].value % 7"}}}, "n"]),
    "sort by a distance": option(sort=[{"_geo_distance": {"place": [10, 50], "unit": "km"}}]),
    "sort by a nested field": option(sort=[{"parts.tag": {"order": "asc", "nested": {"path": "parts"}}}, "n"]),
    "search_after": option(sort=[{"n": "asc"}], search_after=[3]),
    "search_after by _score": option(sort=["_score", {"n": "asc"}], search_after=[50, 0]),
    "collapse": option(collapse={"field": "tag"}),
    "collapse with inner_hits": option(collapse={"field": "tag", "inner_hits": {"name": "all", "size": COUNT}}),
    "rescore": option(rescore={"window_size": 20, "query": {"rescore_query": {"match_phrase": {"text": "fire"}}}}),
    "several rescores": option(
        rescore=[
            {"window_size": 20, "query": {"rescore_query": {"match": {"title": "fire"}}, "score_mode": "max"}},
            {"window_size": 9, "query": {"rescore_query": {"function_score": {"weight": 2}}, "score_mode": "multiply"}},
        ]
    ),
    "post_filter": option(post_filter={"term": {"tag": "t1"}}, aggs=AGGREGATIONS),
    "min_score": option(min_score=0.5),
    "indices_boost": option(indices_boost=[{"INDEX": 1.5}]),
    "terminate_after": option(terminate_after=3, size=2),
    "timeout": option(timeout="20s"),
    "cancel_after_time_interval": option(params=(("cancel_after_time_interval", "30s"),)),
    "track_total_hits": option(track_total_hits=True),
    "track_total_hits false": option(track_total_hits=False),
    "track_total_hits 3": option(track_total_hits=3),
    "explain": option(explain=True),
    "profile": option(profile=True),
    "version": option(version=True, seq_no_primary_term=True),
    "stats": option(stats=["group"]),
    "named queries": query({"bool": {"should": [{"match": {"text": {"query": "fire", "_name": "mine"}}}]}}),
    "named queries with scores": Kind(
        {"query": {"match": {"text": {"query": "fire", "_name": "mine"}}}, "size": COUNT},
        (("include_named_queries_score", True),),
    ),
    "_source": option(_source={"includes": ["t*"], "excludes": ["text"]}),
    "_source false": option(_source=False),
    "fields": option(fields=["tag", {"field": "day", "format": "epoch_millis"}], _source=False),
    "docvalue_fields": option(docvalue_fields=["n", {"field": "day", "format": "epoch_millis"}]),
    "stored_fields": option(stored_fields=["stored"]),
    "stored_fields _none_": option(stored_fields="_none_"),
    "script_fields": option(script_fields={"twice": {"script": {"source": "doc['n'].value * 2"}}}),
    "derived": option((2, 15), derived=DERIVED, fields=["half"]),
    "derived in the query": query(
        {"bool": {"must": [TEXT], "filter": [{"range": {"half": {"gte": 2}}}]}}, (2, 15), derived=DERIVED
    ),
    **{
        f"highlight, {type}": option(highlight={"fields": {"title": {"type": type}}, "require_field_match": False})
        for type in ("unified", "plain", "fvh")
    },
    "highlight of a range, plain": query(
        {"range": {"n": {"gte": 0}}}, highlight={"fields": {"text": {"type": "plain"}}}
    ),
    "highlight with a highlight_query": option(
        highlight={"fields": {"text": {"highlight_query": {"match": {"text": "smoke"}}}}}
    ),
    "suggest": option(suggest={"text": "fier", "s": {"term": {"field": "text"}}, "p": {"phrase": {"field": "text"}}}),
    "completion suggester alone": Kind({"suggest": {"s": {"prefix": "fi", "completion": {"field": "suggested"}}}}),
    "slice of a point in time": option(slice={"id": 0, "max": 2}, params=(("PIT", True),)),
    "point in time": option(params=(("PIT", True),)),
    "scroll": option(params=(("scroll", "1m"),), size=9),
    "scroll sorted by _doc": option(params=(("scroll", "1m"),), size=9, sort=["_doc"]),
    "preference": option(params=(("preference", "_local"),)),
    "routing": option(params=(("routing", "d4"),)),
    "dfs_query_then_fetch": option(params=(("search_type", "dfs_query_then_fetch"),)),
    "batched_reduce_size": option(params=(("batched_reduce_size", 2),)),
    "pre_filter_shard_size": option(params=(("pre_filter_shard_size", 1),)),
    "allow_partial_search_results": option(params=(("allow_partial_search_results", False),)),
    "typed_keys": option(aggs=AGGREGATIONS, params=(("typed_keys", True),)),
    "rest_total_hits_as_int": option(params=(("rest_total_hits_as_int", True),)),
    "request_cache": option(size=0, aggs=AGGREGATIONS, params=(("request_cache", True),)),
    "concurrent segment search": option(params=(("max_concurrent_shard_requests", 1),)),
}
KINDS: Mapping[str, Kind] = {**QUERIES, **OPTIONS}
