"""Which versions of OpenSearch do, and what others lack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from resift.errors import UnsupportedCluster

OLDEST = (2, 18)  # the first that takes parameters of ml_inference in a search's ext
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
    if (int(parts[1]), int(parts[2])) < OLDEST:
        raise UnsupportedCluster(f"OpenSearch {number} is too old", value=number, expected=_EXPECTED)
    return f"opensearch {number}"
