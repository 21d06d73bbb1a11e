"""The hit cache: it is bounded, and what it gives is never of an older version."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from resift import Model
from resift.plugin.documents import Document
from resift.plugin.opensearch.bodies import whole_hits
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.hit_cache import STATE_SECONDS, HitCache, IndexState, size_of
from resift.plugin.opensearch.mappings import mappings


def test_the_cache_is_bounded_and_the_least_recently_used_goes() -> None:
    vector = np.ones(4, np.float32)
    each = 200 + size_of((vector,))
    cache: HitCache[Any] = HitCache(size=100 * each)
    for number in range(1000):
        if cache.get(("often",)) is None:
            cache.put(("often",), (vector,))
        cache.put((number,), (vector,))
    found = [number for number in range(1000) if cache.get((number,))]
    assert 40 <= len(found) <= 100
    assert 999 in found
    assert cache.get(("often",)) == (vector,)
    assert sum(200 + size_of(value) for half in (cache._newer, cache._older) for value in half.values()) <= cache.size
    cache.put("large", "x" * cache.size)
    assert cache.get("large") is None


def test_sizes_count_all_that_values_hold() -> None:
    assert size_of(np.zeros(1000, np.float32)) >= 4000
    assert size_of(np.zeros((2, 1000), np.float32)[0]) >= 4000
    assert size_of({"a": ["x" * 500, {"b": "y" * 500}]}) >= 1000


def test_none_is_never_cached() -> None:
    cache: HitCache[Any] = HitCache()
    cache.put(None, 1)
    assert cache.get(None) is None


def test_states_are_asked_for_again_after_five_seconds() -> None:
    now, fetched = [0.0], []
    cache: HitCache[Any] = HitCache(clock=lambda: now[0])

    def fetch() -> dict[str, IndexState]:
        fetched.append(now[0])
        return {"docs": IndexState(f"key {len(fetched)}", True)}

    for now[0] in (0, 4, 5.1, 6):
        cache.states("docs", fetch)
    assert fetched == [0, 5.1]
    assert cache.states("docs", fetch) == {"docs": IndexState("key 2", True)}


@pytest.fixture
def engine_url(opensearch_url: str) -> str:
    """A real OpenSearch only: the embedded engine has no hit cache."""
    return opensearch_url


def test_searches_after_writes_bring_the_new_vectors(engine: OpenSearchEngine, index: str, model: Model) -> None:
    body = {"query": {"match_all": {}}, "size": 10}

    def write(**texts: str | None) -> None:
        rows = [
            Document(id, {"text": text or "rain"}, None if text is None else model.encode([text])[0])
            for id, text in texts.items()
        ]
        assert engine.bulk(index, rows) == []
        engine.refresh(index)

    def check(cached: int, **texts: str | None) -> None:
        first, second = engine.search_all(index, [body, {**body, "_source": False}], vectors=True)
        for found in (first, second):
            for hit, vector in zip(found.hits, found.vectors, strict=True):
                assert not {"_seq_no", "_primary_term"} & set(hit)
                text = texts[hit["_id"]]
                expected = None if text is None else model.encode([text])[0]
                np.testing.assert_equal(vector is None, expected is None)
                if vector is not None:
                    np.testing.assert_allclose(vector, expected, rtol=1e-6)
        assert (first.cached, len(first.hits)) == (cached, len(texts))

    engine.create(index, ["text"], model)
    write(a="fire", b="gun", c=None)
    check(0, a="fire", b="gun", c=None)
    check(2, a="fire", b="gun", c=None)
    write(b="forest", c="soldier", d="river")
    check(1, a="fire", b="forest", c="soldier", d="river")
    engine.drop(index)
    engine.create(index, ["text"], model)
    write(a="war", b="smoke")
    check(0, a="war", b="smoke")
    for _ in range(2):
        versioned = engine.search(index, {**body, "seq_no_primary_term": True}, vectors=True)
    assert (versioned.cached, {hit["_primary_term"] for hit in versioned.hits}) == (2, {1})


BODIES: list[dict[str, Any]] = [
    {},
    {"_source": False},
    {"_source": ["title"]},
    {"_source": "t*"},
    {"_source": {"excludes": ["resift_*", "text"]}},
    {"_source": ["none"]},
    {"_source": ["title", "resift_vector"]},
    {"highlight": {"fields": {"text": {}}}},
    {"fields": ["title"], "aggs": {"n": {"value_count": {"field": "n"}}}},
    {"seq_no_primary_term": True, "version": True, "explain": True},
    {"docvalue_fields": ["n"], "script_fields": {"twice": {"script": "doc['n'].value * 2"}}},
    {"aggs": {"best": {"top_hits": {"size": 1, "_source": ["title"]}}}, "track_total_hits": True},
    {"post_filter": {"range": {"n": {"gte": 1}}}, "min_score": 0.01, "track_total_hits": False},
    {"from": 1, "size": 2, "rescore": {"window_size": 5, "query": {"rescore_query": {"match": {"title": "two"}}}}},
]


@pytest.mark.parametrize("shards", [1, 3])
def test_hits_are_the_same_cached_or_not(engine: OpenSearchEngine, index: str, model: Model, shards: int) -> None:
    mapping = {**mappings(["title", "text"], model), "date_detection": False}
    mapping["properties"] |= {"n": {"type": "long"}, "kept": {"type": "object", "enabled": False}}
    settings = {"index.knn": True, "index.number_of_shards": shards}
    engine.client.indices.create(index=index, body={"settings": settings, "mappings": mapping})
    engine.client.indices.put_alias(index=index, name=f"{index}-alias")
    texts = ["fire fire gun", "gun fire", "fire in the forest", "a river", "fire brigade ö"]
    for n, text in enumerate(texts):
        source: dict[str, Any] = {"title": f"one {'two ' * n}", "text": text, "n": n, "kept": {"big": 10**25}}
        if n % 2:
            source["resift_vector"] = model.encode([text])[0].tolist()
        routing = {"routing": "r"} if n in (1, 4) else {}
        engine.client.index(index=index, id=str(n), body=source, **routing)
    engine.refresh(index)
    clause = {"bool": {"should": [{"match": {"text": {"query": "fire river", "_name": "named"}}}]}}
    for body in BODIES:
        for name in (index, f"{index}-alias"):
            searched = {"query": clause, **body}
            whole = engine.client.search(index=name, body=whole_hits(searched, False))["hits"]
            for turn in range(2):
                for found in (engine.search(name, searched, vectors=True), *engine.search_all(name, [searched], True)):
                    assert found.response["hits"] == whole, (body, turn)
                    for hit, vector in zip(found.hits, found.vectors, strict=True):
                        n = int(hit["_id"])
                        assert (vector is None) == (n % 2 == 0)
                        if vector is not None:
                            np.testing.assert_allclose(vector, model.encode([texts[n]])[0], rtol=1e-6)
    assert engine.search(index, {"query": clause}, vectors=True).cached == 2


def test_callers_with_rights_of_their_own_see_nothing_from_the_cache(
    engine: OpenSearchEngine, index: str, model: Model
) -> None:
    engine.create(index, ["text"], model)
    engine.bulk(index, [Document("a", {"text": "fire"}, model.encode(["fire"])[0])])
    engine.refresh(index)
    body = {"query": {"match": {"text": "fire"}}}
    assert engine.search(index, body, vectors=True).hits[0]["_source"] == {"text": "fire"}
    (state,) = engine.cached_hits.cache.states(index, dict).values()
    (hit,) = (value for value in engine.cached_hits.cache._newer.values() if isinstance(value, dict))
    hit["_source"]["text"] = "cached"
    assert state.numbered
    assert engine.search(index, body, vectors=True).hits[0]["_source"] == {"text": "cached"}
    own = engine.search(index, body, vectors=True, headers={"X-Opaque-Id": "caller"})
    assert own.hits[0]["_source"] == {"text": "fire"}


def test_an_index_with_a_pipeline_of_its_own_is_asked_for_whole_hits(
    engine: OpenSearchEngine, index: str, model: Model
) -> None:
    engine.create(index, ["text"], model)
    engine.bulk(index, [Document("a", {"text": "fire"}, model.encode(["fire"])[0])])
    engine.refresh(index)
    perform = engine.client.transport.perform_request
    path, renamed = f"/_search/pipeline/{index}", {"rename_field": {"field": "text", "target_field": "words"}}
    perform("PUT", path, body={"response_processors": [renamed]})
    try:
        assert engine.search(index, {"query": {"match": {"text": "fire"}}}, vectors=True).hits
        engine.client.indices.put_settings(index=index, body={"index.search.default_pipeline": index})
        kept_as_it_was = engine.search(index, {"query": {"match": {"text": "fire"}}}, vectors=True)
        assert kept_as_it_was.hits[0]["_source"] == {"text": "fire"}
        engine.cached_hits.cache.clock = lambda: time.monotonic() + STATE_SECONDS + 1
        for _ in range(2):
            found = engine.search(index, {"query": {"match": {"text": "fire"}}}, vectors=True)
            assert found.hits[0]["_source"] == {"words": "fire"}
    finally:
        engine.client.indices.put_settings(index=index, body={"index.search.default_pipeline": None})
        perform("DELETE", path)
