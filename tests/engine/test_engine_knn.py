"""Tests of k-NN with and without filters: both engines return the same documents with the same scores."""

from __future__ import annotations

import numpy as np
import pytest
from engine_documents import TEXTS, documents, knn_body

from resift import Model, ResiftError, WordVectors, build_model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine


def test_knn_and_filter(engine: Engine, indexed: str, model: Model) -> None:
    query = model.encode(["soldier"])[0]
    truth = model.score(
        query, np.stack([document.vector for document in documents(model) if document.vector is not None])
    )
    found = engine.search(indexed, knn_body(query, 3))
    assert [hit["_id"] for hit in found.hits] == [str(i) for i in np.argsort(-truth)[:3]]
    np.testing.assert_allclose(found.hits[0]["_score"], 1 + truth.max(), rtol=1e-5)
    even = engine.search(indexed, knn_body(query, 5, {"term": {"tags": "even"}}))
    assert {hit["_id"] for hit in even.hits} == {"0", "2", "4"}


def test_knn_of_a_jaccard_model(engine: Engine, index: str, vectors: WordVectors) -> None:
    sfbow = build_model("sfbow", vectors)
    engine.create(index, ["title", "text"], sfbow)
    assert engine.bulk(index, documents(sfbow)) == []
    engine.refresh(index)
    query = sfbow.encode([f"title 1\n{TEXTS[1]}"])[0]
    best = engine.search(index, knn_body(query, 2)).hits[0]
    assert (best["_id"], round(best["_score"], 4)) == ("1", 1.0)


def test_wrong_dimension_of_a_query_vector(engine: Engine, indexed: str) -> None:
    with pytest.raises(ResiftError) as caught:
        engine.search(indexed, knn_body(np.ones(3, np.float32), 3))
    assert caught.value.status == 400


def test_texts_without_known_words_are_indexed(engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    texts = ["", "zzz qqq", "fire"]
    vectors = model.encode(texts)
    assert engine.bulk(index, [Document(str(i), {"text": t}, vectors[i]) for i, t in enumerate(texts)]) == []
    engine.refresh(index)
    assert engine.search(index, knn_body(model.encode_one("fire"), 3)).hits[0]["_id"] == "2"
    assert len(engine.search(index, knn_body(model.encode_one(""), 3)).hits) == 3
