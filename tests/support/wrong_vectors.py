"""An index with vectors in a real cluster, and changes of its documents that make the vectors wrong.

A vector is wrong if it is not the vector of the document's current text.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from resift import Model, WordVectors, build_model
from resift.contracts.documents import IndexInfo
from resift.encoders.tables import build_table
from resift.ingest.verify import verify
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import STORED_ONLY
from resift.query.dsl import GUARD_FIELD

FIELDS = ["title", "parts.text"]
OTHER = "resift_vector_other"
TEXTS = ["bush fire", "army gun", "rain river", "smoke forest"]


@pytest.fixture(scope="module")
def rest(cluster: OpenSearchEngine) -> Cluster:
    """Return the client of the cluster's REST API."""
    return Cluster(cluster)


@pytest.fixture(scope="module")
def other_model(vectors: WordVectors) -> Model:
    """Return another model with the same dimension and the same words: their vectors are in reverse order."""
    table = build_table(vectors.words, vectors.matrix[::-1].copy())
    return build_model("mean", table)


def source(title: str, *texts: str) -> dict[str, Any]:
    """Return a document with a nested part for each text."""
    return {"title": title, "parts": [{"text": text} for text in texts]}


def body(model: Model, other: Model) -> dict[str, Any]:
    """Return the settings and the mapping of an index with nested texts, vectors of two models, and three shards."""
    vector = {"type": "knn_vector", "dimension": model.dim}
    text = {"type": "text", "analyzer": "english"}
    properties = {"title": text, "parts": {"type": "nested", "properties": {"text": text}}}
    vectors = {"resift_vector": vector, OTHER: vector}
    meta = {
        **IndexInfo.from_model(model, FIELDS).to_meta(),
        "others": [IndexInfo.from_model(other, FIELDS, vector_field=OTHER).to_meta()],
    }
    return {
        "settings": {"number_of_shards": 3, "number_of_replicas": 0},
        "mappings": {"properties": {**properties, **vectors, GUARD_FIELD: STORED_ONLY}, "_meta": {"resift": meta}},
    }


@pytest.fixture
def hand_made(cluster: OpenSearchEngine, rest: Cluster, model: Model, other_model: Model) -> Iterator[str]:
    """Return an index of 40 documents with the right vectors of both models. Every third document is routed."""
    name = f"true-{uuid.uuid4().hex[:8]}"
    rest.request("PUT", f"/{name}", body(model, other_model))
    fill(cluster, rest, name, model, other_model)
    yield name
    cluster.drop_if_exists(name)


def fill(cluster: OpenSearchEngine, rest: Cluster, index: str, model: Model, other: Model) -> None:
    """Index the documents without vectors, and let ``verify`` add the vectors."""
    lines = []
    for i in range(40):
        routed = {"routing": f"r{i}"} if i % 3 == 0 else {}
        document = source(TEXTS[i % 4], TEXTS[(i + 1) % 4], "water")
        lines += [json.dumps({"index": {"_id": str(i), **routed}}), json.dumps(document)]
    rest.request("POST", f"/{index}/_bulk", "\n".join(lines) + "\n", refresh="true")
    for each in (model, other):
        report = verify(cluster, each, index, repair=True)
        assert (report.missing, report.repaired, report.unrepaired) == (40, 40, 0)


def wrong(cluster: OpenSearchEngine, model: Model, index: str) -> list[str]:
    """Return the ids of documents whose vectors are missing or do not match their texts."""
    cluster.refresh(index)
    report = verify(cluster, model, index)
    return sorted([*report.missing_ids, *report.stale_ids], key=int)


PEACE = source("peace", "war")


def partial_update(rest: Cluster, index: str) -> list[str]:
    rest.request("POST", f"/{index}/_update/3", {"doc": {"title": "peace"}}, routing="r3")
    return ["3"]


def script_update(rest: Cluster, index: str) -> list[str]:
    script = {"source": "ctx._source.parts[0].text = params.text", "params": {"text": "peace"}}
    rest.request("POST", f"/{index}/_update/4", {"script": script})
    return ["4"]


def update_by_query(rest: Cluster, index: str) -> list[str]:
    script = {"source": "ctx._source.title = 'peace'"}
    query = {"ids": {"values": ["5", "6", "7"]}}
    rest.request("POST", f"/{index}/_update_by_query", {"script": script, "query": query}, refresh="true")
    return ["5", "6", "7"]


def bulk_without_pipeline(rest: Cluster, index: str) -> list[str]:
    lines = [json.dumps({"index": {"_id": "8"}}), json.dumps(PEACE)]
    lines += [json.dumps({"update": {"_id": "10"}}), json.dumps({"doc": PEACE})]
    lines += [json.dumps({"delete": {"_id": "11"}}), json.dumps({"create": {"_id": "100"}}), json.dumps(PEACE)]
    rest.request("POST", f"/{index}/_bulk", "\n".join(lines) + "\n")
    return ["8", "10", "100"]


def vectors_of_another_document(rest: Cluster, index: str) -> list[str]:
    stored = rest.request("GET", f"/{index}/_doc/13")["_source"]
    rest.request("PUT", f"/{index}/_doc/14", {**stored, "title": "peace"})
    return ["14"]


def vectors_of_another_model(rest: Cluster, index: str) -> list[str]:
    stored = rest.request("GET", f"/{index}/_doc/16")["_source"]
    rest.request("POST", f"/{index}/_update/16", {"doc": {"resift_vector": stored[OTHER]}})
    return ["16"]


def reindex_of_an_older_state(rest: Cluster, index: str) -> list[str]:
    """Replace a document by reindexing. The new document only has a title, and the vector of no text."""
    older = f"{index}-older"
    rest.request("PUT", f"/{older}/_doc/17", {"title": "peace"}, refresh="true")
    script = {"source": "ctx.op = 'index'; ctx._source.resift_vector = params.v", "params": {"v": [0.5] * 8}}
    request = {"source": {"index": older}, "dest": {"index": index}, "script": script}
    rest.request("POST", "/_reindex", request, refresh="true")
    rest.request("DELETE", f"/{older}")
    return ["17"]


WAYS: list[Callable[[Cluster, str], list[str]]] = [
    partial_update,
    script_update,
    update_by_query,
    bulk_without_pipeline,
    vectors_of_another_document,
    vectors_of_another_model,
    reindex_of_an_older_state,
]


def hits(rest: Cluster, index: str) -> list[dict[str, Any]]:
    """Return all documents as they are stored."""
    documents = rest.request("POST", f"/{index}/_search", {"size": 100, "version": True})["hits"]["hits"]
    assert len(documents) < 100
    return list(documents)


def plain(hit: dict[str, Any]) -> Any:
    """Return the fields and the routing of a hit, without the first model's vector, which ``verify`` may repair."""
    fields = {name: value for name, value in hit["_source"].items() if name != "resift_vector"}
    return fields, hit.get("_routing")
