"""Collect UBI (User Behavior Insights) events: ``POST /ubi_events`` and ``POST /ubi_queries``.

Requests have the format of ``ubi.js``. A request that is not a JSON array is refused with an error. Malformed events
within a request are only counted and dropped, because the page that sent them could not handle an error.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from flask import Blueprint, current_app

from resift.cache import TtlCache, digest
from resift.contracts.ubi import EVENTS, QUERIES, UbiLog, id_as_text, iso_timestamp, unix_seconds
from resift.reranker.access.requests import count_ubi, current_caller
from resift.reranker.api import read_items
from resift.sessions.clicks import CLOCK_TOLERANCE
from resift.sessions.quotas import Quotas
from resift.sessions.trials import APPLICATION_PREFIX

MAX_ITEMS = 1000
"""Maximum number of items in a request. Further items are dropped."""
MAX_ITEM_BYTES = 16_384
"""Maximum size of an item as JSON, in bytes."""
MAX_ITEMS_PER_MINUTE = 600
"""Maximum number of items of each kind that a client may send per minute to each worker process."""
_MAX_CLIENTS = 20_000
"""Maximum number of clients for which items are counted at a time."""
_REQUIRED_FIELD = {EVENTS: "action_name", QUERIES: "query_id"}

ubi = Blueprint("ubi", __name__)


class Collector:
    """Stores user events and queries in the UBI (User Behavior Insights) log. Instances are thread-safe.

    Args:
        log: The UBI log.
        quotas: The daily storage limits of API keys. An event or query counts as much as a relevance judgement.
        clock: A function that returns the time in Unix seconds.
    """

    def __init__(self, log: UbiLog, quotas: Quotas, clock: Callable[[], float] = time.time) -> None:
        self.log, self.quotas, self.clock = log, quotas, clock
        self._counts: TtlCache[int] = TtlCache(_MAX_CLIENTS, 60.0, clock)
        self._lock = threading.Lock()  # protects each change of a count

    def store(self, kind: str, items: Sequence[Any], key: str | None = None) -> Counter[str]:
        """Store the user events or queries of a request in the log, and drop the items that are not valid.

        Items without a valid timestamp, or with a timestamp in the future, get the current time.

        Args:
            kind: ``EVENTS`` or ``QUERIES``.
            items: The events or queries of the request, as JSON.
            key: The name of the caller's API key, or None if the service has no keys.

        Returns:
            The number of items by outcome:

            - ``stored``: stored in the log.
            - ``malformed`` or ``too_large``: dropped because of their content.
            - ``too_many``: dropped because the request has more than ``MAX_ITEMS`` items.
            - ``flood``: dropped because the client sent more than ``MAX_ITEMS_PER_MINUTE`` items.
            - ``refused``: refused by the engine.
            - ``clock``: items that got the current time. They are also counted under another outcome.

        Raises:
            QuotaExceeded: If the API key has used up its daily quota.
        """
        self.quotas.check(key, "marks", "bytes")
        outcomes: Counter[str] = Counter(too_many=max(0, len(items) - MAX_ITEMS))
        by_client: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for item in items[:MAX_ITEMS]:
            fault = _rejection_reason(kind, item)
            if fault:
                outcomes[fault] += 1
            else:
                by_client[str(item.get("client_id") or item.get("session_id") or "")].append(item)
        accepted: list[dict[str, Any]] = []
        for client, client_items in by_client.items():
            allowed = self._count_below_limit(kind, key, client, len(client_items))
            outcomes["flood"] += len(client_items) - allowed
            accepted += client_items[:allowed]
        now = self.clock()
        timed: list[dict[str, Any]] = []
        for item in accepted:
            seconds = unix_seconds(item.get("timestamp"))
            if seconds is None or seconds > now + CLOCK_TOLERANCE:
                outcomes["clock"] += 1
                seconds = now
            timed.append({**item, "timestamp": iso_timestamp(seconds)})
        refused = self.log.add(kind, timed) if timed else 0
        self.quotas.record_usage(
            key, marks=len(timed) - refused, bytes=len(json.dumps(timed, ensure_ascii=False).encode())
        )
        outcomes.update(refused=refused, stored=len(timed) - refused)
        return +outcomes

    def _count_below_limit(self, kind: str, key: str | None, client: str, count: int) -> int:
        """Return how many new events or queries of a client may be stored without exceeding the limit per minute.

        The new events or queries are counted, so that they reduce the results of later calls.

        Args:
            kind: ``EVENTS`` or ``QUERIES``.
            key: The name of the API key. Each key has limits of its own, because any caller can send any client id.
            client: The client id.
            count: The number of new events or queries.
        """
        # A client id can be long, so its hash is stored.
        counted = (kind, key, digest(client), int(self.clock() // 60))
        with self._lock:
            before = self._counts.get(counted) or 0
            self._counts.put(counted, before + count)
        return max(0, min(count, MAX_ITEMS_PER_MINUTE - before))


def _rejection_reason(kind: str, item: Any) -> str:
    """Return the reason why an event or query cannot be stored, or "" if it is valid.

    Args:
        kind: ``EVENTS`` or ``QUERIES``.
        item: The event or query as JSON.

    Returns:
        ``malformed``, ``too_large`` or "".
    """
    if not isinstance(item, dict) or not id_as_text(item.get(_REQUIRED_FIELD[kind])):
        return "malformed"
    if id_as_text(item.get("application")).startswith(APPLICATION_PREFIX):
        return "malformed"  # only the service itself stores pages of trials
    try:
        size = len(json.dumps(item, ensure_ascii=False).encode())
    except UnicodeEncodeError:  # a lone surrogate, which no engine accepts
        return "malformed"
    return "too_large" if size > MAX_ITEM_BYTES else ""


@ubi.post("/ubi_events")
def events() -> dict[str, Any]:
    """Store user events, such as clicks on hits. The format is that of ubi.js (User Behavior Insights 1.3)."""
    return _store_request(EVENTS)


@ubi.post("/ubi_queries")
def queries() -> dict[str, Any]:
    """Store the queries of users, to which their events refer. The format is that of ubi.js (UBI 1.3)."""
    return _store_request(QUERIES)


def _store_request(kind: str) -> dict[str, Any]:
    collector: Collector = current_app.extensions["collector"]
    outcomes = collector.store(kind, read_items(), current_caller().name)
    for outcome, items in outcomes.items():
        count_ubi(f"{kind}_{outcome}", items)
    stored = outcomes.pop("stored", 0)
    outcomes.pop("clock", 0)
    return {"stored": stored, "dropped": dict(sorted(outcomes.items()))}
