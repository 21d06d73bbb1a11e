"""The collector of UBI: ``POST /ubi_events`` and ``/ubi_queries``, as ``ubi.js`` sends them.

Whoever sends an event is told of what is wrong with the request, and never of what is wrong with an event: it comes
from a page that can do nothing about it. Such events are counted and dropped.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from flask import Blueprint, current_app

from resift.cache import TtlCache
from resift.contracts.ubi import EVENTS, QUERIES, UbiLog, seconds_of, text_of, timestamp_of
from resift.reranker.access.requests import count_ubi, current_caller
from resift.reranker.api import json_items
from resift.sessions.clicks import CLOCK_TOLERANCE
from resift.sessions.quotas import Quotas

MAX_ITEMS = 1000  # of a request; the first ones count
MAX_ITEM = 16_384  # bytes of one as JSON
MAX_A_MINUTE = 600  # of one client, of each kind and in each worker
_CLIENTS = 20_000
_REQUIRED = {EVENTS: "action_name", QUERIES: "query_id"}

ubi = Blueprint("ubi", __name__)


class Collector:
    """Takes events and queries into UBI's ``log``. ``clock`` gives Unix seconds. May be used from several threads."""

    def __init__(self, log: UbiLog, quotas: Quotas, clock: Callable[[], float] = time.time) -> None:
        self.log, self.quotas, self.clock = log, quotas, clock
        self._counts: TtlCache[int] = TtlCache(_CLIENTS, 60.0, clock)

    def take(self, kind: str, items: Sequence[Any], key: str | None = None) -> Counter[str]:
        """Store what is in order; return how many items had what outcome. Raises QuotaExceeded: to an API key's quota
        they are marks.

        ``stored``, or dropped for being ``malformed``, ``too_large``, beyond MAX_ITEMS (``too_many``) or MAX_A_MINUTE
        (``flood``), or ``refused`` by the engine. ``clock`` counts those of the stored whose time is in the future, no
        time, or none at all: they get the present one.
        """
        self.quotas.check(key, "marks", "bytes")
        outcomes: Counter[str] = Counter(too_many=max(0, len(items) - MAX_ITEMS))
        of_client: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for item in items[:MAX_ITEMS]:
            fault = _fault(kind, item)
            if fault:
                outcomes[fault] += 1
            else:
                of_client[str(item.get("client_id") or item.get("session_id") or "")].append(item)
        kept = []
        for client, sent in of_client.items():
            allowed = self._allowed(kind, client, len(sent))
            outcomes["flood"] += len(sent) - allowed
            kept += sent[:allowed]
        now = self.clock()
        times = [seconds_of(item.get("timestamp")) for item in kept]
        right = [at is not None and at <= now + CLOCK_TOLERANCE for at in times]
        timed = [
            {**item, "timestamp": timestamp_of(at if is_right and at is not None else now)}
            for item, at, is_right in zip(kept, times, right, strict=True)
        ]
        outcomes["clock"] = right.count(False)
        refused = self.log.add(kind, timed) if timed else 0
        self.quotas.count(key, marks=len(timed) - refused, bytes=len(json.dumps(timed, ensure_ascii=False).encode()))
        outcomes.update(refused=refused, stored=len(timed) - refused)
        return +outcomes

    def _allowed(self, kind: str, client: str, wanted: int) -> int:
        """How many of the items that a client sends are taken."""
        key = (kind, client, int(self.clock() // 60))
        before = self._counts.get(key) or 0
        self._counts.put(key, before + wanted)
        return max(0, min(wanted, MAX_A_MINUTE - before))


def _fault(kind: str, item: Any) -> str:
    if not isinstance(item, dict) or not text_of(item.get(_REQUIRED[kind])):
        return "malformed"
    try:
        size = len(json.dumps(item, ensure_ascii=False).encode())
    except UnicodeEncodeError:  # half of a pair of surrogates, which no engine takes
        return "malformed"
    return "too_large" if size > MAX_ITEM else ""


@ubi.post("/ubi_events")
def events() -> dict[str, Any]:
    """Take what clients did with hits, as ubi.js sends it (UBI 1.3)."""
    return _taken(EVENTS)


@ubi.post("/ubi_queries")
def queries() -> dict[str, Any]:
    """Take what clients asked for, as ubi.js sends it (UBI 1.3)."""
    return _taken(QUERIES)


def _taken(kind: str) -> dict[str, Any]:
    collector: Collector = current_app.extensions["collector"]
    outcomes = collector.take(kind, json_items(), current_caller().name)
    for outcome, items in outcomes.items():
        count_ubi(f"{kind}_{outcome}", items)
    stored = outcomes.pop("stored", 0)
    outcomes.pop("clock", 0)
    return {"stored": stored, "dropped": dict(sorted(outcomes.items()))}
