"""The Flask application: assembly, error responses, health checks and HTML pages."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from flask import Flask, Response, render_template, request
from werkzeug.exceptions import HTTPException

from resift.contracts.engine import Engine
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import EngineError, EngineUnavailable, QuotaExceeded, ResiftError
from resift.reranker.access.requests import (
    PAGE_POLICY,
    ApiKeys,
    add_metrics,
    add_request_ids,
    count_ubi,
    current_caller,
    protect_browsers,
    require_keys,
)
from resift.reranker.api import JsonProvider, api
from resift.reranker.collector import Collector, ubi
from resift.reranker.queueing import MAX_WAIT, longest_wait
from resift.reranker.request_log import error_body, http_error
from resift.reranker.reviews_api import reviews
from resift.service.config import Config
from resift.service.connect import open_engine, open_session_store, open_ubi_log, ubi_address
from resift.service.search_service import SearchService
from resift.sessions.clicks import Clicks, parse_action_grades
from resift.sessions.quotas import Quotas
from resift.sessions.sessions import Sessions
from resift.version import __version__

log = logging.getLogger(__name__)


class _Application(Flask):
    """A Flask application without asynchronous functions."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function unchanged, because it is never asynchronous.

        This saves time: Flask would inspect each route and hook in every request.
        """
        return func


def create_app(config: Config | None = None, *, engine: Engine | None = None, model: Model | None = None) -> Flask:
    """Create the Flask application of the search service.

    Args:
        config: The settings. By default, they are read from environment variables.
        engine: The search engine. By default, the engine that the settings name.
        model: The embedding model. By default, the model that the settings name.

    Raises:
        BadInput: If a setting is malformed or out of range.
        ModelNotFound: If the folder of the model contains no model.
        CorruptModel: If the files of the model are damaged.
        EngineUnavailable: If the file of the embedded engine cannot be opened.
        SessionsUnavailable: If the file of the sessions cannot be opened.
    """
    config = config or Config.from_environment()
    app = _Application(__name__)
    app.json = JsonProvider(app)
    # Werkzeug would redirect /v1//search with an HTML page. Without merging, the answer is 404 as JSON.
    app.url_map.merge_slashes = False
    app.config.update(RESIFT=config, MAX_CONTENT_LENGTH=config.max_body)
    engine = engine or open_engine(config.engine)
    ubi_log = open_ubi_log(ubi_address(config.engine, config.store), config.ubi_events, config.ubi_queries)
    quotas = Quotas(config.max_marks_per_day, config.max_sessions_per_day, config.max_bytes_per_day)
    store = open_session_store(config.store, config.session_index)
    app.extensions["collector"] = Collector(ubi_log, quotas)
    service = app.extensions["resift"] = SearchService(
        engine,
        model or load_model(config.model),
        Sessions(store, config.session_hours, caller=current_caller, quotas=quotas),
        config,
        Clicks(ubi_log, engine, parse_action_grades(config.ubi_actions), config.session_hours * 3600, count_ubi),
    )
    service.reviews.max_seconds = config.deadline
    for blueprint in (api, reviews, ubi):
        app.register_blueprint(blueprint)
    _add_errors(app)
    add_request_ids(app)
    add_metrics(app)
    # These check the host, the origin and the API key of each request.
    keys = app.extensions["resift_keys"] = ApiKeys.from_config(config)
    protect_browsers(app, keys, config.hosts, config.cors)
    require_keys(app, keys)
    _add_pages(app, keys)
    return app


def _add_errors(app: Flask) -> None:
    """Register error handlers, so that the application responds to all errors with a JSON object."""

    @app.errorhandler(ResiftError)
    def handle_resift_error(error: ResiftError) -> tuple[dict[str, Any], int, dict[str, str]]:
        # To clients, an internal error of the engine is the same as an engine that is unavailable.
        failed = isinstance(error, EngineError) and error.status >= 500
        headers = {"Retry-After": str(error.seconds)} if isinstance(error, QuotaExceeded) else {}
        return error_body(error.to_dict()), EngineUnavailable.status if failed else error.status, headers

    @app.errorhandler(HTTPException)
    def handle_http_error(error: HTTPException) -> Response:
        status = error.code or 500
        body = error_body(http_error(status, error.name, request.path, app.config["MAX_CONTENT_LENGTH"]))
        response = Response(json.dumps(body), status, content_type="application/json")
        methods = getattr(error, "valid_methods", None)
        if methods:
            response.headers["Allow"] = ", ".join(sorted(methods))
        return response

    @app.errorhandler(Exception)
    def handle_unexpected_error(error: Exception) -> tuple[dict[str, Any], int]:
        log.exception("request to %s failed", request.path)
        # The exception's message is left out, since it may quote documents or addresses.
        message = "internal error; see the log of the service"
        return error_body({"code": "internal_error", "message": message}), 500


def _add_pages(app: Flask, keys: ApiKeys) -> None:
    """Register the routes for health checks, the description of the API, and the HTML pages.

    Args:
        app: The Flask application.
        keys: The API keys of the service.
    """
    service: SearchService = app.extensions["resift"]

    @app.get("/healthz")
    def healthz() -> dict[str, Any]:
        return {
            "status": "ok",
            "version": __version__,
            "model": service.model.name,
            "model_hash": service.model.hash,
            "longest_wait": round(longest_wait(), 3),
            "overloaded": longest_wait() > MAX_WAIT,
        }

    @app.get("/readyz")
    def readyz() -> dict[str, Any]:
        return {"status": "ok", "engine": service.engine.ping()}

    @app.get("/openapi.json")
    def openapi() -> Response:
        with app.open_resource("openapi.json", "r") as file:
            return Response(file.read(), content_type="application/json")

    @app.get("/resift.js")
    def script() -> Response:
        with app.open_resource("static/resift.js", "r") as file:
            return Response(file.read(), content_type="text/javascript", headers={"Cache-Control": "max-age=600"})

    @app.get("/")
    def page() -> Response:
        html = render_template(
            "search.html", index=service.config.index, version=__version__, is_open=not keys.required
        )
        # Hits may show images from any website, which the policy of other responses does not allow.
        return Response(html, headers={"Content-Security-Policy": PAGE_POLICY}, mimetype="text/html")

    @app.get("/reviews/<review>")
    def review_page(review: str) -> str:
        return render_template("review.html", review=review, version=__version__)
