"""Tests of scores on both engines: repeated query words, opposite vectors, and extreme numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_documents import ids, knn_body

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.service.connect import open_engine


def scores(engine: Engine, index: str, query: dict[str, Any]) -> dict[str, float]:
    """Return ids and scores, best first."""
    return {hit["_id"]: hit["_score"] for hit in engine.search(index, {"query": query}).hits}


def test_a_word_counts_as_often_as_a_query_says_it(engine: Engine, indexed: str) -> None:
    once, other, thrice = (
        scores(engine, indexed, {"match": {"text": {"query": text, "boost": 2}}})
        for text in ("fire", "forest", "fire forest fire fire")
    )
    assert thrice == pytest.approx({id: 3 * once[id] + other.get(id, 0) for id in once})


def test_several_terms_of_a_text_score_what_their_boost_says(engine: Engine, indexed: str) -> None:
    for boost, settings in ((1, {}), (2.5, {"boost": 2.5})):
        found = scores(engine, indexed, {"terms": {"text": ["rain", "forest"], **settings}})
        assert found == {"0": boost, "3": boost}


def test_scores_follow_what_is_written(engine: Engine, engine_url: str, indexed: str) -> None:
    query = {"match": {"text": "forest rain"}}
    before = scores(engine, indexed, query)
    more = [Document(f"n{number}", {"text": "forest and more forest", "title": "x"}) for number in range(20)]
    assert engine.bulk(indexed, more) == []
    engine.refresh(indexed)
    after = scores(engine, indexed, query)
    assert (next(iter(before)), next(iter(after))) == ("0", "3")  # "forest" is not a rare word any more
    other = open_engine(engine_url)
    assert scores(other, indexed, query) == after
    other.close()


def test_vectors_that_point_away_are_near_by_how_far_they_point(engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    vector = model.encode(["fire"])[0]
    shares = {"a": 1.0, "b": 0.25, "c": 0.0, "d": -0.25, "e": -1.0, "f": -4.0}
    written = [Document(id, {"text": "x"}, np.float32(share) * vector) for id, share in shares.items()]
    assert engine.bulk(index, written[::-1]) == []
    engine.refresh(index)
    found = {hit["_id"]: hit["_score"] for hit in engine.search(index, knn_body(vector, 6)).hits}
    # Lucene's scores are never negative
    expected = {id: share + 1 if share > 0 else 1 / (1 - share) for id, share in shares.items()}
    assert found == pytest.approx(expected, rel=1e-5)
    assert list(found) == list(expected)


def test_new_vectors_are_searched(engine: Engine, indexed: str, model: Model) -> None:
    vector = model.encode(["rain river"])[0]
    nearest = engine.search(indexed, knn_body(vector, 1))
    assert [hit["_id"] for hit in nearest.hits] == ["3"]
    assert engine.put_vectors(indexed, [("1", engine.get(indexed, "1")[1], 2 * vector)]) == []
    engine.refresh(indexed)
    assert [hit["_id"] for hit in engine.search(indexed, knn_body(vector, 1)).hits] == ["1"]


def test_whole_numbers_have_64_bits(engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    numbers = {"least": -(2**63), "below": -(2**62) - 1, "above": 2**62 + 1, "most": 2**63 - 1}
    assert engine.bulk(index, [Document(id, {"text": "x", "n": n}) for id, n in numbers.items()]) == []
    engine.refresh(index)
    for id, number in numbers.items():
        assert ids(engine, index, {"term": {"n": number}}) == [id]
        assert ids(engine, index, {"range": {"n": {"gte": number, "lte": number}}}) == [id]
    assert ids(engine, index, {"range": {"n": {"gt": -(2**63), "lt": 2**63 - 1}}}) == ["below", "above"]
