"""The users of a pipeline: indices, index templates and ingest pipelines that name it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from resift.errors import EngineError
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import ALL_INDICES, ALL_STATES
from resift.plugin.cluster.search_pipelines import SEARCH_PIPELINE_SETTING
from resift.query.dsl import leaf_values

_SETTINGS = ("index.default_pipeline", "index.final_pipeline", SEARCH_PIPELINE_SETTING)
_SHOWN_USES = 5


@dataclass(frozen=True)
class PipelineUse:
    """A place in the cluster where a pipeline is used.

    Attributes:
        kind: The kind of resource that uses the pipeline, such as ``index`` or ``index template``.
        name: The name of this resource.
        setting: The index setting that names the pipeline, or "a processor" if a processor of another pipeline calls
            the pipeline.
        pipeline: The name of the pipeline.
    """

    kind: str
    name: str
    setting: str
    pipeline: str

    @property
    def pipeline_kind(self) -> str:
        """The kind of the pipeline: "search pipeline" or "ingest pipeline".

        The kind is needed to identify a pipeline, because a search pipeline and an ingest pipeline can have the same
        name.
        """
        return "search pipeline" if self.setting == SEARCH_PIPELINE_SETTING else "ingest pipeline"


def uses_of_pipelines(cluster: Cluster, pipelines: Collection[str], kind: str) -> list[PipelineUse]:
    """Return all places in a cluster where an index, a template or another pipeline uses one of the given pipelines.

    Args:
        cluster: The connection to the cluster.
        pipelines: The names of the pipelines.
        kind: The kind of the pipelines, ``search pipeline`` or ``ingest pipeline``.
    """
    uses = all_pipeline_uses(cluster) if pipelines else ()
    return [use for use in uses if use.pipeline in pipelines and use.pipeline_kind == kind]


def all_pipeline_uses(cluster: Cluster) -> Iterator[PipelineUse]:
    """Yield all places in a cluster where an index, a template or an ingest pipeline names a pipeline."""
    for kind, name, body in _possible_users(cluster):
        for path, value in leaf_values(body):
            for setting in _SETTINGS:
                if f".{path}".endswith(f".{setting}"):
                    yield PipelineUse(kind, name, setting, value)
            if kind == "ingest pipeline" and f".{path}".endswith(".pipeline.name"):
                yield PipelineUse(kind, name, "a processor", value)


def _possible_users(cluster: Cluster) -> Iterator[tuple[str, str, Any]]:
    """Yield the bodies of all resources of a cluster that may use a pipeline: indices, templates and ingest pipelines.

    Args:
        cluster: The connection to the cluster.

    Yields:
        The kind, the name and the body of a resource. For an index, the body is its settings.
    """
    path = f"/{ALL_INDICES}/_settings/{','.join(_SETTINGS)}"
    indices = cluster.request("GET", path, flat_settings="true", **ALL_STATES)
    for name, entry in indices.items():
        yield "index", name, entry["settings"]
    for kind in ("index", "component"):
        for entry in (cluster.get_or_none(f"/_{kind}_template") or {}).get(f"{kind}_templates", []):
            yield f"{kind} template", entry["name"], entry
    for kind, path in {"legacy template": "/_template", "ingest pipeline": "/_ingest/pipeline"}.items():
        for name, body in (cluster.get_or_none(path) or {}).items():
            yield kind, name, body


def refuse_if_used(uses: Sequence[PipelineUse], condition: str = "") -> None:
    """Raise an error if pipelines that are about to be deleted are still used.

    OpenSearch refuses writes and searches that name a missing pipeline.

    Args:
        uses: The places where the pipelines are used.
        condition: A text that the error message adds to its advice to detach an index. For example, ", if it is a
            clone" gives "resift detach NAME, if it is a clone, or unset it first".

    Raises:
        EngineError: With status 409, if ``uses`` is not empty.
    """
    if not uses:
        return
    message = "; ".join(f"{use.setting} of {use.kind} {use.name} is {use.pipeline}" for use in uses[:_SHOWN_USES])
    if len(uses) > _SHOWN_USES:
        message += f"; and {len(uses) - _SHOWN_USES} more"
    first = uses[0]
    detach = f"resift detach {first.name}{condition}, or " if first.kind == "index" else ""
    raise EngineError(message, status=409, value=first.name, expected=f"{detach}unset it first")
