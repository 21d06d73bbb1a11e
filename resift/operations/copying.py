"""How an index is copied into one with a graph, which takes its place behind an alias, and how that is taken back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from resift.encoders.model import Model
from resift.errors import BadInput, EngineError
from resift.ingest.attaching import fill
from resift.ingest.copying import Mirror, blocked, is_written_since, points_of, unblock
from resift.ingest.stopping import Stop
from resift.operations.attaching import NOT_INSTALLED, AttachPlan
from resift.operations.index_plan import Options
from resift.operations.plan import Plan, Progress, Result, Step, counting, end_if, silent
from resift.plugin.cluster.attachment import FINAL
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.copying import Copy, check_aliases, check_templates
from resift.plugin.cluster.index_pipelines import pipelines_of
from resift.plugin.cluster.search_pipelines import NONE, SEARCH, all_pipelines, pipeline_name, rewriters
from resift.plugin.opensearch.engine import OpenSearchEngine

_BLOCK = "get 403 (cluster_block_exception)"


class CopyPlan(Plan):
    """What attaching by a copy ``to`` is about to do. Raises BadInput for what cannot be done."""

    def __init__(self, engine: OpenSearchEngine, name: str, to: str, aliases: Sequence[str], options: Options) -> None:
        self.engine, self.cluster, self.to = engine, Cluster(engine), to
        self.options, self.aliases = options, tuple(dict.fromkeys(aliases))
        self.copy = Copy.find(self.cluster, to)
        if self.copy is None and self.cluster.find(f"/{to}/_mapping"):
            raise BadInput(f"index {to!r} exists, and is not a copy", value=to, expected="a name that is free")
        # A block that an earlier run has left is taken off when this one begins.
        self.attaching = AttachPlan(engine, name, options, self.copy.record.blocked if self.copy else None)
        if self.attaching.model is not None:
            self.attaching.model.require_documents()
        if len(self.attaching.targets) > 1:
            raise BadInput(f"{name!r} stands for {self.attaching.names}", value=name, expected="one index")
        (self.target,), (self.plan,) = self.attaching.targets, self.attaching.plans
        self._names = ", ".join(self.aliases)
        self.question = f"Copy {self.target.name} into {to}, and move {self._names} to it?"
        check_aliases(self.target, to, self.aliases)
        if self.copy is None:
            check_templates(self.target, to)
        elif self.copy.record.uuid != self.target.settings["index.uuid"]:
            message = f"{to!r} is a copy of {self.copy.record.of}, or of an earlier index of that name"
            raise BadInput(message, value=to, expected=f"another name, or resift drop {to} first")

    def to_dict(self) -> dict[str, Any]:
        return {
            "index": self.target.name,
            "copy": self.to,
            "aliases": self.aliases,
            "model": self.attaching.model and self.attaching.model.hash,
            "documents": self.target.documents,
            "fields": list(self.plan.entry.fields),
        }

    def lines(self) -> list[str]:
        index, new, model = self.target.name, self.to, self.attaching.model
        saved = "learned from these documents, and saved in " + self.attaching.out
        staying = ", ".join(sorted({*self.cluster.aliases(index)}.difference(self.aliases)))
        lines = [
            f"model: {saved if model is None else f'{model.name} ({model.hash})'}",
            f"{index} -> {new}, {'which an earlier run left, and is made anew' if self.copy else 'a new index'}",
            f"  texts       {', '.join(self.plan.entry.fields)}",
            f"  mapping     that of {index}, + the vectors with a graph (index.knn), which k-NN over all of it needs",
            "  settings    the same, pipelines and analysers among them",
            f"  documents   {self.target.documents}, with ids, routing and versions, past pipelines; clients go on",
            f"  writes      then {_BLOCK} while the last changes are copied: a second or two on a cluster",
            "              that is not overloaded; let clients try again",
            f"  alias       {self._names}: from {index} to {new} at once, with filter and routing as they are",
        ]
        if staying:
            lines.append(f"  alias       {staying}: stays with {index}, which changes no more; --alias moves it, too")
        lines.append(f"  clients     that use the name {index} go on there, and what they write is not copied any more")
        return [*lines, f"  undo        resift detach {new}; {index} stays as it is"]

    def run(self, progress: Progress = silent, stop: Stop | None = None) -> Result:
        stop, started, index = stop or Stop(), time.perf_counter(), self.target.name
        if self.copy is not None:
            _take_off(self.copy, progress)
            if self.copy.in_service:
                names = ", ".join(self.copy.record.aliases)
                lines = [f"{self.to} is what {names} stands for already: nothing to do"]
                return Result(lines, index=index, copy=self.to, aliases=self.aliases, documents=None)
            if (since := self.copy.record.since) and is_written_since(self.engine, self.to, since):
                message = f"{self.to!r} is a copy that was written to, and may have what {index!r} has not"
                raise BadInput(message, value=self.to, expected=f"another name, or resift drop {self.to} first")
            self.engine.drop(self.to)
        model = self.attaching.model or self.attaching.learned(progress, stop)
        copy = Copy.create(self.target, self.to, self.aliases)
        mirror = Mirror(self.engine, copy, index, self.to, stop)
        mirror.changes(counting(progress, f"copying {index}", self.target.documents))
        mirror.catch_up()
        end_if(stop, f"interrupted: run it again, and it begins anew; resift drop {self.to} deletes the copy")
        attached = self._attached(model, progress, stop)
        pipelines = pipelines_of(self.cluster, self.to)
        documents, blocked = _moved(self.engine, mirror, copy, copy.pipelines(self._defaults(pipelines)))
        entry = self.engine.info(self.to).of(model)
        fill(self.engine, model, entry, Stop(), counting(progress, "encoding what was written meanwhile", documents))
        hints = [*attached.indices[0].hints]
        if (self.options.default_pipelines or self._is_rewritten) and "search" not in pipelines:
            command = f"resift install{self.attaching.folder_flag(model)} --reranker URL"
            hints.append(f"{NOT_INSTALLED}: {command}, then resift attach {self.to} --vectors --default-pipelines")
        return Result(
            index=index,
            copy=self.to,
            aliases=self.aliases,
            documents=documents,
            blocked_seconds=blocked,
            model=model.hash,
            seconds=round(time.perf_counter() - started, 3),
            pipelines=pipelines,
            hints=hints,
            in_order=attached.in_order and not hints,
            lines=[
                f"{documents} documents are in {index} and {self.to}",
                f"writes were refused for {blocked:.2f} s, and {self._names} stands for {self.to} now",
                *(f"  {hint}" for hint in hints),
                f"{index} is as it was; clients that use that name go on there, and nothing is copied any more",
                f"undo: resift detach {self.to}",
            ],
        )

    def _attached(self, model: Model, progress: Progress, stop: Stop) -> Result:
        """Attach the copy in place, with a graph, before anybody searches it."""
        used = self.target.settings.get(SEARCH)
        options = replace(
            self.options,
            fields=list(self.plan.entry.fields),
            graph=True,
            out=self.attaching.out,
            default_pipelines=False,
            raise_versions=True,
            pipeline=used if used in all_pipelines(self.cluster) else None,
        )
        plan = AttachPlan(self.engine, self.to, options)
        plan.model = model
        return plan.run(progress, stop)

    @property
    def _is_rewritten(self) -> bool:
        found = rewriters(self.cluster).get(self.target.settings.get(SEARCH, NONE))
        return found is not None and found.index == self.target.name

    def _defaults(self, found: list[str]) -> dict[str, str]:
        """The settings that make our pipelines the copy's own, where they are wanted."""
        is_encoded = self.target.settings.get(FINAL) == pipeline_name(self.target.name)
        ours = {FINAL: ("ingest", is_encoded), SEARCH: ("search", self._is_rewritten)}
        wanted = [
            setting
            for setting, (kind, is_used) in ours.items()
            if kind in found and (self.options.default_pipelines or is_used)
        ]
        return dict.fromkeys(wanted, pipeline_name(self.to))


