"""The vectors of hits: right for every body that OpenSearch runs, and nothing else of its answer changes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from resift import Model
from resift.errors import BadInput, EngineError
from resift.plugin.opensearch.documents import prepare_body
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import ANALYSIS, mappings
from resift.query.dsl import VECTOR_FIELD

DIM = 8
MATCH = {"bool": {"should": [{"match": {"text": {"query": "fire river", "_name": "named"}}}]}}
TWICE = {"twice": {"script": "doc['n'].value * 2"}}
BODIES: list[dict[str, Any]] = [
    {},
    {"_source": False},
    {"_source": ["title"]},
    {"_source": "t*"},
    {"_source": {"excludes": ["resift_*", "text"]}},
    {"_source": ["none"]},
    {"stored_fields": ["_none_"]},
    {"stored_fields": "_none_"},
    {"stored_fields": ["title"]},
    {"stored_fields": []},
    {"stored_fields": [], "_source": ["title"]},
    {"script_fields": TWICE},
    {"script_fields": TWICE, "_source": ["n"]},
    {"script_fields": {}},
    {"docvalue_fields": ["n"]},
    {"fields": ["title"], "aggs": {"n": {"value_count": {"field": "n"}}}},
    {"highlight": {"fields": {"text": {}}}},
    {"seq_no_primary_term": True, "version": True, "explain": True},
    {"aggs": {"best": {"top_hits": {"size": 1, "_source": ["title"]}}}, "track_total_hits": True},
    {"post_filter": {"range": {"n": {"gte": 1}}}, "min_score": 0.01, "track_total_hits": False},
    {"from": 1, "size": 2, "rescore": {"window_size": 5, "query": {"rescore_query": {"match": {"title": "two"}}}}},
    {"sort": [{"n": "desc"}], "track_scores": True},
    {"collapse": {"field": "n", "inner_hits": {"name": "same", "size": 1}}},
    {"size": 0, "aggs": {"n": {"sum": {"field": "n"}}}},
    {"suggest": {"s": {"text": "fier", "term": {"field": "text"}}}},
    {"profile": True, "size": 1},
]


@pytest.fixture(scope="module")
def stored() -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Vectors by id: ordinary, all the same, tiny, huge, zero but for one number, and none for a sixth document."""
    rng = np.random.default_rng(5)
    rows = [rng.normal(size=DIM), -np.ones(DIM), rng.normal(size=DIM) * 1e-30, rng.normal(size=DIM) * 1e15]
    return {str(n): row.astype(np.float32) for n, row in enumerate([*rows, np.eye(DIM)[3] * -7])}


@pytest.fixture(scope="module")
def filled(
    cluster: OpenSearchEngine, model: Model, stored: dict[str, np.ndarray[Any, np.dtype[np.float32]]]
) -> Iterator[str]:
    """An index of three shards with these vectors."""
    index = f"packed-{uuid.uuid4().hex[:8]}"
    mapping = {**mappings(["title", "text"], model), "date_detection": False}
    # without a graph, which takes no tiny vectors: what `resift attach` adds to an index
    mapping["properties"] |= {"n": {"type": "long"}, "resift_vector": {"type": "knn_vector", "dimension": DIM}}
    settings = {"index.number_of_shards": 3, "analysis": ANALYSIS}
    cluster.client.indices.create(index=index, body={"settings": settings, "mappings": mapping})
    texts = ["fire fire gun", "gun fire", "fire in the forest", "a river", "fire brigade ö", "fire fire fire"]
    for n, text in enumerate(texts):
        source: dict[str, Any] = {"title": f"one {'two ' * n}", "text": text, "n": n, "big": 10**17 + 1}
        if str(n) in stored:
            source["resift_vector"] = stored[str(n)].tolist()
        cluster.client.index(index=index, id=str(n), body=source, params={"routing": "r"} if n % 2 else {})
    cluster.refresh(index)
    yield index
    cluster.drop(index)


def test_parents_and_children_show_no_vectors(cluster: OpenSearchEngine) -> None:
    index = f"packed-{uuid.uuid4().hex[:8]}"
    rel = {"rel": {"type": "join", "relations": {"post": "reply"}}, "text": {"type": "text"}}
    vector = {"resift_vector": {"type": "float"}}
    cluster.client.indices.create(index=index, body={"mappings": {"properties": {**rel, **vector}}})
    for id, kind in (("1", "post"), ("2", {"name": "reply", "parent": "1"})):
        document = {"rel": kind, "text": "fire", "resift_vector": [1.5]}
        cluster.client.index(index=index, id=id, body=document, params={"routing": "1", "refresh": "true"})
    match = {"match": {"text": "fire"}}
    child = {"has_child": {"type": "reply", "query": match, "inner_hits": {"size": 1}}}
    parent = {"has_parent": {"parent_type": "post", "query": match, "inner_hits": {"_source": ["text", "resift*"]}}}
    for body in (
        {"query": {"bool": {"must": [child]}}},
        {"query": match, "post_filter": parent},
        {"query": {"has_parent": {**parent["has_parent"], "query": child}}},
    ):
        plain = cluster.client.search(index=index, body=body)
        assert "resift_vector" in str(plain)
        assert without_noise(cluster.search(index, body).response) == without_noise(bare(plain))
    cluster.drop(index)


def test_a_body_that_is_too_deep_is_refused() -> None:
    deep: dict[str, Any] = {"match": {"text": "fire"}}
    for _ in range(2000):
        deep = {"bool": {"must": [deep]}}
    with pytest.raises(BadInput, match="too deep"):
        prepare_body({"query": deep}, None)


