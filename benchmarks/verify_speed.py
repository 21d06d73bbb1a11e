"""Measure ``resift verify``: ``python benchmarks/verify_speed.py FILE.jsonl [--url URL] [--json]``.

Prints the documents per second that are checked and repaired, with and without an HNSW index, as medians of three
rounds. ``resift verify`` reads, encodes and writes concurrently. Each of these parts is also measured alone. Plain bulk
updates of the same size, three at a time, show the time of the cluster itself. Without a URL the benchmark starts a
node. It creates its indices and drops them afterwards.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median

from speed_cluster import opensearch_url

from resift import Model, load_model
from resift.arrays import Floats, batched
from resift.contracts.documents import Document
from resift.ingest.readers import Files, Record
from resift.ingest.verify import BATCH, verify
from resift.ingest.writing import vector_writer
from resift.plugin.opensearch.documents import document_json
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import ANALYSIS, mappings
from resift.query.dsl import VECTOR_FIELD, document_text

FIELDS = ["title", "text"]


@contextmanager
def index_of(engine: OpenSearchEngine, model: Model, file: str, graph: bool) -> Iterator[str]:
    """Create an index with the documents of a file without vectors, yield its name, and drop it afterwards.

    Without ``graph``, the vector field has no HNSW index, as in attached indices.
    """
    name = f"verify-speed-{uuid.uuid4().hex[:8]}"
    mapped = mappings(FIELDS, model)
    if not graph:
        mapped["properties"][VECTOR_FIELD] = {"type": "knn_vector", "dimension": model.dim}
    engine.client.indices.create(
        index=name, body={"settings": {"index.knn": graph, "analysis": ANALYSIS}, "mappings": mapped}
    )
    try:
        records = (record for record in Files([file]) if isinstance(record, Record))
        for some in batched(records, BATCH):
            assert engine.bulk(name, [Document(record.id, record.source) for record in some]) == []
        engine.refresh(name)
        yield name
    finally:
        engine.drop(name)


class Round:
    """Measurements of verifying and of its parts.

    Args:
        engine: Engine of the index.
        model: The embedding model.
        index: Name of the index.

    Attributes:
        taken: Documents per second of each part.
    """

    def __init__(self, engine: OpenSearchEngine, model: Model, index: str) -> None:
        self.engine, self.model, self.index = engine, model, index
        self.info = engine.info(index).require_model(model)
        self.taken: dict[str, float] = {}

    def timed(self, name: str, work: Callable[[], int]) -> None:
        """Measure a function that returns its number of documents, and record documents per second."""
        started = time.perf_counter()
        count = work()
        self.taken[name] = count / (time.perf_counter() - started)
        self.engine.refresh(self.index)

    def run(self) -> dict[str, float]:
        """Measure all parts. All vectors in the index are correct before and after."""
        fields, encode = self.info.fields, self.model.encode
        self.timed("verify, every vector right", lambda: verify(self.engine, self.model, self.index).checked)
        self.timed("reading alone", lambda: sum(1 for _ in self.engine.scan(self.index, fields=fields)))
        documents = list(self.engine.scan(self.index, fields=fields))
        texts = [document_text(document.source, fields) for document in documents]
        self.timed("encoding alone", lambda: len(encode(texts)))
        wrong = 0.5 * encode(texts)
        vectors = [(document.id, document.version, vector) for document, vector in zip(documents, wrong, strict=True)]

        def write() -> int:
            with vector_writer(self.engine, self.info) as writer:
                for some in batched(vectors, BATCH):
                    writer.put(some)
            return writer.written

        self.timed("writing alone", write)
        bodies = list(_updates([document.id for document in documents], -wrong))
        self.timed("plain bulk updates", lambda: self._send(bodies))
        self.timed("repair, every vector stale", self.repair)
        return self.taken

    def repair(self) -> int:
        """Repair the index, and return the number of repaired documents."""
        return verify(self.engine, self.model, self.index, repair=True).repaired

    def _send(self, bodies: list[str]) -> int:
        """Send bulk requests, and return the number of documents."""
        with ThreadPoolExecutor(self.engine.writers) as pool:
            answers = list(pool.map(lambda body: self.engine.client.bulk(index=self.index, body=body), bodies))
        assert not any(answer["errors"] for answer in answers)
        return sum(len(answer["items"]) for answer in answers)


def _updates(ids: list[str], vectors: Sequence[Floats]) -> Iterator[str]:
    """Yield bodies of bulk requests that write a vector to each document."""
    for some in batched(zip(ids, vectors, strict=True), BATCH):
        lines = []
        for id, vector in some:
            lines += [json.dumps({"update": {"_id": id}})]
            lines += [f'{{"doc": {document_json(Document(id, {}, vector), VECTOR_FIELD)}}}']
        yield "\n".join(lines) + "\n"


def measure(engine: OpenSearchEngine, model: Model, index: str, rounds: int) -> dict[str, float]:
    """Return the median documents per second of verifying and of each part."""
    first = Round(engine, model, index)
    first.timed("repair, every vector missing", first.repair)
    rounds_taken = [Round(engine, model, index).run() for _ in range(rounds)]
    medians = {name: median(times[name] for times in rounds_taken) for name in rounds_taken[0]}
    return {name: round(value) for name, value in {**first.taken, **medians}.items()}


def main() -> None:
    """Measure with and without an HNSW index, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--url")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    engine, model = OpenSearchEngine(arguments.url or opensearch_url(), timeout=120), load_model()
    for graph in (False, True):
        with index_of(engine, model, arguments.file, graph) as index:
            figures = measure(engine, model, index, arguments.rounds)
        title = "with a graph" if graph else "without a graph"
        lines = [f"{name:<30} {value:>8,.0f} documents a second, {title}" for name, value in figures.items()]
        print(json.dumps({"graph": graph, **figures}) if arguments.json else "\n".join(lines), flush=True)
    engine.close()


if __name__ == "__main__":
    main()
