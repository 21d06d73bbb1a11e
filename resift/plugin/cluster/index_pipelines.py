"""The ingest and search pipelines of individual indices: which pipelines an index should have, and their creation.

The ingest pipeline ``resift-INDEX`` adds vectors to new documents. It belongs to a single index, because the index
determines which text fields are encoded, and which field stores the vectors of each model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from resift.errors import BadInput, NotFound
from resift.plugin import read_resource
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import IndexRecord, read_records
from resift.plugin.cluster.installation import Installation, find_installations
from resift.plugin.cluster.resources import PIPELINES, Pipeline, Resource
from resift.plugin.cluster.search_pipelines import (
    Rewriter,
    SearchPipeline,
    all_pipelines,
    find_rewriters,
    pipeline_name,
    read_rewriters,
)
from resift.plugin.cluster.templates import Stamp, fill_placeholders, ingest_batch_size, render_template
from resift.query.dsl import PIPELINE_PREFIX, is_compact_vector_field
from resift.version import __version__

# Names of indices that cannot have pipelines. The pipeline of an index "ingest" would be named "resift-ingest", which
# is also the name of a pipeline of the installation "resift". The same holds for the other names.
RESERVED_NAMES = ("ingest", *PIPELINES)


class IngestPipeline(Pipeline):
    """The ingest pipeline of an index, which adds a vector of each embedding model to each new document.

    To encode a document, the pipeline calls the service through a remote model of ML Commons. It must not refuse or
    delay a client's write. A document that cannot be encoded is therefore written without a vector. For the same
    reason, the pipeline calls the remote model ``NAME-query``, which is meant for queries and has a short time limit.

    Args:
        cluster: The connection to the cluster.
        index: The name of the index.
        encoders: The settings for each embedding model: the values that replace the placeholders in
            ``index-encoder.json``, such as the id of the remote model and the fields to encode.

    Attributes:
        owners: The names of the installations whose remote models the pipeline calls.
    """

    def __init__(self, cluster: Cluster, index: str, encoders: list[dict[str, Any]]) -> None:
        template = json.loads(read_resource("index-encoder.json"))
        scripts = {name: read_resource(f"{name}.painless") for name in ("gather_text", "compact_vector", "tidy_up")}
        processors: list[dict[str, Any]] = []
        for values in encoders:
            gather, encode, compact, tidy_up = fill_placeholders(template, {**values, **scripts})
            processors += [gather, encode]
            if is_compact_vector_field(values["vector_field"]):
                processors.append(compact)
            processors.append(tidy_up)
        self.index, self.owners = index, frozenset(values["name"] for values in encoders)
        body, stamp = render_template("index-ingest-pipeline", {**encoders[0], "processors": processors})
        super().__init__(cluster, "ingest", pipeline_name(index), body, stamp)

    def _description(self, pipeline: dict[str, Any]) -> str:
        # An installation named "resift-a" has a pipeline "resift-a-ingest", and so would an index named "a-ingest". The
        # pipeline of the installation has no owners, so it is not taken for the pipeline of the index.
        return super()._description(pipeline) if _pipeline_owners(pipeline) else ""


class IndexPipelines:
    """Determines which ingest and search pipelines each index should have.

    The pipelines call a Resift service. The available services and their models are the installations in the cluster,
    which ``resift install`` created.

    Args:
        cluster: The connection to the cluster.
        installed: The installations, by name. If several installations have the same model, the first is used.
        ids: The known ids of remote models, by name. Other ids are looked up in the cluster. Pass the ids of new
            models, because OpenSearch may not find them yet.
    """

    def __init__(
        self, cluster: Cluster, installed: Mapping[str, Installation], ids: Mapping[str, str] | None = None
    ) -> None:
        self.cluster, self._installed, self._ids = cluster, installed, dict(ids or {})

    def ingest_pipeline(self, record: IndexRecord) -> IngestPipeline | None:
        """Return the ingest pipeline that an index should have.

        The pipeline encodes new documents with each model whose vectors are in the index, if a service with this model
        is installed in the cluster.

        Args:
            record: Resift's record of the index, which lists its vectors.

        Returns:
            The pipeline, or None if no installation in the cluster has a model of the index.
        """
        encoders = []
        for info in record.maintained_vectors:
            for name, installation in self._installed.items():
                if installation.model.hash == info.model and (model_id := self._model_id(name, "query")):
                    encoders.append(
                        {
                            "name": name,
                            "version": __version__,
                            "model": info.model,
                            "query_id": model_id,
                            "fields": list(info.fields),
                            "bags": info.bags,
                            "batch_size": ingest_batch_size(info.bags),
                            "vector_field": info.vector_field,
                        }
                    )
                    break
        return IngestPipeline(self.cluster, record.index, encoders) if encoders else None

    def search_pipelines(self, name: str, index_records: Mapping[str, IndexRecord]) -> list[SearchPipeline]:
        """Return the search pipelines that should call the service of an installation to rewrite searches.

        An installation consists of the resources that ``resift install`` created for a service. The result contains:

        * all existing pipelines that call the service of the installation
        * a new pipeline for each index with vectors of the installation's model, unless another pipeline already
          rewrites the searches of the index

        Args:
            name: The name of the installation.
            index_records: Resift's records of the indices, which describe their vectors, by index name.
        """
        model_id, model = self._model_id(name, "rewrite"), self._installed[name].model.hash
        if model_id is None:
            return []
        current = all_pipelines(self.cluster)
        existing = read_rewriters(current)
        attached = {rewriter.index for rewriter in existing.values()}
        served = {*attached, *self._resolve(attached.difference(index_records))}
        pipelines = [
            SearchPipeline(self.cluster, pipeline, rewriter, model_id, current[pipeline])
            for pipeline, rewriter in existing.items()
            if rewriter.installation == name
        ]
        for record in index_records.values():
            if record.index in served or record.index in RESERVED_NAMES:
                continue
            if model in [info.model for info in record.complete_vectors]:
                pipeline, rewriter = pipeline_name(record.index), Rewriter(name, record.index, model)
                pipelines.append(SearchPipeline(self.cluster, pipeline, rewriter, model_id, current.get(pipeline)))
        return pipelines

    def _resolve(self, names: set[str]) -> set[str]:
        """Return the names of all indices to which some names refer.

        Args:
            names: Names of indices, aliases and data streams, and patterns.
        """
        indices: set[str] = set()
        for name in names:
            with suppress(NotFound):
                indices |= set(self.cluster.engine.resolve(name))
        return indices

    def _model_id(self, installation: str, purpose: str) -> str | None:
        """Look up the id of a remote model that ``resift install`` created.

        Args:
            installation: The name of the installation, which is the beginning of the model's name.
            purpose: The purpose of the model, such as "rewrite".

        Returns:
            The id, or None if the model does not exist, for example because the cluster lacks the plugin ML Commons.
        """
        model = f"{installation}-{purpose}"
        if model not in self._ids:
            self._ids[model] = next((id for id, _ in self.cluster.ml_objects("models", model)), "")
        return self._ids[model] or None


def update_pipelines(cluster: Cluster, index: str, replace: bool = True, include_search: bool = True) -> list[str]:
    """Create the ingest and search pipelines that an index should have, and update outdated pipelines.

    The pipelines depend on the vectors in the index, and on the services that are installed in the cluster.

    Args:
        cluster: The connection to the cluster.
        index: The name of the index.
        replace: Whether to update existing pipelines. Otherwise, only missing pipelines are created.
        include_search: Whether to include the search pipeline. Otherwise, only the ingest pipeline is created or
            updated.

    Returns:
        A line of text about each change.

    Raises:
        BadInput: If the index cannot have pipelines because of its name, or if somebody else created a pipeline with
            the same name.
    """
    record = read_records(cluster, index).get(index) or IndexRecord(index)
    pipelines = _desired_pipelines(cluster, record, include_search)
    if pipelines and index in RESERVED_NAMES:
        raise BadInput(f"index {index!r} cannot have a pipeline", value=index, expected="another name")
    changes = []
    for pipeline in pipelines:
        state = pipeline.state()
        if state == "foreign":
            message = f"{pipeline.kind} {pipeline.name} was not created by Resift"
            raise BadInput(message, value=pipeline.name, expected="a different name of that pipeline")
        if state == "missing" or (replace and state != "ok"):
            pipeline.create()
            changes.append(f"{pipeline.kind} {pipeline.name} {'created' if state == 'missing' else 'changed'}")
    return changes


def _desired_pipelines(cluster: Cluster, record: IndexRecord, include_search: bool) -> list[Resource]:
    """Return the ingest pipeline and the search pipelines that an index should have.

    Args:
        cluster: The connection to the cluster.
        record: Resift's record of the index, which describes its vectors.
        include_search: Whether to include the search pipeline.
    """
    installed = dict(sorted(find_installations(cluster).items()))
    pipelines = IndexPipelines(cluster, installed)
    ingest = pipelines.ingest_pipeline(record)
    desired: list[Resource] = []
    if include_search:
        for name in installed:
            search_pipelines = pipelines.search_pipelines(name, {record.index: record})
            desired += [pipeline for pipeline in search_pipelines if pipeline.rewriter.index == record.index]
            if desired:  # one installation rewrites the searches of an index
                break
    if ingest is not None:
        desired.append(ingest)
    return desired


def ingest_pipeline_owners(cluster: Cluster) -> dict[str, frozenset[str]]:
    """Find the ingest pipelines that have Resift's name prefix, and the installations whose services they call.

    An installation consists of the resources that ``resift install`` created for a service.

    Args:
        cluster: The connection to the cluster.

    Returns:
        A mapping from index names to the names of the installations. The index name is the part of the pipeline's name
        after the prefix. The set of installations is empty if Resift did not create the pipeline.
    """
    pipelines = sorted((cluster.get_or_none("/_ingest/pipeline") or {}).items())
    return {
        name.removeprefix(PIPELINE_PREFIX): _pipeline_owners(body)
        for name, body in pipelines
        if name.startswith(PIPELINE_PREFIX)
    }


def pipeline_kinds(cluster: Cluster, index: str) -> list[str]:
    """Return the kinds of pipelines that Resift has created for an index.

    Args:
        cluster: The connection to the cluster.
        index: The name of the index.

    Returns:
        A list that can contain "search" and "ingest".
    """
    kinds = []
    if index in [rewriter.index for rewriter in find_rewriters(cluster).values()]:
        kinds.append("search")
    if ingest_pipeline_owners(cluster).get(index):
        kinds.append("ingest")
    return kinds


def remove_ingest_pipeline(cluster: Cluster, index: str) -> None:
    """Delete the ingest pipeline of an index from the cluster, if Resift created the pipeline."""
    if ingest_pipeline_owners(cluster).get(index):
        with suppress(NotFound):  # removed by somebody else in the meantime
            cluster.request("DELETE", f"/_ingest/pipeline/{quote(pipeline_name(index), safe='')}")


def _pipeline_owners(pipeline: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the installations whose services an ingest pipeline calls to encode documents.

    An installation consists of the resources that ``resift install`` created for a service.

    Args:
        pipeline: The body of the pipeline. If Resift did not create it, the result is empty.
    """
    if Stamp.read(pipeline.get("description")) is None:
        return frozenset()
    encoders = [
        processor["text_embedding"] for processor in pipeline.get("processors", ()) if "text_embedding" in processor
    ]
    return frozenset(settings["tag"] for settings in encoders if isinstance(settings, dict) and "tag" in settings)
