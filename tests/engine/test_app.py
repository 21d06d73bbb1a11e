"""Tests of the Flask application: health checks, metrics, the search page and settings."""

from __future__ import annotations

import logging

import pytest
from flask.testing import FlaskClient
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import filled as filled
from service_app import post

from resift import Model
from resift.errors import BadInput
from resift.reranker import Config, create_app


def test_health_metrics_page(client: FlaskClient, filled: str, model: Model) -> None:
    health = client.get("/healthz").get_json()
    assert health["model_hash"] == model.hash
    assert client.get("/readyz").get_json()["status"] == "ok"
    post(client, "/v1/search", index=filled, query="fire")
    metrics = client.get("/metrics").get_data(as_text=True)
    assert 'resift_requests_total{endpoint="api.search",status="200"} 1.0' in metrics
    page = client.get("/?index=%3Cscript%3E")  # read by the page's script
    assert page.status_code == 200
    assert "<script>" not in page.get_data(as_text=True)


def test_an_unavailable_engine(model: Model, config: Config, nowhere: str) -> None:
    from resift.plugin.opensearch.engine import OpenSearchEngine

    engine = OpenSearchEngine(nowhere, timeout=2)
    client = create_app(config, engine=engine, model=model).test_client()
    assert client.get("/healthz").status_code == 200
    logging.disable(logging.CRITICAL)
    try:
        ready = client.get("/readyz")
        assert (ready.status_code, ready.get_json()["error"]["code"]) == (503, "engine_unavailable")
        assert post(client, "/v1/search", 503, index="docs", query="fire")["error"]["code"] == "engine_unavailable"
    finally:
        logging.disable(logging.NOTSET)
        engine.close()


def test_configuration_from_the_environment() -> None:
    config = Config.from_environment({"OPENSEARCH_URL": "http://x:9200", "RESIFT_ALPHA": "0.7", "RESIFT_WINDOW": "50"})
    assert (config.engine, config.alpha, config.window, config.model) == (
        "http://x:9200",
        0.7,
        50,
        "resift-en",
    )
    assert Config.from_environment({"RESIFT_ENGINE": "a.db", "OPENSEARCH_URL": "http://x"}).engine == "a.db"
    assert Config.from_environment({}).alpha is None
    with pytest.raises(BadInput, match="RESIFT_ALPHA is '5'"):
        Config.from_environment({"RESIFT_ALPHA": "5"})
    with pytest.raises(BadInput, match="RESIFT_WINDOW"):
        Config.from_environment({"RESIFT_WINDOW": "many"})
