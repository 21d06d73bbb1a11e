"""How an index is attached: the model is chosen or learned, vectors are written, and the index is told of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from resift.cli.attach_plan import IndexPlan, learned_texts, plan_index
from resift.cli.cluster import install_command
from resift.cli.failures import NOT_RIGHT
from resift.cli.output import print_report, progress_bar
from resift.cli.paths import NewFolder
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import BadInput, MissingExtra, ResiftError
from resift.ingest.attaching import Written, fill
from resift.ingest.stopping import Stop
from resift.ingest.verify import Verification, check
from resift.lab.commands.train_self import adapt_texts
from resift.plugin.cluster.attachment import Target, check_attachable, check_versions, targets
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import asked_installations, pipeline_name, settle_pipelines
from resift.plugin.cluster.installation import installations
from resift.plugin.documents import IndexInfo
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.versions import require_plain_vectors
from resift.plugin.query_dsl import is_ours
from resift.vectors.packaged import DEFAULT, load_vectors

_ALL_VERIFIED, _VERIFIED = 20_000, 2_000  # documents: of larger indices so many are verified, drawn by chance


@dataclass(frozen=True)
class Options:
    """What the command line says, as its options are named."""

    fields: list[str] | None
    model: str | None
    no_adapt: bool
    own: str | None
    out: str | None
    default_pipelines: bool
    raise_versions: bool


def learned_folder(name: str, options: Options) -> str:
    """Where a model is saved that is learned from the documents of what is attached."""
    return options.out or re.sub(r"[^\w.-]", "_", name) + "-model"


class Attaching:
    """One run of ``resift attach`` over all indices that ``name`` stands for.

    Raises BadInput for what cannot be done, before anything is changed.
    """

    def __init__(self, engine: OpenSearchEngine, name: str, options: Options, as_json: bool) -> None:
        self.engine, self.cluster, self.options, self.as_json = engine, Cluster(engine), options, as_json
        self.name = name
        self.targets = targets(self.cluster, name)
        for target in self.targets:
            check_attachable(target)
        self.out = learned_folder(name, options)
        self.model = self._known_model()
        self.own = options.own or (self.model.field if self.model else None)
        if self.own is None:
            if self.model is not None:
                self.model.require_documents()
            if not options.raise_versions:
                for target in self.targets:
                    check_versions(target)
        if self.model is None:
            NewFolder().convert(self.out, None, None)
        like = self.model or load_model(DEFAULT)
        self.plans = [self._plan(target, like) for target in self.targets]

    @cached_property
    def names(self) -> str:
        """The indices' names, for people."""
        return ", ".join(target.name for target in self.targets)

    @property
    def is_current(self) -> bool:
        """Whether its name still stands for the indices that were planned for: no rollover brought another one."""
        return self.engine.resolve(self.name) == [target.name for target in self.targets]

    def _plan(self, target: Target, model: Model) -> IndexPlan:
        options = self.options
        return plan_index(self.engine, target, model, options.fields, self.own, options.default_pipelines)

    def _known_model(self) -> Model | None:
        """The model to attach with; None if it is to be learned."""
        if self.options.model is not None or self.options.no_adapt:
            return load_model(self.options.model or DEFAULT)
        if self.options.own is not None:
            raise BadInput(
                "--field without --model", value=self.options.own, expected="--model DIR, whose vectors it has"
            )
        # What was begun is gone on with, and not learned once more. Those in a field of the index's own are not ours.
        found = [entry for target in self.targets for entry in (target.record.filling, *target.record.ready)]
        begun = [entry for entry in found if entry is not None and is_ours(entry.vector_field)]
        if not begun:
            return None
        entry = begun[0]
        for folder in (self.out, DEFAULT):
            with suppress(ResiftError):
                if (model := load_model(folder)).hash == entry.model:
                    return model
        message = (
            f"index {entry.name!r} has vectors of model {entry.model_name} ({entry.model}), which {self.out} is not"
        )
        raise BadInput(message, value=entry.model, expected="--model DIR, its folder or another model's, or --no-adapt")

    def tell_plan(self, alone: bool) -> None:
        """Print what would be done; on standard error unless it is ``alone``, all that is asked for.

        Raises UnsupportedCluster for indices that this version of OpenSearch does not stand to be attached.
        """
        if any(not (plan.is_own or plan.target.has_graph) for plan in self.plans):
            require_plain_vectors(self.engine.ping().split()[1])
        model = "learned from these documents" if self.model is None else f"{self.model.name} ({self.model.hash})"
        saved = f" first, for seconds or minutes, and saved in {self.out}" if self.model is None else ""
        lines = [f"model: {model}{saved}", *(line for plan in self.plans for line in plan.lines())]
        if len(self.plans) > 1 and self.options.default_pipelines:
            one = f"search_pipeline={pipeline_name(self.targets[-1].name)}"
            lines.append(
                f"note: searches of several of these at once have no default pipeline; let them name one, {one}"
            )
        if alone:
            report = {"model": None if self.model is None else self.model.hash, "dry_run": True}
            print_report({**report, "indices": [plan.report() for plan in self.plans]}, self.as_json, *lines)
        else:
            click.echo("\n".join(lines), err=True)

    def run(self) -> int:
        """Attach all indices; return the exit status."""
        stop = Stop()
        model = self.model or self.learned()
        found, status = [], 0
        with stop.at_signals():
            for target in self.targets:
                done = _Attached(self, target, model).run(stop)
                found.append(done)
                status = status or (0 if done["in_order"] else NOT_RIGHT)
                if stop.requested:
                    click.echo(f"interrupted: run it again, and it goes on with what is left of {self.names}", err=True)
                    return 128 + (stop.signal or 2)
        print_report({"model": model.hash, "indices": found}, self.as_json, *self._after(model, found))
        return status

    def learned(self) -> Model:
        """A model that is adapted to the indices' documents, and saved; the packaged one if that is no better."""
        texts = learned_texts(self.engine, self.plans)
        try:
            model = adapt_texts(texts, load_vectors(DEFAULT))
        except BadInput as error:  # too few documents
            click.echo(f"nothing is learned: {error.message}; the packaged model is used", err=True)
            model = None
        except MissingExtra as error:
            raise MissingExtra(error.message, expected="that package, or --no-adapt for the packaged model") from error
        if model is None:
            return load_model(DEFAULT)
        model.save(self.out)
        return load_model(self.out)

    def _after(self, model: Model, found: list[dict[str, Any]]) -> list[str]:
        """What was done, what comes next, and how it is undone."""
        lines = [line for one in found for line in one.pop("lines")]
        folder = self.folder_flag(model)
        if not all(one["installed"] for one in found):
            command = install_command(self.cluster, folder)
            lines.append(f"next: resift serve{folder} and {command}, once for the cluster")
        lines += [f"undo: resift detach {one['index']}" for one in found]
        if not self.is_current:
            lines.append(f"note: {self.name} stands for other indices by now: run it again, for those that are new")
        return lines

    def folder_flag(self, model: Model) -> str:
        """The option that names the folder of a model; "" for the packaged one."""
        return next((f" --model {path}" for path in (self.options.model, self.out) if _is_model(path, model)), "")


