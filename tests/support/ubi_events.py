"""UBI events and queries in the shapes of its published samples, including unusual ones."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from resift.contracts.ubi import UbiLog, iso_timestamp
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.service.connect import open_engine, open_ubi_log

NOW = float(int(time.time()))


def event(
    action: str, document: str = "", ordinal: int | None = None, at: float = NOW, **fields: Any
) -> dict[str, Any]:
    """Return an event like those of ubi.js.

    It is of the client ``anna``, about a document of the query ``q1`` that is identified by its SKU.
    """
    attributes: dict[str, Any] = {"object": {"object_id": document, "object_id_field": "sku"}} if document else {}
    if ordinal is not None:
        attributes["position"] = {"ordinal": ordinal}
    made = {
        "application": "shop",
        "action_name": action,
        "query_id": "q1",
        "session_id": "visit-1",
        "client_id": "anna",
        "user_id": "",
        "timestamp": iso_timestamp(at),
        "message_type": "INFO",
        "message": "",
        "event_attributes": attributes,
    }
    return {**made, **fields}


def query(text: str = "fire", id: str = "q1", **fields: Any) -> dict[str, Any]:
    """Return a query like those of ubi.js or the UBI plugin."""
    made = {"application": "shop", "query_id": id, "client_id": "anna", "user_query": text, "query_attributes": {}}
    return {**made, "timestamp": iso_timestamp(NOW), **fields}


# Entries that occur in logs but not in the schema, from other versions and from custom applications.
ODD_EVENTS: list[dict[str, Any]] = [
    event("search", event_attributes=None, query_id=None),
    event("click", "B2", 3, timestamp=int(NOW * 1000), session_id=None),
    event("click", event_attributes={"object": {"internal_id": "17", "object_id_field": "sku"}}),
    event(
        "on_search", event_attributes={"result_count": 3, "object": None, "position": {"ordinal": None, "trail": []}}
    ),
    event("click", event_attributes={"object": {"object_id": 4711}, "position": {"ordinal": "2"}}),
    event("page_exit", event_attributes={"object": {"startStopTimes": {"http://a.example/": []}}, "dwell_time": 4.2}),
    event("product_sort", event_attributes={"data": {"object_id_field": "sku", "object_id": "A1"}}),
    event("click", "A1", 1, timestamp="2024-12-10T00:01:29.378+0100"),
    {"action_name": "click", "timestamp": "2024-12-10T00:01:29"},
]
LOST_EVENTS: list[dict[str, Any]] = [
    {"client_id": "anna"},
    event("click", "A1", timestamp="yesterday"),
    event("click", "A1", timestamp=None),
    event("", "A1"),
]


def new_names() -> tuple[str, str]:
    """Return unique names for UBI's two indices."""
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    return f"{name}-events", f"{name}-queries"


@pytest.fixture
def ubi_names(engine_url: str) -> Iterator[tuple[str, str]]:
    """Return unique names for UBI's two indices, for each engine in turn. The indices are deleted at the end."""
    names, engine = new_names(), open_engine(engine_url)
    yield names
    for name in names:
        engine.drop_if_exists(name)
    engine.close()


@pytest.fixture
def cluster_names(cluster: OpenSearchEngine) -> Iterator[tuple[str, str]]:
    """Return unique names for UBI's two indices in the real cluster."""
    names = new_names()
    yield names
    for name in names:
        cluster.drop_if_exists(name)


@pytest.fixture
def ubi_log(engine_url: str, ubi_names: tuple[str, str]) -> Iterator[UbiLog]:
    """Return an empty log of either kind."""
    log = open_ubi_log(engine_url, *ubi_names)
    yield log
    log.close()
