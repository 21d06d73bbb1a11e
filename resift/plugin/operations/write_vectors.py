"""Vectors written into the documents of an index that exists, and taken out of them again, beside running traffic.

Neither keeps a state of its own: what was done shows in the index, so whoever begins again after a kill does the rest.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from resift.arrays import batched
from resift.contracts.documents import IndexInfo, Rejection
from resift.contracts.engine import Engine
from resift.encoders.model import Model
from resift.ingest.stopping import Stop
from resift.ingest.verify import VectorCheck, Verification
from resift.ingest.writing import CountingWriter
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.client import scroll

_BATCH, _PASSES = 500, 20
_WRITERS = 3
_REMOVE = "for (String name : params.fields) { ctx._source.remove(name); }"


@dataclass
class Written:
    """What became of an index in ``seconds``: ``documents`` were given vectors, or had them taken out.

    The cluster would not write what was ``refused``, and ``left`` are those besides that lack, or have, one still.
    """

    documents: int = 0
    refused: list[Rejection] = field(default_factory=list)
    left: int = 0
    seconds: float = 0.0


Progress = Callable[[int], None]  # is told how many documents are done


def fill(engine: Engine, model: Model, entry: IndexInfo, stop: Stop, progress: Progress) -> Written:
    """Give all documents of an index that lack it a vector of ``entry``, in passes until none lacks it.

    What clients write meanwhile is left for the next pass. Where they write without pause an end is made when passes
    have no less to do any more. Raises EngineUnavailable where the cluster does not come back.
    """
    report, started, last = Written(), time.perf_counter(), math.inf
    while True:
        engine.refresh(entry.name)
        lacking = engine.scan(entry.name, entry.vector_field, entry.fields, missing=True)
        before = report.documents
        found = VectorCheck(engine, model, entry, True, stop).run(lacking, _shifted(progress, before))
        report.documents += found.repaired
        progress(report.documents)
        report.refused, report.left = found.refused, found.unrepaired - len(found.refused)
        report.seconds = time.perf_counter() - started
        # A document that is refused will be so in each pass, and found in each of them.
        if found.checked <= len(found.refused) or found.checked > last / 2 or stop.requested:
            return report
        last = found.checked


def _shifted(progress: Progress, before: int) -> Callable[[Verification], None]:
    return lambda found: progress(before + found.repaired)


def empty(cluster: Cluster, index: str, fields: Sequence[str], stop: Stop, progress: Progress) -> Written:
    """Take the vectors of ``fields`` out of all documents of an index; the rest of each stays.

    By updates of single documents, not ``_update_by_query``: that would have the index's ingest pipelines run, ours and
    the user's. Raises EngineUnavailable where the cluster does not come back.
    """
    report = Written()
    script = json.dumps({"script": {"lang": "painless", "source": _REMOVE, "params": {"fields": list(fields)}}})
    having = {"bool": {"should": [{"exists": {"field": name}} for name in fields], "minimum_should_match": 1}}

    def send(batch: Sequence[tuple[str, dict[str, Any], None]]) -> list[Rejection]:
        lines = [line for _, action, _ in batch for line in (json.dumps({"update": action}), script)]
        return cluster.engine.bulk_lines([id for id, _, _ in batch], index, lines, "update")

    for _ in range(_PASSES if fields else 0):
        cluster.engine.refresh(index)
        hits = scroll(cluster.engine.client, index, {"query": having, "_source": False, "seq_no_primary_term": True})
        with CountingWriter(send, _WRITERS, stop) as writer:
            for batch in batched(hits, _BATCH):
                writer.put([(hit["_id"], _as_read(hit), None) for hit in batch])
                progress(report.documents + writer.written)
                if stop.requested:
                    break
        report.documents += writer.written
        # what clients have changed since it was read comes again
        report.refused, report.left = writer.refused, len(writer.changed)
        if stop.requested or not report.left:
            break
    return report


def _as_read(hit: dict[str, Any]) -> dict[str, Any]:
    """The head of an update of a document that is to be as it was read."""
    routed = {"routing": hit["_routing"]} if "_routing" in hit else {}
    return {"_id": hit["_id"], "if_seq_no": hit["_seq_no"], "if_primary_term": hit["_primary_term"], **routed}
