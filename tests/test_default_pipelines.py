"""Searches of ours on an index with a default search pipeline: they pass by ours, and by nobody else's."""

from __future__ import annotations

import pytest
from request_kinds import default_pipeline
from rewritten_node import Node

from resift.plugin.opensearch import default_pipelines
from resift.plugin.opensearch.engine import OpenSearchEngine

QUERY = {"match": {"text": "fire"}}


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an index has as its default is asked for at each search."""
    monkeypatch.setattr(default_pipelines, "_SECONDS", 0.0)


def test_ours_is_not_asked_for_what_is_rewritten_already(rewritten_node: Node) -> None:
    node = rewritten_node
    with default_pipeline(node, node.pipeline):
        asked = len(node.rewritten)
        served = node.post("/v1/search", query=QUERY, size=5)
        with_baseline = node.post("/v1/search", query=QUERY, size=5, baseline=True)
        assert len(node.rewritten) == asked
        by_default = node.client.search(index=node.index, body={"query": QUERY, "size": 5})
        assert len(node.rewritten) == asked + 1
    found = [[hit["_id"] for hit in answer["hits"]["hits"]] for answer in (served, with_baseline, by_default)]
    assert found[0] == found[1] == found[2]


def test_one_of_the_users_own_is_kept(rewritten_node: Node, cluster: OpenSearchEngine) -> None:
    node, name = rewritten_node, f"{rewritten_node.index}-own"
    path, only = f"/_search/pipeline/{name}", {"filter_query": {"query": {"term": {"tag": "t1"}}}}
    node.client.transport.perform_request("PUT", path, body={"request_processors": [only]})
    try:
        with default_pipeline(node, name):
            hits = node.post("/v1/search", query=QUERY, size=50)["hits"]["hits"]
    finally:
        node.client.transport.perform_request("DELETE", path)
    assert {hit["_source"]["tag"] for hit in hits} == {"t1"}
