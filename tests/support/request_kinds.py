"""Kinds of search requests, as clients send them. docs/rewriting.md says how Resift treats each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rewritten_node import COUNT, SESSION, Node

Body = dict[str, Any]
ASKED = {"ml_inference": {"query": "fire", "session": SESSION}}
FIRE: Body = {"multi_match": {"query": "fire", "fields": ["title", "text"]}}
TEXT: Body = {"match": {"text": "fire"}}
OTHER: Body = {"match": {"text": "river"}}
PAGE = 7
VECTOR = [0.3, -0.2, 0.9, 0.1, -0.4, 0.2, 0.5, -0.1]


def _term(word: str) -> Body:
    return {"span_term": {"text": word}}


QUERIES: dict[str, Body] = {
    "match": TEXT,
    "multi_match": FIRE,
    "match_phrase": {"match_phrase": {"text": {"query": "fire forest", "slop": 20}}},
    "query_string": {"query_string": {"query": "title:fire OR text:(fire river)"}},
    "simple_query_string": {"simple_query_string": {"query": "fire + forest | river", "fields": ["text"]}},
    "combined_fields": {"combined_fields": {"query": "fire river", "fields": ["title", "text"]}},
    "intervals": {"intervals": {"text": {"match": {"query": "fire forest", "max_gaps": 9}}}},
    "span": {"span_near": {"clauses": [_term("fire"), _term("forest")], "slop": 30, "in_order": False}},
    "regexp": {"regexp": {"text": "fir.*"}},
    "fuzzy": {"fuzzy": {"text": {"value": "fier"}}},
    "wildcard": {"wildcard": {"text": "f*r*"}},
    "prefix": {"prefix": {"text": "fir"}},
    "more_like_this": {
        "more_like_this": {"fields": ["text"], "like": "fire forest smoke", "min_term_freq": 1, "min_doc_freq": 1}
    },
    "dis_max": {"dis_max": {"queries": [TEXT, OTHER], "tie_breaker": 0.3}},
    "boosting": {"boosting": {"positive": TEXT, "negative": OTHER, "negative_boost": 0.3}},
    "constant_score": {"constant_score": {"filter": TEXT, "boost": 2}},
    "function_score": {"function_score": {"query": TEXT, "field_value_factor": {"field": "n", "modifier": "ln2p"}}},
    "script_score": {"script_score": {"query": TEXT, "script": {"source": "_score + doc['n'].value % 7"}}},
    "nested": {"nested": {"path": "comments", "query": {"match": {"comments.says": "fire"}}, "inner_hits": {}}},
    "bool": {"bool": {"must": [TEXT], "should": [OTHER], "must_not": [{"term": {"tag": "t3"}}]}},
    "bool of filters": {"bool": {"filter": [{"range": {"n": {"gte": 9}}}]}},
    "ids": {"ids": {"values": ["4", "5", "6"]}},
    "match_all": {"match_all": {}},
    "match_none": {"match_none": {}},
    "knn": {"knn": {"resift_vector": {"vector": VECTOR, "k": 8}}},
    "hybrid": {"hybrid": {"queries": [TEXT, OTHER]}},
}

BODIES: dict[str, Body] = {
    "no query": {},
    "aggs": {"aggs": {"tags": {"terms": {"field": "tag"}, "aggs": {"n": {"max": {"field": "n"}}}}}},
    "size 0": {"size": 0, "aggs": {"tags": {"terms": {"field": "tag"}}}},
    "track_total_hits true": {"track_total_hits": True},
    "track_total_hits false": {"track_total_hits": False},
    "sort by _score": {"sort": ["_score"]},
    "sort by a field": {"sort": [{"n": "desc"}]},
    "sort by several": {"sort": [{"_score": "desc"}, {"n": "asc"}]},
    "sort by _score, worst first": {"sort": [{"_score": "asc"}]},
    "collapse": {"collapse": {"field": "tag"}},
    "collapse with inner_hits": {"collapse": {"field": "tag", "inner_hits": {"name": "all", "size": COUNT}}},
    "highlight": {"highlight": {"fields": {"text": {}, "title": {}}}},
    "post_filter": {"post_filter": {"term": {"tag": "t2"}}, "aggs": {"tags": {"terms": {"field": "tag"}}}},
    "min_score": {"min_score": 0.4},
    "explain": {"explain": True},
    "version": {"version": True, "seq_no_primary_term": True},
    "_source filtered": {"_source": ["title"]},
    "_source false": {"_source": False},
    "fields": {"fields": ["tag", "n"], "_source": False},
    "docvalue_fields": {"docvalue_fields": ["tag", "n"]},
    "stored_fields": {"stored_fields": ["title"]},
    "stored_fields _none_": {"stored_fields": "_none_", "docvalue_fields": ["n"]},
    "script_fields": {"script_fields": {"twice": {"script": {"source": "doc['n'].value * 2"}}}},
    "rescore of the caller's": {"rescore": {"window_size": COUNT, "query": {"rescore_query": OTHER}}},
    "terminate_after": {"terminate_after": 10},
    "timeout": {"timeout": "10s"},
    "profile": {"profile": True},
    # The pattern is not "*", because the node warns of this pattern if it has system indices.
    "indices_boost": {"indices_boost": [{"resift-*": 1.7}]},
    "ext of a rerank processor": {"ext": {**ASKED, "rerank": {"query_context": {"query_text": "fire"}}}},
    "named queries": {"query": {"bool": {"should": [{"match": {"text": {"query": "fire", "_name": "mine"}}}]}}},
    "from beyond the last hit": {"from": 9_000},
    "suggest": {"suggest": {"s": {"text": "fier", "term": {"field": "text"}}}},
    "suggest alone": {"query": None, "suggest": {"s": {"text": "fier", "term": {"field": "text"}}}},
}


@dataclass(frozen=True)
class Kind:
    """A kind of search request.

    Attributes:
        ask: Sends the request through a search pipeline of this name, and returns the response.
        served: Sends the request through ``/v1/search``, and returns the response. None if ``/v1/search`` has no such
            request.
    """

    ask: Callable[[Node, str], Body]
    served: Callable[[Node], Body] | None


def search_body(body: Body) -> Body:
    """Return a search body in a session, by default with a query and all hits.

    Args:
        body: Keys that are added or replaced, or removed if the value is None.
    """
    whole = {"query": TEXT, "size": COUNT, "ext": ASKED, **body}
    return {name: value for name, value in whole.items() if value is not None}


def served(node: Node, body: Body, index: str | None = None) -> Body:
    """Return the response of ``/v1/search`` to a search body."""
    return node.post("/v1/search", query=body, session=SESSION, index=index or node.index)


def _kind(body: Body) -> Kind:
    whole = search_body(body)
    return Kind(lambda node, pipeline: node.search(whole, pipeline), lambda node: served(node, whole))


def _neural(node: Node) -> Body:
    query = {"resift_vector": {"query_text": "fire", "k": 8, "model_id": node.query_model}}
    return search_body({"query": {"neural": query}})


def _template(node: Node, pipeline: str) -> Body:
    source = search_body({"query": {"match": {"text": "{{word}}"}}})
    return node.client.search_template(
        index=node.index, body={"source": source, "params": {"word": "fire"}}, params={"search_pipeline": pipeline}
    )


def pages(ask: Callable[[Body], Body], body: Body) -> Body:
    """Return all hits of a body in the response for its first page. The pages are requested by ``from``."""
    answer: Body = {}
    for start in range(0, 2 * COUNT, PAGE):
        page = ask({**body, "from": start, "size": PAGE})
        answer = answer or {**page, "hits": {**page["hits"], "hits": []}}
        answer["hits"]["hits"] += page["hits"]["hits"]
        if not page["hits"]["hits"]:
            break
    return answer


def _walk(ask: Callable[[Body], Body], body: Body) -> Body:
    """Return all hits of a body in the response for its first page. The pages are requested by ``search_after``."""
    ordered = {**body, "sort": [{"_score": "desc"}, {"n": "asc"}], "size": PAGE}
    answer = page = ask(ordered)
    while hits := page["hits"]["hits"]:
        page = ask({**ordered, "search_after": hits[-1]["sort"]})
        answer["hits"]["hits"].extend(page["hits"]["hits"])
    return answer


def _uri(node: Node, pipeline: str) -> Body:
    params = {"q": "text:fire", "size": COUNT, "search_pipeline": pipeline}
    return node.client.search(index=node.index, params=params)


def _msearch(node: Node, pipeline: str) -> Body:
    body = {**search_body({}), "search_pipeline": pipeline}
    answers = node.client.msearch(body=[{"index": node.index}, body, {"index": node.index}, body])["responses"]
    assert answers[0]["hits"] == answers[1]["hits"]
    return answers[0]


@contextmanager
def default_pipeline(node: Node, pipeline: str) -> Iterator[None]:
    """Let the index have a default search pipeline inside the ``with`` block."""
    setting = {"index.search.default_pipeline": pipeline}
    node.client.indices.put_settings(index=node.index, body=setting)
    try:
        yield
    finally:
        node.client.indices.put_settings(index=node.index, body=dict.fromkeys(setting))


def _by_default(node: Node, pipeline: str) -> Body:
    with default_pipeline(node, pipeline):
        return node.client.search(index=node.index, body=search_body({}))


def _served_by_default(node: Node) -> Body:
    with default_pipeline(node, node.pipeline):
        return served(node, search_body({}))


@contextmanager
def point_in_time(node: Node) -> Iterator[Body]:
    """Create a point in time of the index, and yield the value of ``pit`` in search bodies."""
    id = node.client.create_pit(index=node.index, params={"keep_alive": "1m"})["pit_id"]
    try:
        yield {"id": id, "keep_alive": "1m"}
    finally:
        node.client.delete_pit(body={"pit_id": [id]})


def _pit(node: Node, pipeline: str) -> Body:
    with point_in_time(node) as pit:
        return node.search(search_body({"pit": pit}), pipeline)


def _pit_walk(node: Node, pipeline: str) -> Body:
    with point_in_time(node) as pit:
        return _walk(lambda body: node.search(body, pipeline), search_body({"pit": pit}))


def _slices(node: Node, pipeline: str) -> Body:
    with point_in_time(node) as pit:
        parts = [
            node.search(search_body({"pit": pit, "slice": {"id": n, "max": 2}}), pipeline)["hits"]["hits"]
            for n in range(2)
        ]
    return {"hits": {"hits": sorted(parts[0] + parts[1], key=lambda hit: -hit["_score"])}}


def _scroll(node: Node, pipeline: str, **body: Any) -> Body:
    answer = node.search(search_body({"size": PAGE, **body}), pipeline, scroll="1m")
    hits = answer["hits"]["hits"]
    while page := node.client.scroll(body={"scroll_id": answer["_scroll_id"], "scroll": "1m"})["hits"]["hits"]:
        hits += page
    node.client.clear_scroll(body={"scroll_id": [answer.pop("_scroll_id")]})
    return answer


def _sliced_scroll(node: Node, pipeline: str) -> Body:
    parts = [_scroll(node, pipeline, slice={"id": n, "max": 3}) for n in range(3)]  # more slices than shards
    hits = [hit for part in parts for hit in part["hits"]["hits"]]
    return {**parts[0], "hits": {"hits": hits}}


def _of_two(node: Node, pipeline: str) -> Body:
    return node.search(search_body({"size": 2 * COUNT}), pipeline, index=f"{node.index},{node.other}")


REQUESTS: dict[str, Kind] = {
    "from": Kind(
        lambda node, pipeline: pages(lambda body: node.search(body, pipeline), search_body({})),
        lambda node: pages(lambda body: served(node, body), search_body({})),
    ),
    "search_after": Kind(
        lambda node, pipeline: _walk(lambda body: node.search(body, pipeline), search_body({})),
        lambda node: _walk(lambda body: served(node, body), search_body({})),
    ),
    "neural": Kind(
        lambda node, pipeline: node.search(_neural(node), pipeline), lambda node: served(node, _neural(node))
    ),
    "URI search": Kind(_uri, None),
    "search template": Kind(_template, None),
    "_msearch": Kind(_msearch, None),
    "default_pipeline": Kind(_by_default, _served_by_default),
    "alias": Kind(
        lambda node, pipeline: node.search(search_body({}), pipeline, index=f"{node.index}-alias"),
        lambda node: served(node, search_body({}), f"{node.index}-alias"),
    ),
    "two indices, one without vectors": Kind(
        _of_two, lambda node: served(node, search_body({"size": 2 * COUNT}), f"{node.index},{node.other}")
    ),
    "PIT": Kind(_pit, None),
    "PIT with search_after": Kind(_pit_walk, None),
    "PIT with slices": Kind(_slices, None),
    "scroll": Kind(_scroll, None),
    "scroll with slices": Kind(_sliced_scroll, None),
    "dfs_query_then_fetch": Kind(
        lambda node, pipeline: node.search(search_body({}), pipeline, search_type="dfs_query_then_fetch"), None
    ),
}

KINDS: dict[str, Kind] = {
    **{name: _kind({"query": query}) for name, query in QUERIES.items()},
    **{name: _kind(body) for name, body in BODIES.items()},
    **REQUESTS,
}
