"""The rows of ``resift doctor`` about Resift's native plugin, its search pipelines and its services."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress

from resift.errors import NotFound, ResiftError
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import ingest_pipeline_owners
from resift.plugin.cluster.installation import find_installations
from resift.plugin.cluster.native_plugin import (
    NativePlugin,
    install_command,
    urls_for_searches_without_pipeline,
)
from resift.plugin.cluster.search_pipelines import (
    PipelineBody,
    Rewriter,
    SearchPipeline,
    all_pipelines,
    is_created_by_resift,
    read_rewriters,
)
from resift.plugin.operations.service_status import is_other_program, service_rows
from resift.plugin.operations.status_row import StatusRow, key_advice
from resift.version import __version__


def must_check_installation(cluster: Cluster) -> bool:
    """Return whether ``resift doctor`` must check an installation: the resources that ``resift install`` creates.

    The check is not necessary if the cluster has no installation and all nodes have Resift's native plugin, because the
    plugin works without an installation.

    Args:
        cluster: The connection to the cluster.
    """
    return bool(find_installations(cluster)) or not NativePlugin.read(cluster).is_on_all_nodes


def native_rows(cluster: Cluster) -> Iterator[StatusRow]:
    """Yield report rows about Resift's plugin on each node, and about the search pipelines and services that it uses.

    If all nodes have the plugin, there are also rows for pipelines and installations that it makes superfluous. Nothing
    is yielded if no node has the plugin, and no search pipeline needs it.

    Args:
        cluster: The connection to the cluster.
    """
    plugin, pipelines = NativePlugin.read(cluster), all_pipelines(cluster)
    rewriters = read_rewriters(pipelines)
    native = {name: rewriter for name, rewriter in rewriters.items() if rewriter.is_native}
    if plugin.is_on_no_node and not native:
        return
    yield from _plugin_rows(cluster, plugin)
    for url in _service_urls(cluster, native):
        yield from service_rows(url)
    for name, rewriter in native.items():
        yield _pipeline_row(cluster, plugin, name, rewriter, pipelines)
    if plugin.is_on_all_nodes:
        yield from _superfluous_rows(cluster, rewriters)


def _plugin_rows(cluster: Cluster, plugin: NativePlugin) -> Iterator[StatusRow]:
    opensearch_version = cluster.engine.ping().split()[1]
    for node, version in plugin.versions.items():
        if version is None:
            state = "missing: pipelines with its processor fail on this node, and cannot be changed on any"
            fix = f"{install_command(opensearch_version)} on this node, and restart it"
        else:
            state, fix = version, ""
            if version != __version__:
                fix = f"install the plugin of Resift {__version__}, or use version {version} of this command"
        yield StatusRow("plugin", f"resift on {node}", state, fix)


def _service_urls(cluster: Cluster, native: Mapping[str, Rewriter]) -> list[str]:
    """Return the URLs of the services that Resift's native plugin calls.

    URLs of installations are left out, because ``resift doctor`` checks these services with their installation.

    Args:
        cluster: The connection to the cluster.
        native: The native processors, by the name of their search pipeline.
    """
    urls = [url for rewriter in native.values() for url in rewriter.urls]
    urls += urls_for_searches_without_pipeline(cluster)
    installed = {installation.url for installation in find_installations(cluster).values()}
    return [url for url in dict.fromkeys(urls) if url not in installed]


def _pipeline_row(
    cluster: Cluster, plugin: NativePlugin, name: str, rewriter: Rewriter, pipelines: Mapping[str, PipelineBody]
) -> StatusRow:
    """Check a search pipeline with the processor of Resift's native plugin, and return a report row about it.

    The check also makes the cluster rewrite a search. This is necessary because this machine may reach the service
    while the nodes do not. A search that could not be rewritten succeeds without an error.

    Args:
        cluster: The connection to the cluster.
        plugin: The plugin on each node.
        name: The name of the pipeline.
        rewriter: The processor.
        pipelines: The bodies of all pipelines, by name.
    """
    kind, attach = SearchPipeline.kind, f"resift attach {shlex.quote(rewriter.index)}"
    if not is_created_by_resift(pipelines[name]):
        attach += f" --pipeline {name}"
    if not _exists(cluster, rewriter.index):
        return StatusRow(kind, name, f"no index {rewriter.index}", f"resift detach {shlex.quote(rewriter.index)}")
    if not plugin.is_on_all_nodes:
        state = (
            f"needs Resift's plugin, which is missing on {len(plugin.nodes_without)} of {len(plugin.versions)} nodes"
        )
        return StatusRow(kind, name, state, f"install the plugin on all nodes, or {attach} to do without it")
    state = SearchPipeline(cluster, name, rewriter, "", pipelines[name]).state()
    if state != "ok":
        return StatusRow(kind, name, state, attach)
    try:
        error = SearchPipeline(cluster, name, rewriter, "", pipelines[name]).rewriting_error()
    except ResiftError as refused:
        return StatusRow(kind, name, "refuses searches", refused.message)
    if error:
        urls = ", ".join(rewriter.urls)
        # The reasons can be older than this check, so they may name a key that another service refused.
        advice = "" if any(map(is_other_program, rewriter.urls)) else key_advice(error, is_native=True)
        advice = advice or f"let the nodes reach {urls}, or {attach} --service URL"
        return StatusRow(kind, name, "fails open", f"{advice} ({error})")
    return StatusRow(kind, name, "ok")


def _superfluous_rows(cluster: Cluster, rewriters: Mapping[str, Rewriter]) -> Iterator[StatusRow]:
    """Yield report rows for pipelines and installations that are superfluous because all nodes have the plugin.

    These are pipelines that still use the processor ``ml_inference``, and installations that no pipeline uses.

    Args:
        cluster: The connection to the cluster.
        rewriters: All processors of Resift, by the name of their search pipeline.
    """
    for name, rewriter in rewriters.items():
        if not rewriter.is_native and _exists(cluster, rewriter.index):
            state = "uses ml_inference, although all nodes have Resift's plugin: searches take longer than necessary"
            yield StatusRow(SearchPipeline.kind, name, state, f"resift attach {shlex.quote(rewriter.index)}")
    used = {rewriter.installation for rewriter in rewriters.values()}
    used = used.union(*ingest_pipeline_owners(cluster).values())
    for name in find_installations(cluster):
        if name not in used:
            state = "rewrites and encodes for no index: resift uninstall removes it"
            yield StatusRow("installation", name, state)


def _exists(cluster: Cluster, name: str) -> bool:
    with suppress(NotFound):
        return bool(cluster.engine.resolve(name))
    return False
