"""Measure disk usage and retrieval quality of vectors in different number formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from opensearchpy import OpenSearch
from opensearchpy.exceptions import TransportError

from resift import load_model
from resift.arrays import Floats, batched
from resift.contracts.documents import Document
from resift.plugin.opensearch.documents import document_json
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.rewriting.similarity import QueryVector, similarity_clause
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import read_collection
from resift_lab.evaluation.protocol import run_hybrid
from resift_lab.evaluation.registry import build_system

INDEX, FIELD = "scale-kinds", "resift_vector"
_GRAPH = {"method": {"name": "hnsw", "engine": "lucene", "space_type": "innerproduct"}}
# kind: mapping of the vector field, and whether index.knn is set. With index.knn, a field without a method uses faiss,
# which crashes a node without its native libraries.
KINDS: dict[str, tuple[dict[str, Any] | None, bool]] = {
    "no vectors": (None, False),
    "float, a field of resift attach": ({}, False),
    "float of four digits, a field of resift attach": ({}, False),
    "float of three digits, a field of resift attach": ({}, False),
    "float with a graph": (_GRAPH, True),
    "byte, a field of resift attach": ({"data_type": "byte"}, False),
    "byte with a graph": ({"data_type": "byte", **_GRAPH}, True),
    "half, a field of resift attach": ({"data_type": "half_float"}, False),
}


def as_bytes(vectors: Floats) -> Floats:
    """Return unit vectors (N, K) scaled by a common factor and rounded to integers from -127 to 127."""
    return np.clip(np.rint(vectors * byte_factor(vectors)), -127, 127).astype(np.float32)


def byte_factor(vectors: Floats) -> float:
    """Return the factor that maps the 0.9999 quantile of absolute components to 127. Larger components are clipped."""
    return float(127 / np.quantile(np.abs(vectors), 0.9999))


def as_half(vectors: Floats) -> Floats:
    """Return the vectors rounded to 16-bit floats."""
    return vectors.astype(np.float16).astype(np.float32)


def of_digits(digits: int) -> Callable[[Floats], Floats]:
    """Return a function that rounds vectors to decimal digits, which saves space in ``_source``."""
    return lambda vectors: vectors.round(digits)


def as_is(vectors: Floats) -> Floats:
    """Return the vectors unchanged."""
    return vectors


QUANTISED = {
    "float": as_is,
    "half": as_half,
    "four digits": of_digits(4),
    "three digits": of_digits(3),
    "byte": as_bytes,
}
KEPT = {
    "byte": as_bytes,
    "byte with a graph": as_bytes,
    "float of four digits": of_digits(4),
    "float of three digits": of_digits(3),
}


def bytes_of_kinds(url: str, documents: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield the bytes per document of each kind of index (merged to a segment), or OpenSearch's reason for refusing."""
    engine, model = OpenSearchEngine(url, timeout=300), load_model()
    for name, (field, graph) in KINDS.items():
        try:
            sizes = _bytes(engine.client, name, documents, model.encode, field, graph)
        except TransportError as error:
            yield {"kind": name, "refused": _reason(error)}
            continue
        finally:
            engine.drop_if_exists(INDEX)
        yield {"kind": name, **sizes}
    engine.close()


def _bytes(
    client: OpenSearch,
    name: str,
    documents: Sequence[tuple[str, str]],
    encode: Callable[[list[str]], Floats],
    field: dict[str, Any] | None,
    graph: bool,
) -> dict[str, Any]:
    texts = {field_name: {"type": "text", "analyzer": "english"} for field_name in ("title", "text")}
    dim = encode(["fire"]).shape[1]
    added = {} if field is None else {FIELD: {"type": "knn_vector", "dimension": dim, **field}}
    settings = {"number_of_shards": 1, "number_of_replicas": 0, **({"index.knn": True} if graph else {})}
    client.indices.create(index=INDEX, body={"settings": settings, "mappings": {"properties": {**texts, **added}}})
    rows, vectors = [], np.empty((0, dim), np.float32)
    for batch in batched(enumerate(documents), 500):
        rows = []
        vectors = encode([f"{title}\n{text}" for _, (title, text) in batch])
        vectors = KEPT.get(name.partition(",")[0], as_is)(vectors)
        for (number, (title, text)), vector in zip(batch, vectors, strict=True):
            document = Document(str(number), {"title": title, "text": text}, vector if added else None)
            rows += [json.dumps({"index": {"_id": str(number)}}), _json(document, "byte" in name)]
        client.bulk(index=INDEX, body="\n".join(rows) + "\n", request_timeout=300)
    stored = store_bytes(client, INDEX)
    script = ""
    if added:
        body = {"query": similarity_clause(QueryVector("cosine", FIELD, np.asarray(vectors[0], np.float32)), 1.0)}
        try:
            client.search(index=INDEX, body={**body, "size": 1, "terminate_after": 10})
        except TransportError as error:
            script = _reason(error)
    return {"bytes a document": round(stored / len(documents)), **({"script": script} if script else {})}


def _json(document: Document, whole: bool) -> str:
    """Return the JSON of a document, with integers if ``whole``, because byte vectors must not have a decimal point."""
    if whole and document.vector is not None:
        return json.dumps({**document.source, FIELD: document.vector.astype(int).tolist()})
    return document_json(document, FIELD)


def store_bytes(client: OpenSearch, index: str) -> int:
    """Merge each primary shard to a segment, and return their bytes on disk."""
    client.indices.refresh(index=index)
    client.indices.forcemerge(index=index, max_num_segments=1, request_timeout=3600)
    client.indices.refresh(index=index)
    stats = client.indices.segments(index=index)["indices"][index]["shards"]
    # The sizes are from the list of segments, because the statistics of the store are up to ten seconds old. The list
    # also contains merged segments, which are not searched.
    primaries = [
        copy["segments"].values() for copies in stats.values() for copy in copies if copy["routing"]["primary"]
    ]
    return sum(int(segment["size_in_bytes"]) for segments in primaries for segment in segments if segment["search"])


def _reason(error: TransportError) -> str:
    info = error.info if isinstance(error.info, dict) else {}
    causes = info.get("error", {}).get("root_cause") or [{}] if isinstance(info.get("error"), dict) else [{}]
    return str(causes[0].get("reason", error.error))[:160]


def quality(data: Path) -> Iterator[dict[str, Any]]:
    """Yield nDCG@10 of searches with original and with rounded document vectors."""
    for name in ("cranfield", "cisi"):
        if not (data / name).is_dir():
            continue
        collection = read_collection(data / name)
        point: dict[str, Any] = {"collection": name}
        for kind, rounded in QUANTISED.items():

            def serve(texts: Any, vectors: Any, *more: Any, rounded: Any = rounded) -> ServedSearch:
                return ServedSearch(texts, rounded(vectors), *more)

            run, *_ = run_hybrid(build_system("mean"), collection, None, serve)
            point[kind] = round(run.means()["ndcg@10"], 4)
        yield point
