"""The settings of the reranker, from the environment or given as arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from resift.contracts.query_dsl import MAX_WINDOW
from resift.errors import BadInput
from resift.plugin.connect import default_store
from resift.ranking.clicks import ACTIONS, read_actions
from resift.ranking.feedback import DEFAULT_METHOD, METHODS
from resift.reranker.access.hosts import host_of
from resift.reranker.search.cards import parse_page_fields
from resift.vectors.packaged import DEFAULT

LOGS = ("text", "json")
_ORIGIN = re.compile(r"https?://[^/,*@?#\s]+")


@dataclass(frozen=True)
class Config:
    """The settings of one application. Raises BadInput for a value outside of its range.

    Each is read from the variable RESIFT_<NAME>, lists separated by commas; ``engine`` also from OPENSEARCH_URL.

    ``engine``: an OpenSearch URL or the embedded engine's file. ``model``: a folder, or ``resift-en``.
    ``static_queries``: the folder of some, by which indices are searched together with the model. ``store``: where
    sessions are kept, an SQLite file or an OpenSearch URL, by default ``default_store`` of the engine, and
    ``session_index`` their index there. ``reranker``: the
    folder where a trained reranker is put into service. ``index``: what the search page starts with.

    ``window``: how many of the engine's first hits are scored anew; ``session_window``: the same in a session that has
    learned something, where it is more. ``alpha``: weight of the similarity against the engine's score, 0 to 1; None is
    the model's own. ``knn``: how many nearest documents may join the hits of a query text. ``feedback``: how a session
    learns, one of :data:`resift.ranking.feedback.METHODS`. ``session_hours``: how long an unused session lives.

    ``keys``: the file of API keys; ``api_key``: one key with all scopes. ``indices``: patterns of the indices that are
    served. ``hosts``: names by which the service may be reached besides this machine's own. ``cors``: origins of other
    sites whose pages may use the API.

    ``ubi_events``, ``ubi_queries``: the indices in which UBI's collectors keep what clients did; they are never
    searched for callers. ``ubi_actions``: what each action counts, as ACTION=GRADE; others count nothing.

    ``page_fields``: what the search page's cards show, as ROLE=FIELD (:mod:`resift.reranker.search.cards`); what is
    not said is guessed.

    ``max_text``: the longest text, in characters. ``max_body``: the largest request, in bytes; other limits are in
    :mod:`resift.reranker.limits`. ``deadline``: seconds that a request may take from its first byte to its answer.
    ``max_connections_per_address``: how many connections a process has from one address at a time.

    ``max_marks_per_day``, ``max_sessions_per_day``, ``max_bytes_per_day``: what each API key may store in a day, in
    each process; 0 is no bound.

    ``log``: ``text``, or ``json`` for a line of JSON for each request and whatever else is to be said.
    """

    engine: str = "resift.db"
    model: str = DEFAULT
    static_queries: str = ""
    store: str = ""
    session_index: str = "resift_sessions"
    reranker: str = "reranker"
    index: str = ""
    window: int = 100
    alpha: float | None = None
    knn: int = 0
    session_window: int = 400
    session_hours: float = 24.0
    feedback: str = DEFAULT_METHOD
    keys: str = "keys.jsonl"
    api_key: str = field(default="", repr=False)
    indices: tuple[str, ...] = ("*",)
    hosts: tuple[str, ...] = ()
    cors: tuple[str, ...] = ()
    ubi_events: str = "ubi_events"
    ubi_queries: str = "ubi_queries"
    ubi_actions: tuple[str, ...] = tuple(f"{action}={grade:g}" for action, grade in ACTIONS.items())
    max_text: int = 1_000_000
    page_fields: tuple[str, ...] = ()
    max_body: int = 8 * 2**20
    max_marks_per_day: int = 1_000_000
    max_sessions_per_day: int = 200_000
    max_bytes_per_day: int = 10**9
    deadline: float = 30.0
    max_connections_per_address: int = 700
    log: str = "text"

    def __post_init__(self) -> None:
        if not self.store:
            object.__setattr__(self, "store", default_store(self.engine))  # frozen, but this is still its making
        ranges = {"window": (1, MAX_WINDOW), "alpha": (0, 1), "knn": (0, MAX_WINDOW), "session_hours": (0.001, 1e6)}
        ranges.update(session_window=(1, MAX_WINDOW), max_text=(1, 10**9), max_body=(1, 2**31), deadline=(0.1, 3600))
        ranges.update(max_connections_per_address=(1, 10**6))
        ranges.update(dict.fromkeys(("max_marks_per_day", "max_sessions_per_day", "max_bytes_per_day"), (0, 10**15)))
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise BadInput(f"{name} is {value}", value=value, expected=f"{low} to {high}")
        if self.feedback not in METHODS:
            raise BadInput(f"feedback is {self.feedback!r}", value=self.feedback, expected=" | ".join(METHODS))
        if self.log not in LOGS:
            raise BadInput(f"log is {self.log!r}", value=self.log, expected=" | ".join(LOGS))
        read_actions(self.ubi_actions)
        parse_page_fields(self.page_fields)
        self._check_access()

    def _check_access(self) -> None:
        for pattern in self.indices or [""]:
            if not pattern or pattern.startswith("-"):
                expected = "names of indices, with * for anything"
                raise BadInput(f"indices has {pattern!r}", value=pattern, expected=expected)
        for host in self.hosts:
            if host_of(f"//{host}") != host:
                expected = "names of hosts in lower case, without a port"
                raise BadInput(f"hosts has {host!r}", value=host, expected=expected)
        for origin in self.cors:
            if not _ORIGIN.fullmatch(origin):
                expected = "origins such as https://shop.example, without a path"
                raise BadInput(f"cors has {origin!r}", value=origin, expected=expected)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Config:
        """Settings from RESIFT_* variables; empty ones count as not set. Raises BadInput for one that does not fit."""
        values = {}
        for setting in fields(cls):
            name = f"RESIFT_{setting.name.upper()}"
            value = environment.get(name) or (environment.get("OPENSEARCH_URL") if setting.name == "engine" else None)
            if value:
                values[setting.name] = _parsed(name, value, setting.default)
        return cls(**values)


def _parsed(name: str, value: str, default: Any) -> Any:
    """A variable's value, of its default's type; a default of None stands for a number, and a tuple for a list."""
    if isinstance(default, tuple):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    kind: type[Any] = float if default is None else type(default)
    try:
        return kind(value)
    except ValueError:
        raise BadInput(f"{name} is {value!r}", value=value, expected=f"a value of type {kind.__name__}") from None
