"""Replay of a click log: the rank of each clicked document in a search with a session, and in a search without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from resift.contracts.ubi import MAX_CLIENT_EVENTS, UbiEvent, UbiQuery
from resift.feedback.judgements import Judgement
from resift.sessions.clicks import IMPRESSION, Actions, Object, graded_objects, judgements_from
from resift.sessions.sessions import MAX_JUDGEMENTS, effective_judgements

# Ids of documents, best first.
Ranking = Sequence[str]
# A function that searches for a query text, and returns the ranking without a session and the ranking in a session with
# these judgements.
Rank = Callable[[str, Sequence[Judgement]], tuple[Ranking, Ranking]]


@dataclass(frozen=True)
class Observation:
    """The ranks of a clicked document without and with the client's session.

    Attributes:
        client: The id of the client.
        position: The position at which the document was clicked, from 1; None if the log does not contain it.
        earlier: The number of documents that the client had clicked before this search.
        without: The rank without a session, from 1; None if the document is not among the hits.
        with_session: The rank in the session, from 1; None if the document is not among the hits.
    """

    client: str
    position: int | None
    earlier: int
    without: int | None
    with_session: int | None


@dataclass
class Skipped:
    """The numbers of clicks that were not replayed, by reason.

    Attributes:
        first: Clicks in searches without an earlier click, so that there is no session.
        again: Clicks on documents that the client had clicked before.
        unknown: Clicks on objects that are not documents of the index, or after queries with an unknown text.
    """

    first: int = 0
    again: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class _LoggedSearch:
    """A search of a client.

    Attributes:
        at: The time of its first event, in seconds.
        text: The text of the query; empty if it is unknown.
        events: The events of the search.
    """

    at: float
    text: str
    events: Sequence[UbiEvent]


@dataclass(frozen=True)
class Log:
    """The parts of a log that a replay needs besides the events of clients.

    Attributes:
        index: The name of the index.
        queries: The queries of the log, by id.
        documents: The ids of documents, by the objects of events.
        actions: The grade of each action.
        seconds: The time for which an event counts in a session.
    """

    index: str
    queries: Mapping[str, UbiQuery]
    documents: Mapping[Object, str]
    actions: Actions
    seconds: float


def replay(client: str, events: Sequence[UbiEvent], log: Log, rank: Rank, skipped: Skipped) -> Iterator[Observation]:
    """Replay the searches of a client who had already clicked documents.

    At each search, the session contains the judgements that the service would derive from the client's earlier events.

    Args:
        client: The id of the client.
        events: The events of the client, in the order of time.
        log: The queries, documents and settings.
        rank: The function that searches.
        skipped: Counts the clicks that are not replayed.

    Yields:
        The ranks of each clicked document without and with the session.
    """
    for search in _searches(events, log):
        clicked = _clicked(search, log, skipped)
        past = [event for event in events if search.at - log.seconds <= event.at < search.at]
        judged = _judgements(past[-MAX_CLIENT_EVENTS:], log)
        # Documents that were shown without a click (negative grades) are targets too, because a session that moves them
        # down may be wrong.
        before = {judgement.document for judgement in judged if judgement.grade > 0}
        targets = {id: position for id, position in clicked.items() if id not in before}
        skipped.again += len(clicked) - len(targets)
        if not search.text:
            skipped.unknown += len(targets)
        elif not before:
            skipped.first += len(targets)
        if not targets or not before or not search.text:
            continue
        without, with_session = (_ranks(ranking) for ranking in rank(search.text, judged))
        for id, position in targets.items():
            yield Observation(
                client=client,
                position=position,
                earlier=len(before),
                without=without.get(id),
                with_session=with_session.get(id),
            )


def _searches(events: Sequence[UbiEvent], log: Log) -> list[_LoggedSearch]:
    """Group the events of a client by search, and return the searches in the order of time.

    Events belong to the same search if they have the same query id or, without an id, the same query text.
    """
    events_of: dict[tuple[str, str], list[UbiEvent]] = {}
    for event in events:
        events_of.setdefault((event.query_id, event.text if not event.query_id else ""), []).append(event)
    searches = []
    for (id, _), search_events in events_of.items():
        if id in log.queries:
            text = log.queries[id].text
        else:
            text = next((event.text for event in search_events if event.text), "")
        searches.append(_LoggedSearch(at=min(event.at for event in search_events), text=text, events=search_events))
    return sorted(searches, key=lambda search: search.at)


def _clicked(search: _LoggedSearch, log: Log, skipped: Skipped) -> dict[str, int | None]:
    """Return the clicked documents of a search, with their positions from 1, or None for unknown positions."""
    # UBI's specification does not say whether ordinals start at 0 or 1 ("nth"), and its own sample starts at 0.
    first = 0 if any(event.ordinal == 0 for event in search.events) else 1
    clicked: dict[str, int | None] = {}
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
    """Return the judgements that the service would derive from events (see :class:`resift.sessions.clicks.Clicks`)."""
    known = [event for event in past if event.query_id in log.queries or event.text]
    judged = judgements_from(graded_objects(known, log.queries, log.actions), log.documents, log.index)
    return effective_judgements(sorted(judged, key=lambda judgement: judgement.at)[-MAX_JUDGEMENTS:])


def _ranks(ranking: Ranking) -> dict[str, int]:
    """Return the first rank of each document, from 1."""
    return {id: rank for rank, id in reversed(list(enumerate(ranking, 1)))}
