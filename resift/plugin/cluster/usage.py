"""Who uses an installation: what names its pipelines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from resift.errors import EngineError
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import ALL, INDICES
from resift.plugin.cluster.search_pipelines import SEARCH

_SETTINGS = ("index.default_pipeline", "index.final_pipeline", SEARCH)


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
        for path, value in _flat(body):
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


def _flat(body: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a body by their full names, however they are nested: templates keep what they were given."""
    if isinstance(body, dict):
        for name, value in body.items():
            yield from _flat(value, f"{path}.{name}" if path else name)
    elif isinstance(body, list):
        for value in body:
            yield from _flat(value, path)
    else:
        yield path, body


def refuse(uses: Sequence[PipelineUse], where: str = "") -> None:
    """Raise EngineError, status 409, for what names a pipeline that is to go: it would refuse writes or searches.

    ``where`` says which of the indices detaching helps.
    """
    if uses:
        shown = "; ".join(f"{use.setting} of {use.kind} {use.name} is {use.pipeline}" for use in uses[:5])
        more = f"; and {len(uses) - 5} more" if len(uses) > 5 else ""
        detach = f"resift detach {uses[0].name}{where}, or " if uses[0].kind == "index" else ""
        raise EngineError(f"{shown}{more}", status=409, value=uses[0].name, expected=f"{detach}unset it first")
