"""The pipelines of indices, which are both named ``resift-INDEX``.

An index has a search pipeline of its own since a request processor is not told which index is searched, and an ingest
pipeline since only the index says which fields are its texts, and where the vectors of each model belong.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from resift.contracts.documents import IndexInfo
from resift.contracts.query_dsl import PIPELINE_PREFIX
from resift.errors import BadInput, NotFound, ResiftError
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import IndexRecord, records
from resift.plugin.cluster.installation import Installation, installations
from resift.plugin.cluster.resources import PIPELINES, Pipeline
from resift.plugin.cluster.templates import Stamp, fill, render
from resift.plugin.resource_files import read_resource
from resift.version import __version__

# These indices have none: it would have the name of another pipeline of the installation that is named resift.
WITHOUT = ("ingest", *PIPELINES)
_KINDS = ("search", "ingest")


def pipeline_name(index: str) -> str:
    """The name of the search pipeline of an index, and of its ingest pipeline."""
    return f"{PIPELINE_PREFIX}{index}"


class IndexPipeline(Pipeline):
    """A pipeline of an index; ``index`` is its name, and ``owners`` are the installations whose models it asks."""

    def __init__(
        self, cluster: Cluster, kind: str, index: str, owners: frozenset[str], rendered: tuple[dict[str, Any], Stamp]
    ) -> None:
        self.index, self.owners = index, owners
        super().__init__(cluster, kind, pipeline_name(index), *rendered)

    def _description(self, found: dict[str, Any]) -> str:
        # An installation that is named resift-a has a pipeline of the name of that of the index a-ingest.
        return super()._description(found) if _owners(found) else ""


class SearchPipeline(IndexPipeline):
    """The search pipeline of an index: its one processor has the reranker rewrite each search of that index.

    ``values`` are those of the installation, with the ``rewrite_id`` of its remote model.
    """

    def __init__(self, cluster: Cluster, index: str, values: dict[str, Any]) -> None:
        self._asked = values["rewrite_id"], values["model"]
        rendered = render("index-search-pipeline", {**values, "index": index})
        super().__init__(cluster, "search", index, frozenset([values["name"]]), rendered)

    def ask(self) -> str:
        """Have the cluster ask the reranker to rewrite a search, as the pipeline does.

        Returns what is wrong, which a search that fails open does not tell; "" if nothing is.
        """
        model_id, model = self._asked
        parameters = {"index": self.index, "model": model, "body": "{}"}
        try:
            self.cluster.request("POST", f"/_plugins/_ml/models/{model_id}/_predict", {"parameters": parameters})
        except ResiftError as error:
            return error.message
        return ""


class IngestPipeline(IndexPipeline):
    """The ingest pipeline of an index: gathers the text of a document and has it encoded, once for each model.

    ``encoders`` are the values of each model's installation, with the ``query_id`` of its remote model, and with the
    ``fields`` and the ``vector_field`` of the index. What cannot be encoded is written without a vector: a client's
    write is never refused because of us, nor held up, which is why the remote model is the one with little patience.
    """

    def __init__(self, cluster: Cluster, index: str, encoders: list[dict[str, Any]]) -> None:
        template = json.loads(read_resource("index-encoder.json"))
        scripts = {name: read_resource(f"{name}.painless") for name in ("gather_text", "tidy_up")}
        processors = [one for values in encoders for one in fill(template, {**values, **scripts})]
        rendered = render("index-ingest-pipeline", {**encoders[0], "processors": processors})
        super().__init__(cluster, "ingest", index, frozenset(values["name"] for values in encoders), rendered)


class IndexPipelines:
    """The pipelines that indices should have in a cluster with the ``installed`` installations.

    Of several with the model of an index, the one that its pipeline asks already goes on, else the first has it.
    ``ids`` are those of remote models that may not have been found in the cluster yet, by their names.
    """

    def __init__(
        self, cluster: Cluster, installed: Mapping[str, Installation], ids: Mapping[str, str] | None = None
    ) -> None:
        self.cluster, self._installed, self._ids = cluster, installed, dict(ids or {})
        self._found = {kind: cluster.find(f"/_{kind}/pipeline") or {} for kind in _KINDS}

    def wanted(self, record: IndexRecord) -> list[IndexPipeline]:
        """The pipelines that an index should have."""
        return [one for one in (self._search(record), self._ingest(record)) if one is not None]

    def asking(self, name: str) -> list[IndexPipeline]:
        """The pipelines of indices that ask the installation ``name``, as they are now."""
        return [
            IndexPipeline(self.cluster, kind, pipeline.removeprefix(PIPELINE_PREFIX), _owners(body), (body, stamp))
            for kind, found in self._found.items()
            for pipeline, body in sorted(found.items())
            if (stamp := Stamp.read(body.get("description")))
            and name in _owners(body)
            and pipeline.startswith(PIPELINE_PREFIX)
        ]

    def _search(self, record: IndexRecord) -> SearchPipeline | None:
        # The vectors of another model serve on where nobody serves those that the index is searched by.
        for entry in record.ready:
            if (name := self._serving("search", record.index, entry, "rewrite")) is not None:
                values = {**self._values(name, entry), "rewrite_id": self._id(name, "rewrite")}
                return SearchPipeline(self.cluster, record.index, values)
        return None

    def _ingest(self, record: IndexRecord) -> IngestPipeline | None:
        encoders = []
        for entry in record.encoded:
            if (name := self._serving("ingest", record.index, entry, "query")) is not None:
                place = {"fields": list(entry.fields), "vector_field": entry.vector_field}
                encoders.append({**self._values(name, entry), "query_id": self._id(name, "query"), **place})
        return IngestPipeline(self.cluster, record.index, encoders) if encoders else None

    def _serving(self, kind: str, index: str, entry: IndexInfo, which: str) -> str | None:
        """The installation that serves the vectors of ``entry``: the one that does so now, else the first that can."""
        able = [
            name for name, one in self._installed.items() if one.model.hash == entry.model and self._id(name, which)
        ]
        now = _owners(self._found[kind].get(pipeline_name(index), {}))
        return next((name for name in able if name in now), next(iter(able), None))

    def _id(self, name: str, which: str) -> str | None:
        """The id of a remote model of an installation; None if there is none, as in a cluster without ML Commons."""
        model = f"{name}-{which}"
        if model not in self._ids:
            self._ids[model] = next((id for id, _ in self.cluster.named("models", model)), "")
        return self._ids[model] or None

    def _values(self, name: str, entry: IndexInfo) -> dict[str, Any]:
        return {"name": name, "version": __version__, "model": entry.model}


def settle_pipelines(cluster: Cluster, index: str, replace: bool = True) -> list[str]:
    """Make the pipelines of an index as they should be, for the installations that there are; return what was done.

    Without ``replace`` pipelines that are there stay as they are. Raises BadInput for an index that can have none, and
    for a pipeline of that name that Resift did not make.
    """
    record = records(cluster, index).get(index) or IndexRecord(index)
    installed = dict(sorted(installations(cluster).items()))
    wanted = IndexPipelines(cluster, installed).wanted(record)
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


def pipelines_of(cluster: Cluster, index: str) -> list[str]:
    """The kinds of the pipelines of an index that Resift made, of ``search`` and ``ingest``."""
    return [kind for kind in _KINDS if _owners(cluster.find(_path(kind, index), pipeline_name(index)) or {})]


def is_foreign(cluster: Cluster, kind: str, index: str) -> bool:
    """Whether what has the name of a pipeline of an index is not Resift's; False where nothing has it, as when the
    index was restored without it."""
    found = cluster.find(_path(kind, index), pipeline_name(index))
    return found is not None and not _owners(found)


def remove_pipelines(cluster: Cluster, index: str) -> None:
    """Remove the pipelines of an index that Resift made."""
    for kind in pipelines_of(cluster, index):
        remove_pipeline(cluster, kind, index)


def remove_pipeline(cluster: Cluster, kind: str, index: str) -> None:
    """Remove one pipeline of an index, unless somebody else did so meanwhile."""
    with suppress(NotFound):
        cluster.request("DELETE", _path(kind, index))


def _path(kind: str, index: str) -> str:
    return f"/_{kind}/pipeline/{quote(pipeline_name(index), safe='')}"


def search_counts(cluster: Cluster) -> dict[str, int]:
    """How many searches each search pipeline of the cluster has had since its nodes started."""
    answer = cluster.request("GET", "/_nodes/stats/search_pipeline")
    counts: Counter[str] = Counter()
    for node in answer["nodes"].values():
        for name, stats in node["search_pipeline"]["pipelines"].items():
            counts[name] += stats["request"]["count"]
    return counts


def _owners(pipeline: Mapping[str, Any]) -> frozenset[str]:
    """The installations that the pipeline of an index asks; none if it is not one of ours."""
    if Stamp.read(pipeline.get("description")) is None:
        return frozenset()
    found = [*pipeline.get("request_processors", ()), *pipeline.get("processors", ())]
    asking = [one for each in found for kind, one in each.items() if kind in ("ml_inference", "text_embedding")]
    return frozenset(one["tag"] for one in asking if isinstance(one, dict) and "tag" in one)
