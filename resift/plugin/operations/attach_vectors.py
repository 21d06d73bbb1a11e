"""How an index is attached: the model is chosen or learned, vectors are written, and the index is told of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from resift.contracts.tuning import Tuning
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import BadInput, MissingExtra, ResiftError
from resift.files import folder_write_error
from resift.ingest.fields import guess_fields
from resift.ingest.stopping import Stop
from resift.plugin.adaptation import adaptation
from resift.plugin.cluster.attachment import Target, check_attachable, targets
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import pipelines_of, settle_pipelines
from resift.plugin.cluster.index_record import IndexRecord
from resift.plugin.cluster.search_pipelines import pipeline_name
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.attach_searches import Searches
from resift.plugin.operations.install import serving
from resift.plugin.operations.plan import Plan, Progress, Result, Step, counting, end_if
from resift.plugin.operations.write_vectors import Written, empty, fill
from resift.query.dsl import document_text, is_ours, values_of
from resift.vectors.compact import json_length
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors

NOT_INSTALLED = "no default pipelines were set, since the cluster has no installation for this model"
_SAMPLE = 500  # documents that fields are guessed from
# Types of fields in which OpenSearch refuses to look for a word that is none of their values.
_NO_TEXTS = re.compile(r"byte|short|integer|.*long|.*float|double|date.*|boolean|ip|binary|geo.*|.*_range|knn_vector")


@dataclass(frozen=True)
class Options:
    """How to attach; :func:`resift.attach` says what each of them means."""

    fields: Sequence[str] | None = None
    model: str | None = None
    adapt: bool = True
    graph: bool = False
    field: str | None = None
    out: str | None = None
    default_pipelines: bool = False
    pipeline: str | None = None


class IndexPlan:
    """What is to be done to one index for the vectors of ``model``, or of one that will be made and is like it.

    ``own`` is the index's own field that has them already, if one does. ``entry`` describes the vectors that it gets,
    which ``lacking`` documents are without. ``defaults`` are the settings that are to be set, and ``hints`` say why
    others are not, and what else a user should know. Raises BadInput for what does not fit the index.
    """

    def __init__(
        self, engine: OpenSearchEngine, target: Target, model: Model, options: Options, own: str | None
    ) -> None:
        self.target, sources, known = target, sampled_sources(engine, target), target.known(model, options.graph)
        had = known or target.record.of(model.hash) or target.record.current
        chosen = options.fields or (had.fields if had else ()) or guessed_fields(target, sources)
        _check_fields(target, chosen, sources)
        self.entry = target.entry(model, chosen if options.fields or known is None else (), own, options.graph)
        self.replaced = target.record.replaced_by(self.entry)
        self.lacking = 0 if self.is_own else target.documents
        if known is not None and self.lacking:
            self.lacking = target.count({"bool": {"must_not": [{"exists": {"field": self.entry.vector_field}}]}})
        self.defaults, self.hints = target.final_pipeline() if options.default_pipelines and not own else ({}, [])
        if target.unrecorded:
            told = f"of which _meta tells nothing any more: resift detach {target.name} takes them out"
            self.hints = [*self.hints, f"{', '.join(target.unrecorded)} has vectors already, {told}"]

    @property
    def is_own(self) -> bool:
        """Whether the vectors are in a field of the index's own, which is left to it."""
        return not is_ours(self.entry.vector_field)

    def to_dict(self) -> dict[str, Any]:
        """The plan for programs."""
        return {
            "index": self.target.name,
            "documents": self.target.documents,
            "to_encode": self.lacking,
            "fields": list(self.entry.fields),
            "vector_field": self.entry.vector_field,
            "graph": self.entry.has_hnsw,
            "replaced": [one.vector_field for one in self.replaced],
            "settings": self.defaults,
            "hints": self.hints,
        }

    def lines(self) -> list[str]:
        """The plan for people."""
        entry, name = self.entry, self.target.name
        lines = [f"{name}: {self.target.documents} documents", f"  texts       {', '.join(entry.fields)}"]
        if self.is_own:
            lines.append(f"  vectors     those in {entry.vector_field}, which stay as they are; nothing is encoded")
        else:
            kind, each = "binary with doc values", f", {json_length(entry.vector_field, entry.dim or 0)} bytes a hit,"
            if entry.has_hnsw:
                kind, each = "knn_vector with a graph", ""
            lines += [
                f"  mapping     + {entry.vector_field}: {kind}, {entry.dim} dimensions",
                f"  documents   {self.lacking} get a vector, by an update each that runs no ingest pipeline and "
                "raises _version by 1",
                f"  _source     has {entry.vector_field}{each} in answers to GET, and to searches not through Resift",
                "  clients     that refuse unknown fields, as opensearch-java does with classes, must ignore it first",
                f"  pipeline    {pipeline_name(name)} encodes what is written through it, where one is installed",
            ]
            for one in self.replaced:
                graph = ", and with them the graph (--graph keeps it)" if one.has_hnsw else ""
                lines.append(f"  replaced    then the vectors in {one.vector_field} are taken out{graph}")
        lines += [f"  setting     {setting} = {value}" for setting, value in self.defaults.items()]
        return [*lines, *(f"  note        {hint}" for hint in self.hints)]


