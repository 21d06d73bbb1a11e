"""An index is copied into one that can have a graph, which takes its place behind an alias and is attached there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from resift.errors import BadInput, EngineError
from resift.ingest.copying import blocked, copy_documents, unblock
from resift.ingest.stopping import Stop
from resift.operations.attaching import AttachPlan
from resift.operations.index_plan import Options
from resift.operations.plan import Plan, Progress, Result, Step, counting, end_if, silent
from resift.plugin.cluster.attachment import FINAL
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.copying import PIPELINES, Copy, check_aliases, check_templates
from resift.plugin.cluster.search_pipelines import NONE, SEARCH, all_pipelines, pipeline_name, rewriters
from resift.plugin.opensearch.engine import OpenSearchEngine

_BLOCK = "403 (cluster_block_exception)"


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
        elif self.copy.of != self.target.name:
            raise BadInput(f"{to!r} is a copy of {self.copy.of}", value=to, expected="another name")

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
            f"  mapping     that of {index}, and index.knn, which k-NN over all of it needs",
            "  settings    the same, pipelines and analysers among them",
            f"  documents   {self.target.documents}, with ids and routing, past pipelines",
            f"  writes      get {_BLOCK} while they are copied; let clients try again",
            f"  alias       {self._names}: from {index} to {new} at once, with filter and routing as they are",
        ]
        if staying:
            lines.append(f"  alias       {staying}: stays with {index}, which changes no more; --alias moves it, too")
        lines += [
            f"  texts       {', '.join(self.plan.entry.fields)}: then {new} gets their vectors, beside its clients",
            f"  clients     that use the name {index} go on there, and what they write is not copied any more",
        ]
        return [*lines, f"  undo        resift detach {new}, which goes on serving; {index} stays as it is"]

    def run(self, progress: Progress = silent, stop: Stop | None = None) -> Result:
        stop, started, index = stop or Stop(), time.perf_counter(), self.target.name
        copy, documents, refused = self.copy, self.target.documents, 0.0
        if copy is not None and copy.is_blocked:
            unblock(copy)
            progress(Step(f"{index} can be written to again: an earlier run had left its block"))
        if copy is None or not copy.is_in_service(self.aliases):
            if copy is not None:
                self.engine.drop(self.to)
            copy = Copy.create(self.target, self.to)
            documents, refused = self._take_over(copy, progress, stop)
        attached = self._attached(progress, stop)
        copy.finish()
        lines = [
            f"{documents} documents are in {index} and {self.to}",
            f"writes were refused for {refused:.2f} s, and {self._names} stands for {self.to} now",
            f"{index} is as it was; clients that use that name go on there, and nothing is copied any more",
        ]
        return Result(
            index=index,
            copy=self.to,
            aliases=self.aliases,
            documents=documents,
            blocked_seconds=refused,
            model=attached.model,
            seconds=round(time.perf_counter() - started, 3),
            attached=attached.indices,
            in_order=attached.in_order,
            lines=[*lines, *attached.lines],
        )

    def _take_over(self, copy: Copy, progress: Progress, stop: Stop) -> tuple[int, float]:
        """Have the copy serve; the number of its documents, and how many seconds writes were refused.

        If it fails, nothing has changed.
        """
        started = time.perf_counter()
        with blocked(copy):
            documents = copy_documents(copy, stop, counting(progress, f"copying {copy.of}", self.target.documents))
            end_if(stop, f"interrupted: run it again, and it begins anew; resift drop {self.to} deletes the copy")
            values = {name: self.target.settings.get(name) for name in PIPELINES}
            # the copy gets one of its own as it is attached
            self.cluster.set_index(self.to, {**values, **({FINAL: None} if self._is_encoded else {})})
            if not copy.is_blocked:
                message = f"somebody let {copy.of} be written to while it was copied"
                raise EngineError(message, status=409, value=copy.of, expected="one run at a time")
            copy.take_over(self.aliases)
        return documents, round(time.perf_counter() - started, 3)

    def _attached(self, progress: Progress, stop: Stop) -> Result:
        """Attach the copy, with a graph."""
        used = self.target.settings.get(SEARCH)
        options = replace(
            self.options,
            fields=list(self.plan.entry.fields),
            graph=True,
            out=self.attaching.out,
            default_pipelines=self.options.default_pipelines or self._is_encoded or self._is_rewritten,
            pipeline=used if used in all_pipelines(self.cluster) and not self._is_rewritten else None,
        )
        return AttachPlan(self.engine, self.to, options).run(progress, stop)

    @property
    def _is_encoded(self) -> bool:
        return self.target.settings.get(FINAL) == pipeline_name(self.target.name)

    @property
    def _is_rewritten(self) -> bool:
        found = rewriters(self.cluster).get(self.target.settings.get(SEARCH, NONE))
        return found is not None and found.index == self.target.name
