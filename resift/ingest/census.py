"""Which documents an index had when it was read, and which of them it has no longer, without reading all of them again.

Each write of a shard has a number of its own (``_seq_no``), and a document that was written again has another one. So
the numbers that have vanished are those of documents that were written again or deleted.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.scanning import scroll

_STEP = 5000  # numbers that are counted together


class Census:
    """The documents that were read of one index, by shard and number."""

    def __init__(self, cluster: Cluster, index: str) -> None:
        self._cluster, self._index = cluster, index
        self._numbers: dict[int, array[int]] = {}
        self._documents: dict[int, list[str | tuple[str, str]]] = {}  # ids, and routing where a document has one

    def forget(self) -> None:
        """Begin anew."""
        self._numbers, self._documents = {}, {}

    def note(self, shard: int, hit: dict[str, Any]) -> None:
        """Remember a document that was read with its number."""
        self._numbers.setdefault(shard, array("q")).append(hit["_seq_no"])
        key = (hit["_id"], hit["_routing"]) if "_routing" in hit else hit["_id"]
        self._documents.setdefault(shard, []).append(key)

    def vanished(self) -> Iterator[dict[str, Any]]:
        """The documents, as hits of a search, that were written again or deleted since they were noted."""
        for shard, noted in self._numbers.items():
            numbers = np.frombuffer(noted, np.int64)
            steps, counts = np.unique(np.unique(numbers) // _STEP, return_counts=True)
            now = self._counts(shard)
            for step, count in zip(steps.tolist(), counts.tolist(), strict=True):
                if now.get(step, 0) != count:
                    yield from self._missing(shard, step, numbers)

    def _counts(self, shard: int) -> dict[int, int]:
        """How many documents of a shard have numbers of each step."""
        histogram = {"field": "_seq_no", "interval": _STEP, "min_doc_count": 1}
        body = {"size": 0, "track_total_hits": False, "aggs": {"steps": {"histogram": histogram}}}
        path = f"/{quote(self._index, safe='')}/_search"
        whole = {"preference": f"_shards:{shard}", "allow_partial_search_results": "false"}
        answer = self._cluster.request("POST", path, {**body, "search_pipeline": "_none"}, **whole)
        buckets = answer["aggregations"]["steps"]["buckets"]
        return {int(bucket["key"]) // _STEP: bucket["doc_count"] for bucket in buckets}

    def _missing(self, shard: int, step: int, numbers: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
        within = {"range": {"_seq_no": {"gte": step * _STEP, "lt": (step + 1) * _STEP}}}
        body = {"query": within, "_source": False, "seq_no_primary_term": True, "size": _STEP}
        preference = f"_shards:{shard}"
        hits = scroll(self._cluster.engine.client, self._index, body, preference=preference)
        live = [hit["_seq_no"] for hit in hits]
        noted = np.flatnonzero(numbers // _STEP == step)
        for place in noted[~np.isin(numbers[noted], live)].tolist():
            key = self._documents[shard][place]
            yield {"_id": key} if isinstance(key, str) else {"_id": key[0], "_routing": key[1]}
