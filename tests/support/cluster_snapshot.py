"""The state of a cluster that an installation may change."""

from __future__ import annotations

from typing import Any

from resift.plugin.cluster.client import Cluster


def snapshot(cluster: Cluster) -> dict[str, Any]:
    """Return the state of a cluster that an installation may change, for a comparison before and after."""

    def every(kind: str) -> list[str]:
        try:
            answer = cluster.request(
                "POST", f"/_plugins/_ml/{kind}/_search", {"query": {"match_all": {}}, "size": 1000}
            )
        except LookupError:
            return []
        known = (hit["_id"] for hit in answer["hits"]["hits"])
        # Searches find documents that were deleted less than a second ago, for example by the previous test. Reads by
        # id do not.
        return sorted(id for id in known if cluster.get_or_none(f"/_plugins/_ml/{kind}/{id}"))

    state = cluster.request("GET", "/_cluster/state/metadata")["metadata"]
    return {
        "settings": cluster.persistent_settings(),
        "scripts": sorted(state.get("stored_scripts", {})),
        "templates": sorted(t["name"] for t in cluster.request("GET", "/_index_template")["index_templates"]),
        "ingest": sorted(cluster.get_or_none("/_ingest/pipeline") or {}),
        "search": sorted(cluster.get_or_none("/_search/pipeline") or {}),
        **{kind: every(kind) for kind in ("models", "connectors", "model_groups")},
    }
