"""Writing vectors into the documents of an existing index, and removing them again, while clients use the index.

Neither operation stores its progress. The documents show what remains to be done, so an operation that was killed can
simply be run again.
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
from resift.contracts.encoding import encoded_fields
from resift.contracts.engine import Engine
from resift.encoders.model import Model
from resift.ingest.verify import VectorCheck, Verification
from resift.ingest.writing import CountingWriter
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.client import scroll
from resift.stopping import Stop

_BATCH = 500  # documents per bulk request
_PASSES = 20  # passes over the documents, at most
_WRITERS = 3  # concurrent bulk requests
_REMOVE = "for (String name : params.fields) { ctx._source.remove(name); }"


@dataclass
class VectorUpdate:
    """The result of adding vectors to the documents of an index, or of removing them.

    Attributes:
        documents: The number of documents that were changed.
        refused: The documents that the cluster refused to change.
        remaining: The number of documents that still have to be changed, without the refused documents.
        seconds: The duration in seconds. It is 0 for a removal, which is not timed.
    """

    documents: int = 0
    refused: list[Rejection] = field(default_factory=list)
    remaining: int = 0
    seconds: float = 0.0


Progress = Callable[[int], None]  # called with the number of changed documents


def write_vectors(engine: Engine, model: Model, info: IndexInfo, stop: Stop, progress: Progress) -> VectorUpdate:
    """Add a vector to each document of an index that does not have a vector yet.

    Clients can write documents in the meantime. These documents get their vectors in another pass over the index. The
    function returns when all documents have a vector, except documents that the cluster refuses to change. It also
    returns if a stop is requested, or if clients write so fast that a pass has more than half as many documents as the
    previous pass.

    Args:
        engine: The search engine that contains the index.
        model: The model that encodes the documents.
        info: The description of the vectors: their model, text fields and vector field.
        stop: A flag to stop early.
        progress: A function that is called with the number of documents that have been changed.

    Returns:
        The number of changed documents, the documents that the cluster refused to change, and the number of documents
        that still lack a vector.

    Raises:
        EngineUnavailable: If the cluster does not answer for a long time.
    """
    report, started, last_checked = VectorUpdate(), time.perf_counter(), math.inf
    while True:
        engine.refresh(info.name)
        unfilled = engine.scan(info.name, info.vector_field, encoded_fields(model, info.fields), missing=True)
        filled_before = report.documents
        verification = VectorCheck(engine, model, info, True, stop).run(unfilled, _add_to(progress, filled_before))
        report.documents += verification.repaired
        progress(report.documents)
        report.refused = verification.refused
        report.remaining = verification.unrepaired - len(verification.refused)
        report.seconds = time.perf_counter() - started
        # Refused documents are checked again, and refused again, in each pass.
        only_refused = verification.checked <= len(verification.refused)
        if only_refused or verification.checked > last_checked / 2 or stop.requested:
            return report
        last_checked = verification.checked


def _add_to(progress: Progress, offset: int) -> Callable[[Verification], None]:
    return lambda verification: progress(offset + verification.repaired)


def remove_vectors(cluster: Cluster, index: str, fields: Sequence[str], stop: Stop, progress: Progress) -> VectorUpdate:
    """Remove vector fields from all documents of an index. All other fields stay unchanged.

    The documents are changed by bulk requests, because ``_update_by_query`` would run the ingest pipelines of the
    index.

    Args:
        cluster: The connection to the cluster.
        index: The name of the index.
        fields: The names of the vector fields.
        stop: A flag to stop early.
        progress: A function that is called with the number of documents that have been changed.

    Returns:
        The number of changed documents, and the documents that the cluster refused to change.

    Raises:
        EngineUnavailable: If the cluster does not answer for a long time.
    """
    report = VectorUpdate()
    script = json.dumps({"script": {"lang": "painless", "source": _REMOVE, "params": {"fields": list(fields)}}})
    has_vector = {"bool": {"should": [{"exists": {"field": name}} for name in fields], "minimum_should_match": 1}}

    def send(batch: Sequence[tuple[str, dict[str, Any], None]]) -> list[Rejection]:
        lines = [line for _, action, _ in batch for line in (json.dumps({"update": action}), script)]
        return cluster.engine.bulk_lines([id for id, _, _ in batch], index, lines, "update")

    for _ in range(_PASSES if fields else 0):
        cluster.engine.refresh(index)
        body = {"query": has_vector, "_source": False, "seq_no_primary_term": True}
        hits = scroll(cluster.engine.client, index, body)
        with CountingWriter(send, _WRITERS, stop) as writer:
            for batch in batched(hits, _BATCH):
                writer.put([(hit["_id"], _update_action(hit), None) for hit in batch])
                progress(report.documents + writer.written)
                if stop.requested:
                    break
        report.documents += writer.written
        # Documents that clients changed after they were read are updated in the next pass.
        report.refused, report.remaining = writer.refused, len(writer.changed)
        if stop.requested or not report.remaining:
            break
    return report


def _update_action(hit: dict[str, Any]) -> dict[str, Any]:
    """Return the action of a bulk request that updates a document only if it has not changed since it was read.

    If the document has changed, OpenSearch refuses the update.

    Args:
        hit: The hit from which the document was read, with its sequence number and primary term.
    """
    routing = {"routing": hit["_routing"]} if "_routing" in hit else {}
    return {"_id": hit["_id"], "if_seq_no": hit["_seq_no"], "if_primary_term": hit["_primary_term"], **routing}
