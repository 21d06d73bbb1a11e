"""A review: its judgements with their authors, the next documents to read, and its progress."""

from __future__ import annotations

import csv
import io
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from resift.errors import BadInput, NotFound
from resift.reviews.log import Event, ReviewLog
from resift.reviews.ranking import DocumentSet
from resift.reviews.stopping import TARGET, Progress, progress, relevant_interval

LEASE_SECONDS = 8 * 3600  # how long a document that was assigned to a person is not assigned to others
MAX_BATCH = 1000  # maximum number of documents in a batch
FORMATS = ("csv", "ris", "qrels")  # export formats
PERSON, MODEL = "mark", "model"  # sources of judgements
_Author = tuple[str, str]  # the name of a person or model, and the source of their judgements


class _State:
    """The state of a review, computed from the events in its log.

    A decision is the log event of a judgement. It contains the author (``by``), the time in Unix seconds (``at``), and
    whether the author is a person or a model (``source``).

    Attributes:
        decisions: The decisions on each document id, by author. The latest decision is the last.
        labels: For persons and for models (PERSON, MODEL), whether each judged document is relevant according to the
            latest decision. The documents are in the order in which they were first judged.
        assigned: For each document that was assigned to a person and not judged yet, the name of the person, and the
            time of the assignment in Unix seconds.
        undone: The ids of the documents whose judgement was undone, latest first.
        samples: For each random control sample, the ids of its documents, and the number of unread documents when the
            sample was drawn.
        history: For each author, the ids of the documents that the author judged, in order. Each comes with the
            author's earlier decision on the document, or None, which :meth:`add` restores when a judgement is undone.
    """

    def __init__(self) -> None:
        self.decisions: dict[str, dict[_Author, Event]] = {}
        self.labels: dict[str, dict[str, bool]] = {PERSON: {}, MODEL: {}}
        self.assigned: dict[str, tuple[str, float]] = {}
        self.undone: dict[str, None] = {}
        self.samples: list[tuple[frozenset[str], int]] = []
        self.history: dict[_Author, list[tuple[str, Event | None]]] = {}

    def add(self, event: Event) -> None:
        """Update the state with the next event of the log."""
        author = (event["by"], event.get("source", PERSON))
        if event["kind"] == "judge":
            self._judge(event, author)
        elif event["kind"] == "undo" and self.history.get(author):
            self._undo(event, author)
        elif event["kind"] == "give":
            self.assigned |= dict.fromkeys(event["documents"], (event["by"], event["at"]))
            if event.get("sample"):
                self.samples.append((frozenset(event["documents"]), event["unread"]))

    def _judge(self, event: Event, author: _Author) -> None:
        document = event["document"]
        decisions = self.decisions.setdefault(document, {})
        self.history.setdefault(author, []).append((document, decisions.pop(author, None)))
        decisions[author] = event
        self._update_labels(document)
        if event["source"] == PERSON:  # a model's judgement does not end a person's assignment
            self.assigned.pop(document, None)
            self.undone.pop(document, None)

    def _undo(self, event: Event, author: _Author) -> None:
        document, earlier = self.history[author].pop()
        decisions = {**self.decisions[document]}
        if earlier is None:
            decisions.pop(author, None)
        else:
            decisions[author] = earlier
        self.decisions[document] = dict(sorted(decisions.items(), key=lambda item: item[1]["at"]))
        self._update_labels(document)
        if document not in self.read:
            self.assigned[document] = (event["by"], event["at"])
            self.undone = {document: None, **self.undone}

    def _update_labels(self, document: str) -> None:
        for source, labels in self.labels.items():
            decisions = [event for event in self.decisions[document].values() if event["source"] == source]
            if decisions:
                labels[document] = bool(decisions[-1]["relevant"])
            else:
                labels.pop(document, None)

    @property
    def read(self) -> dict[str, bool]:
        """The documents that people have judged, in the order of reading, with True for relevant documents."""
        return self.labels[PERSON]

    @property
    def known(self) -> dict[str, bool]:
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
    """

    def __init__(
        self, log: ReviewLog, documents: DocumentSet, first_event: Event, clock: Callable[[], float] = time.time
    ) -> None:
        self.id = log.id
        self.documents = documents
        self.first_event = first_event
        self._log = log
        self._clock = clock
        self._lock = threading.RLock()
        self._state = _State()
        self._added = 0  # number of events in the state
        self._missing: set[str] = set()  # judged documents that are not in the set (any more)

    def state(self) -> _State:
        """Read new events from the log, and return the updated state."""
        events = self._log.refresh()
        for event in events[self._added :]:
            self._state.add(event)
        judged = {event["document"] for event in events[self._added :] if event["kind"] == "judge"}
        self._missing |= judged - self.documents.existing(judged)
        self._added = len(events)
        return self._state

    def next(self, count: int | None = None, by: str = "", source: str = PERSON) -> list[str]:
        """Assign the next documents to a person or a model.

        The documents are ranked according to all judgements so far. For eight hours, a document that was assigned to a
        person is not assigned to other people. Documents that the person was assigned but has not judged yet come
        first, starting with documents whose judgement the person has undone.

        A model gets documents that neither people nor models have judged. These documents remain available to people.

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
                state, now = self.state(), self._clock()
                size = count or min(100, max(10, len(state.read) // 10))
                leased = {id for id, (_, at) in state.assigned.items() if now - at < LEASE_SECONDS}
                own = {id for id in leased if state.assigned[id][0] == by} if source == PERSON else set()
                ranked = self.documents.ranked(state.known, state.read if source == PERSON else state.known)
                undone = sorted(self.documents.existing(own & state.undone.keys()), key=[*state.undone].index)
                order = dict.fromkeys([*undone, *ranked])
                available = [id for id in order if id in own or id not in leased][: max(size, len(own))]
                batch[:] = sorted(available, key=lambda id: id not in own)[:size]
                new = [id for id in batch if id not in own]
                return [self._event("give", by, documents=new)] if new and source == PERSON else []

            self._log.append(decide)
            return batch

    def sample(self, count: int, by: str = "") -> list[str]:
        """Draw random unread documents as a control sample, and assign them to a person.

        The judgements of the sample show how many relevant documents are still unread, without assumptions about the
        quality of the ranking (see :meth:`controls`).

        Args:
            count: The number of documents, from 1 to 1000. Fewer are drawn if fewer are unread.
            by: The name of the person.

        Returns:
            The ids of the documents.

        Raises:
            BadInput: ``count`` is out of range.
        """
        _check_count(count)
        with self._lock:
            drawn: list[str] = []

            def decide() -> list[Event]:
                drawn[:], unread = self.documents.draw(count, self.state().read)
                if not drawn:
                    return []
                return [self._event("give", by, documents=drawn, sample=True, unread=unread)]

            self._log.append(decide)
            return drawn

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
            BadInput: There are no ids, or an id occurs twice.
            NotFound: A document does not belong to the review.
        """
        judged = [(id, True) for id in relevant] + [(id, False) for id in irrelevant]
        ids = [id for id, _ in judged]
        if not ids or len(set(ids)) < len(ids):
            repeated = next((id for id in ids if ids.count(id) > 1), None)
            raise BadInput(
                "no document is judged" if repeated is None else f"document {repeated!r} is judged twice",
                value=repeated,
                expected="different ids of documents",
            )
        existing = self.documents.existing(ids)
        for id in ids:
            if id not in existing:
                expected = "a document of the review"
                raise NotFound(f"no document {id!r} in review {self.id!r}", value=id, expected=expected)
        with self._lock:
            events = [self._event("judge", by, document=id, relevant=label, source=source) for id, label in judged]
            self._log.append(lambda: events)
            return self.progress()

    def undo(self, by: str = "") -> Progress:
        """Undo the last judgement of a person, and return the progress of the review.

        Args:
            by: The name of the person.

        Raises:
            BadInput: The person has no judgement to undo.
        """
        with self._lock:

            def decide() -> list[Event]:
                if not self.state().history.get((by, PERSON)):
                    message = f"{by!r} has no judgement to undo"
                    raise BadInput(message, value=by, expected="a person with a judgement that is not undone")
                return [self._event("undo", by)]

            self._log.append(decide)
            return self.progress()

    def progress(self, target: float | None = None) -> Progress:
        """Return the progress of the review towards a target recall, according to the judgements of people.

        See :func:`resift.reviews.stopping.progress`.

        Args:
            target: The target recall. By default, the target in the settings of the review.
        """
        with self._lock:
            target = self.first_event.get("target", TARGET) if target is None else target
            read = self.state().read
            total = self.documents.total + sum(id in read for id in self._missing)
            return progress(list(read.values()), total, target)

    def found_at(self) -> list[int]:
        """Return the positions of the relevant documents in the order of reading, counted from 1."""
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
            For each document id, the latest judgement of each person by name, with True for relevant.
        """
        with self._lock:
            conflicts = {}
            for id, decisions in self.state().decisions.items():
                votes = {event["by"]: event["relevant"] for event in decisions.values() if event["source"] == PERSON}
                if len(set(votes.values())) > 1:
                    conflicts[id] = votes
            return conflicts

    def judged_by_models(self) -> int:
        """Return the number of documents that only models have judged so far."""
        with self._lock:
            state = self.state()
            return len(state.known) - len(state.read)

    def audit(self) -> list[Event]:
        """Return copies of all events in the log, in order."""
        with self._lock:
            return [dict(event) for event in self._log.refresh()]

    def export(self, format: str, may_read: Callable[[list[str]], Collection[str]] = set) -> str:
        """Return the judgements of the review as a text file.

        Args:
            format: "csv" for all judgements, "ris" for the relevant documents, or "qrels" for TREC's format of
                judgements.
            may_read: A function that takes document ids and returns the ids of the documents that the caller may read.
                The texts of other documents are left out.

        Raises:
            BadInput: The format is unknown.
        """
        if format not in FORMATS:
            raise BadInput(f"{format!r} is not a format", value=format, expected=" | ".join(FORMATS))
        with self._lock:
            state = self.state()
            if format == "qrels":
                return "".join(f"{self.id} 0 {id} {int(relevant)}\n" for id, relevant in state.read.items())
            texts = {id: self.documents.text(id) for id in may_read(list(state.decisions))}
            if format == "ris":
                return "".join(_ris(id, texts.get(id, "")) for id, relevant in state.read.items() if relevant)
            file = io.StringIO()
            rows = csv.writer(file)
            rows.writerow(["document", "relevant", "by", "at", "source", "text"])
            for id in state.decisions:
                for event in state.decisions[id].values():
                    text = _cell(texts.get(id, ""))
                    rows.writerow((id, int(event["relevant"]), _cell(event["by"]), event["at"], event["source"], text))
            return file.getvalue()

    def reasons(self, ids: Iterable[str], count: int = 8) -> dict[str, list[str]]:
        """Return the words that contribute most to the rank of each document.

        Args:
            ids: The ids of the documents.
            count: The maximum number of words for each document.

        Returns:
            A mapping from document ids to words.
        """
        with self._lock:
            labels = self.state().known
            return {id: self.documents.reasons(id, labels, count) for id in ids}

    def _event(self, kind: str, by: str, **more: Any) -> Event:
        return {"kind": kind, "by": by, "at": round(self._clock(), 3), **more}


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_BATCH:
        raise BadInput(f"{count} documents", value=count, expected=f"1 to {MAX_BATCH}")


def _cell(value: Any) -> Any:
    """Escape a value for a CSV file, so that spreadsheets do not interpret it as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _ris(id: str, text: str) -> str:
    """Format a document as a RIS record for reference managers.

    Args:
        id: The id of the document.
        text: The text of the document. The first line becomes the title, and the other lines become the abstract.
    """
    title, _, abstract = text.partition("\n")
    lines = ["TY  - GEN", f"ID  - {id}", f"TI  - {' '.join(title.split())}", f"AB  - {' '.join(abstract.split())}"]
    return "\n".join([*lines, "ER  - ", ""]) + "\n"