def sampled_sources(engine: OpenSearchEngine, target: Target) -> list[dict[str, Any]]:
    """Some documents of an index, drawn by chance."""
    return [hit["_source"] for hit in engine.sample(target.name, _SAMPLE).hits]


def guessed_fields(target: Target, sources: Sequence[dict[str, Any]]) -> list[str]:
    """The text fields of an index whose values are texts, those that are like titles first."""
    names = target.text_fields
    if not names:
        expected = "an index with text fields, or --fields NAMES"
        raise BadInput(f"the mapping of {target.name!r} has no text fields", value=target.name, expected=expected)
    if not sources:
        return names
    return guess_fields([{name: _strings(source, name) for name in names} for source in sources])


def _strings(source: dict[str, Any], name: str) -> list[str]:
    return [value for value in values_of(source, name) if isinstance(value, str)]


def _check_fields(target: Target, fields: Sequence[str], sources: Sequence[dict[str, Any]]) -> None:
    """Raise BadInput for fields that the mapping lacks, or that hold no text in any document that was looked at."""
    texts = ", ".join(target.text_fields) or "none"
    unknown = [name for name in fields if name not in target.fields]
    if unknown:
        message = f"index {target.name!r} has no field {', '.join(unknown)}"
        raise BadInput(message, value=unknown, expected=f"its text fields: {texts}")
    other = [f"{name} is {target.fields[name]}" for name in fields if _NO_TEXTS.fullmatch(target.fields[name])]
    other += [f"{name} is not indexed" for name in fields if target.is_only_kept(name)]
    if other:
        message = f"no words can be looked for in {target.name!r} where {', '.join(other)}"
        raise BadInput(message, value=list(fields), expected=f"its text fields: {texts}")
    if sources and not any(document_text(source, fields).strip() for source in sources):
        message = f"no document of {target.name!r} that was looked at has a text in {', '.join(fields)}"
        raise BadInput(message, value=list(fields), expected=f"its text fields: {texts}")


