"""Verify the vectors of indices, and delete indices with their pipelines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from resift.contracts.documents import IndexInfo, check_name
from resift.contracts.engine import Engine
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import BadInput, ModelMismatch, ResiftError
from resift.ingest.verify import Verification, select_indices
from resift.ingest.verify import verify as verify_index
from resift.plugin.operations.plan import Plan, Progress, Result, Step, count_documents, progress_function
from resift.query.dsl import PIPELINE_PREFIX
from resift.service.connect import is_opensearch, open_engine
from resift.stopping import Stop
from resift.vectors.packaged import DEFAULT_MODEL


def verify(
    url: str,
    *indices: str,
    model: str | Model = DEFAULT_MODEL,
    repair: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Result:
    """Check that each stored vector matches its document's text, by encoding all texts again.

    Args:
        url: URL of a cluster, or path of the embedded engine's file.
        *indices: Names of indices, aliases, data streams, or patterns. By default, all indices with vectors of the
            model are checked.
        model: The model, its folder, or the name of the packaged model.
        repair: Whether to write correct vectors.
        progress: Called with each step; by default a progress bar is shown.
        stop: Ends the check early when requested. The result then covers the documents checked so far.

    Returns:
        A result with these values:

        - ``checked``: the number of documents that were checked.
        - ``missing``, ``stale``: the numbers of documents without a vector, and with a vector that does not match the
          text.
        - ``repaired``, ``unrepaired``: the numbers of documents whose vector was corrected, and whose vector is still
          wrong.
        - ``indices``: a report for each index.
        - ``not_checked``: the reasons why other indices were not checked, by name.
        - ``in_order``: whether all vectors are correct.

    Raises:
        IndexNotFound: If a name matches no index.
        ModelMismatch: If no index has vectors of this model.
    """
    encoder, started = model if isinstance(model, Model) else load_model(model), time.perf_counter()
    with closing(open_engine(url)) as engine:
        infos, skipped = select_indices(engine, encoder, indices)
        all_plain = bool(indices) and not infos and set(skipped.values()) == {"no vectors"}
        if not (infos or all_plain):
            reasons = "; ".join(f"index {name!r} has {reason}" for name, reason in skipped.items())
            raise ModelMismatch(
                f"there are no vectors of model {encoder.name} ({encoder.hash}) to check: "
                + (reasons or "no index has any"),
                value=list(skipped) or None,
                expected="another --model, or resift attach INDEX --vectors",
            )
        with progress_function(progress) as show:
            reports = _verify_all(engine, encoder, infos, repair, show, stop or Stop())
    totals = ("checked", "missing", "stale", "repaired", "unrepaired")
    return Result(
        **{name: sum(getattr(report, name) for report in reports) for name in totals},
        seconds=round(time.perf_counter() - started, 3),
        indices=reports,
        not_checked={} if all_plain else skipped,
        in_order=all(report.is_correct for report in reports),
        lines=_result_lines(reports, repair, skipped),
    )


def _verify_all(
    engine: Engine, model: Model, infos: Sequence[IndexInfo], repair: bool, progress: Progress, stop: Stop
) -> list[Verification]:
    """Check the vectors of each index in turn, until a stop is requested.

    Args:
        engine: The search engine.
        model: The model of the vectors.
        infos: The descriptions of the indices.
        repair: Whether to write correct vectors.
        progress: Called after each batch of documents, with the numbers of checked documents and of all documents.
        stop: Ends the check early when requested.

    Returns:
        A report for each index that was checked, at least in part.
    """
    total, checked = sum(count_documents(engine, info.name) for info in infos), 0
    reports: list[Verification] = []

    def show(report: Verification) -> None:
        progress(Step("verifying", checked + report.checked, max(1, total)))

    for info in infos:
        reports.append(verify_index(engine, model, info.name, repair, stop, show))
        checked += reports[-1].checked
        if stop.requested:
            break
    return reports


def _result_lines(reports: Sequence[Verification], repaired: bool, skipped: Iterable[str]) -> list[str]:
    """Describe the results of a check in English, for the terminal.

    Args:
        reports: The report for each checked index.
        repaired: Whether wrong vectors were corrected.
        skipped: The names of indices without vectors. They are mentioned only if no index was checked.
    """
    lines = [line for report in reports for line in _report_lines(report, repaired)]
    return lines or [f"index {name} has no vectors of Resift: nothing to verify" for name in skipped]


def _report_lines(report: Verification, repaired: bool) -> list[str]:
    where = f"index {report.index}"
    counts = (
        f"{report.checked} documents in {where}: {report.missing} without a vector, {report.stale} with a stale one"
    )
    lines = [f"{counts}; {report.repaired} repaired" if repaired else counts]
    if report.refused:
        first = report.refused[0]
        lines.append(f"{len(report.refused)} refused in {where}: {first.id}: {first.reason}")
    return lines


class DropPlan(Plan):
    """A plan to delete an index and its pipelines, which users can inspect before it is carried out.

    Args:
        engine: The search engine.
        index: The name of the index.
        session_index: The name of the index that stores sessions. It cannot be deleted.

    Raises:
        IndexNotFound: If the index does not exist.
        BadInput: If the index stores sessions, or is an alias, hidden or closed.
    """

    def __init__(self, engine: Engine, index: str, session_index: str) -> None:
        self.engine, self.index = engine, check_name(index)
        _require_deletable(engine, index, session_index)
        self.documents = count_documents(engine, index)
        self.question = f"Delete index {index} with its {self.documents} documents?"

    def lines(self) -> list[str]:
        """Describe in English what will be deleted, in a list of one sentence."""
        return [f"index {self.index} is deleted with its {self.documents} documents and its own pipelines"]

    def to_dict(self) -> dict[str, Any]:
        """Return the index's name and number of documents."""
        return {"index": self.index, "documents": self.documents}

    def _run(self, progress: Progress, stop: Stop) -> Result:
        self.engine.drop(self.index)
        pipelines = _drop_pipelines(self.engine, self.index, progress)
        lines = [f"{self.index} deleted, {self.documents} documents"]
        lines += [f"{kind} pipeline {PIPELINE_PREFIX}{self.index} {outcome}" for kind, outcome in pipelines.items()]
        return Result(lines, dropped=self.index, documents=self.documents, pipelines=pipelines)


