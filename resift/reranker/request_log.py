"""What is told of requests: an id, in answers, errors and log lines, and to the engine; lines of logs; and metrics."""

from __future__ import annotations

import json
import logging
import os
import re
import time
import traceback
import uuid
from collections.abc import Mapping
from typing import Any

from flask import Flask, Response, current_app, g, has_app_context, request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from werkzeug.datastructures import Headers

from resift.contracts.engine import OPAQUE_ID, OPAQUE_ID_HEADER, REQUEST_ID
from resift.rewriting.outcome import Outcome

ANSWERED = "X-Request-Id"
_ID = re.compile(r"[!-~]{1,128}")  # what can stand in a header, and in a line of a log
_TEXT = "[%(asctime)s] [%(process)d] [%(levelname)s] %(message)s"

_CODES = {
    404: "no_such_path",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    500: "internal_error",
}

_COUNTED = {  # by the functions at the end
    "rewrites": "Searches of pipelines by what became of them: the codes of resift.rewriting.outcome",
    "searches": "Searches of /v1/search whose hits were reranked, in part, or not, and stand in the engine's order",
    "ubi": "Events and queries of UBI that were sent, and events that were read, by what became of them",
}
log = logging.getLogger(__name__)


def add_request_ids(app: Flask) -> None:
    """Take each request's id from ``X-Opaque-Id`` or ``X-Request-Id``, or give it one, note when it began, and log
    what was answered.

    A value that cannot stand in a header again, or has more than 128 characters, is not taken.
    """

    @app.before_request
    def begin() -> None:
        g.started = time.perf_counter()
        id = request_id(request.headers)
        REQUEST_ID.set(id)
        OPAQUE_ID.set(id if id == request.headers.get(OPAQUE_ID_HEADER) else None)

    @app.after_request
    def answer(response: Response) -> Response:
        response.headers[ANSWERED] = REQUEST_ID.get() or ""
        if log.isEnabledFor(logging.INFO):
            seconds = round(time.perf_counter() - g.get("started", time.perf_counter()), 6)
            fields = {"method": request.method, "path": request.path, "status": response.status_code}
            log.info("answered", extra={"fields": {**fields, "seconds": seconds}})
        return response

    @app.teardown_request
    def end(error: BaseException | None) -> None:
        for variable in (REQUEST_ID, OPAQUE_ID):  # the thread answers others too
            variable.set(None)


def request_id(headers: Mapping[str, str] | Headers) -> str:
    """The id that a request's headers give it, or a new one."""
    given = (headers.get(name, "") for name in (OPAQUE_ID_HEADER, ANSWERED))
    return next(filter(_ID.fullmatch, given), None) or uuid.uuid4().hex


def identified(error: dict[str, Any], id: str | None = None) -> dict[str, Any]:
    """The body of an answer that is an ``error``, with the id of the request: the one at hand, unless it is given."""
    return {"error": {**error, "request_id": id or REQUEST_ID.get()}}


def http_error(status: int, name: str, path: str, max_body: int) -> dict[str, Any]:
    """The body of an answer with a ``status`` of this ``name`` to a request for ``path``."""
    expected = f"at most {max_body} bytes" if status == 413 else "see /openapi.json"
    code = _CODES.get(status, "http_error")
    return {"error": {"code": code, "message": name, "value": path, "expected": expected}}


class JsonLines(logging.Formatter):
    """A log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """``time`` (UTC), ``level``, ``logger``, ``message``, and ``request_id`` and ``trace`` where there are any."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if (id := _id_of(record)) is not None:
            line["request_id"] = id
        if record.exc_info:
            line["trace"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """A log record as text, as gunicorn writes it, with the request's id at the end of its first line."""

    def __init__(self) -> None:
        super().__init__(_TEXT, "%Y-%m-%d %H:%M:%S %z")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The first line."""
        line, id = super().formatMessage(record), _id_of(record)
        return line if id is None else f"{line} [request {id}]"


def _id_of(record: logging.LogRecord) -> str | None:
    """The id of the request that a record is of; what another thread says of a request names it."""
    id: str | None = getattr(record, "request_id", None) or REQUEST_ID.get()
    return id


def formatter(kind: str) -> logging.Formatter:
    """How lines look in logs of a ``kind``, ``text`` or ``json``."""
    return JsonLines() if kind == "json" else TextLines()


def log_to_stderr(kind: str) -> None:
    """Write what this process logs to standard error; as JSON with a line for each request."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(kind))
    logging.getLogger().addHandler(handler)
    # opensearch-py's own lines tell of each attempt by its trace; what came of them all is an error of ours
    logging.getLogger("opensearch").propagate = False
    if kind == "json":
        log.setLevel(logging.INFO)


def add_metrics(app: Flask) -> None:
    """Count requests and their seconds by endpoint, and serve them under ``/metrics``.

    Where the variable PROMETHEUS_MULTIPROC_DIR names a folder, the figures of all processes that share it are added up.
    """
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

    for name, what in _COUNTED.items():
        app.extensions[name] = Counter(f"resift_{name}", what, ["outcome"], registry=registry)

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


def count_rewrite(outcome: Outcome) -> None:
    """Count a search of a pipeline by what became of it."""
    current_app.extensions["rewrites"].labels(outcome.code).inc()


def count_search(told: dict[str, Any]) -> None:
    """Count what is said of a search: ``reranked``, ``in_part`` where it says why not wholly, or ``engine_order``."""
    outcome = "engine_order" if not told["reranked"] else "in_part" if "reason" in told else "reranked"
    current_app.extensions["searches"].labels(outcome).inc()


def count_ubi(outcome: str, items: int) -> None:
    """Count what became of so many events or queries of UBI; outside of an application nothing is counted."""
    if items and has_app_context():
        current_app.extensions["ubi"].labels(outcome).inc(items)
