"""A review: its judgements with their authors, the next documents to read, and its progress."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from resift.contracts.engine import Headers
from resift.errors import BadInput, NotFound
from resift.reviews.documents import ReviewDocuments
from resift.reviews.export import csv_table, qrels_lines, ris_records
from resift.reviews.log import Event, ReviewLog, size_in_bytes
from resift.reviews.stopping import TARGET, Progress, progress, relevant_interval
from resift.sessions.quotas import Quotas
from resift.sessions.sessions import SessionCaller

# Seconds without a judgement after which the documents that were assigned to a person are assigned to others.
LEASE_SECONDS = 30 * 60
MAX_LEASED = 100  # maximum number of documents that are assigned to a person
MAX_BATCH = 1000  # maximum number of documents in a batch
FORMATS = ("csv", "ris", "qrels")  # export formats
PERSON, MODEL = "mark", "model"  # sources of judgements
_WORD = re.compile(r"\w\w+")  # as scikit-learn splits the texts
_REVIEW_BYTES, _EVENT_BYTES = 10**6, 500  # estimated memory of a review without events, and of an event


class _Author(NamedTuple):
    """The person or model that judged documents, as far as a review can identify authors.

    Callers choose the names of authors freely, so the same name with another API key is another author.

    Attributes:
        name: The name of the person or model.
        source: PERSON or MODEL.
        key: The name of the API key that sent the judgements, or None for a request without a key.
    """

    name: str
    source: str
    key: str | None


class _UndoableJudgement(NamedTuple):
    """A judgement that its author can undo.

    Attributes:
        position: The number of the judgement in the review, counted from 0.
        document: The id of the document.
        earlier: The author's earlier decision on the document, or None.
    """

    position: int
    document: str
    earlier: Event | None


class _ControlSample(NamedTuple):
    """A random control sample of unread documents, which shows how many relevant documents are still unread.

    Attributes:
        documents: The ids of the documents in the sample.
        unread: The number of unread documents when the sample was drawn.
    """

    documents: frozenset[str]
    unread: int


class _State:
    """The state of a review, such as the judgements that count now, computed from the events in the review's log.

    A decision is the log event of a judgement. It contains the author (``by``), the time in Unix seconds (``at``), and
    whether the author is a person or a model (``source``). The number of the judgement is added (``position``). It
    determines which decision is the latest, because the clocks of processes may differ.

    Attributes:
        decisions: The decisions on each document id, by author. The latest decision is the last.
        labels: For persons and for models (PERSON, MODEL), whether each judged document is relevant according to the
            latest decision. The documents are in the order in which they were first judged.
        assigned: For each document that was assigned to a person and not judged yet, the person, and the time of the
            assignment in Unix seconds.
        last_judged: The time of each author's last judgement in Unix seconds.
        undone: The ids of the documents whose judgement was undone, latest first.
        samples: The random control samples, in the order in which they were drawn.
        history: The judgements of each author that are not undone, in order.
    """

    def __init__(self) -> None:
        self.decisions: dict[str, dict[_Author, Event]] = {}
        self.labels: dict[str, dict[str, bool]] = {PERSON: {}, MODEL: {}}
        self.assigned: dict[str, tuple[_Author, float]] = {}
        self.last_judged: dict[_Author, float] = {}
        self.undone: dict[str, None] = {}
        self.samples: list[_ControlSample] = []
        self.history: dict[_Author, list[_UndoableJudgement]] = {}
        self._judgements = 0

    def add(self, event: Event) -> None:
        """Update the state with the next event of the review's log, such as a judgement or an assignment."""
        author = _Author(event["by"], event.get("source", PERSON), event.get("key"))
        if event["kind"] == "judge":
            self._add_judgement(event, author)
        elif event["kind"] == "undo":
            judge = author._replace(key=event.get("judged_with", author.key))
            if self.history.get(judge):
                self._undo_last_judgement(judge, event["at"])
        elif event["kind"] == "give":
            self._assign(event, author)
        elif event["kind"] == "release":
            for document in event["documents"]:
                self.assigned.pop(document, None)

    def leases(self, now: float) -> dict[str, _Author]:
        """Return the person to whom each document is assigned at the moment, by document id.

        An assignment expires if the person judges no document for half an hour. Expired assignments are left out.

        Args:
            now: The current time in Unix seconds.
        """
        # abs(): a time far in the future comes from a clock that was wrong. Such an assignment must not last that long.
        return {
            document: author
            for document, (author, at) in self.assigned.items()
            if abs(now - max(at, self.last_judged.get(author, at))) < LEASE_SECONDS
        }

    def _add_judgement(self, event: Event, author: _Author) -> None:
        document = event["document"]
        decisions = {**self.decisions.get(document, {})}
        earlier = decisions.pop(author, None)
        decisions[author] = {**event, "position": self._judgements}  # the last decision is the latest
        self._set_decisions(document, decisions)
        self.history.setdefault(author, []).append(_UndoableJudgement(self._judgements, document, earlier))
        self._judgements += 1
        self.last_judged[author] = event["at"]
        if event["source"] == PERSON:  # a model's judgement does not end a person's assignment
            self.assigned.pop(document, None)
            self.undone.pop(document, None)

    def _undo_last_judgement(self, author: _Author, at: float) -> None:
        """Restore the author's earlier decision on the document that the author judged last.

        If no other person has judged the document, it is assigned to the author again.

        Args:
            author: The person or model. At least one judgement of this author is not undone.
            at: The time of the request to undo it, in Unix seconds.
        """
        _, document, earlier = self.history[author].pop()
        decisions = {**self.decisions[document]}
        if earlier is None:
            decisions.pop(author, None)
        else:
            decisions[author] = earlier
        self._set_decisions(document, dict(sorted(decisions.items(), key=lambda item: item[1]["position"])))
        if author.source == PERSON and document not in self.read:
            self.assigned[document] = (author, at)
            self.undone = {document: None, **self.undone}

    def _assign(self, event: Event, author: _Author) -> None:
        assigned = event["documents"][: event.get("leased")]
        self.assigned |= dict.fromkeys(assigned, (author, event["at"]))
        if event.get("sample"):
            self.samples.append(_ControlSample(frozenset(event["documents"]), event["unread"]))

    def _set_decisions(self, document: str, decisions: dict[_Author, Event]) -> None:
        """Replace the decisions on a document, and update its labels accordingly.

        Args:
            document: The id of the document.
            decisions: The decisions by author, the latest decision last.
        """
        self.decisions[document] = decisions
        for source, labels in self.labels.items():
            events = [event for event in decisions.values() if event["source"] == source]
            if events:
                labels[document] = bool(events[-1]["relevant"])
            else:
                labels.pop(document, None)

    @property
    def read(self) -> dict[str, bool]:
        """The documents that people have judged, in the order of reading, with True for relevant documents."""
        return self.labels[PERSON]

    @property
    def judged(self) -> dict[str, bool]:
        """All documents that people or models have judged, with True for relevant documents.

        A person's judgement overrides the judgement of a model.
        """
        return {**self.labels[MODEL], **self.read}


