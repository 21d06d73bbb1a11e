"""k-NN, with a mask and without: both engines find the same documents, with the same scores."""

from __future__ import annotations

import numpy as np
import pytest
from engine_documents import TEXTS, documents, ids

from resift import Feedback, Model, ResiftError, WordVectors, build_model
from resift.plugin.documents import Document
from resift.plugin.engine import Engine


def test_knn_and_filter(engine: Engine, indexed: str, model: Model) -> None:
    query = model.encode(["soldier"])[0]
    truth = model.score(
        query, np.stack([document.vector for document in documents(model) if document.vector is not None])
    )
    found = engine.knn(indexed, query, 3)
    assert [hit["_id"] for hit in found.hits] == [str(i) for i in np.argsort(-truth)[:3]]
    np.testing.assert_allclose(found.hits[0]["_score"], 1 + truth.max(), rtol=1e-5)
    even = engine.knn(indexed, query, 5, {"term": {"tags": "even"}})
    assert {hit["_id"] for hit in even.hits} == {"0", "2", "4"}


@pytest.mark.parametrize("kind", ["mean", "boew:40", "sfbow"])
def test_masked_knn_is_exact(engine: Engine, index: str, kind: str) -> None:
    """The best under the mask of documents that BM25 finds none of, which without the mask are others."""
    rng = np.random.default_rng(5)
    words = [f"w{i}" for i in range(200)]
    model = build_model(kind, WordVectors.build([*words, "peace"], rng.normal(size=(201, 64)).astype(np.float32)))
    texts = [" ".join(rng.choice(words, 12)) for _ in range(600)]
    encoded = model.encode(texts)
    engine.create(index, ["text"], model)
    batch = [Document(str(i), {"text": text, "n": i}, encoded[i]) for i, text in enumerate(texts)]
    assert engine.bulk(index, batch) == []
    engine.refresh(index)
    query = model.encode(["peace"])[0]
    assert ids(engine, index, {"match": {"text": "peace"}}) == []
    changed = 0
    for seed in range(3):
        some = np.random.default_rng(seed).permutation(len(texts))
        feedback = Feedback.learn(encoded[some[:5]], encoded[some[5:10]], "mask+rocchio")
        moved = feedback.transform_query(query)
        truth = model.score(moved, encoded, feedback.mask)
        body = engine.masked_body(moved, feedback.mask, model.similarity, 20)
        found = engine.search(index, body, vectors=True)
        rows = [int(hit["_id"]) for hit in found.hits]
        np.testing.assert_allclose(truth[rows], np.sort(truth)[::-1][:20], atol=1e-5)
        plus = model.similarity == "cosine"
        np.testing.assert_allclose([hit["_score"] - plus for hit in found.hits], truth[rows], atol=1e-5)
        nearest = encoded[rows[0]]
        np.testing.assert_allclose(found.vectors[0], nearest, atol=1e-4 * np.abs(nearest).max())
        changed += set(rows) != set(np.argsort(-model.score(moved, encoded))[:20].tolist())
        low = {"range": {"n": {"lt": 300}}}
        body = engine.masked_body(moved, feedback.mask, model.similarity, 20, low, False)
        (within,) = engine.search_all(index, [body])
        rows = [int(hit["_id"]) for hit in within.hits]
        assert "_source" not in within.hits[0]
        np.testing.assert_allclose(truth[rows], np.sort(truth[:300])[::-1][:20], atol=1e-5)
    assert changed


@pytest.mark.parametrize("size", [1, 20])
def test_masked_knn_of_nothing_and_of_little(engine: Engine, indexed: str, model: Model, size: int) -> None:
    zero, one = np.zeros(model.dim, np.float32), np.ones(model.dim, np.float32)
    for vector, mask in ((zero, one), (one, zero)):
        found = engine.search(indexed, engine.masked_body(vector, mask, "cosine", size))
        assert len(found.hits) == min(size, 5)
        assert {hit["_score"] for hit in found.hits} == {1.0}


def test_knn_of_a_jaccard_model(engine: Engine, index: str, vectors: WordVectors) -> None:
    sfbow = build_model("sfbow", vectors)
    engine.create(index, ["title", "text"], sfbow)
    assert engine.bulk(index, documents(sfbow)) == []
    engine.refresh(index)
    query = sfbow.encode([f"title 1\n{TEXTS[1]}"])[0]
    best = engine.knn(index, query, 2).hits[0]
    assert (best["_id"], round(best["_score"], 4)) == ("1", 1.0)


def test_wrong_dimension_of_a_query_vector(engine: Engine, indexed: str) -> None:
    with pytest.raises(ResiftError) as caught:
        engine.knn(indexed, np.ones(3, np.float32), 3)
    assert caught.value.status == 400


def test_texts_without_known_words_are_indexed(engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    texts = ["", "zzz qqq", "fire"]
    vectors = model.encode(texts)
    assert engine.bulk(index, [Document(str(i), {"text": t}, vectors[i]) for i, t in enumerate(texts)]) == []
    engine.refresh(index)
    assert engine.knn(index, model.encode(["fire"])[0], 3).hits[0]["_id"] == "2"
    assert len(engine.knn(index, model.encode([""])[0], 3).hits) == 3
