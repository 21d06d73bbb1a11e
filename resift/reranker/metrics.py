"""Metrics for Prometheus."""

from __future__ import annotations

import os
import time
from typing import Any

from flask import Flask, Response, current_app, g, has_app_context, request
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
    multiprocess,
)

from resift.rewriting.outcome import Outcome


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

    _add_counters(app, registry)

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


def _add_counters(app: Flask, registry: CollectorRegistry) -> None:
    """What is counted by the functions below."""
    app.extensions["rewrites"] = Counter(
        "resift_rewrites",
        "Searches of pipelines by what became of them: the codes of resift.rewriting.outcome",
        ["outcome"],
        registry=registry,
    )
    app.extensions["searches"] = Counter(
        "resift_searches",
        "Searches of /v1/search whose hits were reranked, in part, or not, and stand in the engine's order",
        ["outcome"],
        registry=registry,
    )
    app.extensions["ubi"] = Counter(
        "resift_ubi",
        "Events and queries of UBI that were sent, and events that were read, by what became of them",
        ["outcome"],
        registry=registry,
    )


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
