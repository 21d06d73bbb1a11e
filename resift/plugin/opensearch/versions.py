"""Which versions of OpenSearch do, and what others lack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from resift.errors import UnsupportedCluster

OLDEST = (2, 18)
# What searches of ours need, by the version that first had it.
_NEEDED = {
    (2, 10): "hybrid queries",
    (2, 13): "inner products in the lucene engine of k-NN",
    (2, 16): "ml_inference processors of searches",
    (2, 18): "parameters of ml_inference in a search's ext",
}
_EXPECTED = f"OpenSearch {OLDEST[0]}.{OLDEST[1]} or later; 2.19.1 and 3.6.0 are tested"


def supported_version(info: Mapping[str, Any]) -> str:
    """The name and version of the cluster that answers ``GET /`` with ``info``.

    Raises UnsupportedCluster for another product, and for a version that lacks what we need.
    """
    version: Mapping[str, Any] = info["version"] if isinstance(info.get("version"), Mapping) else {}
    number = str(version.get("number"))
    parts = re.match(r"(\d+)\.(\d+)", number)
    if version.get("distribution") != "opensearch" or parts is None:
        found = f"Elasticsearch {number}" if "lucene_version" in version else "something else"
        raise UnsupportedCluster(f"{found} answers, not OpenSearch", value=number, expected=_EXPECTED)
    major, minor = int(parts[1]), int(parts[2])
    lacking = [what for since, what in _NEEDED.items() if (major, minor) < since]
    if lacking:
        raise UnsupportedCluster(
            f"OpenSearch {number} is too old: it lacks {', '.join(lacking)}", value=number, expected=_EXPECTED
        )
    return f"opensearch {number}"
