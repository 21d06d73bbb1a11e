"""Resift's native OpenSearch plugin: the nodes that have it, and a test of its calls to the service.

The source of the plugin is in the folder ``plugin/native``. Its request processor ``resift`` calls the service only for
searches in a session. OpenSearch runs a search pipeline on the node that receives the search. It therefore refuses a
pipeline with this processor unless all nodes have the plugin.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from resift.plugin.cluster.client import Cluster

PLUGIN = "resift"  # the name of the plugin, of its processor and of its section in ``ext``
KEY_SETTING = "resift.key"  # the secure setting with the API key, in the keystore of each node
FACTORIES_SETTING = "cluster.search.enabled_system_generated_factories"
URL_SETTING = "resift.url"  # the URLs of the service for processors that OpenSearch adds to searches by itself
_STATS = "/_plugins/_resift/stats"
_SESSION = "resift-doctor"  # a session without marks
# Attempts to get an answer. The first calls of a node that has just started may take longer than the timeout. A load
# balancer may distribute the requests of an attempt over several nodes.
_ATTEMPTS = 5
_PAUSE = 0.5  # seconds between two attempts; an open circuit breaker calls the service again after a second
_BREAKER_OPEN, _UNAUTHORIZED = "breaker_open", "unauthorized"
_FAILURES = {
    "timeout": "the service does not answer in time",
    "unreachable": "the service cannot be reached",
    _UNAUTHORIZED: (
        f"the service refuses the API key: bin/opensearch-keystore add {KEY_SETTING} on each node, then POST "
        "/_nodes/reload_secure_settings"
    ),
    "rejected": "the service refuses the request",
    "service_error": "the service fails",
    "unreadable": "the answer is not from a Resift service of this version",
    "unsupported": "this version of OpenSearch cannot parse the rewritten search",
    "internal_error": "the plugin failed, see the log of the node",
    _BREAKER_OPEN: "the service failed several times in a row",
}


@dataclass(frozen=True)
class NativePlugin:
    """The nodes of a cluster, and the version of Resift's native OpenSearch plugin on each of them.

    Attributes:
        versions: The version of the plugin on each node, by node name, or None if the node lacks the plugin. A node
            without a name has its id as a name.
    """

    versions: Mapping[str, str | None]

    @classmethod
    def read(cls, cluster: Cluster) -> NativePlugin:
        """Ask a cluster which version of Resift's plugin each of its nodes has.

        Args:
            cluster: The connection to the cluster.
        """
        filter_path = "nodes.*.name,nodes.*.plugins.name,nodes.*.plugins.version"
        nodes = cluster.request("GET", "/_nodes/plugins", filter_path=filter_path)["nodes"]
        versions = {node["name"] or id: _version(node.get("plugins", ())) for id, node in nodes.items()}
        return cls(dict(sorted(versions.items())))

    @property
    def is_on_all_nodes(self) -> bool:
        """Whether Resift's plugin is installed on every node of the cluster.

        Only then can a search pipeline use the plugin's processor.
        """
        return not self.nodes_without

    @property
    def is_on_no_node(self) -> bool:
        """Whether Resift's plugin is missing on every node of the cluster."""
        return len(self.nodes_without) == len(self.versions)

    @property
    def nodes_without(self) -> list[str]:
        """The names of the nodes on which Resift's plugin is missing."""
        return [node for node, version in self.versions.items() if version is None]


def _version(plugins: Sequence[Mapping[str, str]]) -> str | None:
    return next((plugin["version"] for plugin in plugins if plugin["name"] == PLUGIN), None)


def install_command(opensearch_version: str) -> str:
    """Return the shell command that installs Resift's plugin on a node, as advice for the user.

    Args:
        opensearch_version: The version of OpenSearch. The plugin must be built for exactly this version.
    """
    return f"bin/opensearch-plugin install file:///PATH/resift-{opensearch_version}.zip"