class AttachPlan(Plan):
    """What attaching is about to do to all indices that ``name`` stands for.

    Raises BadInput for what cannot be done, and MissingExtra if a model is to be trained and a package is missing.
    """

    def __init__(self, engine: OpenSearchEngine, name: str, options: Options) -> None:
        self.engine, self.cluster, self.name, self.options = engine, Cluster(engine), name, options
        self.targets = targets(self.cluster, name)
        self.names = ", ".join(target.name for target in self.targets)
        self.question = f"Attach {self.names}?"
        for target in self.targets:
            check_attachable(target)
        self.out = options.out or re.sub(r"[^\w.-]", "_", name) + "-model"  # where one is saved that is learned
        self.model = self._known_model()
        self.own = options.field or (self.model.field if self.model else None)
        if self.own is None and self.model is not None:
            self.model.require_documents()
        if self.model is None:
            self._check_learnable()
        like = self.model or load_model(DEFAULT_MODEL)
        self.plans = [IndexPlan(engine, target, like, options, self.own) for target in self.targets]

    def _check_learnable(self) -> None:
        """Check that a model can be trained and saved, before anything is planned.

        Raises:
            MissingExtra: If a package is missing.
            BadInput: If the folder cannot be written.
        """
        try:
            adaptation().require_packages()
        except MissingExtra as error:
            raise MissingExtra(error.message, expected="that package, or --no-adapt for the packaged model") from error
        if reason := folder_write_error(Path(self.out)):
            raise BadInput(reason, value=self.out)

    @cached_property
    def searches(self) -> Searches:
        """The search pipeline that is to rewrite the searches. Raises BadInput where they cannot be attached."""
        return Searches(self.cluster, self.name, self.options.pipeline, self.options.default_pipelines)

    def _known_model(self) -> Model | None:
        """The model to attach with; None if it is to be learned."""
        if self.options.model is not None or not self.options.adapt:
            return load_model(self.options.model or DEFAULT_MODEL)
        # What was begun is gone on with, and not learned once more. Those in a field of the index's own are not ours.
        found = [entry for target in self.targets for entry in (target.record.filling, *target.record.ready)]
        begun = [entry for entry in found if entry is not None and is_ours(entry.vector_field)]
        if not begun:
            return None
        entry = begun[0]
        for folder in (self.out, DEFAULT_MODEL):
            with suppress(ResiftError):
                if (model := load_model(folder)).hash == entry.model:
                    return model
        vectors = f"vectors of model {entry.model_name} ({entry.model})"
        message = f"index {entry.name!r} has {vectors}, which {self.out} is not"
        raise BadInput(message, value=entry.model, expected="--model DIR, its folder or another model's, or --no-adapt")

    def lines(self) -> list[str]:
        model = "learned from these documents" if self.model is None else f"{self.model.name} ({self.model.hash})"
        saved = f" first, for seconds or minutes, and saved in {self.out}" if self.model is None else ""
        lines = [f"model: {model}{saved}", *(line for plan in self.plans for line in plan.lines())]
        return [*lines, f"searches of {self.name}, where one is installed for this model:", *self.searches.lines()]

    def to_dict(self) -> dict[str, Any]:
        indices = [plan.to_dict() for plan in self.plans]
        return {"model": self.model and self.model.hash, "indices": indices, "searches": self.searches.to_dict()}

    def _run(self, progress: Progress, stop: Stop) -> Result:
        searches = self.searches  # which may be refused, before anything is changed
        model, found = self.model or self.learned(progress, stop), []
        attaching = [_Attaching(self, target, model, progress) for target in self.targets]
        again = f"interrupted: run it again, and it goes on with what is left of {self.names}"
        for one in attaching:
            found.append(one.run(stop))
            end_if(stop, again)
        for one in attaching:  # until now all of them could be searched together by what some have still
            one.empty_replaced(stop)
            end_if(stop, again)
        lines = [line for one in found for line in one.lines]
        pipeline, folder = self._attach(searches, model), self.folder_flag(model)
        if pipeline is not None:
            lines.append(f"searches through {pipeline} are rewritten")
        if not all(one.installed for one in found):
            lines.append(f"next: resift serve{folder} and resift install{folder} --service URL, once for the cluster")
        lines += [f"undo: resift detach {one.index}" for one in found]
        in_order = all(one.in_order for one in found)
        return Result(model=model.hash, indices=found, search_pipeline=pipeline, lines=lines, in_order=in_order)

    def _attach(self, searches: Searches, model: Model) -> str | None:
        """Have searches rewritten, if the cluster has an installation for the model; return their pipeline."""
        installation = serving(self.cluster, model.hash)
        found = self.cluster.named("models", f"{installation.name}-rewrite") if installation else []
        return searches.run(installation.name, found[0][0], model.hash).name if installation and found else None

    def learned(self, progress: Progress, stop: Stop) -> Model:
        """A model that is adapted to the indices' documents, and saved; the packaged one if that is no better."""

        def told(step: Step) -> None:
            end_if(stop, "interrupted: nothing was changed")
            progress(step)

        indices = [(plan.target.name, plan.entry.fields, plan.target.documents) for plan in self.plans]
        texts = adaptation().index_texts(self.engine, indices)
        try:
            model = adaptation().adapt_if_better(
                texts,
                load_vectors(DEFAULT_MODEL),
                lambda done, total: told(Step("adapting", done, total)),
                lambda remark: told(Step(remark)),
            )
        except BadInput as error:  # too few documents
            progress(Step(f"nothing is learned: {error.message}; the packaged model is used"))
            model = None
        if model is None:
            return load_model(DEFAULT_MODEL)
        model.save(self.out)
        return load_model(self.out)

    def folder_flag(self, model: Model) -> str:
        """The option that names the folder of a model; "" for the packaged one."""
        return "" if model.hash == load_model(DEFAULT_MODEL).hash else f" --model {self.options.model or self.out}"


