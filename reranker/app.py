"""The Flask application: blueprints, errors as JSON, health, metrics and the search page."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import Any

import numpy as np
import orjson
from flask import Flask, Response, g, render_template, request
from flask.json.provider import DefaultJSONProvider
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
    multiprocess,
)
from werkzeug.exceptions import HTTPException

from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import ResiftError
from resift.plugin.connect import open_engine, open_session_store
from resift.plugin.engine import Engine
from resift.reranker.api import api
from resift.reranker.config import Config
from resift.reranker.search.service import Reranker
from resift.reranker.sessions import Sessions
from resift.version import __version__

log = logging.getLogger(__name__)


class JsonProvider(DefaultJSONProvider):
    """Answers by orjson, arrays straight from NumPy; what it cannot write (lone surrogates), the standard library does.

    Numbers that are not finite are null.
    """

    sort_keys = False

    def response(self, *args: Any, **kwargs: Any) -> Response:
        """An answer as JSON."""
        value = self._prepare_response_obj(args, kwargs)
        try:
            raw: str | bytes = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
        except orjson.JSONEncodeError:
            raw = self.dumps(value, default=_plain) + "\n"
        return Response(raw, mimetype=self.mimetype)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else DefaultJSONProvider.default(value)


def create_app(config: Config | None = None, *, engine: Engine | None = None, model: Model | None = None) -> Flask:
    """The application for a configuration (by default the environment's); engine and model may be given ready-made.

    Raises BadInput, ModelNotFound or CorruptModel where the configuration cannot be served.
    """
    config = config or Config.from_environment()
    app = Flask(__name__)
    app.json = JsonProvider(app)
    app.config.update(RESIFT=config, MAX_CONTENT_LENGTH=config.max_body)
    app.extensions["resift"] = Reranker(
        engine or open_engine(config.engine),
        model or load_model(config.model),
        Sessions(open_session_store(config.store, config.session_index), config.session_hours),
        config,
    )
    app.register_blueprint(api)
    _add_errors(app)
    _add_metrics(app)
    _add_pages(app)
    return app


def _add_errors(app: Flask) -> None:
    @app.errorhandler(ResiftError)
    def known(error: ResiftError) -> tuple[dict[str, Any], int]:
        return {"error": error.to_dict()}, error.status

    @app.errorhandler(HTTPException)
    def http(error: HTTPException) -> Response:
        names = {404: "no_such_path", 405: "method_not_allowed", 413: "too_large"}
        status = error.code or 500
        expected = f"at most {app.config['MAX_CONTENT_LENGTH']} bytes" if status == 413 else "see /openapi.json"
        code = names.get(status, "http_error")
        body = {"error": {"code": code, "message": error.name, "value": request.path, "expected": expected}}
        answer = Response(json.dumps(body), status, content_type="application/json")
        methods = getattr(error, "valid_methods", None)
        if methods:
            answer.headers["Allow"] = ", ".join(sorted(methods))
        return answer

    @app.errorhandler(Exception)
    def unknown(error: Exception) -> tuple[dict[str, Any], int]:
        log.exception("request to %s failed", request.path)
        return {
            "error": {
                "code": "internal_error",
                "message": "an error inside the reranker; its log has the details",
            }
        }, 500


def _add_metrics(app: Flask) -> None:
    """Requests and seconds by endpoint; of all workers together where gunicorn runs several."""
    shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
    registry = CollectorRegistry()
    count = Counter("resift_requests", "Requests", ["endpoint", "status"], registry=registry)
    seconds = Histogram(
        "resift_request_seconds",
        "Seconds a request took",
        ["endpoint"],
        registry=registry,
        buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
    )

    @app.before_request
    def begin() -> None:
        g.started = time.perf_counter()

    @app.after_request
    def end(response: Response) -> Response:
        endpoint = request.endpoint or "none"
        count.labels(endpoint, response.status_code).inc()
        seconds.labels(endpoint).observe(time.perf_counter() - g.get("started", time.perf_counter()))
        return response

    @app.get("/metrics")
    def metrics() -> Response:
        source = CollectorRegistry() if shared else registry
        if shared:
            multiprocess.MultiProcessCollector(source)  # type: ignore[no-untyped-call]
        return Response(generate_latest(source), content_type=CONTENT_TYPE_LATEST)


def _add_pages(app: Flask) -> None:
    service: Reranker = app.extensions["resift"]

    @app.get("/healthz")
    def healthz() -> dict[str, Any]:
        return {
            "status": "ok",
            "version": __version__,
            "model": service.model.name,
            "model_hash": service.model.hash,
        }

    @app.get("/readyz")
    def readyz() -> dict[str, Any]:
        return {"status": "ok", "engine": service.engine.ping()}

    @app.get("/openapi.json")
    def openapi() -> Response:
        with app.open_resource("openapi.json", "r") as file:
            return Response(file.read(), content_type="application/json")

    @app.get("/")
    def page() -> str:
        index, alpha = request.args.get("index", service.config.index), service.alpha
        return render_template("search.html", index=index, alpha=alpha, version=__version__)
