"""The ingest pipelines of indices, ``resift-INDEX``, what is done with both kinds of pipelines, and who uses them.

An index has one of its own since only the index says which fields are its texts, and where the vectors of each model
belong.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from resift.errors import BadInput, EngineError, NotFound
from resift.plugin import read_resource
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import ALL, INDICES, IndexRecord, records
from resift.plugin.cluster.installation import Installation, installations
from resift.plugin.cluster.resources import PIPELINES, Pipeline, Resource
from resift.plugin.cluster.search_pipelines import (
    SEARCH,
    Rewriter,
    SearchPipeline,
    all_pipelines,
    pipeline_name,
    rewriters,
)
from resift.plugin.cluster.templates import Stamp, fill, render
from resift.query.dsl import PIPELINE_PREFIX, is_compact, leaves
from resift.version import __version__

# These indices have none: it would have the name of another pipeline of the installation that is named resift.
WITHOUT = ("ingest", *PIPELINES)
_SETTINGS = ("index.default_pipeline", "index.final_pipeline", SEARCH)


class IngestPipeline(Pipeline):
    """The ingest pipeline of an index: gathers the text of a document and has it encoded, once for each model.

    ``owners`` are the installations whose models it asks, and ``encoders`` the values of each model's installation,
    with the ``query_id`` of its remote model, and with the ``fields`` and the ``vector_field`` of the index. What
    cannot be encoded is written without a vector: a client's write is never refused because of us, nor held up, which
    is why the remote model is the one with little patience.
    """

    def __init__(self, cluster: Cluster, index: str, encoders: list[dict[str, Any]]) -> None:
        template = json.loads(read_resource("index-encoder.json"))
        names = ("gather_text", "compact_vector", "tidy_up")
        scripts = {name: read_resource(f"{name}.painless") for name in names}
        processors: list[dict[str, Any]] = []
        for values in encoders:
            steps = fill(template, {**values, **scripts})
            processors += steps if is_compact(values["vector_field"]) else [*steps[:-2], steps[-1]]
        self.index, self.owners = index, frozenset(values["name"] for values in encoders)
        rendered = render("index-ingest-pipeline", {**encoders[0], "processors": processors})
        super().__init__(cluster, "ingest", pipeline_name(index), *rendered)

    def _description(self, found: dict[str, Any]) -> str:
        # An installation that is named resift-a has a pipeline of the name of that of the index a-ingest.
        return super()._description(found) if _owners(found) else ""


class IndexPipelines:
    """The pipelines that indices should have in a cluster with the ``installed`` installations.

    Of several installations with one model the first serves. ``ids`` are those of remote models that may not have been
    found in the cluster yet, by their names.
    """

    def __init__(
        self, cluster: Cluster, installed: Mapping[str, Installation], ids: Mapping[str, str] | None = None
    ) -> None:
        self.cluster, self._installed, self._ids = cluster, installed, dict(ids or {})

    def ingest(self, record: IndexRecord) -> IngestPipeline | None:
        """The ingest pipeline that an index should have; None if none of its vectors can be made."""
        encoders = []
        for entry in record.encoded:
            for name, one in self._installed.items():
                if one.model.hash == entry.model and (id := self._id(name, "query")):
                    place = {"fields": list(entry.fields), "vector_field": entry.vector_field}
                    values = {"name": name, "version": __version__, "model": entry.model, "query_id": id}
                    encoders.append({**values, **place})
                    break
        return IngestPipeline(self.cluster, record.index, encoders) if encoders else None

    def search(self, name: str, known: Mapping[str, IndexRecord]) -> list[SearchPipeline]:
        """The search pipelines that ask the installation ``name``, and those that are missing.

        The latter are of the ``known`` indices that have vectors of its model, and that nothing is attached of.
        """
        id, model, found = self._id(name, "rewrite"), self._installed[name].model.hash, all_pipelines(self.cluster)
        if id is None:
            return []
        ours = {own: one for own, pipeline in found.items() if (one := Rewriter.read(pipeline)) is not None}
        scopes = {one.index for one in ours.values()}
        served = {*scopes, *self._behind(scopes.difference(known))}
        pipelines = [
            SearchPipeline(self.cluster, own, one, id, found[own])
            for own, one in ours.items()
            if one.installation == name
        ]
        for record in known.values():
            if (
                record.index not in served
                and record.index not in WITHOUT
                and model in [one.model for one in record.ready]
            ):
                own, one = pipeline_name(record.index), Rewriter(name, record.index, model)
                pipelines.append(SearchPipeline(self.cluster, own, one, id, found.get(own)))
        return pipelines

    def _behind(self, names: set[str]) -> set[str]:
        found: set[str] = set()
        for name in names:
            with suppress(NotFound):
                found |= set(self.cluster.engine.resolve(name))
        return found

    def _id(self, name: str, which: str) -> str | None:
        """The id of a remote model of an installation; None if there is none, as in a cluster without ML Commons."""
        model = f"{name}-{which}"
        if model not in self._ids:
            self._ids[model] = next((id for id, _ in self.cluster.named("models", model)), "")
        return self._ids[model] or None


def settle_pipelines(cluster: Cluster, index: str, replace: bool = True, search: bool = True) -> list[str]:
    """Make the pipelines of an index as they should be, for the installations that there are; return what was done.

    Without ``replace`` pipelines that are there stay as they are, and without ``search`` only documents are written
    through one. Raises BadInput for an index that can have none, and for a pipeline of that name that Resift did not
    make.
    """
    record = records(cluster, index).get(index) or IndexRecord(index)
    installed = dict(sorted(installations(cluster).items()))
    pipelines = IndexPipelines(cluster, installed)
    ingest, wanted = pipelines.ingest(record), list[Resource]()
    for name in installed if search else ():
        wanted = wanted or [one for one in pipelines.search(name, {index: record}) if one.rewriter.index == index]
    wanted += [ingest] if ingest else []
    if wanted and index in WITHOUT:
        raise BadInput(f"index {index!r} can have no pipeline", value=index, expected="another name")
    done = []
    for pipeline in wanted:
        state = pipeline.state()
        if state == "foreign":
            raise BadInput(
                f"{pipeline.kind} {pipeline.name} is not Resift's", value=pipeline.name, expected="one of another name"
            )
        if state == "missing" or (replace and state != "ok"):
            pipeline.make()
            done.append(f"{pipeline.kind} {pipeline.name} {'made' if state == 'missing' else 'changed'}")
    return done


def ingest_pipelines(cluster: Cluster) -> dict[str, frozenset[str]]:
    """The installations that the ingest pipelines of indices ask, by the indices' names; none for others' pipelines."""
    found = sorted((cluster.find("/_ingest/pipeline") or {}).items())
    ours = {name.removeprefix(PIPELINE_PREFIX): body for name, body in found if name.startswith(PIPELINE_PREFIX)}
    return {index: _owners(body) for index, body in ours.items()}


def pipelines_of(cluster: Cluster, index: str) -> list[str]:
    """The kinds of pipelines that Resift has for an index, of ``search`` and ``ingest``."""
    searched = index in [one.index for one in rewriters(cluster).values()]
    there = {"search": searched, "ingest": bool(ingest_pipelines(cluster).get(index))}
    return [kind for kind, is_there in there.items() if is_there]


def remove_ingest_pipeline(cluster: Cluster, index: str) -> None:
    """Remove the ingest pipeline of an index, if Resift made it."""
    if ingest_pipelines(cluster).get(index):
        with suppress(NotFound):  # somebody else did so meanwhile
            cluster.request("DELETE", f"/_ingest/pipeline/{quote(pipeline_name(index), safe='')}")


def _owners(pipeline: Mapping[str, Any]) -> frozenset[str]:
    """The installations that the ingest pipeline of an index asks; none if it is not one of ours."""
    if Stamp.read(pipeline.get("description")) is None:
        return frozenset()
    asking = [one["text_embedding"] for one in pipeline.get("processors", ()) if "text_embedding" in one]
    return frozenset(one["tag"] for one in asking if isinstance(one, dict) and "tag" in one)


@dataclass(frozen=True)
class PipelineUse:
    """Something that names a pipeline: its kind and name, the setting that does it, and the pipeline."""

    kind: str
    name: str
    setting: str
    pipeline: str

    @property
    def pipeline_kind(self) -> str:
        """The kind of the pipeline: of an index, both have the same name."""
        return "search pipeline" if self.setting == SEARCH else "ingest pipeline"


def uses_of(cluster: Cluster, pipelines: Collection[str], kind: str) -> list[PipelineUse]:
    """What names one of these pipelines of a kind: indices, index templates of all sorts, and ingest pipelines."""
    uses = pipeline_uses(cluster) if pipelines else ()
    return [use for use in uses if use.pipeline in pipelines and use.pipeline_kind == kind]


def pipeline_uses(cluster: Cluster) -> Iterator[PipelineUse]:
    """Whatever names a pipeline: indices, index templates of all sorts, and ingest pipelines."""
    for kind, name, body in _bodies(cluster):
        for path, value in leaves(body):
            for setting in _SETTINGS:
                if f".{path}".endswith(f".{setting}"):
                    yield PipelineUse(kind, name, setting, value)
            if kind == "ingest pipeline" and f".{path}".endswith(".pipeline.name"):
                yield PipelineUse(kind, name, "a processor", value)


def _bodies(cluster: Cluster) -> Iterator[tuple[str, str, Any]]:
    """The kind, the name and the body of each thing of the cluster that may name a pipeline."""
    indices = cluster.request("GET", f"/{INDICES}/_settings/{','.join(_SETTINGS)}", flat_settings="true", **ALL)
    yield from (("index", name, entry["settings"]) for name, entry in indices.items())
    for kind in ("index", "component"):
        for entry in (cluster.find(f"/_{kind}_template") or {}).get(f"{kind}_templates", []):
            yield f"{kind} template", entry["name"], entry
    for kind, path in {"legacy template": "/_template", "ingest pipeline": "/_ingest/pipeline"}.items():
        yield from ((kind, name, body) for name, body in (cluster.find(path) or {}).items())


def refuse(uses: Sequence[PipelineUse], where: str = "") -> None:
    """Raise EngineError, status 409, for what names a pipeline that is to go: it would refuse writes or searches.

    ``where`` says which of the indices detaching helps.
    """
    if uses:
        shown = "; ".join(f"{use.setting} of {use.kind} {use.name} is {use.pipeline}" for use in uses[:5])
        more = f"; and {len(uses) - 5} more" if len(uses) > 5 else ""
        detach = f"resift detach {uses[0].name}{where}, or " if uses[0].kind == "index" else ""
        raise EngineError(f"{shown}{more}", status=409, value=uses[0].name, expected=f"{detach}unset it first")
