"""Tests of compact vectors: their copies in other indices, and similarities computed with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attached_index import Index, assert_right, own, run, shop

from resift import Model
from resift.contracts.documents import Document
from resift.embedded.engine import SqliteEngine
from resift.ingest.verify import verify
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.dsl import COMPACT_FIELD, VECTOR_FIELD
from resift.rewriting.similarity import QueryVector, similarity_clause
from resift.vectors.compact import decode_vector, encode_vector
from resift.vectors.similarity import fuzzy_jaccard

__all__ = ["own", "shop"]

ALL = {"source": "ctx._source.n = 1"}


@contextmanager
def made(shop: Index, *names: str) -> Iterator[None]:
    """Block writes to the index inside a ``with`` block, as ``_clone`` needs, and delete some indices at the end."""
    shop.cluster.request("PUT", f"/{shop.name}/_block/write")
    try:
        yield
    finally:
        shop.cluster.request("PUT", f"/{shop.name}/_settings", {"index.blocks.write": None})
        for name in names:
            shop.engine.drop_if_exists(name)


def named(shop: Index, name: str) -> Index:
    """Return an :class:`Index` object for another index."""
    other = object.__new__(Index)
    other.name, other.engine, other.cluster = name, shop.engine, shop.cluster
    return other


# OpenSearch warns that a future version will not run pipelines for updates.
@pytest.mark.filterwarnings("ignore:the index .* pipeline")
def test_compact_vectors_survive_updates_and_copies_of_an_index(
    shop: Index, own: tuple[Model, str], opensearch_url: str
) -> None:
    request, (model, folder) = shop.cluster.request, own
    run("attach", shop.name, opensearch_url, "--model", folder)
    fields = list(shop.engine.info(shop.name).fields)
    request("POST", f"/{shop.name}/_update/1", {"doc": {"n": 2}})
    request("POST", f"/{shop.name}/_update_by_query", {"query": {"range": {"n": {"lt": 100}}}, "script": ALL})
    assert_right(shop, model, fields)
    names = [f"{shop.name}-{kind}" for kind in ("clone", "split", "shrink", "reindexed", "restored")]
    clone, split, shrink, reindexed, _ = names
    with made(shop, *names):
        settings = {"index.blocks.write": None, "index.number_of_replicas": 0}
        for name, shards in ((clone, 2), (split, 4), (shrink, 1)):
            body = {"settings": {**settings, "index.number_of_shards": shards}}
            request("PUT", f"/{shop.name}/_{name.rpartition('-')[2]}/{name}", body, wait_for_active_shards="1")
        own_settings = {"analysis": {"analyzer": {"shouting": {"tokenizer": "standard", "filter": ["uppercase"]}}}}
        request("PUT", f"/{reindexed}", {"mappings": shop.mapping(), "settings": own_settings})
        request("POST", "/_reindex", {"source": {"index": shop.name}, "dest": {"index": reindexed}}, refresh="true")
        repository = f"/_snapshot/{shop.name}"
        request("PUT", repository, {"type": "fs", "settings": {"location": shop.name}})
        request("PUT", f"{repository}/one", {"indices": shop.name}, wait_for_completion="true")
        renamed = {"rename_pattern": "(.+)", "rename_replacement": "$1-restored", "index_settings": settings}
        request("POST", f"{repository}/one/_restore", {"indices": shop.name, **renamed}, wait_for_completion="true")
        request("DELETE", f"{repository}/one")
        request("DELETE", repository)
        for name in names:
            assert shop.engine.info(name).require_model(model).vector_field == COMPACT_FIELD
            assert_right(named(shop, name), model, fields)
            assert verify(shop.engine, model, name).is_correct
            clause = similarity_clause(QueryVector("cosine", COMPACT_FIELD, model.encode_one("forest")), 1.0)
            assert shop.engine.search(name, {"query": clause, "size": 1}).hits[0]["_score"] > 5  # exp(1 + cosine)


@pytest.mark.parametrize("similarity", ["cosine", "jaccard"])
@pytest.mark.parametrize("is_masked", [False, True])
def test_similarities_equal_the_embedded_engines(
    cluster: OpenSearchEngine, own: tuple[Model, str], tmp_path: Path, similarity: str, is_masked: bool
) -> None:
    rng, index, model = np.random.default_rng(3), "compact-scores", own[0]
    vectors = rng.normal(size=(50, model.dim)).astype(np.float32)
    vectors[7] = 0
    mask = rng.uniform(size=model.dim).astype(np.float32) if is_masked else None
    query = rng.normal(size=model.dim).astype(np.float32)
    stored = [decode_vector(encode_vector(vector)) for vector in vectors]
    embedded = SqliteEngine(str(tmp_path / "embedded.db"))
    embedded.create(index, ["text"], model)
    embedded.bulk(index, [Document(str(n), {"text": "a"}, vector) for n, vector in enumerate(stored)])
    cluster.drop_if_exists(index)
    mapped = {"text": {"type": "text"}, COMPACT_FIELD: {"type": "binary", "doc_values": True}}
    cluster.client.indices.create(index=index, body={"mappings": {"properties": mapped}})
    try:
        documents = [Document(str(n), {"text": "a"}, vector) for n, vector in enumerate(vectors)]
        assert cluster.bulk(index, documents, COMPACT_FIELD) == []
        others = [Document("none", {"text": "a"}), Document("other", {"text": "a"}, vectors[0][:5])]
        assert cluster.bulk(index, others, COMPACT_FIELD) == []
        cluster.refresh(index)
        embedded.bulk(index, [Document(one.id, one.source) for one in others])

        def scores(engine: Any, field: str) -> dict[str, float]:
            body = {"query": similarity_clause(QueryVector(similarity, field, query, mask), 0.7), "size": 100}
            return {hit["_id"]: hit["_score"] for hit in engine.search(index, body).hits}

        found = scores(cluster, COMPACT_FIELD)
        assert found == pytest.approx(scores(embedded, VECTOR_FIELD), rel=1e-5)
        assert len(found) == 52
        if similarity == "jaccard" and not is_masked:
            right = np.exp(0.7 * fuzzy_jaccard(query, vectors))  # computed with the original vectors
            assert [found[str(n)] for n in range(50)] == pytest.approx(right.tolist(), rel=0.01)
        read = cluster.field_vectors(index, [str(n) for n in range(50)], COMPACT_FIELD)
        for n, vector in enumerate(stored):
            np.testing.assert_allclose(read[str(n)], vector, atol=1e-4)
    finally:
        cluster.drop(index)
        embedded.close()
