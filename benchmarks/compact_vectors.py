"""Measure compact vectors (``resift attach --vectors``): ``python benchmarks/compact_vectors.py [--documents 20000]``.

Prints a JSON object per line. The first objects are for short documents in OpenSearch (OPENSEARCH_URL, or a node that
the benchmark starts), in an index without vectors and in an attached copy, one object for each number of --dimensions.
They contain the bytes that a vector adds to a document after segments are merged, the number of documents attached per
second, and ratios of median search times, attached to plain, measured in alternation:

- ``plain``: a search for ten whole documents.
- ``titles``: a search for the titles of a hundred documents.
- ``meaning``: the search for a hundred titles as Resift rewrites it.

``float`` contains the same for vectors of floats in a ``knn_vector`` field without an HNSW index, the format of earlier
versions.

With RESIFT_DATA set, the following objects contain nDCG@10 x 100 of searches with float vectors and with compact
vectors, for each collection (--collections). Needs the extra ``dev``.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scale_vectors import store_bytes
from speed_cluster import FIELDS, Client, hits_body, opensearch_url
from speed_data import pieces
from speed_engine import small_model
from speed_timing import seconds

import resift
from resift import Model
from resift.arrays import Floats, batched
from resift.contracts.documents import Document, IndexInfo
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.vector_updates import write_vectors
from resift.reranker import Config, create_app
from resift.stopping import Stop
from resift.vectors.compact import decode_vector, encode_vector
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import read_collection
from resift_lab.evaluation.protocol import run_hybrid
from resift_lab.evaluation.registry import build_system

QUERIES = ("space shuttle launch", "graphics card driver", "fire of the army", "encryption key", "hockey team wins")
COLLECTIONS = "cranfield,cisi,medline,vaswani,squad-train-part,wiki-titles,mtrag-clapnq,mtrag-govt,mtrag-fiqa,chorus"
# seconds until replaced documents can be removed: OpenSearch retains them until all shard copies have synchronised
_SYNCED = 35.0
INDEX, ATTACHED, FLOATS = "compact-plain", "compact-attached", "compact-floats"


def cost(url: str, documents: Sequence[tuple[str, str]], rounds: int, dim: int) -> dict[str, Any]:
    """Measure the size, the writing speed and the search times of compact and of float vectors in a cluster."""
    engine, model = OpenSearchEngine(url, timeout=300), small_model(dim)
    folder = tempfile.TemporaryDirectory()
    try:
        for index in (INDEX, ATTACHED, FLOATS):
            _index(engine, index, documents)
        start = time.perf_counter()
        saved = str(model.save(Path(folder.name) / "model"))
        done = resift.attach(url, ATTACHED, vectors=True, force=True, model=saved, fields=FIELDS).run()
        whole, (attached,) = time.perf_counter() - start, done.indices
        engine.tune(ATTACHED, None)  # the weight of the model, because searches with the weight 0 use no vectors
        _attach_floats(engine, model)
        time.sleep(_SYNCED)
        sizes = {index: store_bytes(engine.client, index) for index in (INDEX, ATTACHED, FLOATS)}
        return {
            "documents": len(documents),
            "dimensions": model.dim,
            "bytes a document": round((sizes[ATTACHED] - sizes[INDEX]) / len(documents)),
            "written a second": round(attached.documents / attached.seconds),
            "seconds of all": round(whole, 1),
            **_searches(engine, url, model, ATTACHED, rounds),
            "float": {
                "bytes a document": round((sizes[FLOATS] - sizes[INDEX]) / len(documents)),
                **_searches(engine, url, model, FLOATS, rounds),
            },
        }
    finally:
        for index in (INDEX, ATTACHED, FLOATS):
            engine.drop_if_exists(index)
        engine.close()
        folder.cleanup()


def _index(engine: OpenSearchEngine, index: str, documents: Sequence[tuple[str, str]]) -> None:
    engine.drop_if_exists(index)
    texts = {name: {"type": "text", "analyzer": "english"} for name in FIELDS}
    settings = {"number_of_shards": 1, "number_of_replicas": 0}
    engine.client.indices.create(index=index, body={"settings": settings, "mappings": {"properties": texts}})
    for batch in batched(enumerate(documents), 1000):
        engine.bulk(index, [Document(str(id), {"title": title, "text": text}) for id, (title, text) in batch])
    engine.refresh(index)


def _attach_floats(engine: OpenSearchEngine, model: Model) -> None:
    entry = IndexInfo.from_model(model, FIELDS, FLOATS)
    mapped = {entry.vector_field: {"type": "knn_vector", "dimension": model.dim}}
    body = {"properties": mapped, "_meta": {"resift": {**entry.to_meta(), "graph": False}}}
    engine.client.indices.put_mapping(index=FLOATS, body=body)
    write_vectors(engine, model, entry, Stop(), lambda done: None)


def _searches(engine: OpenSearchEngine, url: str, model: Model, index: str, rounds: int) -> dict[str, float]:
    """Return the ratios of median search times between an index and the index without vectors."""
    client = Client(url)
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Config(store=str(Path(folder) / "sessions.db")), engine=engine, model=model).test_client()
        requests = [{"index": index, "body": hits_body(query)} for query in QUERIES]
        bodies = [app.post("/v1/rewrite", json=request).get_json()["body"] for request in requests]
    plain = [{"query": hits_body(query)["query"]} for query in QUERIES]
    titles = [hits_body(query) for query in QUERIES]
    assert all("rescore" in body for body in bodies)

    def searches(of: str, sent: Sequence[dict[str, Any]]) -> Callable[[], Any]:
        return lambda: [client.post(f"/{of}/_search?search_pipeline=_none", body) for body in sent]

    kinds = {"plain": (plain, plain), "titles": (titles, titles), "meaning": (titles, bodies)}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    for turn in range(rounds + rounds // 5):
        for name, (before, after) in kinds.items():
            both = [(INDEX, before), (index, after)]
            order = (0, 1) if turn % 2 else (1, 0)
            times = {at: seconds(searches(*both[at])) for at in order}
            if turn >= rounds // 5:  # in the first rounds OpenSearch compiles its scripts
                taken[name].append((times[0], times[1]))
    return {
        name: round(float(np.median([b for _, b in pairs]) / np.median([a for a, _ in pairs])), 3)
        for name, pairs in taken.items()
    }


def rounded(vectors: Floats) -> Floats:
    """Return the vectors (N, K) after they have been encoded compactly and decoded."""
    decoded = [decode_vector(encode_vector(vector)) for vector in vectors]
    return np.array([vector for vector in decoded if vector is not None])


def quality(data: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield nDCG@10 x 100 of each collection with float vectors and with compact vectors."""
    for name in names:
        collection = read_collection(data / name)
        point: dict[str, Any] = {"collection": name}
        for kind in ("mean", "boew:256", "sfbow"):
            for label, change in (("", None), (" compact", rounded)):

                def serve(texts: Any, vectors: Any, *more: Any, change: Any = change) -> ServedSearch:
                    return ServedSearch(texts, change(vectors) if change else vectors, *more)

                run, *_ = run_hybrid(build_system(kind), collection, None, serve)
                point[kind + label] = round(100 * run.means()["ndcg@10"], 2)
        yield point


def main() -> None:
    """Print all measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--dimensions", default="256,128")
    parser.add_argument("--collections", default=COLLECTIONS)
    options = parser.parse_args()
    url = opensearch_url() if options.documents else ""
    for dim in map(int, options.dimensions.split(",") if options.documents else ()):
        print(json.dumps(cost(url, pieces(options.documents), options.rounds, dim)), flush=True)
    if data := os.environ.get("RESIFT_DATA"):
        for point in quality(Path(data), [name for name in options.collections.split(",") if name]):
            print(json.dumps(point), flush=True)


if __name__ == "__main__":
    main()
