"""The search pipelines of indices: one for each, since a request processor is not told which index is searched."""

from __future__ import annotations

from collections import Counter
from typing import Any

from resift.errors import BadInput, ResiftError
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.installation import installations
from resift.plugin.cluster.resources import PIPELINES, Pipeline
from resift.plugin.cluster.templates import Stamp, render
from resift.version import __version__

# These indices have none: it would have the name of another pipeline of the installation.
WITHOUT = ("ingest", *PIPELINES)


class IndexPipeline(Pipeline):
    """The pipeline ``NAME-INDEX``, whose one processor has the reranker rewrite each search of that index.

    ``values`` are those of the installation, with the ``rewrite_id`` of its remote model.
    """

    def __init__(self, cluster: Cluster, index: str, values: dict[str, Any]) -> None:
        self.owner = values["name"], index
        self._asked = values["rewrite_id"], values["model"]
        body, stamp = render("index-pipeline", {**values, "index": index})
        super().__init__(cluster, "search", "-".join(self.owner), body, stamp)

    def ask(self) -> str:
        """Have the cluster ask the reranker to rewrite a search, as the pipeline does.

        Returns what is wrong, which a search that fails open does not tell; "" if nothing is.
        """
        model_id, model = self._asked
        parameters = {"index": self.owner[1], "model": model, "body": "{}"}
        try:
            self.cluster.request("POST", f"/_plugins/_ml/models/{model_id}/_predict", {"parameters": parameters})
        except ResiftError as error:
            return error.message
        return ""

    def _description(self, found: dict[str, Any]) -> str:
        # The pipeline of the index b of an installation resift-a has the name of that of the index a-b of resift.
        return super()._description(found) if _owner(found) == self.owner else ""


def indices_of(cluster: Cluster, model: str) -> list[str]:
    """The indices, closed and hidden ones too, with vectors of the model that has this hash, and a pipeline each."""
    meta = {"filter_path": "*.mappings._meta.resift.model", "expand_wildcards": "all"}
    answer = cluster.request("GET", "/*,-.*/_mapping", **meta)
    models = {index: entry["mappings"]["_meta"]["resift"]["model"] for index, entry in answer.items()}
    return sorted(index for index in models if models[index] == model and index not in WITHOUT)


def indices_with_pipelines(cluster: Cluster, name: str) -> list[str]:
    """The indices for which the installation of that name has made a pipeline, whether they still exist or not."""
    owners = map(_owner, (cluster.find("/_search/pipeline") or {}).values())
    return sorted(owner[1] for owner in owners if owner is not None and owner[0] == name)


def add_pipelines(cluster: Cluster, index: str, model: str) -> list[str]:
    """Make the pipeline of a new index in each installation for its model; return the names of those that were made.

    Raises BadInput for an index that can have none.
    """
    made = []
    for installation in installations(cluster).values():
        registered = cluster.named("models", f"{installation.name}-rewrite")
        if installation.model.hash != model or not registered:
            continue
        if index in WITHOUT:
            raise BadInput(f"index {index!r} can have no search pipeline", value=index, expected="another name")
        values = {"name": installation.name, "version": __version__, "model": model, "rewrite_id": registered[0][0]}
        pipeline = IndexPipeline(cluster, index, values)
        if pipeline.state() == "missing":
            pipeline.make()
            made.append(pipeline.name)
    return made


def search_counts(cluster: Cluster) -> dict[str, int]:
    """How many searches each search pipeline of the cluster has had since its nodes started."""
    answer = cluster.request("GET", "/_nodes/stats/search_pipeline")
    counts: Counter[str] = Counter()
    for node in answer["nodes"].values():
        for name, stats in node["search_pipeline"]["pipelines"].items():
            counts[name] += stats["request"]["count"]
    return counts


def _owner(pipeline: dict[str, Any]) -> tuple[str, str] | None:
    """The installation and the index that a search pipeline belongs to; None if it is not the pipeline of an index."""
    try:
        processor = pipeline["request_processors"][0]["ml_inference"]
        owner = processor["tag"], processor["model_config"]["index"]
    except (KeyError, IndexError, TypeError):
        return None
    return owner if Stamp.read(pipeline.get("description")) else None
