"""A log of searches and clicks, and a sample of its clients, in one pass and as much memory as the sample takes."""

from __future__ import annotations

import csv
import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from resift.contracts.ubi import UbiEvent, UbiQuery, seconds_of
from resift.errors import BadInput
from resift.sessions.clicks import IMPRESSION, Actions, Object

MAX_EVENTS = 2_000  # of a client; who has more is taken for a robot and left out
_HELD = 200_000  # events that are held at a time, some 150 MB
COLUMNS = ("query", "shown", "clicked", "client", "time")


@dataclass
class Sample:
    """The events of some clients of a log: ``of_client``, all of those whose share of the hash's range is below
    ``share``. ``events`` were read in all, and ``robots`` left out for having more than MAX_EVENTS."""

    of_client: dict[str, list[UbiEvent]] = field(default_factory=dict)
    share: float = 1.0
    events: int = 0
    robots: int = 0

    @property
    def events_of_all(self) -> list[UbiEvent]:
        """The events of all clients of the sample."""
        return [event for events in self.of_client.values() for event in events]

    def objects(self, queries: Mapping[str, UbiQuery]) -> set[Object]:
        """What the events are about, and what their queries have found beside that."""
        events = self.events_of_all
        asked = {(event.query_id, event.object_field) for event in events if event.query_id in queries}
        found = {(name, field) for id, field in asked for name in queries[id].objects}
        return found | {(event.object, event.object_field) for event in events}


def sample_clients(events: Iterable[UbiEvent], actions: Actions, searches: int, seed: int = 0) -> Sample:
    """All events of randomly chosen clients, who have at most so many ``searches`` with a click together.

    ``events`` may come in any order. Clients are chosen by a hash of their ids, the lowest first (bottom-k sampling,
    Cohen and Kaplan 2007), so a client is in the sample with all its events or not at all. ``actions``: what counts,
    as in :func:`resift.sessions.clicks.click_grades`.
    """
    sample, held, clicked = Sample(), 0, 0
    of_client: dict[str, _Client] = {}
    highest: list[tuple[float, str]] = []
    for event in events:
        sample.events += 1
        name, grade = event.client or event.session, actions.get(event.action)
        if not name or not event.object or grade is None:
            continue
        place = _place(seed, name)
        if place >= sample.share:
            continue
        if name not in of_client:
            of_client[name] = _Client()
            heapq.heappush(highest, (-place, name))
        client = of_client[name]
        added = client.add(event, grade > 0)
        held, clicked = held + added[0], clicked + added[1]
        while clicked > searches or held > _HELD:
            negative, last = heapq.heappop(highest)
            sample.share, gone = -negative, of_client.pop(last)
            held, clicked = held - len(gone.events), clicked - len(gone.clicked)
    sample.robots = sum(client.is_robot for client in of_client.values())
    sample.of_client = {name: client.events for name, client in sorted(of_client.items()) if client.events}
    return sample


class _Client:
    """What one client did so far."""

    def __init__(self) -> None:
        self.events: list[UbiEvent] = []
        self.clicked: set[tuple[str, str]] = set()
        self.is_robot = False

    def add(self, event: UbiEvent, is_click: bool) -> tuple[int, int]:
        """By how many the events and the searches with a click change."""
        if self.is_robot:
            return 0, 0
        before = len(self.events), len(self.clicked)
        self.events.append(event)
        if is_click:
            self.clicked.add((event.query_id, event.text))
        if len(self.events) > MAX_EVENTS:
            self.is_robot, self.events, self.clicked = True, [], set()
        return len(self.events) - before[0], len(self.clicked) - before[1]


def _place(seed: int, client: str) -> float:
    digest = hashlib.blake2b(f"{seed}:{client}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def read_searches(path: str | Path, id_field: str = "") -> Iterator[UbiEvent]:
    """Events of a CSV file with the columns query, shown, clicked, client and time, whose rows are searches.

    ``shown`` holds the ids of the hits in their order and ``clicked`` those of them that were clicked, with blanks
    between them; ``time`` is what UBI takes for one. ``id_field``: the field of the index that has these ids, "" for
    ``_id``. Raises BadInput for a file that cannot be read, lacks a column, or has a row without a time.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
                raise BadInput(f"{path} has no column {missing[0]!r}", value=missing[0], expected=", ".join(COLUMNS))
            for number, row in enumerate(rows, 1):
                yield from _events_of(row, number, str(path), id_field)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: {error}", value=str(path), expected="a CSV file in UTF-8") from error


def _events_of(row: dict[str, str | None], number: int, path: str, id_field: str) -> Iterator[UbiEvent]:
    text, shown, clicked, client, time = ((row[name] or "") for name in COLUMNS)
    at = seconds_of(time)
    if at is None:
        raise BadInput(f"{path}, row {number}: time is {time!r}", value=time, expected="ISO 8601, or Unix time")
    places = dict[str, int]()
    for place, id in enumerate(shown.split(), 1):
        places.setdefault(id, place)
    for action, ids in ((IMPRESSION, list(places)), ("click", clicked.split())):
        for id in ids:
            yield UbiEvent(action, client, "", str(number), id, id_field, places.get(id), at, text)
