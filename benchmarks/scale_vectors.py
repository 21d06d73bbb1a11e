"""What vectors cost in an index, by how their numbers are kept: bytes of disk, and the quality of what is found."""

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
from resift.plugin.opensearch.documents import stored_json
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.rewriting.similarity import similarity_clause
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import read_collection
from resift_lab.evaluation.protocol import run_hybrid
from resift_lab.evaluation.registry import build_system

INDEX, FIELD = "scale-kinds", "resift_vector"
_GRAPH = {"method": {"name": "hnsw", "engine": "lucene", "space_type": "innerproduct"}}
# A field without a method in an index with index.knn is one of faiss, which ends a node that lacks its libraries.
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
    """Vectors (N, K) of length 1 as whole numbers from -127 to 127, all by one factor."""
    return np.clip(np.rint(vectors * byte_factor(vectors)), -127, 127).astype(np.float32)


def byte_factor(vectors: Floats) -> float:
    """What components are multiplied with: the largest in a thousand becomes 127, and those beyond are cut."""
    return float(127 / np.quantile(np.abs(vectors), 0.9999))


def as_half(vectors: Floats) -> Floats:
    """Vectors rounded to sixteen bits a number."""
    return vectors.astype(np.float16).astype(np.float32)


def of_digits(digits: int) -> Callable[[Floats], Floats]:
    """Vectors rounded to so many digits behind the point, which take less room in ``_source``."""
    return lambda vectors: vectors.round(digits)


def as_is(vectors: Floats) -> Floats:
    """The vectors."""
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
    """Bytes a document of an index of each kind, merged into one segment, or why OpenSearch does not take it."""
    engine, model = OpenSearchEngine(url, timeout=300), load_model()
    for name, (field, graph) in KINDS.items():
        try:
            found = _bytes(engine.client, name, documents, model.encode, field, graph)
        except TransportError as error:
            yield {"kind": name, "refused": _reason(error)}
            continue
        finally:
            engine.drop_if_exists(INDEX)
        yield {"kind": name, **found}
    engine.close()


def _bytes(
    client: OpenSearch,
    name: str,
    documents: Sequence[tuple[str, str]],
    encode: Callable[[list[str]], Floats],
    field: dict[str, Any] | None,
    graph: bool,
) -> dict[str, Any]:
    texts = {one: {"type": "text", "analyzer": "english"} for one in ("title", "text")}
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
        body = {"query": similarity_clause("cosine", FIELD, np.asarray(vectors[0], np.float32), None, 1.0)}
        try:
            client.search(index=INDEX, body={**body, "size": 1, "terminate_after": 10})
        except TransportError as error:
            script = _reason(error)
    return {"bytes a document": round(stored / len(documents)), **({"script": script} if script else {})}


def _json(document: Document, whole: bool) -> str:
    """A document as Resift writes it; or with ``whole`` numbers, without the decimal point that byte vectors refuse."""
    if whole and document.vector is not None:
        return json.dumps({**document.source, FIELD: document.vector.astype(int).tolist()})
    return stored_json(document, FIELD)


def store_bytes(client: OpenSearch, index: str) -> int:
    """Bytes of the primary shards on disk, merged into one segment each."""
    client.indices.refresh(index=index)
    client.indices.forcemerge(index=index, max_num_segments=1, request_timeout=3600)
    client.indices.refresh(index=index)
    stats = client.indices.segments(index=index)["indices"][index]["shards"]
    # of segments, as statistics of the store lag behind by ten seconds; those that were merged are still listed
    primaries = [
        copy["segments"].values() for copies in stats.values() for copy in copies if copy["routing"]["primary"]
    ]
    return sum(int(one["size_in_bytes"]) for segments in primaries for one in segments if one["search"])


def _reason(error: TransportError) -> str:
    info = error.info if isinstance(error.info, dict) else {}
    causes = info.get("error", {}).get("root_cause") or [{}] if isinstance(info.get("error"), dict) else [{}]
    return str(causes[0].get("reason", error.error))[:160]


def quality(data: Path) -> Iterator[dict[str, Any]]:
    """nDCG@10 of the served search with the vectors of the documents as they are, and rounded."""
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
