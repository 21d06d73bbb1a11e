"""A log, replayed: where would the next clicked document have stood with the session, and where without?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from resift.contracts.ubi import MAX_CLIENT_EVENTS, UbiEvent, UbiQuery
from resift.feedback.judgements import Judgement
from resift.sessions.clicks import IMPRESSION, Actions, Object, graded_objects, judgements_from
from resift.sessions.sessions import MAX_JUDGEMENTS, effective_judgements

Ranking = Sequence[str]  # ids of documents, best first
# What a query text finds: without a session, and in one that made these judgements.
Rank = Callable[[str, Sequence[Judgement]], tuple[Ranking, Ranking]]


@dataclass(frozen=True)
class Observation:
    """A clicked document: its rank without and with the session, from 1, None for one that is not among the hits.

    ``position`` is where it stood when it was clicked, None if the log does not say; ``earlier``: how many documents
    the client had clicked before this search.
    """

    client: str
    position: int | None
    earlier: int
    without: int | None
    with_session: int | None


@dataclass
class Skipped:
    """Clicks that were not replayed, and why."""

    first: int = 0  # of searches without an earlier click, where there is no session
    again: int = 0  # on documents that had been clicked before
    unknown: int = 0  # on what is no document of the index, or of a query whose text is not known


@dataclass(frozen=True)
class _Search:
    """One search of a client, from its first event on."""

    at: float
    text: str
    events: Sequence[UbiEvent]


@dataclass(frozen=True)
class Log:
    """What is needed to replay a sample of clients: the log's ``queries`` by id, the ``documents`` of an ``index`` by
    the objects of events, what each of the ``actions`` counts, and for how many ``seconds`` an event does."""

    index: str
    queries: Mapping[str, UbiQuery]
    documents: Mapping[Object, str]
    actions: Actions
    seconds: float


def replay(client: str, events: Sequence[UbiEvent], log: Log, rank: Rank, skipped: Skipped) -> Iterator[Observation]:
    """The clicks of one client that had a session before them, each ranked without and with it.

    ``events`` are in the order of their times. At each search the session is what the service would make of the
    client's events before it. ``skipped`` counts what is left out.
    """
    for search in _searches(events, log):
        clicked = _clicked(search, log, skipped)
        past = [event for event in events if search.at - log.seconds <= event.at < search.at]
        judged = _judgements(past[-MAX_CLIENT_EVENTS:], log)
        # one that was passed over is looked for: a session that sinks it may be wrong
        before = {one.document for one in judged if one.grade > 0}
        targets = {id: place for id, place in clicked.items() if id not in before}
        skipped.again += len(clicked) - len(targets)
        if not search.text:
            skipped.unknown += len(targets)
        elif not before:
            skipped.first += len(targets)
        if not targets or not before or not search.text:
            continue
        without, moved = (_places(ranking) for ranking in rank(search.text, judged))
        for id, place in targets.items():
            yield Observation(client, place, len(before), without.get(id), moved.get(id))


def _searches(events: Sequence[UbiEvent], log: Log) -> list[_Search]:
    """A client's searches by time."""
    of_search: dict[tuple[str, str], list[UbiEvent]] = {}
    for event in events:
        of_search.setdefault((event.query_id, event.text if not event.query_id else ""), []).append(event)
    searches = []
    for (id, _), made in of_search.items():
        text = log.queries[id].text if id in log.queries else next((one.text for one in made if one.text), "")
        searches.append(_Search(min(one.at for one in made), text, made))
    return sorted(searches, key=lambda search: search.at)


def _clicked(search: _Search, log: Log, skipped: Skipped) -> dict[str, int | None]:
    """The documents that were clicked, and where they stood, from 1, if that is known."""
    # the specification says "nth", and its own sample counts from 0
    first, clicked = 0 if any(one.ordinal == 0 for one in search.events) else 1, dict[str, int | None]()
    for event in search.events:
        if event.action == IMPRESSION or log.actions[event.action] <= 0:
            continue
        id = log.documents.get((event.object, event.object_field))
        if id is None:
            skipped.unknown += 1
        elif clicked.get(id) is None:
            clicked[id] = None if event.ordinal is None else event.ordinal - first + 1
    return clicked


def _judgements(past: Sequence[UbiEvent], log: Log) -> list[Judgement]:
    """What the service would know of these events, as :class:`resift.sessions.clicks.Clicks` has it."""
    known = [event for event in past if event.query_id in log.queries or event.text]
    judged = judgements_from(graded_objects(known, log.queries, log.actions), log.documents, log.index)
    return effective_judgements(sorted(judged, key=lambda one: one.at)[-MAX_JUDGEMENTS:])


def _places(ranking: Ranking) -> dict[str, int]:
    return {id: place for place, id in reversed(list(enumerate(ranking, 1)))}
