"""Tests of sessions in searches of a ``semantic`` field, which the cluster encodes with its own model."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from listening import listening
from opensearch_fixture import service_host
from service_app import post
from waiting import until

from resift import Model
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

pytestmark = pytest.mark.since(3, "semantic fields are of OpenSearch 3.1")
TEXTS = {
    "a": "lift of a swept wing at low speed",
    "b": "lift of a wing with flaps",
    "c": "heat transfer at a blunt nose",
    "d": "ablation and heat transfer of a nose cone",
    "e": "tail lift in flight",
    "f": "hypersonic flow past a blunt body",
    "g": "wing nose heating",
    "h": "boundary layer on a flat plate",
}
NORMALIZED = {"phase_results_processors": [{"normalization-processor": {}}]}


@pytest.fixture(scope="module")
def app(
    cluster: OpenSearchEngine, packaged: Model, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[Flask, str]]:
    """Yield a service, and the id of a remote model of the cluster that encodes texts with it."""
    config = Config(store=str(tmp_path_factory.mktemp("semantic") / "sessions.db"))
    app = create_app(config, engine=cluster, model=packaged)
    with listening(app, service_host(request.config)) as url:
        installer = Installer(cluster, Installation(f"se-{uuid.uuid4().hex[:8]}", packaged, ("text",), url))
        installer.install()
        engine = Cluster(cluster)
        id, connector = _registered(engine, url, packaged.dim)
        try:
            yield app, id
        finally:
            engine.request("POST", f"/_plugins/_ml/models/{id}/_undeploy")
            assert until(lambda: _state(engine, id) == "UNDEPLOYED")  # the node may store it after its response
            engine.request("DELETE", f"/_plugins/_ml/models/{id}")
            engine.request("DELETE", f"/_plugins/_ml/connectors/{connector}")
            installer.uninstall()


def _registered(cluster: Cluster, url: str, dim: int) -> tuple[str, str]:
    """Return the ids of a model and its connector, registered with dimension and space as semantic fields need."""
    connector = {
        "name": "semantic",
        "description": "a test's",
        "version": "1",
        "protocol": "http",
        "parameters": {"model": "any"},
        "credential": {"key": "none"},
        "actions": [
            {
                "action_type": "predict",
                "method": "POST",
                "url": f"{url}/v1/embeddings",
                "request_body": '{ "input": ${parameters.input} }',
                "pre_process_function": "connector.pre_process.openai.embedding",
                "post_process_function": "connector.post_process.openai.embedding",
            }
        ],
    }
    made = cluster.request("POST", "/_plugins/_ml/connectors/_create", connector)
    model = {
        "name": "semantic",
        "function_name": "remote",
        "description": "a test's",
        "connector_id": made["connector_id"],
        "model_config": {
            "model_type": "TEXT_EMBEDDING",
            "embedding_dimension": dim,
            "framework_type": "SENTENCE_TRANSFORMERS",
            "additional_config": {"space_type": "cosinesimil"},
        },
    }
    id: str = cluster.request("POST", "/_plugins/_ml/models/_register", model, deploy="true")["model_id"]
    assert until(lambda: _state(cluster, id) == "DEPLOYED")
    return id, made["connector_id"]


def _state(cluster: Cluster, id: str) -> str:
    """Return the state of a model, such as DEPLOYED."""
    return str(cluster.request("GET", f"/_plugins/_ml/models/{id}")["model_state"])


def test_a_session_moves_the_vectors_of_a_semantic_field(app: tuple[Flask, str], cluster: OpenSearchEngine) -> None:
    client, index, engine = app[0].test_client(), f"semantic-{uuid.uuid4().hex[:8]}", Cluster(cluster)
    body = {"type": "semantic", "model_id": app[1]}
    body |= {"dense_embedding_config": {"method": {"name": "hnsw", "engine": "lucene"}}}  # type: ignore[dict-item]
    mappings = {"properties": {"body": body, "title": {"type": "text"}}}
    engine.request("PUT", f"/{index}", {"settings": {"index.knn": True, "number_of_shards": 1}, "mappings": mappings})
    try:
        for id, text in TEXTS.items():
            engine.request("PUT", f"/{index}/_doc/{id}", {"body": text, "title": text}, refresh="true")
        near = {"neural": {"body": {"query_text": "wing nose", "k": len(TEXTS)}}}
        hybrid = {"hybrid": {"queries": [{"match": {"title": "wing nose"}}, near]}}
        plain = _ids(engine, index, {"query": hybrid, "search_pipeline": NORMALIZED})
        post(client, "/v1/feedback", session="anna", index=index, query="wing nose", relevant=["c"])
        asked = {"query": hybrid, "ext": {"ml_inference": {"session": "anna", "query": "wing nose"}}}
        answer = post(client, "/v1/rewrite", index=index, body=asked)
        assert answer["resift"] == {"rewritten": True, "outcome": "rewritten"}
        _, moved = answer["body"]["query"]["hybrid"]["queries"]
        assert '"body_semantic_info.embedding"' in str(moved).replace("'", '"')
        after = _ids(engine, index, {"query": answer["body"]["query"], "search_pipeline": NORMALIZED})
        assert sorted(after) == sorted(plain)
        assert after.index("c") < plain.index("c")
        assert after.index("d") < plain.index("d")
    finally:
        engine.request("DELETE", f"/{index}")


def _ids(cluster: Cluster, index: str, body: dict[str, Any]) -> list[str]:
    return [hit["_id"] for hit in cluster.request("POST", f"/{index}/_search", body)["hits"]["hits"]]