def urls_for_searches_without_pipeline(cluster: Cluster) -> list[str]:
    """Return the URLs of the service that the cluster calls for searches in a session without any search pipeline.

    OpenSearch 3.3 and later can add the processor of Resift's plugin to all searches by itself, if a cluster setting
    enables this. If it does not, the result is empty.

    Args:
        cluster: The connection to the cluster.
    """
    settings = cluster.effective_settings()
    if PLUGIN not in _as_string_list(settings.get(FACTORIES_SETTING)):
        return []
    return _as_string_list(settings.get(URL_SETTING))


def _as_string_list(value: str | list[str] | None) -> list[str]:
    """Convert the value of a setting to a list of strings. The value may be a list, a text with commas, or None."""
    return [text.strip() for text in value.split(",")] if isinstance(value, str) else list(value or ())


def rewriting_error(cluster: Cluster, index: str, pipeline: str) -> str:
    """Send a search with a session through a search pipeline, to check that the node can call the service.

    A search does not fail if the service does not answer, but runs without rewriting. The function therefore compares
    the counters of rewritten and failed searches that the plugin keeps on the node, before and after the search.

    Args:
        cluster: The cluster. If its engine knows several nodes, only one of them is tested.
        index: The name of an index, alias or data stream, or a pattern.
        pipeline: The name of a search pipeline with the processor of the plugin.

    Returns:
        The error message, or an empty string if the service answered.

    Raises:
        EngineError: If OpenSearch refuses the search.
    """
    body = {"size": 0, "track_total_hits": False, "ext": {PLUGIN: {"session": _SESSION}}}
    path = f"/{quote(index, safe=',*')}/_search"
    error = "no node counts a call of the service (a load balancer may distribute the requests over several nodes)"
    first_counters: dict[str, Any] = {}  # by node
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE)
        before = cluster.request("GET", _STATS)
        cluster.request("POST", path, body, search_pipeline=pipeline)
        after = cluster.request("GET", _STATS)
        if before["node"] == after["node"] and before["searches"] != after["searches"]:
            if _answered_calls(before) < _answered_calls(after):
                return ""
            at_start = first_counters.setdefault(after["node"], before)
            reasons = _failure_reasons(*(counters["searches"]["failed"] for counters in (before, after, at_start)))
            error = f"{_node_name(cluster, after['node'])}: {'; '.join(reasons)}"
    return error


def _node_name(cluster: Cluster, name: str) -> str:
    """Return the name of a node, or the ids of all nodes without a name if ``name`` is empty."""
    if name:
        return name
    nodes = cluster.request("GET", "/_nodes/plugins", filter_path="nodes.*.name")["nodes"]
    return f"node {' or '.join(sorted(id for id, node in nodes.items() if not node['name']))}"


def _answered_calls(counters: Mapping[str, Any]) -> int:
    """Return how many searches of a node the service has answered, with a rewritten or an unchanged body."""
    return int(counters["searches"]["rewritten"] + counters["searches"]["unchanged"])


def _failure_reasons(before: Mapping[str, int], after: Mapping[str, int], at_start: Mapping[str, int]) -> list[str]:
    """Return the reasons why the last search of a node was not rewritten, in English, most important first.

    Args:
        before: The plugin's counters of failed searches on the node, by reason, before the search.
        after: The same counters after the search.
        at_start: The same counters before the first search of this check.
    """
    reasons = [reason for reason, count in after.items() if count > before.get(reason, 0)]
    if reasons == [_BREAKER_OPEN]:
        # Add the reasons why the circuit breaker opened: failures during this check, or else all earlier failures.
        earlier = {reason: count for reason, count in after.items() if count and reason != _BREAKER_OPEN}
        reasons += [reason for reason, count in earlier.items() if count > at_start.get(reason, 0)] or list(earlier)
    # Without a valid key, nothing else matters. The circuit breaker only follows from other failures.
    reasons.sort(key=lambda reason: (reason != _UNAUTHORIZED, reason == _BREAKER_OPEN))
    return [_FAILURES.get(reason, reason) for reason in reasons]