class _Attached:
    """One index that is being attached."""

    def __init__(self, run: Attaching, target: Target, model: Model) -> None:
        self.engine, self.cluster, self.options = run.engine, run.cluster, run.options
        self.target, self.model, self.folder = target, model, run.folder_flag(model)
        self.plan = run._plan(target, model)
        self.able = {name for name, one in installations(self.cluster).items() if one.model.hash == model.hash}

    def run(self, stop: Stop) -> dict[str, Any]:
        """Do it; return the report."""
        entry, written, verified = self.plan.entry, Written(), None
        target = self.target.begin(entry, self.model)
        if not self.plan.is_own:
            with progress_bar(f"encoding {entry.name}") as progress:
                total = max(self.plan.lacking, 1)
                written = fill(self.engine, self.model, entry, stop, lambda done: progress(done, total))
        if stop.requested:
            return self._report(written, verified, {}, [])
        if 0 < target.documents <= len(written.refused) + written.left:
            return self._report(written, verified, {}, ["no document has a vector: searches stay as they were"])
        target = target.switch(entry)
        pipelines = self._settle()
        hints = self._set_defaults(target, pipelines)
        verified = None if self.plan.is_own else self._verify(entry, stop)
        return self._report(written, verified, pipelines, hints)

    def _settle(self) -> dict[str, frozenset[str]]:
        """The kinds of the index's pipelines, and the installations that each asks."""
        try:
            settle_pipelines(self.cluster, self.target.name)
        except ResiftError as error:
            # the vectors are there, and who may write documents may not change pipelines in every cluster
            click.echo(f"no pipeline was made: {error.message}", err=True)
        return asked_installations(self.cluster, self.target.name)

    def _set_defaults(self, target: Target, pipelines: Mapping[str, frozenset[str]]) -> list[str]:
        """Set the default pipelines that are wanted; return what could not be set, and what to do."""
        if not self.options.default_pipelines:
            return []
        again = f"resift attach {self.target.name} --default-pipelines"
        if not (self.able and pipelines):
            why, command = "the cluster has no installation for this model", install_command(self.cluster, self.folder)
            return [f"no default pipelines were set, since {why}: {command}, then {again}"]
        free, hints = target.defaults(list(pipelines))
        target.set_defaults(free)
        lacking = [kind for kind in (["search"] if self.plan.is_own else ["ingest", "search"]) if kind not in pipelines]
        return [*hints, *(f"there is no {kind} pipeline to be the default: {again}" for kind in lacking)]

    def _verify(self, entry: IndexInfo, stop: Stop) -> Verification:
        """The vectors of all documents compared with their texts, or of some of a large index."""
        ids = None
        if self.target.documents > _ALL_VERIFIED:
            ids = [hit["_id"] for hit in self.engine.sample(entry.name, _VERIFIED, source=False).hits]
        documents = self.engine.scan(entry.name, entry.vector_field, entry.fields, ids=ids)
        return check(self.engine, self.model, entry, documents, False, stop)

    def _of(self, names: Sequence[str]) -> str:
        """Which of several installations with the model those are that a pipeline asks; "" where there is no choice."""
        return f" of installation {', '.join(names)}" if names and len(self.able) > 1 else ""

    def _report(
        self,
        written: Written,
        verified: Verification | None,
        pipelines: Mapping[str, frozenset[str]],
        hints: list[str],
    ) -> dict[str, Any]:
        entry = self.plan.entry
        rate = written.documents / written.seconds if written.seconds else 0
        lines = [f"{entry.name}: {written.documents} documents encoded into {entry.vector_field}, {rate:.0f} a second"]
        lines += [f"  refused: {one.id}: {one.reason}" for one in written.refused[:5]]
        if verified is not None:
            wrong = f"{verified.missing} without a vector, {verified.stale} with a stale one"
            lines.append(f"  {verified.checked} documents verified: {wrong}")
            if verified.missing or verified.stale:
                lines.append(f"  resift verify {entry.name} --repair mends what clients have written meanwhile")
        asked = {kind: sorted(names & self.able) for kind, names in pipelines.items()}
        lines += [f"  {kind} pipeline {pipeline_name(entry.name)}{self._of(names)}" for kind, names in asked.items()]
        lines += [f"  {hint}" for hint in hints]
        return {
            "index": entry.name,
            "fields": list(entry.fields),
            "vector_field": entry.vector_field,
            "documents": written.documents,
            "refused": len(written.refused),
            "seconds": round(written.seconds, 3),
            "verified": None if verified is None else verified.checked,
            "missing": None if verified is None else verified.missing,
            "stale": None if verified is None else verified.stale,
            "installed": bool(self.able),
            "pipelines": list(pipelines),
            "installations": asked,
            "hints": hints,
            "in_order": not (written.refused or hints or (verified and (verified.missing or verified.stale))),
            "lines": lines,
        }


def _is_model(path: str | None, model: Model) -> bool:
    """Whether a folder holds this model."""
    if path is None or not Path(path).is_dir():
        return False
    with suppress(ResiftError):
        return load_model(path).hash == model.hash
    return False