class Review:
    """A review: people read the documents of a set, and judge whether each document is relevant.

    Several people and processes may work on a review at the same time. Models can judge documents, too. Their
    judgements only improve the ranking: people must still read these documents, and the recall is estimated from the
    judgements of people.

    Args:
        log: The log of the review.
        documents: The documents to review.
        first_event: The event in the log that started the review, which contains the settings.
        clock: A function that returns the time in Unix seconds.
        caller: A function that returns the caller of the current request. The name of the caller's API key is stored
            with each event.
        quotas: Daily limits on the storage of each API key. By default there are no limits.
    """

    def __init__(
        self,
        log: ReviewLog,
        documents: ReviewDocuments,
        first_event: Event,
        clock: Callable[[], float] = time.time,
        caller: Callable[[], SessionCaller] = SessionCaller,
        quotas: Quotas | None = None,
    ) -> None:
        self.id = log.id
        self.documents = documents
        self.first_event = first_event
        self._log = log
        self._clock = clock
        self._caller = caller
        self._quotas = quotas or Quotas()
        self._lock = threading.RLock()
        self._state = _State()
        self._added = 0  # number of events in the state

    @property
    def memory_in_bytes(self) -> int:
        """The estimated number of bytes of memory that the review and its documents occupy."""
        return _REVIEW_BYTES + _EVENT_BYTES * self._added + self.documents.memory_in_bytes

    def state(self) -> _State:
        """Read the events that other processes have added to the log, and return the updated state of the review."""
        events = self._log.refresh()
        for event in events[self._added :]:
            self._state.add(event)
        self._added = len(events)
        return self._state

    def next(self, count: int | None = None, by: str = "", source: str = PERSON) -> list[str]:
        """Return the next documents to judge, and assign them to the person who will read them.

        The documents are ranked according to all judgements so far. Other people do not get an assigned document. The
        assignment ends when the person judges the document, releases it, or has not judged any document for half an
        hour. Documents that are already assigned to the person come first, starting with documents whose judgement the
        person has undone.

        At most 100 documents are assigned to a person. At most half of the unread documents, but at least 100, are
        assigned to all people who use the same API key. Further documents are returned without being assigned, so other
        people may get them, too.

        A model gets documents that neither people nor models have judged. They are not assigned to the model, because
        people must still read them.

        Args:
            count: The number of documents, 1 to 1000. Fewer are returned if fewer remain. The default is a tenth of the
                number of documents that were read, at least 10 and at most 100.
            by: The name of the person or model.
            source: PERSON or MODEL.

        Returns:
            The ids of the documents, most likely relevant first.

        Raises:
            BadInput: If ``count`` is out of range.

        Source: the default batch sizes follow AutoTAR (Cormack and Grossman 2015, "Autonomy and reliability of
        continuous active learning").
        """
        _check_count(1 if count is None else count)
        with self._lock:
            batch: list[str] = []

            def decide() -> list[Event]:
                state, person = self.state(), self._person(by)
                size = count or min(100, max(10, len(state.read) // 10))
                leases = state.leases(self._clock())
                own = {id for id, author in leases.items() if author == person} if source == PERSON else set()
                ranked = self.documents.ranked(state.judged, state.read if source == PERSON else state.judged)
                undone = sorted(self.documents.existing_ids(own & state.undone.keys()), key=[*state.undone].index)
                order = dict.fromkeys([*undone, *ranked])
                available = [id for id in order if id in own or id not in leases][: max(size, len(own))]
                batch[:] = sorted(available, key=lambda id: id not in own)[:size]
                new = [id for id in batch if id not in own][: self._free_leases(leases, person)]
                return [self._event("give", by, documents=new)] if new and source == PERSON else []

            self._append(decide, "bytes")
            return batch

    def sample(self, count: int, by: str = "") -> list[str]:
        """Draw random unread documents as a control sample, and assign them to a person.

        The judgements of the sample show how many relevant documents are still unread, without assumptions about the
        quality of the ranking (see :meth:`controls`). Documents that are assigned to a person are not drawn.

        Args:
            count: The number of documents, from 1 to 1000. Fewer are drawn if fewer are available.
            by: The name of the person.

        Returns:
            The ids of the documents.

        Raises:
            BadInput: If ``count`` is out of range.
        """
        _check_count(count)
        with self._lock:
            drawn: list[str] = []

            def decide() -> list[Event]:
                leases = self.state().leases(self._clock())
                drawn[:], unread = self.documents.draw(count, self.state().read.keys() | leases.keys())
                if not drawn:
                    return []
                room = self._free_leases(leases, self._person(by))
                return [self._event("give", by, documents=drawn, leased=room, sample=True, unread=unread)]

            self._append(decide, "bytes")
            return drawn

    def release(self, by: str = "") -> list[str]:
        """Release the unjudged documents that are assigned to a person, so that they can be assigned to other people.

        Callers can only release documents that were assigned with their own API key. Administrators can release all
        documents.

        Args:
            by: The name of the person.

        Returns:
            The ids of the released documents.
        """
        with self._lock:
            released: list[str] = []

            def decide() -> list[Event]:
                assigned = self.state().assigned.items()
                released[:] = [id for id, (author, _) in assigned if author.name == by and self._may_change(author)]
                return [self._event("release", by, documents=released)] if released else []

            self._append(decide)
            return released

    def judge(
        self, relevant: Iterable[str] = (), irrelevant: Iterable[str] = (), by: str = "", source: str = PERSON
    ) -> Progress:
        """Store relevance judgements, and return the progress of the review.

        The judgements replace earlier judgements of the same documents by the same person or model. If any id is
        invalid, nothing is stored.

        Args:
            relevant: The ids of relevant documents.
            irrelevant: The ids of irrelevant documents.
            by: The name of the person or model.
            source: PERSON or MODEL.

        Raises:
            BadInput: If there are no ids, or an id occurs twice.
            NotFound: If a document does not belong to the review.
        """
        judged = [(id, True) for id in relevant] + [(id, False) for id in irrelevant]
        ids = [id for id, _ in judged]
        if not ids or len(set(ids)) < len(ids):
            repeated = next((id for id in ids if ids.count(id) > 1), None)
            raise BadInput(
                "no document is judged" if repeated is None else f"document {repeated!r} is judged twice",
                value=repeated,
                expected="distinct document ids",
            )
        existing = self.documents.existing_ids(ids)
        for id in ids:
            if id not in existing:
                expected = "a document of the review"
                raise NotFound(f"no document {id!r} in review {self.id!r}", value=id, expected=expected)
        with self._lock:
            events = [self._event("judge", by, document=id, relevant=label, source=source) for id, label in judged]
            self._append(lambda: events, "marks", "bytes")
            return self.progress()

    def undo(self, by: str = "", source: str = PERSON) -> Progress:
        """Undo the last judgement of a person or model, and return the progress of the review.

        Only judgements with the caller's own API key can be undone, unless the caller is an administrator.

        Args:
            by: The name of the person or model.
            source: PERSON or MODEL.

        Raises:
            BadInput: If the person or model has no judgement to undo.
        """
        with self._lock:

            def decide() -> list[Event]:
                last = [
                    (changes[-1].position, author)
                    for author, changes in self.state().history.items()
                    if changes and author[:2] == (by, source) and self._may_change(author)
                ]
                if not last:
                    message = f"{by!r} has no judgement to undo"
                    raise BadInput(message, value=by, expected="a reader with a judgement that is not undone")
                _, author = max(last, key=lambda change: change[0])
                return [self._event("undo", by, source=source, judged_with=author.key)]

            self._append(decide)
            return self.progress()

    def progress(self, target: float | None = None) -> Progress:
        """Return the progress of the review: the number of judged documents, and an estimate of the recall.

        Only judgements of people count, not judgements of models. The result also says whether the recall has reached
        its target with a confidence of 95 %.

        Args:
            target: The target recall, above 0 and below 1. By default, the target in the settings of the review.
        """
        with self._lock:
            target = self.first_event.get("target", TARGET) if target is None else target
            read = self.state().read
            deleted = len(read.keys() - self.documents.existing_ids(read))  # they still count
            return progress(list(read.values()), max(len(read), self.documents.total + deleted), target)

    def found_at(self) -> list[int]:
        """Return the positions of the relevant documents among all documents that were read.

        Positions are counted from 1, in the order of reading. For example, ``[1, 3]`` means that the first and the
        third document were relevant.
        """
        with self._lock:
            return [place for place, relevant in enumerate(self.state().read.values(), 1) if relevant]

    def controls(self) -> list[dict[str, int]]:
        """Return the results of the random control samples that :meth:`sample` has drawn.

        Returns:
            A dictionary for each sample: the number of documents in the sample ("drawn"), how many of them were read
            ("read") and judged relevant ("relevant"), and the number of unread documents when the sample was drawn
            ("unread"). When all documents of the sample have been read, "least" and "most" are the limits of a 95 %
            confidence interval for the number of relevant documents among the unread documents.
        """
        with self._lock:
            state, results = self.state(), []
            for ids, unread in state.samples:
                labels = [state.read[id] for id in ids if id in state.read]
                result = {"drawn": len(ids), "read": len(labels), "relevant": sum(labels), "unread": unread}
                if len(labels) == len(ids):
                    result["least"], result["most"] = relevant_interval(len(ids), sum(labels), unread)
                results.append(result)
            return results

    def conflicts(self) -> dict[str, dict[str, bool]]:
        """Return the documents about which people disagree.

        Returns:
            For each document id, the latest judgement of each person by name, with True for relevant. If people with
            different API keys have the same name, the name of the key follows in brackets.
        """
        with self._lock:
            conflicts = {}
            for id, decisions in self.state().decisions.items():
                people = {author: event for author, event in decisions.items() if author.source == PERSON}
                names = Counter(author.name for author in people)
                votes = {
                    author.name if names[author.name] == 1 else f"{author.name} ({author.key})": event["relevant"]
                    for author, event in people.items()
                }
                if len(set(votes.values())) > 1:
                    conflicts[id] = votes
            return conflicts

    def judged_by_models(self) -> int:
        """Return the number of documents that only models have judged so far."""
        with self._lock:
            state = self.state()
            return len(state.judged) - len(state.read)

    def audit(self) -> list[Event]:
        """Return copies of all events in the review's log, in order, to document how the review was done."""
        with self._lock:
            return [dict(event) for event in self._log.refresh()]

    def export(self, format: str) -> str:
        """Return the judgements of the review as a text file.

        Args:
            format: "csv" for all judgements, "ris" for the relevant documents, or "qrels" for TREC's format of
                judgements.

        Raises:
            BadInput: If the format is unknown.
        """
        return "".join(self.export_parts(format))

    def export_parts(self, format: str, headers: Headers = None) -> Iterator[str]:
        """Yield the judgements of the review as a text file, in parts, so that the whole file need not fit into memory.

        The texts of the documents are read from the engine. Documents that do not exist any more, or that the caller
        may not read, have no text.

        Args:
            format: "csv" for all judgements, "ris" for the relevant documents, or "qrels" for TREC's format of
                judgements.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Raises:
            BadInput: If the format is unknown.
        """
        if format not in FORMATS:
            raise BadInput(f"{format!r} is not a format", value=format, expected=" | ".join(FORMATS))
        with self._lock:
            state = self.state()
            decisions = {id: list(decisions.values()) for id, decisions in state.decisions.items()}
            read = dict(state.read)
        if format == "qrels":
            return qrels_lines(self.id, read)
        if format == "ris":
            return ris_records(
                [id for id, relevant in read.items() if relevant], partial(self.documents.texts, headers=headers)
            )
        return csv_table(decisions, partial(self.documents.texts, headers=headers))

    def reasons(self, ids: Iterable[str], count: int = 8, headers: Headers = None) -> dict[str, list[str]]:
        """Return the words that contribute most to the rank of each document.

        Args:
            ids: The ids of the documents.
            count: The maximum number of words for each document.
            headers: The caller's HTTP headers. If they are given, words are left out if they do not occur in the text
                of the document that this caller may read.

        Returns:
            A mapping from document ids to words.
        """
        with self._lock:
            labels = self.state().judged
            words = {id: self.documents.reasons(id, labels, count) for id in ids}
        if not headers:
            return words
        texts = self.documents.texts([*words], headers)
        return {id: _occurring_words(texts.get(id, ""), candidates) for id, candidates in words.items()}

    def _append(self, decide: Callable[[], Sequence[Event]], *limits: str) -> None:
        """Append events to the review's log, unless the caller's API key has reached its daily limits.

        Args:
            decide: A function that returns the new events.
            limits: The limits to check: "marks" for the number of judgements, "bytes" for the stored bytes.
        """
        key = self._caller().name

        def checked() -> Sequence[Event]:
            events = decide()
            self._quotas.check(key, *(limits if events else ()))
            return events

        events = self._log.append(checked)
        marks = sum(event["kind"] == "judge" for event in events)
        self._quotas.record_usage(key, marks=marks, bytes=size_in_bytes(events) if events else 0)

    def _free_leases(self, leases: Mapping[str, _Author], person: _Author) -> int:
        """Return how many further documents may be assigned to a person without exceeding the limits of assignments.

        A document is assigned to a person for a limited time (a lease), so that no two people read the same document.
        The number of leases is limited for each person and for each API key.

        Args:
            leases: The current leases: the person to whom each document is assigned, by document id.
            person: The person, with the API key of the request.
        """
        unread = self.documents.total - len(self._state.read)
        by_person = sum(author == person for author in leases.values())
        by_key = sum(author.key == person.key for author in leases.values())
        return max(0, min(MAX_LEASED - by_person, max(MAX_LEASED, unread // 2) - by_key))

    def _person(self, name: str) -> _Author:
        return _Author(name, PERSON, self._caller().name)

    def _may_change(self, author: _Author) -> bool:
        return self._caller().may_use(author.key)

    def _event(self, kind: str, by: str, **more: Any) -> Event:
        return {"kind": kind, "by": by, "key": self._caller().name, "at": round(self._clock(), 3), **more}


def _occurring_words(text: str, words: Sequence[str]) -> list[str]:
    """Select the words, and pairs of adjacent words, that occur in a text.

    Args:
        text: The text.
        words: The words and pairs of words to look for, in lower case.
    """
    spaced = f" {' '.join(_WORD.findall(text.lower()))} "
    return [word for word in words if f" {word} " in spaced]


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_BATCH:
        raise BadInput(f"{count} documents", value=count, expected=f"1 to {MAX_BATCH}")
