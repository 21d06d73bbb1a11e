"""How an index is detached: what attaching changed is put back, in an order that may be killed anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from resift.contracts.documents import IndexInfo
from resift.encoders.registry import load_model
from resift.errors import BadInput, NotFound
from resift.ingest.stopping import Stop
from resift.plugin.cluster.attachment import FINAL, Target, settings_of, targets
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import (
    ingest_pipelines,
    pipelines_of,
    refuse,
    remove_ingest_pipeline,
    settle_pipelines,
    uses_of,
)
from resift.plugin.cluster.index_record import IndexRecord
from resift.plugin.cluster.search_pipelines import pipeline_name, rewriters
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.attach_searches import Unsearched
from resift.plugin.operations.plan import Plan, Progress, Result, counting, end_if
from resift.plugin.operations.write_vectors import empty
from resift.query.dsl import is_ours


class DetachPlan(Plan):
    """What detaching is about to do to all that ``name`` stands for.

    ``model`` is the hash or the folder of the one whose vectors are taken back, None for all. Raises BadInput for what
    cannot be done.
    """

    def __init__(self, engine: OpenSearchEngine, name: str, model: str | None) -> None:
        self.engine, self.cluster, self.name = engine, Cluster(engine), name
        hash, settings = _hash(model), _settings(self.cluster, name)
        # only those with vectors have to take writes
        found = _with_vectors(self.cluster, name) if settings else []
        attached = [(target, record) for target, record in found if record.attached]
        self.indices = [_Detaching(self.cluster, target, record, hash) for target, record in attached]
        names = [target.name for target, _ in attached]
        if hash is None or all(one.is_all for one in self.indices):
            self.searches = Unsearched(self.cluster, {name, *settings}, settings)
        else:
            self.searches = Unsearched(self.cluster, (), {})
        if not self.indices:
            self._refuse_unattached([target.name for target, record in found if record.current], hash)
        # an alias gets new indices, as by rollover, which nobody has attached
        self.others = sorted({*settings}.difference(names)) if self.indices else []
        self.question = f"Detach {', '.join(names) or name}?"

    def _refuse_unattached(self, made: Sequence[str], model: str | None) -> None:
        """Raise BadInput for what is not attached, or has no such vectors; ``made`` are indices that Resift made."""
        if self.searches and made != [self.name]:
            return
        name, expected = self.name, "an index that was attached"
        if model is not None and not made:
            raise BadInput(f"index {name!r} has no vectors of model {model}", value=model, expected="none")
        told = "was made by Resift, not attached: resift drop deletes it" if name in made else "is not attached"
        for one in rewriters(self.cluster).values():
            with suppress(NotFound):
                if name in self.engine.resolve(one.index) and one.index != name:
                    expected = f"resift detach {one.index}, which it belongs to"
        raise BadInput(f"index {name!r} {told}", value=name, expected=expected)

    def lines(self) -> list[str]:
        lines = [f"{self.name}:", *self.searches.lines()] if self.searches else []
        lines += [line for one in self.indices for line in one.lines()]
        return [*lines, *(f"{name}: without vectors of ours, and left alone" for name in self.others)]

    def to_dict(self) -> dict[str, Any]:
        return {"indices": [one.to_dict() for one in self.indices], **self.searches.to_dict()}

    def _run(self, progress: Progress, stop: Stop) -> Result:
        found = []
        planned = self.searches.to_dict()
        self.searches.run()
        if self.searches:
            with suppress(NotFound):
                self.engine.tune(self.name, None)
        for one in self.indices:
            found.append(one.run(progress, stop))
            end_if(stop, f"interrupted: run it again, and it goes on with what is left of {self.name}")
        lines = [f"{self.name}: searches are as they were"] if self.searches else []
        lines += [line for one in found for line in one.lines]
        return Result(lines, all(one.in_order for one in found), indices=found, **planned)


class _Detaching:
    def __init__(self, cluster: Cluster, target: Target, record: IndexRecord, model: str | None) -> None:
        self.cluster, self.target = cluster, target
        self.entries = _entries(target, model)
        self.record, self.is_recorded = record.without(self.entries), target.record.attached
        self.is_all = not self.record.known
        self.settings = {FINAL: None} if self.is_all and target.is_encoded else {}
        if self.is_all:
            own = target.name
            uses = uses_of(cluster, {pipeline_name(own)}, "ingest pipeline")
            mine = [use for use in uses if (use.kind, use.name) == ("index", own) and use.setting in self.settings]
            refuse([use for use in uses if use not in mine], ", if it is a clone")

    def to_dict(self) -> dict[str, Any]:
        """What is to be done, for programs."""
        return {
            "index": self.target.name,
            "models": [entry.model for entry in self.entries],
            "emptied": list(self.record.abandoned),
            "settings": self.settings,
            "ingest_pipeline": self.is_all and "ingest" in pipelines_of(self.cluster, self.target.name),
        }

    def lines(self) -> list[str]:
        """What is to be done, for people."""
        report = self.to_dict()
        lines = [f"{self.target.name}:"]
        if not self.is_recorded:
            lines.append("  what attaching recorded in _meta is lost: what has Resift's names goes")
        lines += [f"  {setting} back to unset" for setting in report["settings"]]
        lines += [f"  ingest pipeline {pipeline_name(self.target.name)} removed"] if report["ingest_pipeline"] else []
        for name in self.record.abandoned:
            count = self.target.count({"exists": {"field": name}})
            lines.append(f"  {name} out of {count} documents; its definition stays in the mapping, empty")
        return lines

    def run(self, progress: Progress, stop: Stop) -> Result:
        """Do it."""
        target, fields, planned = self.target, self.record.abandoned, self.to_dict()
        if self.is_all:
            if self.settings:
                self.cluster.set_index(target.name, self.settings)
            remove_ingest_pipeline(self.cluster, target.name)
        # What is written from now on gets no such vector any more; the fields to be emptied stay on record until then.
        target = target.change_record(lambda record: record.without(self.entries))
        if not self.is_all:
            settle_pipelines(self.cluster, target.name, search=False)
        total = sum(target.count({"exists": {"field": name}}) for name in fields)
        emptied = empty(self.cluster, target.name, fields, stop, counting(progress, f"emptying {target.name}", total))
        if not stop.requested and not emptied.left:
            target.change_record(IndexRecord.emptied)
        lines = [f"{target.name}: detached, {emptied.documents} documents without their vectors again"]
        lines += [f"  refused: {one.id}: {one.reason}" for one in emptied.refused[:5]]
        lines += [f"  the field {name} stays in the mapping, empty" for name in fields]
        documents, refused = emptied.documents, len(emptied.refused)
        return Result(lines, not refused, **planned, documents=documents, refused=refused)


def _hash(model: str | None) -> str | None:
    return load_model(model).hash if model and Path(model).is_dir() else model


def _settings(cluster: Cluster, name: str) -> dict[str, dict[str, str]]:
    """The settings of the indices that a name stands for; none if they are gone, while a pipeline may be there."""
    try:
        return settings_of(cluster, name)
    except NotFound:
        if name not in [one.index for one in rewriters(cluster).values()]:
            raise
        return {}


def _with_vectors(cluster: Cluster, name: str) -> list[tuple[Target, IndexRecord]]:
    """The indices behind a name that have vectors of ours, a record of them, or what encodes them."""
    path, ingest = f"/{quote(name, safe=',*')}/_mapping", ingest_pipelines(cluster)
    found = {own: entry["mappings"] for own, entry in cluster.request("GET", path).items()}
    indices = [
        own
        for own, mapping in sorted(found.items())
        if mapping.get("_meta", {}).get("resift") or ingest.get(own) or any(map(is_ours, mapping.get("properties", {})))
    ]
    return [(target, _record(cluster, target)) for own in indices for target in targets(cluster, own)]


def _record(cluster: Cluster, target: Target) -> IndexRecord:
    """What an index records about itself; where a client has replaced its ``_meta``, what is known without it."""
    record = target.record
    if target.unrecorded or (
        not record.attached and record.current is None and ingest_pipelines(cluster).get(target.name)
    ):
        return IndexRecord(target.name, added=tuple(target.unrecorded), attached=True)
    return record


def _entries(target: Target, model: str | None) -> list[IndexInfo]:
    """The vectors that are to be taken back."""
    record = target.record
    found = record.known
    if model is None:
        return [entry for entry in found if record.is_attached(entry)]
    entry = record.of(model)
    known = ", ".join(str(one.model) for one in found) or "none"
    if entry is None:
        raise BadInput(f"index {target.name!r} has no vectors of model {model}", value=model, expected=known)
    if not record.is_attached(entry):
        expected = f"resift drop {target.name} deletes the index"
        raise BadInput(f"index {target.name!r} was made with model {model}", value=model, expected=expected)
    if entry == record.current and any(one.model != model for one in record.others):
        message = f"index {target.name!r} is searched by the vectors of model {model}"
        raise BadInput(
            message, value=model, expected=f"resift attach {target.name} --vectors --model, with another one, first"
        )
    return [one for one in found if one.model == model]