class _Attaching:
    """One index that is being attached."""

    def __init__(self, plan: AttachPlan, target: Target, model: Model, progress: Progress) -> None:
        self.engine, self.cluster, self.options, self.progress = plan.engine, plan.cluster, plan.options, progress
        self.target, self.model, self.folder = target, model, plan.folder_flag(model)
        self.plan = IndexPlan(plan.engine, target, model, plan.options, plan.own)
        self.is_installed = serving(self.cluster, model.hash) is not None

    def run(self, stop: Stop) -> Result:
        """Do it."""
        entry, written = self.plan.entry, Written()
        target = self.target.begin(entry, self.model)
        if not self.plan.is_own:
            told = counting(self.progress, f"encoding {entry.name}", self.plan.lacking)
            written = fill(self.engine, self.model, entry, stop, told)
        nothing = 0 < target.documents <= len(written.refused) + written.left
        if stop.requested or nothing:
            hints = ["no document has a vector: searches stay as they were"] if nothing else []
            return self._result(written, [], hints)
        target = target.switch(entry)
        pipelines = self._settle()
        hints = self._set_defaults(target, pipelines)
        weighed = adaptation().weigh_index(self.engine, self.engine.info(entry.name), self.model)
        return self._result(written, pipelines, hints, weighed)

    def empty_replaced(self, stop: Stop) -> None:
        """Take those vectors out of the documents in whose place others have come."""
        entry = self.plan.entry
        target = self.target.change_record(
            lambda record: record.without(record.replaced_by(entry)) if record.current == entry else record
        )
        if not (fields := target.record.abandoned):
            return
        self._settle()
        total = sum(target.count({"exists": {"field": name}}) for name in fields)
        told = counting(self.progress, f"emptying {', '.join(fields)}", total)
        emptied = empty(self.cluster, target.name, fields, stop, told)
        if not stop.requested and not emptied.left:
            target.change_record(IndexRecord.emptied)

    def _settle(self) -> list[str]:
        """Make the index's pipelines as they should be; return their kinds."""
        try:
            settle_pipelines(self.cluster, self.target.name, search=False)
        except ResiftError as error:
            # the vectors are there, and who may write documents may not change pipelines in every cluster
            self.progress(Step(f"no pipeline was made: {error.message}"))
        return pipelines_of(self.cluster, self.target.name)

    def _set_defaults(self, target: Target, pipelines: Sequence[str]) -> list[str]:
        """Set the default pipelines that are wanted; return what could not be set, and what to do."""
        if not self.options.default_pipelines:
            return []
        again = f"resift attach {self.target.name} --vectors --default-pipelines"
        if not self.is_installed:
            return [f"{NOT_INSTALLED}: resift install{self.folder} --service URL, then {again}"]
        if self.plan.is_own:
            return []
        if "ingest" not in pipelines:
            return [f"there is no ingest pipeline to be the default: {again}"]
        free, hints = target.final_pipeline()
        if free:
            self.cluster.set_index(target.name, free)
        return hints

    def _result(
        self, written: Written, pipelines: Sequence[str], hints: Sequence[str], weighed: Tuning | None = None
    ) -> Result:
        entry, rate = self.plan.entry, written.documents / (written.seconds or 1)
        lines = [f"{entry.name}: {written.documents} documents encoded into {entry.vector_field}, {rate:.0f} a second"]
        lines += [f"  refused: {one.id}: {one.reason}" for one in written.refused[:5]]
        if written.left:
            lines.append(f"  {written.left} still lack a vector: resift verify {entry.name} --repair")
        lines += [f"  {line}" for line in (weighed.describe() if weighed else ())]
        lines += [f"  ingest pipeline {pipeline_name(entry.name)}"] if "ingest" in pipelines else []
        return Result(
            [*lines, *(f"  {hint}" for hint in hints)],
            not (written.refused or hints or written.left),
            index=entry.name,
            fields=list(entry.fields),
            vector_field=entry.vector_field,
            documents=written.documents,
            refused=len(written.refused),
            seconds=round(written.seconds, 3),
            installed=self.is_installed,
            pipelines=pipelines,
            hints=hints,
            missing=written.left + len(written.refused),
            alpha=weighed and weighed.alpha,
        )
