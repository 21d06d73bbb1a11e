"""What is wrong with an installation: cluster and reranker, how they reach each other, and each index's vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from resift.contracts.documents import IndexInfo
from resift.contracts.query_dsl import is_ours
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import EngineError, EngineUnavailable, IndexNotFound, ResiftError, UnsupportedCluster
from resift.ingest.verify import stale_share
from resift.operations.installing import InstallationOptions, found_installer, open_cluster
from resift.operations.plan import Result
from resift.plugin.addresses import without_credentials
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import ingest_pipelines
from resift.plugin.cluster.index_record import records, tunings
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation_status import cluster_rows, status_rows
from resift.plugin.cluster.search_pipelines import pipeline_name, rewriters
from resift.plugin.cluster.usage import StatusRow, pipeline_uses
from resift.vectors.packaged import DEFAULT

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SAMPLE = 100  # documents of an index whose texts are encoded again


@dataclass(frozen=True)
class IndexStatus:
    """The vectors of one model in an index; ``sampled`` is 0 where that model is not at hand.

    ``documents`` is None for a closed index, ``with_vector`` of them have one, ``stale`` of ``sampled`` random ones
    have another text's, and ``unencoded`` its ingest pipeline has written without one since the nodes started.
    ``default_pipelines`` are those of its ``pipelines`` that it uses by itself. ``state`` is what is wrong, or ``ok``,
    and ``fix`` the command that mends it.
    """

    index: str
    model: str | None
    model_name: str | None
    vector_field: str
    documents: int | None
    with_vector: int
    sampled: int
    stale: int
    pipelines: tuple[str, ...]
    default_pipelines: tuple[str, ...]
    unencoded: int
    state: str
    fix: str


def doctor(url: str, **options: Unpack[InstallationOptions]) -> Result:
    """What is wrong with the cluster at ``url`` and the reranker that it asks, and how to fix it.

    It asks both, and has the cluster ask the reranker; compares versions and clocks; looks at plugins, settings and all
    that was installed, and at the vectors of each index. A cluster that does not answer, or refuses something to the
    caller, is a line of the ``parts`` as well, and no exception. ``tuned``: what was chosen for which index, and why.
    """
    model = load_model(options.get("model") or DEFAULT)
    parts, indices, tuned = list[StatusRow](), list[IndexStatus](), {}
    try:
        with closing(open_cluster(url)) as engine:
            parts += cluster_rows(Cluster(engine), without_credentials(url))
            installer = found_installer(engine, **options)
            parts += status_rows(installer)
            rows = {row.name: row for row in parts if row.kind == "index"}
            indices += _indices(installer, model, rows)
            tuned = tunings(installer.cluster)
    except (EngineUnavailable, EngineError, UnsupportedCluster) as error:
        parts.append(_refused(error, without_credentials(url)))
    states = [(f"{one.kind} {one.name}", one.state, one.fix) for one in parts if one.kind != "index"]
    states += [(f"index {one.index}", one.state, one.fix) for one in indices]
    return Result(
        model=model.hash,
        parts=parts,
        indices=indices,
        tuned=tuned,
        in_order=all(row.in_order for row in parts) and not any(one.fix for one in indices),
        lines=[f"{name}: {state}" + (f" (fix: {fix})" if fix else "") for name, state, fix in states],
    )


def _refused(error: ResiftError, url: str) -> StatusRow:
    """A line for a cluster that does not answer, or not with what was asked of it."""
    if isinstance(error, EngineError) and error.status in (401, 403):
        return StatusRow("rights", url, "refused", f"the rights that resift role install prints ({error.message})")
    fix = "is --engine right? (docs/opensearch.md, Reaching a cluster)"
    if isinstance(error, UnsupportedCluster):
        fix = error.expected or fix
    return StatusRow("cluster", url, error.message, fix)


def _indices(installer: Installer, model: Model, rows: Mapping[str, StatusRow]) -> Iterator[IndexStatus]:
    """Each model's vectors in each index, those that searches use first; ``rows`` are the states of the indices."""
    cluster = installer.cluster
    known = records(cluster)
    pairs = [(record, entry) for record in known.values() for entry in record.known]
    counts = _counts(cluster, [entry for _, entry in pairs])
    pipelines, unencoded = _pipelines(cluster, known), _unencoded(cluster)
    for (record, entry), (documents, covered) in zip(pairs, counts, strict=True):
        row, filling, sample = rows.get(entry.name), entry == record.filling, (0, 0)
        # What the installation finds wrong with an index is in the way of anything else.
        wrong = (row.state, row.fix) if row is not None and not row.in_order and not filling else None
        if entry.model == model.hash and covered and wrong is None:
            sample = _stale_share(installer, model, entry)
        fault = wrong or _fault(entry, filling, (documents or 0) - covered, *sample)
        yield IndexStatus(
            entry.name,
            entry.model,
            entry.model_name,
            entry.vector_field,
            documents,
            covered,
            *sample,
            *pipelines[entry.name],
            unencoded[pipeline_name(entry.name)],
            *fault,
        )


