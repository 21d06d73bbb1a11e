"""How an index is copied into one with a graph, which takes its place behind an alias."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from resift.encoders.model import Model
from resift.errors import BadInput, EngineError
from resift.ingest.attaching import fill
from resift.ingest.copying import Mirror, blocked, unblock
from resift.ingest.stopping import Stop
from resift.operations.attaching import NOT_INSTALLED, AttachPlan
from resift.operations.index_plan import Options
from resift.operations.plan import Plan, Progress, Result, Step, counting, end_if, silent
from resift.plugin.cluster.attachment import FINAL
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.copying import PIPELINES, Copy, check_aliases, check_templates
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
            message = f"index {to!r} exists, and is no copy that was interrupted"
            raise BadInput(message, value=to, expected="a name that is free")
        # A block that an earlier run has left is taken off when this one begins.
        self.attaching = AttachPlan(engine, name, options, self.copy.of if self.copy else None)
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
        elif self.copy.uuid != self.target.settings["index.uuid"]:
            message = f"{to!r} is a copy of {self.copy.of}, or of an earlier index of that name"
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
            f"  documents   {self.target.documents}, with ids and routing, past pipelines; clients go on",
            f"  writes      then {_BLOCK} while the last changes are copied: a second or two on a cluster",
            "              that is not overloaded; let clients try again",
            f"  alias       {self._names}: from {index} to {new} at once, with filter and routing as they are",
        ]
        if staying:
            lines.append(f"  alias       {staying}: stays with {index}, which changes no more; --alias moves it, too")
        lines.append(f"  clients     that use the name {index} go on there, and what they write is not copied any more")
        return [*lines, f"  undo        resift detach {new}, which goes on serving; {index} stays as it is"]

    def run(self, progress: Progress = silent, stop: Stop | None = None) -> Result:
        stop, started, index = stop or Stop(), time.perf_counter(), self.target.name
        if (copy := self.copy) is not None:
            if copy.blocked:
                unblock(copy)
                progress(Step(f"{index} can be written to again: an earlier run had left its block"))
            if copy.is_in_service(self.aliases):
                copy.finish()
                lines = [f"{self.to} is what {self._names} stands for already: nothing to do"]
                return Result(lines, index=index, copy=self.to, aliases=self.aliases, documents=None)
            self.engine.drop(self.to)
        model = self.attaching.model or self.attaching.learned(progress, stop)
        copy = Copy.create(self.target, self.to)
        mirror = Mirror(self.engine, copy, stop)
        mirror.changes(counting(progress, f"copying {index}", self.target.documents))
        mirror.catch_up()
        end_if(stop, f"interrupted: run it again, and it begins anew; resift drop {self.to} deletes the copy")
        attached = self._attached(model, progress, stop)
        pipelines = pipelines_of(self.cluster, self.to)
        documents, refused = self._take_over(copy, mirror, self._defaults(pipelines))
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
            blocked_seconds=refused,
            model=model.hash,
            seconds=round(time.perf_counter() - started, 3),
            pipelines=pipelines,
            hints=hints,
            in_order=attached.in_order and not hints,
            lines=[
                f"{documents} documents are in {index} and {self.to}",
                f"writes were refused for {refused:.2f} s, and {self._names} stands for {self.to} now",
                *(f"  {hint}" for hint in hints),
                f"{index} is as it was; clients that use that name go on there, and nothing is copied any more",
                f"undo: resift detach {self.to}",
            ],
        )

    def _take_over(self, copy: Copy, mirror: Mirror, settings: dict[str, Any]) -> tuple[int, float]:
        """Have the copy serve; the number of its documents, and how many seconds writes were refused.

        If it fails, nothing has changed.
        """
        started = time.perf_counter()
        mirror.stop = Stop()  # at a signal it is done sooner than it would be undone
        with blocked(copy):
            documents = mirror.finish()
            self.cluster.set_index(self.to, settings)
            if not copy.is_blocked:
                message = f"somebody let {copy.of} be written to while its last changes were copied"
                raise EngineError(message, status=409, value=copy.of, expected="one run at a time")
            copy.take_over(self.aliases)
        copy.finish()
        return documents, round(time.perf_counter() - started, 3)

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

    def _defaults(self, made: Sequence[str]) -> dict[str, str | None]:
        """The pipelines that the copy is to have: those of the index, and in place of ours, or of none, its own."""
        values, always = {name: self.target.settings.get(name) for name in PIPELINES}, self.options.default_pipelines
        for name, kind, is_used in ((FINAL, "ingest", False), (SEARCH, "search", self._is_rewritten)):
            is_free = values[name] in (None, NONE) or kind == "search"
            if is_used or values[name] == pipeline_name(self.target.name) or (always and is_free):
                values[name] = pipeline_name(self.to) if kind in made else None
        return values
