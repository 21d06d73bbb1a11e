"""What attaching is about to do to one index, found out before anything is changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resift.contracts.query_dsl import document_text, is_ours, values_of
from resift.encoders.model import Model
from resift.errors import BadInput
from resift.ingest.fields import guess_fields
from resift.plugin.cluster.attachment import Target
from resift.plugin.cluster.search_pipelines import pipeline_name
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.vectors.compact import json_length

_SAMPLE = 500  # documents that fields are guessed from
_PAGE, _PAGES = 10_000, 5  # documents that a model is learned from, where not all of an index are read
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
            "graph": self.entry.graph,
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
            if entry.graph:
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
                graph = ", and with them the graph (--graph keeps it)" if one.graph else ""
                lines.append(f"  replaced    then the vectors in {one.vector_field} are taken out{graph}")
        lines += [f"  setting     {setting} = {value}" for setting, value in self.defaults.items()]
        return [*lines, *(f"  note        {hint}" for hint in self.hints)]


def sampled_sources(engine: OpenSearchEngine, target: Target) -> list[dict[str, Any]]:
    """Some documents of an index, drawn by chance."""
    return [hit["_source"] for hit in engine.sample(target.name, _SAMPLE).hits]


def learned_texts(engine: OpenSearchEngine, plans: Sequence[IndexPlan]) -> list[str]:
    """The texts that a model is learned from: all of small indices, some of each larger one, drawn by chance."""
    texts = []
    for plan in plans:
        name, fields = plan.target.name, plan.entry.fields
        if plan.target.documents <= _PAGE * _PAGES:
            texts += [document_text(one.source, fields) for one in engine.scan(name, fields=fields)]
            continue
        for seed in range(_PAGES):
            score = {"random_score": {"seed": seed, "field": "_seq_no"}}
            body = {"query": {"function_score": score}, "size": _PAGE, "_source": list(fields)}
            hits = engine.search(name, {**body, "search_pipeline": "_none", "track_total_hits": False}).hits
            texts += [document_text(hit["_source"], fields) for hit in hits]
    return list(dict.fromkeys(texts))


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
