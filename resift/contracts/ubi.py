"""User Behavior Insights (UBI): queries and events in the format of UBI's schema 1.3, and the log that stores them.

In a cluster the log consists of the two ordinary indices ``ubi_events`` and ``ubi_queries``. The UBI plugin, Data
Prepper and other programs write to them as well. With the embedded engine the log is an SQLite file. Malformed
documents of other programs are ignored.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

END_OF_TIME = 1e11  # Unix seconds, in the year 5138
MAX_CLIENT_EVENTS = 200  # number of a client's events that are read: about ten searches with their impressions
EVENTS, QUERIES = KINDS = ("events", "queries")
UNITS_PER_SECOND = (1, 1000, 1_000_000)  # numeric timestamps are in seconds, milliseconds or microseconds
# The range of valid times in Unix seconds. The latest time in seconds, read as milliseconds, is the earliest time, so
# the unit of a number is unambiguous.
_EARLIEST_TIME, _LATEST_TIME = 1e8, END_OF_TIME
_NUMBER = re.compile(r"\d{10,17}(\.\d+)?")  # a shorter number may be a date such as 20241210
_OFFSET = re.compile(r"([+-]\d\d):?(\d\d)$")


@dataclass(frozen=True)
class UbiEvent:
    """A user's action in the event log (UBI, User Behavior Insights), for example a click on a hit.

    Missing values are "", or None for ``ordinal``.

    Attributes:
        action: The name of the action, such as "click".
        client: The id of the user's client (``client_id``).
        session: The id of the user's session (``session_id``).
        query_id: The id of the query that returned the object.
        object: The id of the object that was clicked, viewed or bought.
        object_field: The index field that contains the object's id, or "" for ``_id``.
        ordinal: The position of the object in the list of hits, counted from 0 or 1.
        at: The time in Unix seconds.
        text: The text of the query, if the event contains it.
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
        """Create an event from a document of the index ``ubi_events``.

        Only ``object_id`` identifies the object. The field ``internal_id`` is ignored, because it may contain Lucene's
        document number, which can change.

        Args:
            source: The ``_source`` of the document.

        Returns:
            The event, or None if the document has no action or no valid time.
        """
        attributes = _as_object(source.get("event_attributes"))
        target, position = _as_object(attributes.get("object")), _as_object(attributes.get("position"))
        action, at = id_as_text(source.get("action_name")), unix_seconds(source.get("timestamp"))
        if not action or at is None:
            return None
        field, ordinal = id_as_text(target.get("object_id_field")), position.get("ordinal")
        return cls(
            action=action,
            client=id_as_text(source.get("client_id")),
            session=id_as_text(source.get("session_id")),
            query_id=id_as_text(source.get("query_id")),
            object=id_as_text(target.get("object_id")),
            object_field="" if field == "_id" else field,
            ordinal=ordinal if _is_position(ordinal) else None,
            at=at,
            text=id_as_text(source.get("user_query")),
        )


def _is_position(ordinal: Any) -> bool:
    """Return whether a value of the log is a position in a list of hits, an integer from 0 to 2³¹ - 1."""
    return isinstance(ordinal, int) and not isinstance(ordinal, bool) and 0 <= ordinal < 2**31


@dataclass(frozen=True)
class UbiQuery:
    """A query in the log of user behaviour (UBI, User Behavior Insights).

    Attributes:
        text: The query as the user typed it.
        objects: The ids of the hits, in order. Empty if the log does not contain them. If a search does not set
            ``object_id_field``, OpenSearch's UBI plugin stores Lucene's document numbers here instead of ids.
    """

    text: str
    objects: tuple[str, ...] = ()

    @classmethod
    def read(cls, source: Mapping[str, Any]) -> UbiQuery:
        """Create a query from a document of the index ``ubi_queries``.

        Args:
            source: The ``_source`` of the document. Malformed values count as missing.
        """
        objects = source.get("query_response_hit_ids")
        return cls(
            id_as_text(source.get("user_query")), tuple(map(id_as_text, objects)) if isinstance(objects, list) else ()
        )


