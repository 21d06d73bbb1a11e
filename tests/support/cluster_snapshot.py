"""What a cluster has that an installation may touch."""

from __future__ import annotations

from typing import Any

from resift.plugin.cluster.client import Cluster


def snapshot(cluster: Cluster) -> dict[str, Any]:
    """Everything in a cluster that an installation may touch."""

    def every(kind: str) -> list[str]:
        try:
            found = cluster.request("POST", f"/_plugins/_ml/{kind}/_search", {"query": {"match_all": {}}, "size": 1000})
        except LookupError:
            return []
        known = (hit["_id"] for hit in found["hits"]["hits"])
        # a search still finds for a second what was deleted, as by the tests before; a read by its id does not
        return sorted(id for id in known if cluster.find(f"/_plugins/_ml/{kind}/{id}"))

    state = cluster.request("GET", "/_cluster/state/metadata")["metadata"]
    return {
        "settings": cluster.persistent_settings(),
        "scripts": sorted(state.get("stored_scripts", {})),
        "templates": sorted(t["name"] for t in cluster.request("GET", "/_index_template")["index_templates"]),
        "ingest": sorted(cluster.find("/_ingest/pipeline") or {}),
        "search": sorted(cluster.find("/_search/pipeline") or {}),
        **{kind: every(kind) for kind in ("models", "connectors", "model_groups")},
    }
