"""How it stands with the vectors of each index: how many documents have one, and by which pipelines they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import pipeline_name
from resift.plugin.cluster.index_record import IndexRecord, records
from resift.plugin.cluster.usage import pipeline_uses
from resift.contracts.documents import IndexInfo


@dataclass(frozen=True)
class IndexHealth:
    """The vectors of one model in one index, which ``entry`` describes.

    ``documents`` is how many the index has, None for one that is closed, ``covered`` how many of them have a vector,
    and ``filling`` tells that not all were written yet. ``pipelines`` are the kinds of its pipelines that there are,
    and ``defaults`` those of them that it uses where a request names none. ``unencoded`` is how many documents its
    ingest pipeline has written without a vector since the nodes started, or the pipeline was changed.
    """

    entry: IndexInfo
    documents: int | None
    covered: int
    filling: bool
    pipelines: tuple[str, ...]
    defaults: tuple[str, ...]
    unencoded: int

    @property
    def missing(self) -> int:
        """How many documents have no vector."""
        return (self.documents or 0) - self.covered


def index_healths(cluster: Cluster) -> list[IndexHealth]:
    """What can be counted of all vectors that indices record, by index; those that searches use come first."""
    known = records(cluster)
    pairs = [(record, entry) for record in known.values() for entry in _entries(record)]
    counts = _counts(cluster, [entry for _, entry in pairs])
    names = {pipeline_name(name) for name in known}
    there = {kind: {*(cluster.find(f"/_{kind}/pipeline") or {})} & names for kind in ("search", "ingest")}
    uses = pipeline_uses(cluster, names)
    by_default = {(use.name, use.pipeline_kind, use.pipeline) for use in uses if use.kind == "index"}
    unencoded = _unencoded(cluster)
    healths = []
    for (record, entry), (documents, covered) in zip(pairs, counts, strict=True):
        own = pipeline_name(record.index)
        kinds = tuple(kind for kind in ("search", "ingest") if own in there[kind])
        defaults = tuple(kind for kind in kinds if (record.index, f"{kind} pipeline", own) in by_default)
        filling = entry == record.filling
        healths.append(IndexHealth(entry, documents, covered, filling, kinds, defaults, unencoded[own]))
    return healths


def _entries(record: IndexRecord) -> tuple[IndexInfo, ...]:
    return (*record.ready, *([record.filling] if record.filling else []))


def _counts(cluster: Cluster, entries: Sequence[IndexInfo]) -> list[tuple[int | None, int]]:
    """How many documents the index of each entry has, None if it is closed or gone, and how many of them a vector."""
    searches = []
    for entry in entries:
        covered = {"filter": {"exists": {"field": entry.vector_field}}}
        searches.append((entry.name, {"size": 0, "track_total_hits": True, "aggs": {"covered": covered}}))
    return [_counted(answer) for answer in cluster.searches(searches)]


def _counted(answer: dict[str, Any]) -> tuple[int | None, int]:
    if "aggregations" not in answer:  # an index that is closed is left out, and nothing is searched
        return None, 0
    return answer["hits"]["total"]["value"], answer["aggregations"]["covered"]["doc_count"]


def _unencoded(cluster: Cluster) -> Counter[str]:
    """By the name of each ingest pipeline, how often its steps failed: documents were written without a vector."""
    counts: Counter[str] = Counter()
    for node in cluster.request("GET", "/_nodes/stats/ingest")["nodes"].values():
        for name, stats in node["ingest"]["pipelines"].items():
            for step in stats["processors"]:
                counts[name] += sum(each["stats"]["failed"] for each in step.values())
    return counts
