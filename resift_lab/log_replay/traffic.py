"""Read search logs, and draw random samples of their clients in a single pass with bounded memory."""

from __future__ import annotations

import csv
import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from resift.contracts.ubi import UbiEvent, UbiQuery, unix_seconds
from resift.errors import BadInput
from resift.ingest.rows import TABLES
from resift.sessions.clicks import IMPRESSION, Actions, Object

# Maximum number of events of a client. A client with more events is regarded as a robot and excluded.
MAX_EVENTS = 2_000
# Maximum number of events in memory, which take about 150 MB.
_MAX_EVENTS_IN_MEMORY = 200_000
# Columns of a CSV file of searches (see read_searches).
COLUMNS = ("query", "shown", "clicked", "client", "time")


@dataclass
class Sample:
    """A random sample of the clients in a click log.

    Attributes:
        events_by_client: The events of each client in the sample, by the id of the client.
        share: The share of the log's clients that are in the sample, 0 to 1.
        events: The number of events in the whole log.
        robots: The number of clients in the sample that were excluded because they have more than ``MAX_EVENTS``
            events.
    """

    events_by_client: dict[str, list[UbiEvent]] = field(default_factory=dict)
    share: float = 1.0
    events: int = 0
    robots: int = 0

    @property
    def all_events(self) -> list[UbiEvent]:
        """The events of all clients in the sample."""
        return [event for events in self.events_by_client.values() for event in events]

    def document_references(self, queries: Mapping[str, UbiQuery]) -> set[Object]:
        """Return the references to all documents of the sample: those of its events, and the hits that it shows.

        Args:
            queries: The queries of the log with their hits, by query id.
        """
        events = self.all_events
        searches = {(event.query_id, event.object_field) for event in events if event.query_id in queries}
        hits = {(name, field) for id, field in searches for name in queries[id].objects}
        return hits | {(event.object, event.object_field) for event in events}


def sample_clients(events: Iterable[UbiEvent], actions: Actions, searches: int, seed: int = 0) -> Sample:
    """Draw a random sample of clients from a click log.

    Either all events of a client are in the sample, or none of them. The clients with the smallest hashes of their ids
    are drawn.

    Args:
        events: The events of the log, in any order. They are read only once.
        actions: The relevance grade of a document after each kind of user action, such as a click. Events with other
            actions are ignored.
        searches: The maximum number of searches with a click in the sample.
        seed: The seed of the hash function, which determines the clients that are drawn.

    Source:
        Bottom-k sampling, Cohen and Kaplan 2007.
    """
    sample, in_memory, clicked = Sample(), 0, 0
    events_by_client: dict[str, _ClientEvents] = {}
    # A heap of the clients in the sample, with the highest hash first (negated, because heapq keeps the lowest first).
    highest: list[tuple[float, str]] = []
    for event in events:
        sample.events += 1
        name, grade = event.client or event.session, actions.get(event.action)
        if not name or not event.object or grade is None:
            continue
        hash_value = _client_hash(seed, name)
        if hash_value >= sample.share:
            continue
        if name not in events_by_client:
            events_by_client[name] = _ClientEvents()
            heapq.heappush(highest, (-hash_value, name))
        client = events_by_client[name]
        added_events, added_searches = client.add(event, grade > 0)
        in_memory += added_events
        clicked += added_searches
        while clicked > searches or in_memory > _MAX_EVENTS_IN_MEMORY:
            negative, last = heapq.heappop(highest)
            sample.share, removed = -negative, events_by_client.pop(last)
            in_memory -= len(removed.events)
            clicked -= len(removed.clicked)
    sample.robots = sum(client.is_robot for client in events_by_client.values())
    sample.events_by_client = {
        name: client.events for name, client in sorted(events_by_client.items()) if client.events
    }
    return sample


class _ClientEvents:
    """The events of a client that have been read from a click log so far.

    Attributes:
        events: The stored events.
        clicked: The searches in which the client clicked a document.
        is_robot: Whether the client has more than ``MAX_EVENTS`` events. The events of such a client are deleted.
    """

    def __init__(self) -> None:
        self.events: list[UbiEvent] = []
        self.clicked: set[tuple[str, str]] = set()
        self.is_robot = False

    def add(self, event: UbiEvent, is_click: bool) -> tuple[int, int]:
        """Add an event of the client.

        A client with more than ``MAX_EVENTS`` events is marked as a robot, and all of its events are deleted.

        Args:
            event: The event to add.
            is_click: Whether the event is a click.

        Returns:
            The change in the number of stored events, and the change in the number of searches with a click. Both are
            negative when the events are deleted.
        """
        if self.is_robot:
            return 0, 0
        before = len(self.events), len(self.clicked)
        self.events.append(event)
        if is_click:
            self.clicked.add((event.query_id, event.text))
        if len(self.events) > MAX_EVENTS:
            self.is_robot, self.events, self.clicked = True, [], set()
        return len(self.events) - before[0], len(self.clicked) - before[1]


def _client_hash(seed: int, client: str) -> float:
    """Map the id of a client to a pseudo-random number from 0 to 1, which is always the same for the same id and seed.

    Args:
        seed: The seed of the hash function.
        client: The id of the client.
    """
    digest = hashlib.blake2b(f"{seed}:{client}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def read_searches(path: str | Path, id_field: str = "") -> Iterator[UbiEvent]:
    """Read a CSV file of searches as events.

    Commas, semicolons, tabs or vertical bars may separate the columns. The most frequent one in the header is used.

    Each row is a search, with these columns:

    - ``query``: The text of the query.
    - ``shown``: The ids of the hits, best first, separated by spaces.
    - ``clicked``: The ids of the clicked hits, separated by spaces.
    - ``client``: The id of the client.
    - ``time``: The time, in any format that User Behavior Insights (UBI) allows.

    Args:
        path: The path of the file.
        id_field: The field of the index that contains the ids of the hits, or an empty string for ``_id``.

    Yields:
        An event for each hit that was shown, and an event for each click.

    Raises:
        BadInput: If the file cannot be read, a column is missing, or a time is invalid.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            rows = csv.DictReader(chain([header], file), delimiter=max(TABLES["csv"], key=header.count))
            if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
                raise BadInput(f"{path} has no column {missing[0]!r}", value=missing[0], expected=", ".join(COLUMNS))
            for number, row in enumerate(rows, 1):
                yield from _events_of(row, number, str(path), id_field)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {error}", value=str(path), expected="a CSV file in UTF-8") from error


def _events_of(row: dict[str, str | None], number: int, path: str, id_field: str) -> Iterator[UbiEvent]:
    text, shown, clicked, client, time = ((row[name] or "") for name in COLUMNS)
    at = unix_seconds(time)
    if at is None:
        raise BadInput(f"{path}, row {number}: the time is {time!r}", value=time, expected="ISO 8601, or Unix time")
    positions: dict[str, int] = {}
    for position, id in enumerate(shown.split(), 1):
        positions.setdefault(id, position)
    for action, ids in ((IMPRESSION, list(positions)), ("click", clicked.split())):
        for id in ids:
            yield UbiEvent(action, client, "", str(number), id, id_field, positions.get(id), at, text)