def drop(url: str, index: str, session_index: str = "resift_sessions") -> DropPlan:
    """Plan to delete an index with all its documents, and the pipelines that Resift created for it.

    Nothing is deleted until the method ``run`` of the plan is called.

    Args:
        url: The URL of a cluster, or the path of the embedded engine's file.
        index: The name of the index, as ``resift indices`` lists it.
        session_index: The name of the index that stores sessions. It cannot be deleted.

    Raises:
        IndexNotFound: If the index does not exist.
        BadInput: If the index stores sessions, or is an alias, hidden or closed.
    """
    return DropPlan(open_engine(url), index, session_index)


def _drop_pipelines(engine: Engine, index: str, progress: Progress) -> dict[str, str]:
    """Remove the pipelines that Resift created for an index, after the index was deleted.

    A pipeline stays if a setting, an index template or another index still refers to it, because requests through a
    missing pipeline fail.

    Args:
        engine: The search engine. Only clusters have pipelines.
        index: The name of the deleted index.
        progress: A function that is called to report each step.

    Returns:
        A mapping from ``search`` and ``ingest`` to a description of what was done with the pipeline.
    """
    if not is_opensearch(engine):
        return {}
    from resift.plugin.cluster.client import Cluster
    from resift.plugin.cluster.index_pipelines import ingest_pipeline_owners, remove_ingest_pipeline
    from resift.plugin.cluster.pipeline_uses import uses_of_pipelines
    from resift.plugin.cluster.search_pipelines import find_rewriters, pipeline_name, remove_processor

    cluster, outcomes = Cluster(engine), {}
    try:
        pipelines = [("search", name) for name, rewriter in find_rewriters(cluster).items() if rewriter.index == index]
        if ingest_pipeline_owners(cluster).get(index):
            pipelines.append(("ingest", pipeline_name(index)))
        for kind, name in pipelines:
            use = next(iter(uses_of_pipelines(cluster, {name}, f"{kind} pipeline")), None)
            if use is not None:
                outcomes[kind] = f"stays: {use.setting} of {use.kind} {use.name} names it"
                continue
            if kind == "search":
                remove_processor(cluster, name)
            else:
                remove_ingest_pipeline(cluster, index)
            outcomes[kind] = "removed"
    except ResiftError as error:
        # A user who may delete indices may lack the right to change pipelines. The index is already deleted.
        progress(Step(f"pipelines of {index} may still exist: {error.message}"))
    return outcomes


def _require_deletable(engine: Engine, index: str, session_index: str) -> None:
    """Check that an index exists and that users may delete it.

    Args:
        engine: The search engine.
        index: The name of the index.
        session_index: The name of the index that stores sessions. It cannot be deleted.

    Raises:
        IndexNotFound: If the index does not exist.
        BadInput: If the index stores sessions, or is an alias, hidden or closed.
    """
    if index == session_index:
        raise BadInput(f"index {index} stores sessions", value=index, expected="resift sessions delete --index NAME")
    if index not in [info.name for info in engine.indices()]:
        engine.info(index)  # raises IndexNotFound
        # An alias may refer to several indices. Indices are hidden or closed to protect them from accidents.
        message = f"{index} is an alias, or a hidden or closed index"
        raise BadInput(message, value=index, expected="an index that resift indices lists")
