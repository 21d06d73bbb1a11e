"""The documents of an index written into another one, while nobody writes to either."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from resift.arrays import batched
from resift.contracts.documents import Rejection
from resift.errors import EngineError
from resift.ingest.stopping import Stop
from resift.ingest.verify import BATCH
from resift.ingest.writing import CountingWriter, patiently
from resift.plugin.cluster.copying import Copy
from resift.plugin.opensearch.client import scroll
from resift.plugin.opensearch.documents import sent_body

Hit = dict[str, Any]


def copy_documents(copy: Copy, stop: Stop, progress: Callable[[int], None]) -> int:
    """Write all documents of the index into its ``copy``; return how many there are, unless a stop was requested.

    They keep their ids and their routing, not their versions, and vectors of ours are left out. Raises EngineError for
    documents that the copy does not take, and EngineUnavailable where the cluster does not come back.
    """
    engine, cluster, read = copy.cluster.engine, copy.cluster, 0

    def write(batch: Sequence[tuple[str, Hit, None]]) -> list[Rejection]:
        lines = [line for _, hit, _ in batch for line in _lines(hit)]
        # documents that went through the index's pipelines once are not to do so again
        return engine.bulk_lines([id for id, _, _ in batch], copy.name, lines, "index", pipeline="_none")

    engine.refresh(copy.of)
    hits = scroll(engine.client, copy.of, sent_body({"query": {"match_all": {}}}, None))
    with CountingWriter(write, engine.writers, stop) as writer:
        for batch in batched(hits, BATCH):
            writer.put([(hit["_id"], hit, None) for hit in batch])
            progress(read := read + len(batch))
            if stop.requested:
                return read
    if writer.refused:
        one = writer.refused[0]
        message = f"{len(writer.refused)} documents are refused by {copy.name}, such as {one.id}: {one.reason}"
        raise EngineError(message, status=one.status, value=one.id, expected="documents that it takes")
    engine.refresh(copy.name)
    if (there := cluster.count(copy.of)) != (copied := cluster.count(copy.name)):
        message = f"{copy.of} has {there} documents, and {copy.name} {copied}"
        raise EngineError(message, status=409, value=copied, expected="that nobody writes to the copy")
    return there


def _lines(hit: Mapping[str, Any]) -> Iterator[str]:
    """What of a bulk request writes a document that was read."""
    routing = {"routing": hit["_routing"]} if "_routing" in hit else {}
    yield json.dumps({"index": {"_id": hit["_id"], **routing}})
    try:
        yield json.dumps(hit["_source"], allow_nan=False)
    except ValueError as error:  # a number that is too large for a float, in a field that is not indexed
        raise EngineError(f"document {hit['_id']} cannot be copied: {error}", status=400, value=hit["_id"]) from error


@contextmanager
def blocked(copy: Copy) -> Iterator[None]:
    """A block in which nobody writes to the index, and at whose end it can be written to again, however it ends."""
    try:
        copy.block()
        yield
    finally:
        unblock(copy)


def unblock(copy: Copy) -> None:
    """Let the index be written to again, however busy the cluster is."""
    patiently(copy.unblock)