class UbiLog(ABC):
    """The interface of logs of user events and queries (UBI, User Behavior Insights).

    A log that does not exist yet counts as empty. All methods raise EngineUnavailable or EngineError if the engine does
    not answer or refuses the request.
    """

    @abstractmethod
    def add(self, kind: str, sources: Sequence[Mapping[str, Any]]) -> int:
        """Add events or queries to the log.

        Args:
            kind: ``EVENTS`` or ``QUERIES``.
            sources: The events or queries as JSON objects.

        Returns:
            The number of events or queries that the engine refused to store.
        """

    @abstractmethod
    def events(self, client: str, since: float, until: float) -> list[UbiEvent]:
        """Return the latest events of a user between two times, oldest first.

        The request times out after half a second, because a search waits for the events.

        Args:
            client: The client id or session id of the user.
            since: The earliest time in Unix seconds.
            until: The latest time in Unix seconds.

        Returns:
            At most MAX_CLIENT_EVENTS events.
        """

    @abstractmethod
    def queries(self, ids: Sequence[str]) -> dict[str, UbiQuery]:
        """Return logged queries, as a mapping from ids to queries. Unknown ids are left out.

        The request times out after half a second, because a search waits for the queries.

        Args:
            ids: The ids of the queries.
        """

    @abstractmethod
    def scan(self, since: float = 0.0, until: float = END_OF_TIME) -> Iterator[UbiEvent]:
        """Yield all events between two times, in no particular order.

        Args:
            since: The earliest time in Unix seconds.
            until: The latest time in Unix seconds.
        """

    @abstractmethod
    def application_queries(self, application: str, since: float, until: float) -> list[dict[str, Any]]:
        """Return the queries that an application has logged in a period.

        Args:
            application: The name of the application.
            since: The beginning of the period in Unix seconds.
            until: The end of the period in Unix seconds.

        Returns:
            The queries in no particular order, each as the JSON object that the application wrote to the log.
        """

    @abstractmethod
    def client_documents(self, client: str) -> dict[str, list[dict[str, Any]]]:
        """Return everything that the log contains about a user.

        Args:
            client: The client id, session id or user id of the user.

        Returns:
            A mapping from ``EVENTS`` and ``QUERIES`` to the stored JSON objects.
        """

    @abstractmethod
    def delete_client(self, client: str) -> int:
        """Delete all events and queries of a user from the log.

        Args:
            client: The client id, session id or user id of the user.

        Returns:
            The number of deleted events and queries.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""


def unix_seconds(value: Any) -> float | None:
    """Convert a timestamp to Unix seconds, or return None if ``value`` is not a timestamp.

    A timestamp is a number, or a text in ISO 8601 (in UTC, if the text has no UTC offset). A number can be in seconds,
    milliseconds or microseconds. The unit is recognised by the magnitude of the number, for times between the years
    1973 and 5138. Smaller numbers, such as milliseconds since a page was opened, are not timestamps.

    >>> [unix_seconds(value) for value in ("2024-12-10T00:01:29.378Z", 1733788889378, "1733788889", "today")]
    [1733788889.378, 1733788889.378, 1733788889.0, None]
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
        # Before Python 3.11, fromisoformat requires three or six digits of fractional seconds, and no Z.
        time = datetime.fromisoformat(re.sub(r"\.(\d{1,6})\d*", lambda digits: f".{digits[1]:0<6}", text))
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone.utc)
    return max(0.0, time.timestamp())


def iso_timestamp(seconds: float) -> str:
    """Format a time in Unix seconds as UBI requires: ISO 8601 in UTC, with milliseconds and a final Z."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _as_object(value: Any) -> Mapping[str, Any]:
    """Return a JSON value if it is an object, and otherwise an empty object."""
    return value if isinstance(value, Mapping) else {}


def id_as_text(value: Any) -> str:
    """Convert an id in the UBI log to a string. Other programs may write ids as strings or as integers.

    Args:
        value: A value from a UBI event or query.

    Returns:
        A string or integer as a string, or "" for a value of any other type.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    return str(value)
