"""The rows of ``resift doctor`` about indices: their vectors, and missing pipelines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import suppress
from functools import cache
from typing import Any
from urllib.parse import quote

from resift.contracts.documents import IndexInfo
from resift.errors import NotFound
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import ALL_INDICES, ALL_STATES, IndexRecord
from resift.plugin.cluster.installation import find_installations
from resift.plugin.cluster.native_plugin import urls_for_searches_without_pipeline
from resift.plugin.cluster.pipeline_uses import all_pipeline_uses
from resift.plugin.cluster.search_pipelines import SEARCH_PIPELINE_SETTING, find_rewriters, pipeline_name
from resift.plugin.operations.service_status import ServedModel, served_model
from resift.plugin.operations.status_row import INSTALL, StatusRow
from resift.query.dsl import PIPELINE_PREFIX, is_resift_field

_VECTOR_TYPES = ("knn_vector", "binary")


def index_rows(cluster: Cluster) -> Iterator[StatusRow]:
    """Check the indices of a cluster, and yield report rows for ``resift doctor``.

    There is a row for each index with vectors, and for each index that names a missing pipeline.
    """
    installed_models = {installation.model.hash for installation in find_installations(cluster).values()}
    recorded = list(_recorded_vectors(cluster))
    native_services = _native_services(cluster, {info.name for _, info, _ in recorded})
    pipeline_rows = _missing_pipeline_rows(cluster, {info.name for _, info, _ in recorded})
    for record, info, field_type in recorded:
        documents, covered = _count_vectors(cluster, info)
        # A field without a recorded model may be empty: OpenSearch cannot remove a field from a mapping.
        if info.model is None and not covered:
            continue
        if info.model and is_resift_field(info.vector_field) and field_type not in _VECTOR_TYPES:
            state = f"{info.vector_field} is {field_type or 'not mapped'}, and contains no vectors"
            fix = "copy it to an index without that field, and resift attach it with --vectors"
        else:
            services = native_services.get(info.name, {})
            state, fix = _vector_state(record, info, documents, covered, installed_models, services)
        # A missing pipeline is the more serious problem, so it takes precedence.
        yield pipeline_rows.pop(info.name, StatusRow("index", info.name, state, fix))
    yield from pipeline_rows.values()


def _native_services(cluster: Cluster, indices: Set[str]) -> dict[str, dict[str, ServedModel]]:
    """Find the services that Resift's native plugin calls for searches of indices, and ask them for their models.

    Args:
        cluster: The connection to the cluster.
        indices: The names of the indices.

    Returns:
        The models of the services by URL, by index name. Services that do not answer on this machine are left out.
    """
    if not indices:
        return {}
    ask = cache(served_model)
    urls: dict[str, list[str]] = {index: [] for index in indices}
    for rewriter in find_rewriters(cluster).values():
        if rewriter.is_native:
            with suppress(NotFound):  # the index was deleted
                for index in indices & {*cluster.engine.resolve(rewriter.index)}:
                    urls[index] += rewriter.urls
    # The plugin rewrites each search only once. A processor in a search pipeline runs before the processor that
    # OpenSearch adds by itself, so the URLs of the cluster setting are only called for the other indices.
    default_urls = urls_for_searches_without_pipeline(cluster)
    return {
        index: {url: model for url in index_urls or default_urls if (model := ask(url)) is not None}
        for index, index_urls in urls.items()
    }


def _recorded_vectors(cluster: Cluster) -> Iterator[tuple[IndexRecord, IndexInfo, str]]:
    """Yield descriptions of all vectors in a cluster: one for each index, and for each model of its vectors.

    For each index, the vectors that searches use come first. If an index has vector fields of Resift but no record, a
    description without a model is yielded for each field.

    Args:
        cluster: The connection to the cluster.

    Yields:
        Resift's record of the index, the description of the vectors, and the type of their field.
    """
    filter_path = "*.mappings._meta.resift,*.mappings.properties.resift_vector*.type"
    response = cluster.request("GET", f"/{ALL_INDICES}/_mapping", filter_path=filter_path, **ALL_STATES)
    for name, entry in sorted(response.items()):
        mapping: dict[str, Any] = entry.get("mappings", {})
        record = IndexRecord.read(name, mapping.get("_meta", {}))
        types = {
            field: properties.get("type", "")
            for field, properties in mapping.get("properties", {}).items()
            if is_resift_field(field)
        }
        unknown = [IndexInfo(name, (), None, None, None, vector_field=field) for field in types]
        for info in record.all_vectors or unknown:
            yield record, info, types.get(info.vector_field, "")


def _missing_pipeline_rows(cluster: Cluster, indices_with_vectors: Collection[str]) -> dict[str, StatusRow]:
    """Find indices whose default or final pipeline has a name of Resift, but does not exist.

    This happens when a snapshot restores an index without its pipelines, or when an index is cloned.

    Args:
        cluster: The connection to the cluster.
        indices_with_vectors: The names of the indices with vectors. ``resift install`` creates their pipelines again.

    Returns:
        A report row for each of these indices, by index name.
    """
    existing = {
        f"{kind} pipeline": {*(cluster.get_or_none(f"/_{kind}/pipeline") or {})} for kind in ("search", "ingest")
    }
    rows = {}
    for use in all_pipeline_uses(cluster):
        is_missing = use.pipeline.startswith(PIPELINE_PREFIX) and use.pipeline not in existing[use.pipeline_kind]
        if use.kind != "index" or not is_missing:
            continue
        has_vectors = use.name in indices_with_vectors
        if has_vectors and use.pipeline == pipeline_name(use.name):
            fix = INSTALL
        else:
            fix = f"resift attach {use.name}{' --vectors' if has_vectors else ''} --default-pipelines"
        refused = "searches" if use.setting == SEARCH_PIPELINE_SETTING else "writes"
        state = f"{use.setting} is {use.pipeline}, which is missing: {refused} are refused"
        rows[use.name] = StatusRow("index", use.name, state, fix)
    return rows


def _vector_state(
    record: IndexRecord,
    info: IndexInfo,
    documents: int | None,
    covered: int,
    installed_models: Collection[str],
    services: Mapping[str, ServedModel],
) -> tuple[str, str]:
    """Describe the state of the vectors that a model has written to an index, and give advice if they need repair.

    Args:
        record: Resift's record of the index.
        info: The description of the vectors: their model, text fields and vector field.
        documents: The number of documents in the index, or None if the index is closed.
        covered: The number of documents with a vector.
        installed_models: The hashes of the models of all installations in the cluster.
        services: The models of the services that Resift's native plugin calls for searches of the index, by URL.

    Returns:
        The state and the advice. The advice is empty if there is nothing to repair.
    """
    name, attach = info.name, f"resift attach {info.name} --vectors"
    if info.model is None:
        return f"{covered} vectors of an unknown model, as in a copy by _reindex", attach
    if documents is None:
        return "closed", ""
    state = f"{covered} of {documents} documents have a vector of {info.model_name} ({info.model})"
    if info == record.filling:
        return f"{state}: attaching was interrupted", attach
    # A service with another model is the more serious problem: searches in sessions then return plain results.
    if info == record.searched_vectors:
        for url, served in services.items():
            if served.hash != info.model:
                state = f"{state}, but {url} has model {served}: marks are refused, and searches are not rewritten"
                return (
                    state,
                    f"resift serve --model DIR with the model of {name}, and resift attach {name} --service URL",
                )
        if installed_models and info.model not in installed_models:
            lost = "" if services else "searches are not rewritten, and "
            state = f"{state}, which no installation serves: {lost}new documents get no vector"
            second = "resift serve and resift install --name NAME, both with --model DIR of that model"
            return state, f"{second}, then {attach} --model DIR; or {attach} --model DIR with an installed model"
    if covered < documents and is_resift_field(info.vector_field):
        return state, f"resift verify {name} --repair"
    return state, ""


def _count_vectors(cluster: Cluster, info: IndexInfo) -> tuple[int | None, int]:
    """Count the documents in an index, and the documents that have a vector in the described field.

    Args:
        cluster: The connection to the cluster.
        info: The description of the vectors: their model, text fields and vector field.

    Returns:
        Both numbers. The first is None if the index is closed or was deleted.
    """
    covered = {"filter": {"exists": {"field": info.vector_field}}}
    # Skip the default search pipeline of the index, which may rerank, or fail.
    body = {"size": 0, "track_total_hits": True, "aggs": {"covered": covered}, "search_pipeline": "_none"}
    path = f"/{quote(info.name, safe='')}/_search"
    response = cluster.request("POST", path, body, ignore_unavailable="true")
    if "aggregations" not in response:  # no index was searched
        return None, 0
    return response["hits"]["total"]["value"], response["aggregations"]["covered"]["doc_count"]
