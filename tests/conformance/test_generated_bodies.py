"""Generated searches, sent plainly, rewritten without a session, and rewritten in a session.

RESIFT_FUZZ_BODIES is the number of bodies, 200 by default, and RESIFT_FUZZ_FIRST the number of the first body. ``make
fuzz`` sets both.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
from answers import Difference
from generated_bodies import MAPPING, documents, generated_body
from known_differences import KnownDifferences
from three_ways import OpenSearchClient, Search, ThreeWays

BODIES = int(os.environ.get("RESIFT_FUZZ_BODIES") or 200)
FIRST = int(os.environ.get("RESIFT_FUZZ_FIRST") or 0)

pytestmark = pytest.mark.filterwarnings("ignore::opensearchpy.exceptions.OpenSearchWarning")


@pytest.fixture(scope="module")
def pipeline(opensearch_client: OpenSearchClient) -> Iterator[str]:
    """A search pipeline that normalises the scores of ``hybrid``."""
    path = f"_search/pipeline/resift-test-{uuid.uuid4().hex[:12]}"
    body = {"phase_results_processors": [{"normalization-processor": {}}]}
    assert opensearch_client.request("PUT", path, body).status == 200
    yield path.rpartition("/")[2]
    opensearch_client.request("DELETE", path)


@pytest.fixture(scope="module")
def index(opensearch_client: OpenSearchClient) -> Iterator[str]:
    """An index of the documents that the bodies search."""
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    settings = {"index.knn": True, "number_of_shards": 2, "number_of_replicas": 0}
    body = {"settings": settings, "mappings": {"properties": MAPPING}}
    assert opensearch_client.request("PUT", name, body).status == 200
    lines = [line for id, source in documents() for line in ({"index": {"_id": id}}, source)]
    assert not opensearch_client.request("POST", f"{name}/_bulk", lines, refresh=True).body["errors"]
    yield name
    opensearch_client.request("DELETE", name)


def test_a_session_changes_only_scores(
    index: str,
    pipeline: str,
    opensearch_client: OpenSearchClient,
    three_ways: ThreeWays,
    known_differences: KnownDifferences,
) -> None:
    bodies = {f"generated body {number}": generated_body(number, index) for number in range(FIRST, FIRST + BODIES)}
    differences: list[tuple[str, str, Difference]] = []
    for name, body in bodies.items():
        query = body.get("query")
        is_hybrid = isinstance(query, dict) and "hybrid" in query
        search = Search(index, body, {"search_pipeline": pipeline if is_hybrid else "_none"})
        differences += [(name, way, difference) for way, difference in three_ways.compare(search)]
    assert opensearch_client.request("GET", "/").status == 200
    counts = three_ways.counts
    assert counts["failed plainly"] < BODIES * 0.7
    assert counts["in a session: rewritten"] > BODIES * 0.3
    known_differences.check_generated(bodies, differences)
