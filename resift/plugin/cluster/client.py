"""REST requests that install and inspect the parts of Resift in a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from resift.errors import NotFound, ResiftError
from resift.plugin.opensearch.client import call
from resift.plugin.opensearch.engine import OpenSearchEngine

_MAX_NAMES_LENGTH = 3000  # OpenSearch refuses request lines of more than 4,096 bytes


class Cluster:
    """A client for administrative REST requests, such as creating pipelines and changing settings.

    Searches and indexing use :class:`OpenSearchEngine` instead. All methods raise EngineUnavailable if no node answers,
    and EngineError if OpenSearch refuses the request.

    Args:
        engine: The search engine that is connected to the cluster. The requests use its connections.
    """

    def __init__(self, engine: OpenSearchEngine) -> None:
        self.engine = engine

    def request(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """Send a REST request to the cluster, and return the parsed JSON of the response.

        Args:
            method: The HTTP method.
            path: The path of the request, such as ``/_cluster/settings``.
            body: The body of the request, which is sent as JSON. None for no body.
            **params: The URL parameters.

        Raises:
            NotFound: If the response has the status 404.
        """
        transport = self.engine.client.transport
        # Requests that only read get the long time limit as well. No user waits for hits here, and a large cluster may
        # need long to list all of its mappings.
        seconds = transport.seconds
        return call(transport.perform_request, method, path, body=body, params=params or None, timeout=seconds)

    def get_or_none(self, path: str, key: str | None = None) -> Any:
        """Send a GET request, and return the parsed JSON of the response, or None if its status is 404.

        Args:
            path: The path of the request.
            key: If given, only the value under this key of the response is returned, or None if the response lacks the
                key.
        """
        try:
            response = self.request("GET", path)
        except NotFound:
            return None
        return response if key is None else response.get(key)

    def count(self, index: str, query: Mapping[str, Any] | None = None) -> int:
        """Return the number of documents in an index.

        Args:
            index: The name of the index.
            query: If given, only the documents that match this query clause are counted.
        """
        # _count is not used, because OpenSearch refuses it if the default search pipeline of the index is missing.
        body = {"query": query or {"match_all": {}}, "size": 0, "track_total_hits": True, "search_pipeline": "_none"}
        return int(self.request("POST", f"/{quote(index, safe='')}/_search", body)["hits"]["total"]["value"])

    def index_settings(self, names: str) -> dict[str, dict[str, str]]:
        """Return the settings of indices, by index name. The names of the settings are flat, such as ``index.knn``.

        Args:
            names: Names of indices or aliases, or patterns, separated by commas.
        """
        response = self.request("GET", f"/{quote(names, safe=',*')}/_settings", flat_settings="true")
        return {index: entry["settings"] for index, entry in response.items()}

    def update_index_settings(self, index: str, values: Mapping[str, Any]) -> None:
        """Change settings of an index.

        Args:
            index: The name of the index, or several names separated by commas.
            values: The new values, by the name of the setting. None removes a setting.
        """
        self.request("PUT", f"/{quote(index, safe='')}/_settings", dict(values))

    def update_indices_settings(self, indices: Sequence[str], values: Mapping[str, Any]) -> None:
        """Change settings of several indices.

        All indices are changed with a single request, unless their names are too long for a URL.

        Args:
            indices: The names of the indices.
            values: The new values, by the name of the setting.
        """
        names = ",".join(indices)
        for name in [names] if len(names) <= _MAX_NAMES_LENGTH else indices:
            if name:
                self.update_index_settings(name, values)

    def plugins(self) -> set[str]:
        """Return the names of the plugins that at least one node of the cluster has, such as ``opensearch-knn``."""
        return {row["component"] for row in self.request("GET", "/_cat/plugins", format="json")}

    def ml_objects(self, kind: str, name: str) -> list[tuple[str, dict[str, Any]]]:
        """Find connectors, models or model groups of the plugin ML Commons by their name.

        Several objects can have the same name.

        Args:
            kind: ``connectors``, ``models`` or ``model_groups``.
            name: The exact name.

        Returns:
            The id and the body of each object.
        """
        # The field "name" is analyzed text, so the query also finds longer names. They are filtered out below. The
        # index of the objects does not exist until the first object is created.
        query = {"query": {"match_phrase": {"name": name}}, "size": 100, "version": True}
        try:
            response = self.request("POST", f"/_plugins/_ml/{kind}/_search", query)
        except NotFound:
            return []
        hits = [(hit["_id"], hit["_source"]) for hit in response["hits"]["hits"]]
        return [(id, source) for id, source in hits if source.get("name") == name]

    def prediction_error(self, model: str, parameters: Mapping[str, Any]) -> str:
        """Make the cluster call a remote model, to check that the model answers.

        Args:
            model: The id of the model.
            parameters: The input of the model, under the names that its connector expects.

        Returns:
            The error message, or an empty string if the model answers.
        """
        try:
            self.request("POST", f"/_plugins/_ml/models/{model}/_predict", {"parameters": parameters})
        except ResiftError as error:
            return error.message
        return ""

    def effective_settings(self) -> dict[str, Any]:
        """Return all cluster settings with their current values. Their names are flat, such as ``cluster.name``.

        Transient values take precedence over persistent values, and persistent values over defaults.
        """
        response = self.request("GET", "/_cluster/settings", include_defaults="true", flat_settings="true")
        return {**response["defaults"], **response["persistent"], **response["transient"]}

    def persistent_settings(self) -> dict[str, Any]:
        """Return the cluster settings that are set persistently, under flat names such as ``cluster.name``."""
        response: dict[str, Any] = self.request("GET", "/_cluster/settings", flat_settings="true")
        persistent: dict[str, Any] = response["persistent"]
        return persistent

    def update_settings(self, values: dict[str, Any]) -> None:
        """Change persistent cluster settings.

        Args:
            values: The new values, by the name of the setting. None resets a setting to its default.
        """
        self.request("PUT", "/_cluster/settings", {"persistent": values})
