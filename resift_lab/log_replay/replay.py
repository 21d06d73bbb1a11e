"""Replay of a click log: the rank of each clicked document in a search with a session, and in a search without."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from resift.contracts.ubi import MAX_CLIENT_EVENTS, UbiEvent, UbiQuery
from resift.feedback.judgements import Judgement
from resift.sessions.clicks import IMPRESSION, Actions, Object, grade_clicked_objects, judgements_from_grades
from resift.sessions.sessions import MAX_JUDGEMENTS, effective_judgements

# Ids of documents, best first.
Ranking = Sequence[str]
# Pause in seconds after which a client's next event for the same query text belongs to a new search, if the log has no
# query ids. Half an hour is also the usual limit of a visit in web analytics.
_PAUSE = 1800.0
# A function that searches for a query text, and returns the ranking without a session and the ranking in a session with
# these judgements.
Rank = Callable[[str, Sequence[Judgement]], tuple[Ranking, Ranking]]


@dataclass(frozen=True)
class Observation:
    """The ranks of a clicked document when its search is repeated, first without and then with the client's session.

    Attributes:
        client: The id of the client.
        position: The 1-based position at which the document was shown and clicked, or None if the log does not contain
            the position.
        earlier: The number of documents that the client had clicked before this search.
        without: The 1-based rank without a session among the hits that the client had not clicked before, or None if
            the document is not among the hits.
        with_session: The same rank in the session.
    """

    client: str
    position: int | None
    earlier: int
    without: int | None
    with_session: int | None


@dataclass
class SkippedClicks:
    """Counters of clicks that were not replayed, by reason.

    Attributes:
        first: Clicks of clients who had not clicked any document before the search, so that there is no session.
        again: Clicks on documents that the client had already clicked in an earlier search.
        unknown: Clicks on objects that are not documents of the index, or in searches whose query text is unknown.
    """

    first: int = 0
    again: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class _LoggedSearch:
    """A search of a client, as recorded in a click log.

    Attributes:
        at: The time of the search's first event, in seconds since 1970 (Unix time).
        text: The text of the query, or an empty string if the text is unknown.
        events: The events of the search: impressions (documents that were shown), clicks and other actions.
    """

    at: float
    text: str
    events: Sequence[UbiEvent]


@dataclass(frozen=True)
class ReplayLog:
    """The data and settings that are needed to replay the events of clients.

    Attributes:
        index: The name of the index.
        queries: The queries of the log, by query id.
        documents: The id of the document in the index, by the reference that an event uses for the document.
        actions: The grade that each action, such as a click, gives to a document.
        seconds: How long an event counts in a session, in seconds.
    """

    index: str
    queries: Mapping[str, UbiQuery]
    documents: Mapping[Object, str]
    actions: Actions
    seconds: float


def replay(
    client: str, events: Sequence[UbiEvent], log: ReplayLog, rank: Rank, skipped: SkippedClicks
) -> Iterator[Observation]:
    """Repeat the logged searches of a client without and with a session.

    The session of a search contains the judgements that the service would derive from the client's earlier events.
    Searches before the client's first click are skipped.

    Args:
        client: The id of the client.
        events: The events of the client, in chronological order.
        log: The queries and documents of the log, and the settings of the replay.
        rank: The function that searches without and with the session.
        skipped: The counters of clicks that are not replayed. They are incremented in place.

    Yields:
        The ranks of each clicked document without and with the session.
    """
    for search in _group_by_search(events, log):
        clicked = _clicked_documents(search, log, skipped)
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
        # A session moves the documents that the client clicked before to the top. If they took part in the ranking,
        # each of them would move all new documents down by one rank.
        without, with_session = (_ranks(ranking, omit=before) for ranking in rank(search.text, judged))
        for id, position in targets.items():
            yield Observation(
                client=client,
                position=position,
                earlier=len(before),
                without=without.get(id),
                with_session=with_session.get(id),
            )


@dataclass
class _Repetition:
    """A run of a search, which a client may repeat with the same query text.

    Attributes:
        events: The events of the search, in chronological order.
        shown: The objects that were shown.
        has_action: Whether the client acted on a hit, for example clicked it.
    """

    events: list[UbiEvent] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)
    has_action: bool = False

    def add(self, event: UbiEvent) -> None:
        """Add the next event of the search."""
        self.events.append(event)
        if event.action == IMPRESSION:
            self.shown.add(event.object)
        else:
            self.has_action = True

    def ends_before(self, event: UbiEvent) -> bool:
        """Return whether an event without a query id belongs to a repetition of the search.

        A search is repeated if there are no events for half an hour, or if a document is shown again after the client
        acted on a hit.

        Args:
            event: The next event of the client with the same query text. The search has at least one event.
        """
        if event.at - self.events[-1].at > _PAUSE:
            return True
        return event.action == IMPRESSION and self.has_action and event.object in self.shown


def _group_by_search(events: Sequence[UbiEvent], log: ReplayLog) -> list[_LoggedSearch]:
    """Group the events of a client by search.

    Events belong to the same search if they have the same query id. Events without a query id belong to the same search
    if they have the same query text, and the search is not repeated between them (see
    :meth:`_Repetition.ends_before`).

    Args:
        events: The events of the client, in chronological order.
        log: The log, which contains the texts of queries.

    Returns:
        The searches, in chronological order.
    """
    repetitions_of: dict[tuple[str, str], list[_Repetition]] = {}
    for event in events:
        repetitions = repetitions_of.setdefault((event.query_id, event.text if not event.query_id else ""), [])
        if not repetitions or (not event.query_id and repetitions[-1].ends_before(event)):
            repetitions.append(_Repetition())
        repetitions[-1].add(event)
    searches = []
    grouped = [(id, repetition.events) for (id, _), repetitions in repetitions_of.items() for repetition in repetitions]
    for id, search_events in grouped:
        if id in log.queries:
            text = log.queries[id].text
        else:
            text = next((event.text for event in search_events if event.text), "")
        searches.append(_LoggedSearch(at=min(event.at for event in search_events), text=text, events=search_events))
    return sorted(searches, key=lambda search: search.at)


def _clicked_documents(search: _LoggedSearch, log: ReplayLog, skipped: SkippedClicks) -> dict[str, int | None]:
    """Return the documents that a client clicked in a search.

    Args:
        search: The search and its events.
        log: The log, which contains the ids of documents.
        skipped: The counters of clicks that cannot be replayed. Clicks on objects that are not documents of the index
            are added to ``skipped.unknown``.

    Returns:
        The 1-based position of each clicked document, by document id. The position is None if the log does not contain
        it.
    """
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


def _judgements(past: Sequence[UbiEvent], log: ReplayLog) -> list[Judgement]:
    """Return the relevance judgements that the service would derive from earlier events of a client.

    Args:
        past: The client's earlier events, in chronological order.
        log: The queries, documents and settings of the log.
    """
    known = [event for event in past if event.query_id in log.queries or event.text]
    judged = judgements_from_grades(grade_clicked_objects(known, log.queries, log.actions), log.documents, log.index)
    return effective_judgements(sorted(judged, key=lambda judgement: judgement.at)[-MAX_JUDGEMENTS:])


def _ranks(ranking: Ranking, omit: Collection[str]) -> dict[str, int]:
    """Return the 1-based rank of each document in a ranking, by document id.

    If a document occurs twice, the better rank counts.

    Args:
        ranking: The ids of the hits, best first.
        omit: The ids of documents that take no rank.
    """
    remaining = [id for id in ranking if id not in omit]
    return {id: rank for rank, id in reversed(list(enumerate(remaining, 1)))}
