"""Indices are verified, so that each vector belongs to the text beside it, and deleted with their own pipelines."""

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
from resift.ingest.stopping import Stop
from resift.ingest.verify import Verification, select_indices
from resift.ingest.verify import verify as verify_index
from resift.plugin.operations.plan import Plan, Progress, Result, Step, count_documents, shown_steps
from resift.query.dsl import PIPELINE_PREFIX
from resift.service.connect import open_engine
from resift.vectors.packaged import DEFAULT_MODEL


def verify(
    url: str,
    *indices: str,
    model: str | Model = DEFAULT_MODEL,
    repair: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Result:
    """Check that every vector of ``model`` belongs to the text beside it, by encoding all texts again.

    ``url`` is a cluster's address or the embedded engine's file, and ``indices`` name indices, aliases, data streams or
    patterns; without any all are checked that have vectors of the model. With ``repair`` right vectors are written.
    Where a ``stop`` is requested, the result is of what was checked until then. Raises ModelMismatch if there is
    nothing to check.
    """
    encoder, started = model if isinstance(model, Model) else load_model(model), time.perf_counter()
    with closing(open_engine(url)) as engine:
        chosen, others = select_indices(engine, encoder, indices)
        is_plain = bool(indices) and not chosen and set(others.values()) == {"no vectors"}
        if not (chosen or is_plain):
            told = "; ".join(f"index {name!r} has {why}" for name, why in others.items()) or "no index has any"
            raise ModelMismatch(
                f"there are no vectors of model {encoder.name} ({encoder.hash}) to check: {told}",
                value=list(others) or None,
                expected="another --model, or resift attach INDEX --vectors",
            )
        with shown_steps(progress) as shown:
            found = _verified(engine, encoder, chosen, repair, shown, stop or Stop())
    names = ("checked", "missing", "stale", "repaired", "unrepaired")
    return Result(
        **{name: sum(getattr(one, name) for one in found) for name in names},
        seconds=round(time.perf_counter() - started, 3),
        indices=found,
        not_checked={} if is_plain else others,
        in_order=all(one.is_correct for one in found),
        lines=_lines(found, repair, others),
    )


def _verified(
    engine: Engine, model: Model, infos: Sequence[IndexInfo], repair: bool, progress: Progress, stop: Stop
) -> list[Verification]:
    """What is found in each index; those behind a stop are left out."""
    total, before = sum(count_documents(engine, info.name) for info in infos), 0
    found: list[Verification] = []

    def told(now: Verification) -> None:
        progress(Step("verifying", before + now.checked, max(1, total)))

    for info in infos:
        found.append(verify_index(engine, model, info.name, repair, stop, told))
        before += found[-1].checked
        if stop.requested:
            break
    return found


def _lines(found: Sequence[Verification], repaired: bool, others: Iterable[str]) -> list[str]:
    nothing = [f"index {name} has no vectors of Resift's: nothing to verify" for name in others]
    return [line for one in found for line in _found_lines(one, repaired)] or nothing


def _found_lines(found: Verification, repaired: bool) -> list[str]:
    where = f"index {found.index}"
    told = f"{found.checked} documents in {where}: {found.missing} without a vector, {found.stale} with a stale one"
    lines = [f"{told}; {found.repaired} repaired" if repaired else told]
    if found.refused:
        first = found.refused[0]
        lines.append(f"{len(found.refused)} refused in {where}: {first.id}: {first.reason}")
    return lines


class DropPlan(Plan):
    """The deletion of an index. Raises BadInput for one that is not for users to delete."""

    def __init__(self, engine: Engine, index: str, session_index: str) -> None:
        self.engine, self.index = engine, check_name(index)
        _require_listed(engine, index, session_index)
        self.documents = count_documents(engine, index)
        self.question = f"Delete index {index} with its {self.documents} documents?"

    def lines(self) -> list[str]:
        return [f"index {self.index} is deleted with its {self.documents} documents and its own pipelines"]

    def to_dict(self) -> dict[str, Any]:
        return {"index": self.index, "documents": self.documents}

    def _run(self, progress: Progress, stop: Stop) -> Result:
        self.engine.drop(self.index)
        pipelines = _drop_pipelines(self.engine, self.index, progress)
        lines = [f"{kind} pipeline {PIPELINE_PREFIX}{self.index} {done}" for kind, done in pipelines.items()]
        lines.insert(0, f"{self.index} deleted, {self.documents} documents")
        return Result(lines, dropped=self.index, documents=self.documents, pipelines=pipelines)


def drop(url: str, index: str, session_index: str = "resift_sessions") -> DropPlan:
    """Plan to delete an index with all its documents and its own pipelines; only what `resift indices` lists.

    ``url`` is a cluster's address or the embedded engine's file. ``session_index`` holds sessions, and is refused.
    """
    return DropPlan(open_engine(url), index, session_index)


def _drop_pipelines(engine: Engine, index: str, progress: Progress) -> dict[str, str]:
    """Remove the pipelines that Resift made for an index that is gone; what became of each, by its kind.

    One that something else names stays: what is written or searched through it would be refused.
    """
    from resift.plugin.cluster.client import Cluster
    from resift.plugin.cluster.index_pipelines import ingest_pipelines, remove_ingest_pipeline, uses_of
    from resift.plugin.cluster.search_pipelines import pipeline_name, rewriters, take_out
    from resift.plugin.opensearch.engine import OpenSearchEngine

    if not isinstance(engine, OpenSearchEngine):
        return {}
    cluster, done = Cluster(engine), {}
    try:
        there = [("search", name) for name, one in rewriters(cluster).items() if one.index == index]
        there += [("ingest", pipeline_name(index))] if ingest_pipelines(cluster).get(index) else []
        for kind, name in there:
            use = next(iter(uses_of(cluster, {name}, f"{kind} pipeline")), None)
            if use is None:
                take_out(cluster, name) if kind == "search" else remove_ingest_pipeline(cluster, index)
            done[kind] = "removed" if use is None else f"stays: {use.setting} of {use.kind} {use.name} names it"
    except ResiftError as error:
        # Who may delete an index may not change pipelines in every cluster, and the index is gone.
        progress(Step(f"its pipelines may still be there: {error.message}"))
    return done


def _require_listed(engine: Engine, index: str, session_index: str) -> None:
    """Raise IndexNotFound for an index that is not there, and BadInput for one that is not for users to delete."""
    if index == session_index:
        raise BadInput(f"{index} holds sessions", value=index, expected="resift sessions delete --index NAME")
    if index not in [info.name for info in engine.indices()]:
        engine.info(index)
        # may stand for several; and who hid or closed one saw to it that nobody happens on it
        message = f"{index} is an alias, or a hidden or closed index"
        raise BadInput(message, value=index, expected="an index that resift indices lists")
