"""Vectors kept between searches: bounded, and never of an older version."""

from __future__ import annotations

import numpy as np
import pytest

from resift import Model
from resift.plugin.engine import Document
from resift.plugin.kept import KeptVectors
from resift.plugin.opensearch import OpenSearchEngine


def test_bounded_and_the_least_recently_used_go() -> None:
    kept, vector = KeptVectors(size=100 * (400 + 16)), np.ones(4, np.float32)
    for number in range(1000):
        kept.put(("often",), vector) if not kept.get(("often",))[0] else None
        kept.put((number,), vector)
    found = [number for number in range(1000) if kept.get((number,))[0]]
    assert 40 <= len(found) <= 102
    assert 999 in found
    assert kept.get(("often",)) == (True, vector)
    assert len(kept._young) + len(kept._old) <= 104


def test_documents_without_a_vector_are_known_and_unknown_versions_are_not_kept() -> None:
    kept = KeptVectors()
    kept.put(("a",), None)
    kept.put(None, np.ones(2, np.float32))
    assert kept.get(("a",)) == (True, None)
    assert kept.get(("b",)) == (False, None)
    assert kept.get(None) == (False, None)


def test_uuids_are_asked_for_again_after_five_seconds() -> None:
    now, asked = [0.0], []
    kept = KeptVectors(clock=lambda: now[0])

    def fetch() -> dict[str, str]:
        asked.append(now[0])
        return {"docs": f"uuid {len(asked)}"}

    for now[0] in (0, 4, 5.1, 6):
        kept.uuids("docs", fetch)
    assert asked == [0, 5.1]
    assert kept.uuids("docs", fetch) == {"docs": "uuid 2"}


@pytest.fixture
def engine_url(opensearch_url: str) -> str:
    """A real OpenSearch only: the embedded engine has nothing to keep."""
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

    def check(kept: int, **texts: str | None) -> None:
        first, second = engine.search_all(index, [body, {**body, "_source": False}], vectors=True)
        for found in (first, second):
            for hit, vector in zip(found.hits, found.vectors, strict=True):
                assert not {"_seq_no", "_primary_term"} & set(hit)
                text = texts[hit["_id"]]
                expected = None if text is None else model.encode([text])[0]
                np.testing.assert_equal(vector is None, expected is None)
                if vector is not None:
                    np.testing.assert_allclose(vector, expected, rtol=1e-6)
        assert (first.kept, len(first.hits)) == (kept, len(texts))

    engine.create(index, ["text"], model)
    write(a="fire", b="gun", c=None)
    check(0, a="fire", b="gun", c=None)
    check(3, a="fire", b="gun", c=None)
    write(b="forest", c="soldier", d="river")
    check(1, a="fire", b="forest", c="soldier", d="river")
    engine.drop(index)
    engine.create(index, ["text"], model)
    write(a="war", b="smoke")
    check(0, a="war", b="smoke")
    asked = engine.search(index, {**body, "seq_no_primary_term": True}, vectors=True)
    assert (asked.kept, {hit["_primary_term"] for hit in asked.hits}) == (2, {1})
