"""User Behavior Insights: queries and events as UBI's schema 1.3 has them, and the log that holds them.

The log is two plain indices of a cluster, ``ubi_events`` and ``ubi_queries``, which the UBI plugin, Data Prepper and
others write into as well; beside the embedded engine it is a table of an SQLite file. What others wrote need not be
well formed: what is not, is left out here.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

END_OF_TIME = 1e11  # Unix seconds, in the year 5138
MAX_CLIENT_EVENTS = 200  # events of a client that are read: some ten searches with their impressions
EVENTS, QUERIES = KINDS = ("events", "queries")
UNITS_PER_SECOND = (1, 1000, 1_000_000)  # that a time as a number may count, in a second
_EARLIEST_TIME, _LATEST_TIME = 1e8, END_OF_TIME  # Unix seconds; the latest one is as milliseconds the earliest one
_NUMBER = re.compile(r"\d{10,17}(\.\d+)?")  # of fewer digits it may be a date: 20241210
_OFFSET = re.compile(r"([+-]\d\d):?(\d\d)$")


@dataclass(frozen=True)
class UbiEvent:
    """What somebody did: the ``action``, the object it was done to, and the query that had found it.

    ``client`` and ``session`` are the ids under which the caller knows itself, ``object`` is the object's id in the
    index's field ``object_field``, "" for ``_id``. ``ordinal`` is the place in the list, and ``at`` the time in Unix
    seconds.
    ``text`` is the query's, where the event says it. What an event does not say is "", or None for ``ordinal``.
    """

    action: str
    client: str
    session: str
    query_id: str
    object: str
    object_field: str
    ordinal: int | None
    at: float
    text: str

    @classmethod
    def read(cls, source: Mapping[str, Any]) -> UbiEvent | None:
        """The event of a document of ``ubi_events``; None for one without an action, or without a time.

        Only ``object_id`` names an object: ``internal_id`` may be Lucene's number of a document, which changes.
        """
        attributes = _object(source.get("event_attributes"))
        found, position = _object(attributes.get("object")), _object(attributes.get("position"))
        action, at = text_of(source.get("action_name")), seconds_of(source.get("timestamp"))
        if not action or at is None:
            return None
        field, ordinal = text_of(found.get("object_id_field")), position.get("ordinal")
        return cls(
            action=action,
            client=text_of(source.get("client_id")),
            session=text_of(source.get("session_id")),
            query_id=text_of(source.get("query_id")),
            object=text_of(found.get("object_id")),
            object_field="" if field == "_id" else field,
            ordinal=ordinal if isinstance(ordinal, int) and not isinstance(ordinal, bool) else None,
            at=at,
            text=text_of(source.get("user_query")),
        )


@dataclass(frozen=True)
class UbiQuery:
    """A query: its ``text`` as it was typed, and the objects that it found, in their order, if that was kept.

    Without an ``object_id_field`` the UBI plugin keeps Lucene's numbers of documents as ``objects``.
    """

    text: str
    objects: tuple[str, ...] = ()

    @classmethod
    def read(cls, source: Mapping[str, Any]) -> UbiQuery:
        """The query of a document of ``ubi_queries``."""
        objects = source.get("query_response_hit_ids")
        return cls(text_of(source.get("user_query")), tuple(map(text_of, objects)) if isinstance(objects, list) else ())


class UbiLog(ABC):
    """Events and queries. Every method raises what the engine raises where it does not answer, or refuses.

    To read from a log that does not exist is to find nothing.
    """

    @abstractmethod
    def add(self, kind: str, sources: Sequence[Mapping[str, Any]]) -> int:
        """Add documents to the log of a kind, one of KINDS; return how many were refused."""

    @abstractmethod
    def events(self, client: str, since: float, until: float) -> list[UbiEvent]:
        """Return the latest events of a client or a session between two times, oldest first.

        A search waits for this call, so it raises EngineUnavailable after half a second.
        """

    @abstractmethod
    def queries(self, ids: Sequence[str]) -> dict[str, UbiQuery]:
        """Queries by their ids; those that are not known are left out. It does not wait either."""

    @abstractmethod
    def scan(self, since: float = 0.0, until: float = END_OF_TIME) -> Iterator[UbiEvent]:
        """All events between two times (Unix seconds), in no particular order."""

    @abstractmethod
    def application_queries(self, application: str, since: float, until: float) -> list[dict[str, Any]]:
        """The queries of an application between two times, as they were added, in no particular order."""

    @abstractmethod
    def client_documents(self, client: str) -> dict[str, list[dict[str, Any]]]:
        """By kind, all documents of whoever has this client id, session id or user id, as they were added."""

    @abstractmethod
    def delete_client(self, client: str) -> int:
        """Delete the same documents; return how many there were."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""


def seconds_of(value: Any) -> float | None:
    """A timestamp in Unix seconds: ISO 8601, without an offset in UTC, or a number; None for others.

    A number's size says whether it counts seconds, milliseconds or microseconds, as none of them is of before 1973
    or after 5138. A smaller one, such as of the milliseconds since a page was opened, is no time.

    >>> seconds_of("2024-12-10T00:01:29.378Z"), seconds_of(1733788889378), seconds_of("1733788889"), seconds_of("today")
    (1733788889.378, 1733788889.378, 1733788889.0, None)
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        unit = next((unit for unit in UNITS_PER_SECOND if _EARLIEST_TIME <= value < unit * _LATEST_TIME), None)
        return None if unit is None else value / unit
    if not isinstance(value, str):
        return None
    text = _OFFSET.sub(r"\1:\2", value.strip().removesuffix("Z"))
    try:
        # Python before 3.11 wants three or six digits of a second, and no Z
        found = datetime.fromisoformat(re.sub(r"\.(\d{1,6})\d*", lambda digits: f".{digits[1]:0<6}", text))
    except ValueError:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=timezone.utc)
    return max(0.0, found.timestamp())


def timestamp_of(seconds: float) -> str:
    """Unix seconds as UBI writes a time: strict, to the millisecond, with Z."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def text_of(value: Any) -> str:
    """A string, or a whole number as one, as ids may be; "" for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    return str(value)
