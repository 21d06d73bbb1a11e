"""How an index is detached: what attaching changed is put back, in an order that may be killed anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resift.contracts.documents import IndexInfo
from resift.encoders.registry import load_model
from resift.errors import BadInput, EngineError
from resift.ingest.attaching import empty
from resift.ingest.stopping import Stop
from resift.operations.plan import Plan, Progress, Result, counting, end_if, silent
from resift.plugin.cluster.attachment import Target, targets
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import pipeline_name, pipelines_of, remove_pipelines, settle_pipelines
from resift.plugin.cluster.index_record import IndexRecord
from resift.plugin.cluster.usage import pipeline_uses
from resift.plugin.opensearch.engine import OpenSearchEngine


@dataclass(frozen=True, kw_only=True)
class DetachedIndex(Result):
    """What came of one index: ``documents`` have no vectors of ``models`` any more, and ``refused`` ones keep theirs.

    ``emptied`` are the fields of these vectors, ``settings`` were put back, and the kinds of ``pipelines`` removed.
    """

    index: str
    models: Sequence[str | None]
    emptied: Sequence[str]
    settings: Mapping[str, Any]
    pipelines: Sequence[str]
    documents: int
    refused: int


@dataclass(frozen=True, kw_only=True)
class Detached(Result):
    """What came of detaching some indices."""

    indices: list[DetachedIndex]


class DetachPlan(Plan):
    """What detaching is about to do to all indices that ``name`` stands for.

    ``model`` is the hash or the folder of the one whose vectors are taken back, None for all. Raises BadInput for what
    cannot be done.
    """

    def __init__(self, engine: OpenSearchEngine, name: str, model: str | None) -> None:
        self.engine, self.cluster = engine, Cluster(engine)
        hash = None if model is None else load_model(model).hash if Path(model).is_dir() else model
        found = [(target, _record(self.cluster, target)) for target in targets(self.cluster, name)]
        # an alias gets new indices, as by rollover, which nobody has attached
        attached = [(target, record) for target, record in found if record.attached] or found[:1]
        self.indices = [_Detaching(self.cluster, target, record, hash) for target, record in attached]
        self.names = ", ".join(one.target.name for one in self.indices)
        self.question = f"Detach {self.names}?"
        self.others = [target.name for target, record in found if not record.attached]

    def lines(self) -> list[str]:
        lines = [line for one in self.indices for line in one.lines()]
        return [*lines, *(f"{name}: not attached, and left alone" for name in self.others)]

    def to_dict(self) -> dict[str, Any]:
        return {"indices": [one.to_dict() for one in self.indices]}

    def run(self, progress: Progress = silent, stop: Stop | None = None) -> Detached:
        stop, found = stop or Stop(), []
        for one in self.indices:
            found.append(one.run(progress, stop))
            end_if(stop, f"interrupted: run it again, and it goes on with what is left of {self.names}")
        lines = [line for one in found for line in one.lines]
        return Detached(indices=found, lines=lines, in_order=all(one.in_order for one in found))


class _Detaching:
    """One index that is being detached."""

    def __init__(self, cluster: Cluster, target: Target, record: IndexRecord, model: str | None) -> None:
        self.cluster, self.target = cluster, target
        if not record.attached:
            made = "was made by Resift, not attached: resift drop deletes it" if record.current else "is not attached"
            raise BadInput(f"index {target.name!r} {made}", value=target.name, expected="an index that was attached")
        self.entries = _entries(target, model)
        self.record, self.is_recorded = record.without(self.entries), target.record.attached
        self.is_all = not self.record.ready and self.record.filling is None
        if self.is_all:
            self._refuse_if_used()

    def _refuse_if_used(self) -> None:
        """Raise EngineError for whatever else names the pipelines that are to go."""
        own, restored = self.target.name, self.target.restored_settings()
        for use in pipeline_uses(self.cluster, {pipeline_name(own)}):
            if (use.kind, use.name) != ("index", own) or use.setting not in restored:
                message = f"{use.setting} of {use.kind} {use.name} is {use.pipeline}"
                clone = f"resift detach {use.name}, if it is a clone, or " if use.kind == "index" else ""
                raise EngineError(message, status=409, value=use.name, expected=f"{clone}unset it first")

    def to_dict(self) -> dict[str, Any]:
        """What is to be done, for programs."""
        return {
            "index": self.target.name,
            "models": [entry.model for entry in self.entries],
            "emptied": list(self.record.abandoned),
            "settings": self.target.restored_settings() if self.is_all else {},
            "pipelines": pipelines_of(self.cluster, self.target.name) if self.is_all else [],
        }

    def lines(self) -> list[str]:
        """What is to be done, for people."""
        report = self.to_dict()
        lines = [f"{self.target.name}:"]
        if not self.is_recorded:
            lines.append("  what attaching recorded in _meta is lost: what has Resift's names goes")
        lines += [f"  {setting} back to {value or 'unset'}" for setting, value in report["settings"].items()]
        lines += [f"  {kind} pipeline {pipeline_name(self.target.name)} removed" for kind in report["pipelines"]]
        for name in self.record.abandoned:
            count = self.target.count({"exists": {"field": name}})
            lines.append(f"  {name} out of {count} documents; its definition stays in the mapping, empty")
        return lines

    def run(self, progress: Progress, stop: Stop) -> DetachedIndex:
        """Do it."""
        target, fields, planned = self.target, self.record.abandoned, self.to_dict()
        if self.is_all:
            target = target.restore_settings()
            remove_pipelines(self.cluster, target.name)
        # What is written from now on gets no such vector any more; the fields to be emptied stay on record until then.
        target = target.change_record(lambda record: record.without(self.entries))
        if not self.is_all:
            settle_pipelines(self.cluster, target.name)
        total = sum(target.count({"exists": {"field": name}}) for name in fields)
        emptied = empty(self.cluster, target.name, fields, stop, counting(progress, f"emptying {target.name}", total))
        if not stop.requested and not emptied.left:
            target.change_record(IndexRecord.emptied)
        lines = [f"{target.name}: detached, {emptied.documents} documents without their vectors again"]
        lines += [f"  refused: {one.id}: {one.reason}" for one in emptied.refused[:5]]
        lines += [f"  the field {name} stays in the mapping, empty" for name in fields]
        documents, refused = emptied.documents, len(emptied.refused)
        return DetachedIndex(**planned, documents=documents, refused=refused, lines=lines, in_order=not refused)


def _record(cluster: Cluster, target: Target) -> IndexRecord:
    """What an index records about itself; where a client has replaced its ``_meta``, what is known without it."""
    record = target.record
    if target.unrecorded or (not record.attached and record.current is None and pipelines_of(cluster, target.name)):
        return IndexRecord(target.name, added=tuple(target.unrecorded), attached=True)
    return record


def _entries(target: Target, model: str | None) -> list[IndexInfo]:
    """The vectors that are to be taken back."""
    record = target.record
    found = [*record.ready, *([record.filling] if record.filling else [])]
    if model is None:
        return [entry for entry in found if record.is_attached(entry)]
    entry = record.of(model)
    known = ", ".join(str(one.model) for one in found) or "none"
    if entry is None:
        raise BadInput(f"index {target.name!r} has no vectors of model {model}", value=model, expected=known)
    if not record.is_attached(entry):
        expected = f"resift drop {target.name} deletes the index"
        raise BadInput(f"index {target.name!r} was made with model {model}", value=model, expected=expected)
    if entry == record.current and record.others:
        message = f"index {target.name!r} is searched by the vectors of model {model}"
        raise BadInput(message, value=model, expected=f"resift attach {target.name} --model, with another one, first")
    return [entry]
