"""Tests of random samples on both engines: size, fields, vectors and reproducibility."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_documents import documents

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.errors import IndexNotFound
from resift.plugin.operations.plan import count_documents
from resift.query.dsl import VECTOR_FIELD
from resift.reviews.stored import StoredSet


@pytest.fixture
def many(engine: Engine, index: str, model: Model) -> str:
    """Return an index of eighty documents."""
    engine.create(index, ["text"], model)
    assert engine.bulk(index, [Document(str(n), {"text": f"fire {n}", "n": n}, None) for n in range(80)]) == []
    engine.refresh(index)
    return index


@pytest.mark.parametrize("size", [1, 30, 79])
def test_a_sample_has_the_requested_size_and_is_reproducible(engine: Engine, many: str, size: int) -> None:
    drawn = [[hit["_id"] for hit in engine.sample(many, size).hits] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == size
    # a sample of all documents, not the first documents
    assert size < 30 or max(map(int, drawn[0])) > 60


@pytest.mark.parametrize("size", [80, 300, 10_000])
def test_a_sample_of_few_documents_contains_all_of_them(engine: Engine, many: str, size: int) -> None:
    assert {int(hit["_id"]) for hit in engine.sample(many, size).hits} == set(range(80))


@pytest.mark.parametrize(
    ("source", "shown"), [(True, {"text", "n"}), (["n"], {"n"}), ({"excludes": ["n"]}, {"text"}), (False, None)]
)
def test_a_sample_has_the_requested_fields(engine: Engine, many: str, source: Any, shown: Any) -> None:
    result = engine.sample(many, 5, source)
    assert [set(hit["_source"]) if "_source" in hit else None for hit in result.hits] == [shown] * 5
    assert result.vectors == [None] * 5


def test_a_sample_contains_vectors_if_documents_have_vectors(engine: Engine, indexed: str, model: Model) -> None:
    held = {document.id: document.vector for document in documents(model)}
    drawn = engine.sample(indexed, 9, False, vectors=VECTOR_FIELD)
    assert len(drawn.hits) == len(held)
    for hit, vector in zip(drawn.hits, drawn.vectors, strict=True):
        expected = held[hit["_id"]]
        if expected is None:
            assert vector is None
        else:
            assert vector is not None
            np.testing.assert_allclose(vector, expected, atol=1e-4)


def test_a_sample_of_nothing(engine: Engine, index: str, model: Model) -> None:
    with pytest.raises(IndexNotFound):
        engine.sample(index, 3)
    engine.create(index, ["text"], model)
    engine.refresh(index)
    assert engine.sample(index, 3, vectors=VECTOR_FIELD).hits == []


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_samples_and_counts_skip_the_default_pipeline(engine: Any, many: str) -> None:
    pipeline = f"{many}-one"
    one = {"request_processors": [{"filter_query": {"query": {"term": {"n": 1}}}}]}
    engine.client.transport.perform_request("PUT", f"/_search/pipeline/{pipeline}", body=one)
    try:
        engine.client.indices.put_settings(index=many, body={"index.search.default_pipeline": pipeline})
        assert len(engine.search(many, {"query": {"match_all": {}}, "size": 100}).hits) == 1
        assert len(engine.sample(many, 100).hits) == 80
        assert count_documents(engine, many) == 80
        clauses = [{"match_all": {}}, {"range": {"n": {"lt": 3}}}]
        assert engine.document_counts(many, clauses) == [1, 1]
        assert engine.document_counts(many, clauses, skip_pipeline=True) == [80, 3]
        info = engine.info(many)
        assert engine.word_counts(info, info.fields, ["fire", "3"]) == (80, [80, 1])
        assert engine.word_counts(info, info.fields, ["fire"] * 1200) == (80, [80] * 1200)
        assert StoredSet(engine, many).total == 80
    finally:
        engine.client.indices.put_settings(index=many, body={"index.search.default_pipeline": "_none"})
        engine.client.transport.perform_request("DELETE", f"/_search/pipeline/{pipeline}")
