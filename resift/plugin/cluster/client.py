"""The REST calls that an installation makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from resift.errors import NotFound, ResiftError
from resift.plugin.opensearch.client import call
from resift.plugin.opensearch.engine import OpenSearchEngine


class Cluster:
    """The few REST calls that Resift makes besides searching and indexing.

    Every method raises EngineUnavailable if nothing answers, and EngineError for what OpenSearch refuses.
    """

    def __init__(self, engine: OpenSearchEngine) -> None:
        self.engine = engine

    def request(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """Send one request and return the answer's JSON. Raises NotFound for status 404."""
        transport = self.engine.client.transport
        # nobody waits for a page of hits here, and a large cluster may take long to list all of its mappings
        seconds = transport.seconds
        return call(transport.perform_request, method, path, body=body, params=params or None, timeout=seconds)

    def find(self, path: str, key: str | None = None) -> Any:
        """Return the answer to GET, or what it has under ``key``; None for status 404."""
        try:
            answer = self.request("GET", path)
        except NotFound:
            return None
        return answer if key is None else answer.get(key)

    def count(self, index: str, query: Mapping[str, Any] | None = None) -> int:
        """How many documents of an index match a query, or how many it has."""
        # not _count, which is refused where the index's default search pipeline is missing
        body = {"query": query or {"match_all": {}}, "size": 0, "track_total_hits": True, "search_pipeline": "_none"}
        return int(self.request("POST", f"/{quote(index, safe='')}/_search", body)["hits"]["total"]["value"])

    def index_settings(self, names: str) -> dict[str, dict[str, str]]:
        """The settings of each index that names, aliases or patterns stand for, by their flat names."""
        answer = self.request("GET", f"/{quote(names, safe=',*')}/_settings", flat_settings="true")
        return {index: entry["settings"] for index, entry in answer.items()}

    def set_index(self, index: str, values: Mapping[str, Any]) -> None:
        """Change settings of an index; None unsets one."""
        self.request("PUT", f"/{quote(index, safe='')}/_settings", dict(values))

    def plugins(self) -> set[str]:
        """Return the names of the plugins that the nodes have."""
        return {row["component"] for row in self.request("GET", "/_cat/plugins", format="json")}

    def named(self, kind: str, name: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the ids and bodies of ML Commons' objects of a kind with exactly this name.

        ``kind`` is ``connectors``, ``models`` or ``model_groups``. Names need not be unique there.
        """
        # The field is analysed text, which finds longer names as well, and the index is missing at first.
        query = {"query": {"match_phrase": {"name": name}}, "size": 100, "version": True}
        try:
            answer = self.request("POST", f"/_plugins/_ml/{kind}/_search", query)
        except NotFound:
            return []
        hits = [(hit["_id"], hit["_source"]) for hit in answer["hits"]["hits"]]
        return [(id, source) for id, source in hits if source.get("name") == name]

    def wrong_with(self, model: str, parameters: Mapping[str, Any]) -> str:
        """Have a remote model answer, by its id. Returns what is wrong, "" if nothing is."""
        try:
            self.request("POST", f"/_plugins/_ml/models/{model}/_predict", {"parameters": parameters})
        except ResiftError as error:
            return error.message
        return ""

    def settings(self) -> dict[str, Any]:
        """Return the cluster settings in force by their flat names: transient over persistent over default values."""
        answer = self.request("GET", "/_cluster/settings", include_defaults="true", flat_settings="true")
        return {**answer["defaults"], **answer["persistent"], **answer["transient"]}

    def persistent(self) -> dict[str, Any]:
        """Return the persistent cluster settings by their flat names."""
        persistent: dict[str, Any] = self.request("GET", "/_cluster/settings", flat_settings="true")["persistent"]
        return persistent

    def set(self, values: dict[str, Any]) -> None:
        """Change persistent cluster settings; None resets one to its default."""
        self.request("PUT", "/_cluster/settings", {"persistent": values})
