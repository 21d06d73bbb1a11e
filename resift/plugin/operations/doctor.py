"""``resift doctor``: finds problems of a cluster, the service, the connection between them, and all indices."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from resift.encoders.registry import load_model
from resift.errors import EngineError, EngineUnavailable, ResiftError, UnsupportedCluster
from resift.plugin.addresses import without_credentials
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import ingest_pipeline_owners
from resift.plugin.cluster.index_record import describe_tunings
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import find_installations
from resift.plugin.cluster.native_plugin import NativePlugin
from resift.plugin.cluster.pipeline_uses import PipelineUse, uses_of_pipelines
from resift.plugin.cluster.remote_model import DEPLOYS_LAZILY
from resift.plugin.cluster.resources import Resource
from resift.plugin.cluster.search_pipelines import SearchPipeline, find_rewriters, pipeline_name
from resift.plugin.cluster.settings import PRIVATE_ADDRESSES, TRUSTED_ADDRESSES, TRUSTED_PRIVATE_ADDRESSES
from resift.plugin.operations.index_status import index_rows
from resift.plugin.operations.install import InstallationOptions, create_installer, open_cluster
from resift.plugin.operations.native_status import must_check_installation, native_rows
from resift.plugin.operations.plan import Result
from resift.plugin.operations.search_status import attached_rows, search_rows
from resift.plugin.operations.service_status import clock_row, service_rows
from resift.plugin.operations.status_row import INSTALL, StatusRow, key_advice

if TYPE_CHECKING:
    from typing_extensions import Unpack

_THREADS = 8  # number of search pipelines that are tested at a time


def doctor(url: str, **options: Unpack[InstallationOptions]) -> Result:
    """Find problems of a cluster and of the Resift service that it calls, and say how to fix them.

    The function calls the cluster and the service, and makes the cluster call the service. It compares versions and
    clocks, and checks plugins, cluster settings, all installed resources, the vectors of each index, and searches of
    several indices. If the cluster does not answer or denies access, this is reported as a problem, without an
    exception.

    Args:
        url: The URLs of the cluster.
        **options: See :class:`InstallationOptions`.

    Returns:
        A result with two attributes: ``parts`` contains the state of each checked part, and ``tuned`` describes the
        search settings that were chosen for indices.
    """
    if options.get("model"):
        load_model(str(options["model"]))  # raises an error for an invalid folder, even if the cluster does not answer
    rows: list[StatusRow] = []
    tuned: dict[str, list[str]] = {}
    try:
        with closing(open_cluster(url)) as engine:
            cluster = Cluster(engine)
            rows += cluster_rows(cluster, without_credentials(url))
            rows += native_rows(cluster)
            rows_of_indices = [*attached_rows(cluster), *index_rows(cluster), *search_rows(cluster)]
            if must_check_installation(cluster):
                installer = create_installer(engine, **options)
                is_unused = not rows_of_indices and _is_unused(installer)
                rows += [_unused_row(installer)] if is_unused else status_rows(installer)
            rows += rows_of_indices
            tuned = describe_tunings(cluster)
    except (EngineUnavailable, EngineError, UnsupportedCluster) as error:
        rows.append(_error_row(error, without_credentials(url)))
    return Result(
        parts=rows,
        tuned=tuned,
        in_order=all(row.in_order for row in rows),
        lines=[f"{row.kind} {row.name}: {row.state}" + (f" (fix: {row.fix})" if row.fix else "") for row in rows],
    )


def _is_unused(installer: Installer) -> bool:
    """Return whether a cluster has nothing of Resift: no installation, no resource of one, no pipeline and no plugin.

    Args:
        installer: The installer, which knows the cluster and the resources of an installation.
    """
    cluster = installer.cluster
    return (
        not find_installations(cluster)
        and not find_rewriters(cluster)
        and not ingest_pipeline_owners(cluster)
        and NativePlugin.read(cluster).is_on_no_node
        and all(resource.state() == "missing" for resource in installer.resources())
    )


def _unused_row(installer: Installer) -> StatusRow:
    state = "Resift is not installed, and no index is attached"
    return StatusRow("installation", installer.name, state, f"resift attach INDEX, or {INSTALL}")


def _error_row(error: ResiftError, url: str) -> StatusRow:
    """Return the row in the report of ``resift doctor`` for a cluster that cannot be checked.

    The cluster does not answer, denies access or is not supported.

    Args:
        error: The error that a request to the cluster raised.
        url: The URLs of the cluster, without credentials.
    """
    if isinstance(error, EngineError) and error.status in (401, 403):
        return StatusRow("rights", url, "refused", f"the rights that resift role install prints ({error.message})")
    advice = "check --engine (docs/cluster.md, Reaching a cluster)"
    return StatusRow(
        "cluster", url, error.message, (isinstance(error, UnsupportedCluster) and error.expected) or advice
    )


def cluster_rows(cluster: Cluster, url: str) -> list[StatusRow]:
    """Check the cluster itself, and return two rows for the report of ``resift doctor``.

    The first row shows the version, the number of nodes, the health and the response time. The second row shows how
    much the clocks of the nodes differ from this machine's clock.

    Args:
        cluster: The connection to the cluster.
        url: The URLs of the cluster, without credentials.
    """
    version = cluster.engine.ping()
    sent_at, started = time.time(), time.perf_counter()
    health = cluster.request("GET", "/_cluster/health")
    seconds = time.perf_counter() - started
    fix = "" if health["status"] != "red" else "some shards have no copy: GET _cluster/allocation/explain"
    nodes = f"{health['number_of_nodes']} node{'s' * (health['number_of_nodes'] > 1)}"
    row = StatusRow("cluster", url, f"{version}, {nodes}, {health['status']}, {seconds * 1000:.0f} ms", fix)
    stats = cluster.request("GET", "/_nodes/stats/process")["nodes"].values()
    passed = time.perf_counter() - started
    # The nodes read their clocks at an unknown time between sending the first and receiving the last response.
    expected_time, uncertainty = sent_at + passed / 2, passed / 2
    difference = max(abs(node["timestamp"] / 1000 - expected_time) for node in stats) - uncertainty
    return [row, clock_row(url, difference)]


def status_rows(installer: Installer) -> list[StatusRow]:
    """Check everything that belongs to an installation: the service, cluster settings, resources and plugins.

    Args:
        installer: The installer, which knows the desired state of each part.

    Returns:
        The rows of the report of ``resift doctor``.
    """
    # Read the states of the resources first: the other rows make the cluster call remote models, which deploys them.
    resources = [(resource, _resource_row(resource)) for resource in installer.resources()]
    missing = installer.missing_plugins
    return [
        *service_rows(installer.url, installer.model),
        *_connector_rows(installer),
        *_setting_rows(installer),
        *_rows_with_pipeline_tests(installer, resources),
        *([] if missing else _superfluous_pipeline_rows(installer)),
        *(StatusRow("plugin", name, "missing", f"bin/opensearch-plugin install {name}") for name in missing),
    ]


def _resource_row(resource: Resource) -> StatusRow:
    state = resource.state()
    fixes = {
        "ok": "",
        DEPLOYS_LAZILY: "",
        "foreign": "not created by Resift: choose another --name",
        "no key": f"{INSTALL} --key KEY",
        "other key": f"{INSTALL} --key KEY",
        "switched off": "resift guard switches it on when the service answers",
    }
    return StatusRow(resource.kind, resource.name, state, fixes.get(state, INSTALL))


def _rows_with_pipeline_tests(installer: Installer, resources: list[tuple[Resource, StatusRow]]) -> list[StatusRow]:
    """Test each search pipeline of an installation by making the cluster call the service with it.

    This test is necessary because this machine may reach the service while the cluster does not. A search that could
    not be rewritten succeeds without an error.

    Args:
        installer: The installer, which describes the desired installation.
        resources: The resources of the installation, each with its report row.

    Returns:
        The report rows of all resources. The row of a pipeline whose test failed says how to fix it.
    """

    def tested_row(item: tuple[Resource, StatusRow]) -> StatusRow:
        resource, row = item
        error = resource.rewriting_error() if isinstance(resource, SearchPipeline) and row.in_order else ""
        return replace(row, state="fails open", fix=_unreachable_fix(installer, error)) if error else row

    # In parallel, because each test takes a second if the service does not answer.
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(tested_row, resources))


def _unreachable_fix(installer: Installer, error: str) -> str:
    advice = key_advice(error, is_native=False)
    return f"{advice or f'let the nodes reach {installer.url}, or {INSTALL} --service URL --key KEY'} ({error})"


def _connector_rows(installer: Installer) -> Iterator[StatusRow]:
    """Make the cluster call the service once, and yield a report row with the duration or the error.

    The call encodes a word through the remote model ``NAME-embed`` of the installation. Nothing is yielded if the
    cluster lacks plugins or this model.

    Args:
        installer: The installer, which describes the desired installation.
    """
    if installer.missing_plugins:
        return
    models = installer.cluster.ml_objects("models", f"{installer.name}-embed")
    if not models:
        return
    started = time.perf_counter()
    if error := installer.cluster.prediction_error(models[0][0], {"input": ["fire"]}):
        yield StatusRow("connector", installer.url, "the cluster gets no answer", _unreachable_fix(installer, error))
    else:
        seconds = time.perf_counter() - started
        yield StatusRow("connector", installer.url, f"the cluster gets an answer, {seconds * 1000:.0f} ms")


def _setting_rows(installer: Installer) -> list[StatusRow]:
    if installer.missing_plugins or installer.installation.managed:
        return []
    changes = {change.name for change in installer.setting_changes()}
    rows = []
    # The last setting exists since 3.7, and must change only if somebody has set it.
    for name in (PRIVATE_ADDRESSES, TRUSTED_ADDRESSES, *changes.intersection([TRUSTED_PRIVATE_ADDRESSES])):
        state, fix = ("not set", INSTALL) if name in changes else ("ok", "")
        rows.append(StatusRow("setting", name, state, fix))
    return rows


def _used_pipeline_fix(use: PipelineUse, index: str) -> str:
    """Return what to do about a pipeline that creates no vectors any more, but that an index or a template still uses.

    Args:
        use: The first place where the pipeline is used.
        index: The name of the index that the pipeline belongs to.
    """
    if use.kind != "index":
        return f"unset {use.setting} of {use.kind} {use.name}"
    if use.name == index:
        return f"a service with the model of {index}, or resift detach {index}"
    return f"resift attach {use.name} --vectors --default-pipelines, or resift detach {use.name}"


def _superfluous_pipeline_rows(installer: Installer) -> Iterator[StatusRow]:
    """Yield a report row for each pipeline of the installation that is no longer needed.

    A pipeline is no longer needed if its index was deleted, or if the index has no vectors of the installation's model
    any more. ``resift install`` does not delete such pipelines, because OpenSearch refuses requests that name a missing
    pipeline.

    Args:
        installer: The installer, which finds the pipelines in the cluster.
    """
    desired = {pipeline.name for pipeline in installer.index_pipelines() if pipeline.kind == "ingest pipeline"}
    for index, owners in ingest_pipeline_owners(installer.cluster).items():
        name = pipeline_name(index)
        if installer.name in owners and name not in desired:
            state, fix = f"no index {index} with vectors of this model", f"DELETE /_ingest/pipeline/{name}"
            # OpenSearch would refuse all writes to an index that names a missing pipeline.
            if uses := uses_of_pipelines(installer.cluster, {name}, "ingest pipeline"):
                use = uses[0]
                state = f"{state}, but {use.setting} of {use.kind} {use.name} is {name}"
                fix = _used_pipeline_fix(use, index)
            yield StatusRow("ingest pipeline", name, state, fix)
    for name, rewriter in find_rewriters(installer.cluster).items():
        if rewriter.installation == installer.name and not installer.index_exists(rewriter.index):
            yield StatusRow(SearchPipeline.kind, name, f"no index {rewriter.index}", f"resift detach {rewriter.index}")
