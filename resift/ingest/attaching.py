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
from urllib.parse import quote

from resift.arrays import batched
from resift.contracts.documents import IndexInfo, Rejection
from resift.contracts.engine import Engine
from resift.encoders.model import Model
from resift.ingest.retrying import ATTEMPTS
from resift.ingest.stopping import Stop
from resift.ingest.vector_writing import BatchWriter
from resift.ingest.verify import Verification, check
from resift.plugin.cluster.client import Cluster

_PAGE, _BATCH = 3000, 500
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
        found = check(engine, model, entry, lacking, True, stop, _shifted(progress, before))
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
    report, idle, path = Written(), 0, f"/{quote(index, safe='')}"
    script = json.dumps({"script": {"lang": "painless", "source": _REMOVE, "params": {"fields": list(fields)}}})

    def send(batch: Sequence[tuple[str, dict[str, Any], None]]) -> list[Rejection]:
        lines = [line for _, action, _ in batch for line in (json.dumps({"update": action}), script)]
        return cluster.engine.bulk_lines([id for id, _, _ in batch], index, lines, "update")

    while fields and not stop.requested and idle < ATTEMPTS:
        cluster.request("POST", f"{path}/_refresh")
        hits, report.left = _holders(cluster, path, fields, [one.id for one in report.refused])
        if not hits:
            break
        with BatchWriter(send, _WRITERS, stop) as writer:
            for batch in batched(hits, _BATCH):
                writer.put([(hit["_id"], _as_read(hit), None) for hit in batch])
        report.documents += writer.written
        report.refused += writer.refused
        # Where none was written, clients have changed all of them since they were read, and they come again.
        idle = 0 if writer.written else idle + 1
        progress(report.documents)
    return report


def _as_read(hit: dict[str, Any]) -> dict[str, Any]:
    """The head of an update of a document that is to be as it was read."""
    routed = {"routing": hit["_routing"]} if "_routing" in hit else {}
    return {"_id": hit["_id"], "if_seq_no": hit["_seq_no"], "if_primary_term": hit["_primary_term"], **routed}


def _holders(
    cluster: Cluster, path: str, fields: Sequence[str], without: Sequence[str]
) -> tuple[list[dict[str, Any]], int]:
    """Some of the documents that have one of the ``fields``, and how many there are."""
    having = [{"exists": {"field": name}} for name in fields]
    query = {"bool": {"should": having, "must_not": [{"ids": {"values": list(without)}}], "minimum_should_match": 1}}
    body = {"query": query, "size": _PAGE, "_source": False, "seq_no_primary_term": True, "sort": ["_doc"]}
    answer = cluster.request("POST", f"{path}/_search", {**body, "search_pipeline": "_none", "track_total_hits": True})
    return answer["hits"]["hits"], answer["hits"]["total"]["value"]