def without_noise(response: dict[str, Any]) -> dict[str, Any]:
    """An answer without what differs from one time to the next."""
    return {key: value for key, value in response.items() if key not in ("took", "profile")}


def bare(value: Any) -> Any:
    """An answer without our fields in any ``_source``, wherever that is."""
    if isinstance(value, list):
        return [bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: bare(one) for name, one in value.items()}
    if isinstance(found.get("_source"), dict):
        found["_source"] = {name: one for name, one in found["_source"].items() if name != "resift_vector"}
    return found


@pytest.mark.parametrize("body", BODIES, ids=[", ".join(body) or "query" for body in BODIES])
def test_the_answer_is_the_same_with_vectors(
    cluster: OpenSearchEngine,
    filled: str,
    stored: dict[str, np.ndarray[Any, np.dtype[np.float32]]],
    body: dict[str, Any],
) -> None:
    searched = body if "suggest" in body else {"query": MATCH, **body}
    plain = bare(cluster.client.search(index=filled, body=searched))
    for found in (
        cluster.search(filled, searched, vectors=VECTOR_FIELD),
        *cluster.search_all(filled, [searched], vectors=VECTOR_FIELD),
    ):
        assert without_noise(found.response) == without_noise(plain)
        for hit, vector in zip(found.hits, found.vectors, strict=True):
            if "_id" not in hit:  # stored_fields of _none_
                continue
            truth = stored.get(hit["_id"])
            assert (vector is None) == (truth is None)
            if vector is not None and truth is not None:
                exact = truth.astype(np.float64)
                norms = np.linalg.norm(vector.astype(np.float64)) * np.linalg.norm(exact)
                assert 1 - vector.astype(np.float64) @ exact / norms < 1e-8  # so no cosine is off by 1e-4
                assert np.abs(vector - exact).max() <= 0.51 * np.abs(exact).max() / 32767


BEST: dict[str, Any] = {"top_hits": {"size": 3}}
INNER: list[dict[str, Any]] = [
    {"collapse": {"field": "n", "inner_hits": {"name": "same"}}},
    {"collapse": {"field": "n", "inner_hits": [{"name": "same"}, {"name": "some", "_source": ["title", "resift*"]}]}},
    {"aggs": {"n": {"terms": {"field": "n"}, "aggs": {"best": BEST}}}, "size": 0},
    {
        "aggregations": {
            "all": {"filter": {"match_all": {}}, "aggregations": {"best": BEST, "n": {"max": {"field": "n"}}}}
        }
    },
]


@pytest.mark.parametrize("body", INNER, ids=["collapsed", "collapsed twice", "top hits", "nested top hits"])
def test_inner_hits_and_top_hits_show_no_vectors(cluster: OpenSearchEngine, filled: str, body: dict[str, Any]) -> None:
    plain = cluster.client.search(index=filled, body={"query": MATCH, **body})
    assert "resift_vector" in str(plain)
    found = cluster.search(filled, {"query": MATCH, **body}).response
    assert without_noise(found) == without_noise(bare(plain))


MALFORMED: list[dict[str, Any]] = [{"collapse": 7}, {"collapse": {"field": "n", "inner_hits": 7}}, {"aggs": 7}]
MALFORMED += [{"aggs": {"a": 7}}, {"aggs": {"a": {"top_hits": 7}}}, {"collapse": {"field": "n", "inner_hits": []}}]


@pytest.mark.parametrize("body", MALFORMED, ids=str)
def test_opensearch_reports_malformed_requests(body: dict[str, Any]) -> None:
    assert {**prepare_body(body, None), "_source": None} == {**body, "_source": None}


def test_vectors_by_name_are_exact(
    cluster: OpenSearchEngine, filled: str, stored: dict[str, np.ndarray[Any, np.dtype[np.float32]]]
) -> None:
    found = cluster.documents(filled, [str(n) for n in range(6)])
    assert [found[id][0]["n"] for id in sorted(found)] == [0, 1, 2, 3, 4, 5]
    assert not any(name.startswith("resift_") for source, _ in found.values() for name in source)
    assert found["5"][1] is None
    for id, vector in stored.items():
        np.testing.assert_array_equal(found[id][1], vector)
    named = cluster.search(filled, {"query": MATCH, "_source": ["n", "resift_vector"]}, vectors=VECTOR_FIELD)
    for hit, row in zip(named.hits, named.vectors, strict=True):
        assert (row is None) == (hit["_id"] == "5")
        np.testing.assert_array_equal(hit["_source"].get("resift_vector"), None if row is None else row.tolist())


def test_an_index_that_is_not_ours_has_no_vectors(cluster: OpenSearchEngine) -> None:
    index = f"packed-{uuid.uuid4().hex[:8]}"
    for mapping in ({}, {"resift_vector": {"type": "float"}}, {"resift_vector": {"type": "object", "enabled": False}}):
        cluster.client.indices.create(index=index, body={"mappings": {"properties": mapping}})
        source = {"text": "fire"} | ({"resift_vector": [1.5, 2]} if mapping else {})
        cluster.client.index(index=index, id="1", body=source, params={"refresh": "true"})
        found = cluster.search(index, {"query": {"match": {"text": "fire"}}}, vectors=VECTOR_FIELD)
        assert (found.hits[0]["_source"], found.vectors) == ({"text": "fire"}, [None])
        cluster.drop(index)


@pytest.mark.parametrize("fields", [7, ["a"], {"a": 1}])
def test_malformed_script_fields_are_refused_as_the_callers_own(
    cluster: OpenSearchEngine, filled: str, fields: Any
) -> None:
    with pytest.raises(EngineError) as refused:
        cluster.search(filled, {"query": MATCH, "script_fields": fields}, vectors=VECTOR_FIELD)
    assert refused.value.status == 400
