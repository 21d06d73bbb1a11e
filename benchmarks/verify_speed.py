"""How many documents a second ``resift verify`` checks and mends, and its parts: ``FILE.jsonl [--url URL] [--json]``.

Reading, encoding and writing take place side by side; each is measured alone too, one after the other in the same run.
Without a URL a node is started, which ends with this process. The index is made for this, and dropped.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from speed_cluster import opensearch_url

from resift import Model, load_model
from resift.arrays import batched
from resift.ingest.readers import Files, Record
from resift.ingest.vector_writing import VectorWriter
from resift.ingest.verify import BATCH, verify
from resift.plugin.documents import Document
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.query_dsl import document_text


@contextmanager
def index_of(engine: OpenSearchEngine, model: Model, file: str) -> Iterator[str]:
    """An index with the documents of a file, none of which has a vector."""
    name = f"verify-speed-{uuid.uuid4().hex[:8]}"
    engine.create(name, ["title", "text"], model)
    try:
        records = (record for record in Files([file]) if isinstance(record, Record))
        for some in batched(records, BATCH):
            assert engine.bulk(name, [Document(record.id, record.source) for record in some]) == []
        engine.refresh(name)
        yield name
    finally:
        engine.drop(name)


def measure(engine: OpenSearchEngine, model: Model, index: str) -> dict[str, float]:
    """Documents a second of the whole, and of each part alone."""
    figures: dict[str, float] = {}

    def timed(name: str, work: Callable[[], int]) -> None:
        started = time.perf_counter()
        count = work()
        figures[name] = count / (time.perf_counter() - started)

    info = engine.info(index).of(model)
    timed("repair, every vector missing", lambda: verify(engine, model, index, repair=True).repaired)
    timed("verify, every vector right", lambda: verify(engine, model, index).checked)
    documents = list(engine.scan(index, fields=info.fields))
    timed("reading alone", lambda: sum(1 for _ in engine.scan(index, fields=info.fields)))
    texts = [document_text(document.source, info.fields) for document in documents]
    timed("encoding alone", lambda: len(model.encode(texts)))
    vectors = [(one.id, one.version, 0.5 * right) for one, right in zip(documents, model.encode(texts), strict=True)]

    def write() -> int:
        with VectorWriter(engine, info) as writer:
            for some in batched(vectors, BATCH):
                writer.put(some)
        return writer.written

    timed("writing alone", write)
    engine.refresh(index)
    timed("repair, every vector stale", lambda: verify(engine, model, index, repair=True).repaired)
    return {name: round(value) for name, value in figures.items()}


def main() -> None:
    """Measure, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--url")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    engine, model = OpenSearchEngine(arguments.url or opensearch_url(), timeout=120), load_model()
    with index_of(engine, model, arguments.file) as index:
        figures = measure(engine, model, index)
    engine.close()
    lines = [f"{name:<30} {value:>8,.0f} documents a second" for name, value in figures.items()]
    print(json.dumps(figures) if arguments.json else "\n".join(lines))


if __name__ == "__main__":
    main()
