"""A copy made like an index that clients write to, until both are alike and it can take over.

Each write of a shard has a number, so what was written since documents were read is read again. Nothing is kept of what
was done: whoever begins again after a kill makes another copy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import quote

from resift.arrays import batched
from resift.contracts.documents import Rejection
from resift.errors import EngineError, EngineUnavailable
from resift.ingest.retrying import Patience, patiently
from resift.ingest.stopping import Stop
from resift.ingest.vector_writing import BatchWriter
from resift.ingest.verify import BATCH
from resift.plugin.cluster.copying import Copy
from resift.plugin.opensearch.client import error_reason
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.packed_vectors import sent_body
from resift.plugin.opensearch.scanning import ShardState, scroll

SMALL = 1000  # documents that may have been written since the round before when the last one begins
_ROUNDS = 10
_IDS = 5000  # documents of which the ids alone are read together
Progress = Callable[[int], None]  # is told how many documents are done
Hit = dict[str, Any]


class Mirror:
    """Makes a ``copy`` like its index.

    Documents keep their ids and their routing, not their versions; nobody else writes to the copy. Vectors of ours are
    not copied. Raises EngineError for documents that the copy does not take, and EngineUnavailable where the cluster
    does not come back.
    """

    def __init__(self, engine: OpenSearchEngine, copy: Copy, stop: Stop) -> None:
        self.source, self.to, self.stop = copy.of, copy.name, stop
        self._engine, self._cluster, self._copy = engine, copy.cluster, copy
        self._seen: dict[int, ShardState] = {}

    def changes(self, progress: Progress = lambda done: None) -> int:
        """Copy what was written since the last time, at first everything; return how many documents were read."""
        states = self._engine.shard_states(self.source)  # before anything is read: what comes later is read again
        read = 0
        for shard, now in states.items():
            seen = self._seen.get(shard)
            after = seen.settled if seen and seen.history == now.history else None
            if after is None or now.highest > after:
                self._engine.refresh(self.source)
                read += self._copied(self._hits(shard, after), partial(_add, progress, read))
        if not self.stop.requested:
            self._seen = states
        return read

    def catch_up(self) -> None:
        """Copy what is written meanwhile, in rounds, until there is little left to do."""
        self.remove_gone()
        for _ in range(_ROUNDS):
            if self.stop.requested or self.changes() <= SMALL:
                break

    def finish(self) -> int:
        """Make both alike while nobody writes to the source; return their number of documents.

        Raises EngineError where they are not alike then.
        """
        self.changes()
        there = self._count(self.source)
        if there != self._count(self.to):  # all that the source has is there, and what it has no longer
            self.remove_gone()
        if there != (copied := self._count(self.to)):
            message = f"{self.source} has {there} documents, and {self.to} {copied}"
            raise EngineError(message, status=409, value=copied, expected="that nobody writes to the copy")
        return there

    def _count(self, index: str) -> int:
        self._engine.refresh(index)
        return self._cluster.count(index)

    def remove_gone(self) -> None:
        """Delete the documents that the source has no longer."""
        self._engine.refresh(self.to)
        hits = scroll(self._engine.client, self.to, {"_source": False, "size": _IDS})
        with BatchWriter(self._delete, self._engine.writers, self.stop) as writer:
            for batch in batched(hits, _IDS):
                asked = [{"_id": hit["_id"], **_routing(hit)} for hit in batch]
                answer = self._read(f"{_path(self.source)}/_mget", {"docs": asked}, _source="false")
                if failed := [doc["error"] for doc in answer["docs"] if "error" in doc]:
                    raise EngineUnavailable(f"{self.source} cannot be read: {error_reason(failed[0])}")
                gone = [hit for hit, doc in zip(batch, answer["docs"], strict=True) if not doc["found"]]
                if gone:
                    writer.put([(hit["_id"], _routing(hit), None) for hit in gone])
                if self.stop.requested:
                    break
        self._refuse(writer)

    def _read(self, path: str, body: Any, **params: Any) -> Any:
        """The answer of the cluster, once it has the time for it."""
        ask = partial(self._cluster.request, "POST", path, body, **params)
        return patiently(ask, Patience(self.stop.wait))

    def _delete(self, batch: Sequence[tuple[str, dict[str, str], None]]) -> list[Rejection]:
        lines = [json.dumps({"delete": {"_id": id, **routing}}) for id, routing, _ in batch]
        return self._bulk([id for id, _, _ in batch], lines, "delete")

    def _hits(self, shard: int, after: int | None = None) -> Iterator[Hit]:
        """Documents of a shard of the source, or those written ``after`` one, without vectors of ours."""
        query = {"match_all": {}} if after is None else {"range": {"_seq_no": {"gt": after}}}
        body = sent_body({"query": query}, None)
        return scroll(self._engine.client, self.source, body, preference=f"_shards:{shard}")

    def _copied(self, hits: Iterator[Hit], progress: Progress) -> int:
        """Write the documents; return how many they were."""
        # All that is read is as it was when the first page was, and the mapping that is read after it knows all of it.
        first = next(hits, None)
        if first is None:
            return 0
        self._copy.follow_mapping()
        read = 0
        with BatchWriter(self._write, self._engine.writers, self.stop) as writer:
            for batch in batched(chain([first], hits), BATCH):
                writer.put([(hit["_id"], hit, None) for hit in batch])
                read += len(batch)
                progress(read)
                if self.stop.requested:
                    break
        self._refuse(writer)
        return read

    def _write(self, batch: Sequence[tuple[str, Hit, None]]) -> list[Rejection]:
        lines = []
        for id, hit, _ in batch:
            lines.append(json.dumps({"index": {"_id": id, **_routing(hit)}}))
            try:
                lines.append(json.dumps(hit["_source"], allow_nan=False))
            except ValueError as error:  # a number that is too large for a float, in a field that is not indexed
                raise EngineError(f"document {id} cannot be copied: {error}", status=400, value=id) from error
        return self._bulk([id for id, _, _ in batch], lines, "index")

    def _bulk(self, ids: Sequence[str], lines: Sequence[str], action: str) -> list[Rejection]:
        # Documents that went through the index's pipelines once are not to do so again.
        return self._engine.bulk_lines(ids, self.to, lines, action, pipeline="_none")

    def _refuse(self, writer: BatchWriter) -> None:
        if writer.refused:
            one = writer.refused[0]
            message = f"{len(writer.refused)} documents are refused by {self.to}, such as {one.id}: {one.reason}"
            raise EngineError(message, status=one.status, value=one.id, expected="documents that it takes")


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
    patiently(copy.unblock, Patience(time.sleep))


def _add(progress: Progress, before: int, done: int) -> None:
    progress(before + done)


def _path(index: str) -> str:
    return f"/{quote(index, safe='')}"


def _routing(hit: Mapping[str, Any]) -> dict[str, str]:
    return {"routing": hit["_routing"]} if "_routing" in hit else {}
