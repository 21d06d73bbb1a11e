"""Resift's own plugin and ML Commons' ``ml_inference`` processor: the same hits in the same order."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from engine_documents import documents, knn_body
from native_node import RealService, Searches, ids, real_service
from service_app import post

from resift import Model
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine

FIRE = {"multi_match": {"query": "fire", "fields": ["title", "text"]}}


@pytest.fixture(scope="module")
def installed(
    native_engine: OpenSearchEngine, packaged: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Searches, RealService]]:
    """Yield an index with vectors, which both processors serve. In its session ``anna`` two documents were marked."""
    searches = Searches(native_engine, f"native-{uuid.uuid4().hex[:8]}")
    if not searches.has_plugin("opensearch-ml"):
        pytest.skip("the node has no ML Commons")
    native_engine.create(searches.index, ["title", "text"], packaged)
    native_engine.bulk(searches.index, documents(packaged))
    native_engine.refresh(searches.index)
    with real_service(native_engine, packaged, tmp_path_factory.mktemp("hits") / "sessions.db") as served:
        installer = Installer(native_engine, Installation(searches.index, packaged, ("title", "text"), served.url))
        installer.install()
        marks = {"session": "anna", "query": "fire", "relevant": ["2"], "irrelevant": ["0"]}
        post(served.app.test_client(), "/v1/feedback", index=searches.index, **marks)
        yield searches, served
        installer.uninstall()
    searches.delete()


@pytest.mark.parametrize("kind", ["match", "bool", "knn", "function_score"])
def test_both_routes_return_the_same_hits(installed: tuple[Searches, RealService], packaged: Model, kind: str) -> None:
    searches, served = installed
    queries: dict[str, Any] = {
        "match": FIRE,
        "bool": {
            "bool": {"should": [FIRE, {"match": {"text": "war river"}}], "must_not": [{"ids": {"values": ["4"]}}]}
        },
        "knn": knn_body(packaged.encode_one("fire"), 5)["query"],
        "function_score": {"function_score": {"query": FIRE, "boost_mode": "sum"}},
    }
    pipeline, path = searches.pipeline(served.url), f"/{searches.index}/_search"

    def hits(section: str, name: str) -> list[tuple[str, float]]:
        body = {"query": queries[kind], "ext": {section: {"session": "anna", "query": "fire"}}}
        answer = searches.ask("POST", path, body, search_pipeline=name)
        assert "resift_vector" not in str([hit["_source"] for hit in answer["hits"]["hits"]])
        return [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]

    in_session = hits("resift", pipeline)
    assert in_session == hits("ml_inference", f"resift-{searches.index}")
    assert in_session
    if kind == "match":
        assert [id for id, _ in in_session] != ids(searches.ask("POST", path, {"query": FIRE}, search_pipeline="_none"))