def _pipelines(cluster: Cluster, names: Collection[str]) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """The kinds of the pipelines that each index has, and those of them that are its default ones."""
    ingest = {pipeline_name(index): index for index in ingest_pipelines(cluster)}
    search = {own: one.index for own, one in rewriters(cluster).items()}
    there = {"search": search, "ingest": ingest}
    uses = [(kind, use) for kind, of in there.items() for use in pipeline_uses(cluster, of, f"{kind} pipeline")]
    defaults = {(kind, use.name) for kind, use in uses if use.kind == "index" and there[kind][use.pipeline] == use.name}
    kinds = {name: tuple(kind for kind, of in there.items() if name in of.values()) for name in names}
    return {name: (has, tuple(kind for kind in has if (kind, name) in defaults)) for name, has in kinds.items()}


def _stale_share(installer: Installer, model: Model, entry: IndexInfo) -> tuple[int, int]:
    """How many of some random documents were looked at, and how many have a vector of another text."""
    if is_ours(entry.vector_field):
        with suppress(IndexNotFound):  # deleted since it was listed
            return stale_share(installer.engine, model, entry, _SAMPLE)
    return 0, 0


def _fault(entry: IndexInfo, filling: bool, missing: int, sampled: int, stale: int) -> tuple[str, str]:
    """What is wrong with vectors, and what to do about it; "ok" and "" if nothing is."""
    lacking, mend = f"{missing} documents lack a vector", f"resift verify {entry.name} --repair"
    if filling:
        return f"attaching was interrupted: {lacking}", f"resift attach {entry.name} --vectors"
    if missing and is_ours(entry.vector_field):
        return lacking, mend
    return (f"{stale} of {sampled} vectors belong to another text", mend) if stale else ("ok", "")


def _counts(cluster: Cluster, entries: Sequence[IndexInfo]) -> list[tuple[int | None, int]]:
    """How many documents the index of each entry has, None if it is closed or gone, and how many of them a vector."""
    searches = []
    for entry in entries:
        covered = {"filter": {"exists": {"field": entry.vector_field}}}
        searches.append((entry.name, {"size": 0, "track_total_hits": True, "aggs": {"covered": covered}}))
    # an index that is closed is left out, and nothing is searched
    return [
        (one["hits"]["total"]["value"], one["aggregations"]["covered"]["doc_count"])
        if "aggregations" in one
        else (None, 0)
        for one in cluster.searches(searches)
    ]


def _unencoded(cluster: Cluster) -> Counter[str]:
    """By the name of each ingest pipeline, how often its steps failed: documents were written without a vector."""
    counts: Counter[str] = Counter()
    for node in cluster.request("GET", "/_nodes/stats/ingest")["nodes"].values():
        for name, stats in node["ingest"]["pipelines"].items():
            for step in stats["processors"]:
                counts[name] += sum(each["stats"]["failed"] for each in step.values())
    return counts
