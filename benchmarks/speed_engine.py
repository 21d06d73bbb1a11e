"""Measure indexing in OpenSearch, compared with a plain client, and the memory of a worker."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from opensearchpy import OpenSearch
from opensearchpy.helpers import bulk
from speed_cluster import FIELDS, Client, Setup, records, set_up, with_first_lines
from speed_peers import Missing
from speed_timing import free_cores, seconds

from resift import Model, WordVectors, build_model, load_model
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import SETTINGS, mappings

PARTS = {
    "filled": "vectors filled in by the client",
    "pipeline": "ingest pipeline",
    "ml": "ML Commons asked by the client for the pipeline's vectors",
    "reranker": "reranker asked for them",
}


def memory(setup: Setup) -> float:
    """Return the private memory of a worker in MiB, which is the cost of an additional worker."""
    children = Path(f"/proc/{setup.pid}/task/{setup.pid}/children")
    if not children.exists():
        raise Missing("no /proc here")
    workers = children.read_text().split()
    lines = Path(f"/proc/{workers[0]}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def small_model(dim: int) -> Model:
    """Return the packaged model with its first ``dim`` dimensions, for time measurements only."""
    table = load_model().table
    return build_model("mean", WordVectors(table.words, np.ascontiguousarray(table.rows()[:, :dim]), table.weights))


def bulk_seconds(url: str, texts: Sequence[str], rounds: int, dim: int = 64) -> tuple[list[float], list[float]]:
    """Measure indexing with vectors by the code of ``resift index``, and without vectors by opensearch-py's helper.

    Both need a second core. Twice as many rounds run, and the half with the most free cores before and after is used.

    Returns:
        Seconds per round, with vectors and without.
    """
    engine, model, points = OpenSearchEngine(url, timeout=120), small_model(dim), []
    documents = with_first_lines(texts)
    model.encode(texts[:500])
    client = OpenSearch(url, timeout=120)
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(2 * rounds + 1):
            index, free = f"bench-{uuid.uuid4().hex[:8]}", free_cores()
            client.indices.create(index=index, body=text_only_index())
            lines = ({"_index": index, "_id": record.id, **record.source} for record in records(documents))
            theirs = seconds(bulk, client, lines) + seconds(engine.refresh, index)
            client.indices.delete(index=index)
            indexer = Indexer(engine, model, index, DeadLetters(Path(folder) / f"{turn}.jsonl"))
            ours = seconds(indexer.run, records(documents), FIELDS)
            engine.drop(index)
            points.append((min(free, free_cores()), ours, theirs))
    engine.close()
    client.close()
    _, with_vectors, text_only = zip(*sorted(points[1:])[rounds:], strict=True)
    return list(with_vectors), list(text_only)


def pipeline_seconds(url: str, texts: Sequence[str], rounds: int, dim: int = 64) -> dict[str, list[float]]:
    """Measure indexing by opensearch-py's helper, and the parts that the ingest pipeline adds.

    Documents are indexed without vectors, with vectors from the client, and through the pipeline. The other PARTS are
    the requests of the pipeline, sent by a client with the same batch size.

    Returns:
        Seconds per round of each part.
    """
    documents, model = with_first_lines(texts), small_model(dim)
    rows = list(records(documents))
    times: dict[str, list[float]] = {way: [] for way in ("text", *PARTS)}
    with set_up(url, model, documents[:100]) as setup, contextlib.closing(OpenSearch(url, timeout=120)) as client:
        ways = pipeline_ways(setup, client, model, rows)
        for turn in range(rounds + 2):
            for way, work in ways.items():
                taken = work()
                if turn >= 2:
                    times[way].append(taken)
    return times


def pipeline_ways(
    setup: Setup, client: OpenSearch, model: Model, rows: Sequence[Record]
) -> dict[str, Callable[[], float]]:
    """Return the functions that :func:`pipeline_seconds` measures. Each returns the seconds that its work takes."""
    lines = [f"{row.source['title']}\n{row.source['text']}\n" for row in rows]
    batches = [lines[i : i + 128] for i in range(0, len(lines), 128)]
    vectors = model.encode(lines)
    pipeline = f"{setup.name}-ingest"
    processors = client.ingest.get_pipeline(id=pipeline)[pipeline]["processors"]
    ml = f"/_plugins/_ml/_predict/text_embedding/{processors[1]['text_embedding']['model_id']}"
    ours, theirs, index = Client(setup.reranker), Client(setup.url), f"parts-{setup.name}"
    with_vectors = {"settings": SETTINGS, "mappings": mappings(FIELDS, model)}

    def action(row: Record, vector: Any) -> dict[str, Any]:
        filled = {} if vector is None else {"resift_vector": vector.tolist()}
        return {"_index": index, "_id": row.id, **row.source, **filled}

    def send(body: dict[str, Any], vectors: Iterable[Any] = itertools.repeat(None), **named: str) -> float:
        client.indices.create(index=index, body=body)
        actions = [action(row, vector) for row, vector in zip(rows, vectors)]  # noqa: B905, the repeated None has no end
        taken = seconds(lambda: bulk(client, actions, **named))
        client.indices.delete(index=index)
        return taken

    return {
        "text": lambda: send(text_only_index()),
        "filled": lambda: send(with_vectors, vectors),
        "pipeline": lambda: send(with_vectors, pipeline=pipeline),
        "ml": lambda: seconds(lambda: [theirs.post(ml, {"text_docs": batch}) for batch in batches]),
        "reranker": lambda: seconds(lambda: [ours.post("/v1/embeddings", {"input": batch}) for batch in batches]),
    }


def text_only_index() -> dict[str, Any]:
    """Return the body that creates an index without vectors."""
    return {"mappings": {"properties": {name: {"type": "text", "analyzer": "english"} for name in FIELDS}}}