class ReturnPlan(Plan):
    """What detaching a copy that is in service is about to do: the aliases go back to its index.

    What was written to the copy since goes there first, unless ``copy_back`` is false. Raises BadInput for what cannot
    be done.
    """

    def __init__(self, engine: OpenSearchEngine, copy: Copy, copy_back: bool) -> None:
        self.engine, self.copy, self.copy_back = engine, copy, copy_back
        record, self.index = copy.record, copy.record.of
        self._names = ", ".join(record.aliases)
        self.question = f"Move {self._names} back to {self.index}?"
        found = copy.cluster.find(f"/{self.index}/_settings", self.index)
        if found is None or copy.settings(self.index)["index.uuid"] != record.uuid:
            message = f"the index {self.index!r} that {copy.name} is a copy of is not there any more"
            raise BadInput(message, value=copy.name, expected="nothing: the copy is what there is")
        if not copy.in_service:
            message = f"{copy.name!r} is a copy of {self.index!r} that {', '.join(record.aliases)} does not stand for"
            raise BadInput(message, value=copy.name, expected=f"resift drop {copy.name} deletes it")
        # What was written to the index by its own name cannot be told from what has been deleted in the copy.
        if copy_back and record.returning is None and is_written_since(engine, self.index, record.left or {}):
            message = f"{self.index!r} was written to by its own name since {copy.name} took its place"
            expected = f"--no-copy-back, with which what was written to {copy.name} since stays there alone"
            raise BadInput(message, value=self.index, expected=expected)

    def lines(self) -> list[str]:
        name = self.copy.name
        kept = f"stays in {name} alone (--no-copy-back)"
        lines = [
            f"{name} is a copy of {self.index}:",
            f"  alias       {self._names}: from {name} to {self.index} at once",
            f"  documents   what was written to {name} since {'is copied back first' if self.copy_back else kept}",
        ]
        if self.copy_back:
            lines.append(f"  writes      {_BLOCK} while the last changes are copied; let clients try again")
        return [*lines, f"  {name} stays as it is then; resift drop {name} deletes it"]

    def to_dict(self) -> dict[str, Any]:
        aliases = self.copy.record.aliases
        return {"copy": self.copy.name, "index": self.index, "aliases": aliases, "copy_back": self.copy_back}

    def run(self, progress: Progress = silent, stop: Stop | None = None) -> Result:
        copy, index, stop = self.copy, self.index, stop or Stop()
        _take_off(copy, progress)
        if not self.copy_back:
            copy.change_settings(index, copy.record.returning or {})
            copy.move_aliases(copy.name, index)
            copy.write(returning=None)
            return self._result(None, 0.0)
        if copy.record.returning is None:
            copy.write(returning={FINAL: copy.settings(index).get(FINAL)})
        if copy.settings(index).get(FINAL, NONE) != NONE:
            copy.change_settings(index, {FINAL: NONE})  # they went through it on their way into the copy
        mirror = Mirror(self.engine, copy, copy.name, index, stop)
        mirror.go_on_from(copy.record.since)
        mirror.catch_up()
        end_if(stop, "interrupted: run it again, and it goes on")
        documents, seconds = _moved(self.engine, mirror, copy, copy.record.returning or {})
        return self._result(documents, seconds)

    def _result(self, documents: int | None, seconds: float) -> Result:
        index, name = self.index, self.copy.name
        lines = [f"{self._names} stands for {index} again; writes were refused for {seconds:.2f} s"]
        if documents is not None:
            lines.insert(0, f"{documents} documents are in {name} and {index}")
            if self.engine.info(index).model is not None:
                lines.append(f"what was copied back has no vectors there: resift verify {index} --repair")
        lines.append(f"{name} is left: resift drop {name} deletes it")
        aliases = self.copy.record.aliases
        return Result(lines, copy=name, index=index, aliases=aliases, documents=documents, blocked_seconds=seconds)


def _moved(engine: OpenSearchEngine, mirror: Mirror, copy: Copy, settings: dict[str, Any]) -> tuple[int, float]:
    """Make both indices alike, change ``settings`` of the one that is to serve, and move the aliases to it.

    Returns the number of documents, and how many seconds writes were refused. If it fails, nothing was moved.
    """
    started = time.perf_counter()
    mirror.stop = Stop()  # at a signal it is done sooner than it would be undone
    with blocked(copy, mirror.source):
        documents = mirror.finish()
        copy.change_settings(mirror.to, settings)
        since, left = points_of(engine, copy.name), points_of(engine, copy.record.of)
        if not copy.is_blocked(mirror.source):
            message = f"somebody let {mirror.source} be written to while its last changes were copied"
            raise EngineError(message, status=409, value=mirror.source, expected="one run at a time")
        copy.write(since=since, left=left, returning=None)
        copy.move_aliases(mirror.source, mirror.to)
    return documents, round(time.perf_counter() - started, 3)


def _take_off(copy: Copy, progress: Progress) -> None:
    if (index := unblock(copy)) is not None:
        progress(Step(f"{index} can be written to again: an earlier run had left its block"))
