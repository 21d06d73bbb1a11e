"""A review: who judged what, what is to be read next, and how far it is."""

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

LEASE_SECONDS = 8 * 3600  # seconds for which a document that was given to somebody is given to nobody else
MAX_BATCH = 1000
FORMATS = ("csv", "ris", "qrels")
PERSON, MODEL = "mark", "model"


class _State:
    """What the events of a review come to; :meth:`add` takes the next one.

    A decision is the event that somebody (``by``) judged a document, and when (``at``, Unix seconds); ``source``: a
    person's mark, or a model's judgement. ``labels``: whether each document that persons, or models, judged is
    relevant, as the last of them says, in the order in which they were first judged.
    """

    def __init__(self) -> None:
        # by document, then by whom, and whether by a model of that name; the last one last
        self.decisions: dict[str, dict[tuple[str, str], Event]] = {}
        self.labels: dict[str, dict[str, bool]] = {PERSON: {}, MODEL: {}}
        self.given: dict[str, tuple[str, float]] = {}
        self.undone: dict[str, None] = {}  # documents that wait for another judgement, the last one first
        self.samples: list[tuple[frozenset[str], int]] = []
        self.done: dict[tuple[str, str], list[tuple[str, Event | None]]] = {}  # what each can take back

    def add(self, event: Event) -> None:
        """Let another event count. Not all are gone through again for one: there may be a hundred thousand."""
        by = (event["by"], event.get("source", PERSON))
        if event["kind"] == "judge":
            document = event["document"]
            held = self.decisions.setdefault(document, {})
            self.done.setdefault(by, []).append((document, held.pop(by, None)))
            held[by] = event
            self._count(document)
            if event["source"] == PERSON:  # a model takes nothing out of a person's hands
                self.given.pop(document, None)
                self.undone.pop(document, None)
        elif event["kind"] == "undo" and self.done.get(by):
            document, earlier = self.done[by].pop()
            left = {**self.decisions[document], by: earlier or event}
            held = {who: one for who, one in sorted(left.items(), key=lambda item: item[1]["at"]) if one is not event}
            self.decisions[document] = held
            self._count(document)
            if document not in self.read:
                self.given[document] = (event["by"], event["at"])
                self.undone = {document: None, **self.undone}
        elif event["kind"] == "give":
            self.given |= dict.fromkeys(event["documents"], (event["by"], event["at"]))
            if event.get("sample"):
                self.samples.append((frozenset(event["documents"]), event["unread"]))

    def _count(self, document: str) -> None:
        for source, labels in self.labels.items():
            held = [one for one in self.decisions[document].values() if one["source"] == source]
            if held:
                labels[document] = bool(held[-1]["relevant"])
            else:
                labels.pop(document, None)

    @property
    def read(self) -> dict[str, bool]:
        """Whether each document that persons judged is relevant, in the order of reading."""
        return self.labels[PERSON]

    @property
    def known(self) -> dict[str, bool]:
        """Whether each judged document is relevant: by persons, else by models."""
        return {**self.labels[MODEL], **self.read}


class Review:
    """A review of a set of ``documents``, by the events of its ``log``; several people and processes may share it.

    What models judged helps to rank, and nothing more: their documents are still to be read by a person, and count for
    no recall. ``first_event`` is the event that began it.
    """

    def __init__(
        self, log: ReviewLog, documents: DocumentSet, first_event: Event, clock: Callable[[], float] = time.time
    ) -> None:
        self.id, self.documents, self.first_event = log.id, documents, first_event
        self._log, self._clock = log, clock
        self._lock = threading.RLock()
        self._state, self._added = _State(), 0  # of how many events
        self._gone: set[str] = set()  # judged, and not among the documents (any more)

    def state(self) -> _State:
        """What the log says now."""
        events = self._log.refresh()
        for event in events[self._added :]:
            self._state.add(event)
        judged = {event["document"] for event in events[self._added :] if event["kind"] == "judge"}
        self._gone |= judged - self.documents.existing(judged)
        self._added = len(events)
        return self._state

    def next(self, count: int | None = None, by: str = "", source: str = PERSON) -> list[str]:
        """The ids of the next ``count`` documents for somebody, likeliest first; fewer where fewer are left.

        By default they are a tenth of those read, from 10 to 100, as the batches of AutoTAR grow (Cormack and Grossman
        2015, "Autonomy and reliability of continuous active learning"). They are ranked by all that was judged. What
        was given to somebody is given to nobody else for eight hours, and first again to the same, what was undone
        before all. A model (``source``) is given what neither persons nor models judged, and keeps nothing from people.
        Raises BadInput for a count that is not from 1 to 1000.
        """
        _check_count(1 if count is None else count)
        with self._lock:
            found: list[str] = []

            def decide() -> list[Event]:
                state, now = self.state(), self._clock()
                wanted = count or min(100, max(10, len(state.read) // 10))
                held = {id for id, (_, at) in state.given.items() if now - at < LEASE_SECONDS}
                mine = {id for id in held if state.given[id][0] == by} if source == PERSON else set()
                ranked = self.documents.ranked(state.known, state.read if source == PERSON else state.known)
                undone = sorted(self.documents.existing(mine & state.undone.keys()), key=[*state.undone].index)
                order = dict.fromkeys([*undone, *ranked])
                free = [id for id in order if id in mine or id not in held][: max(wanted, len(mine))]
                found[:] = sorted(free, key=lambda id: id not in mine)[:wanted]
                new = [id for id in found if id not in mine]
                return [self._event("give", by, documents=new)] if new and source == PERSON else []

            self._log.append(decide)
            return found

    def sample(self, count: int, by: str = "") -> list[str]:
        """Give somebody ``count`` documents at random of those that no person has read: a control of how many are
        missed, which assumes nothing of the ranking. Raises BadInput as :meth:`next`."""
        _check_count(count)
        with self._lock:
            drawn: list[str] = []

            def decide() -> list[Event]:
                drawn[:], unread = self.documents.draw(count, self.state().read)
                more = {"documents": drawn, "sample": True, "unread": unread}
                return [self._event("give", by, **more)] if drawn else []

            self._log.append(decide)
            return drawn

    def judge(
        self, relevant: Iterable[str] = (), irrelevant: Iterable[str] = (), by: str = "", source: str = PERSON
    ) -> Progress:
        """Judge documents, each of which counts at once; what somebody judged before is replaced.

        Raises BadInput if nothing is judged or something twice, and NotFound for a document that is not in the set;
        nothing is noted then.
        """
        judged = [(id, True) for id in relevant] + [(id, False) for id in irrelevant]
        ids = [id for id, _ in judged]
        if not ids or len(set(ids)) < len(ids):
            twice = next((id for id in ids if ids.count(id) > 1), None)
            raise BadInput(
                "nothing is judged" if twice is None else f"document {twice!r} is judged twice",
                value=twice,
                expected="ids of documents, each once",
            )
        there = self.documents.existing(ids)
        for id in ids:
            if id not in there:
                raise NotFound(f"no document {id!r} in review {self.id!r}", value=id, expected="one of its documents")
        with self._lock:
            events = [self._event("judge", by, document=id, relevant=fits, source=source) for id, fits in judged]
            self._log.append(lambda: events)
            return self.progress()

    def undo(self, by: str = "") -> Progress:
        """Take somebody's last judgement back. Raises BadInput if there is none."""
        with self._lock:

            def decide() -> list[Event]:
                if not self.state().done.get((by, PERSON)):
                    raise BadInput(f"{by!r} has no judgement left", value=by, expected="somebody who judged")
                return [self._event("undo", by)]

            self._log.append(decide)
            return self.progress()

    def progress(self, target: float | None = None) -> Progress:
        """How far the review is from its own or another ``target``, by persons' judgements alone; see
        :func:`resift.reviews.stopping.progress`."""
        with self._lock:
            target = self.first_event.get("target", TARGET) if target is None else target
            read = self.state().read
            total = self.documents.total + sum(id in read for id in self._gone)
            return progress(list(read.values()), total, target)

    def found_at(self) -> list[int]:
        """Of each relevant document found, how many had been read by then, itself included."""
        with self._lock:
            return [place for place, relevant in enumerate(self.state().read.values(), 1) if relevant]

    def controls(self) -> list[dict[str, int]]:
        """Of each control sample: how many were drawn, read and relevant, and how many of the documents that were
        unread then are relevant, at least and at most, once all of it was read."""
        with self._lock:
            state, found = self.state(), []
            for ids, unread in state.samples:
                labels = [state.read[id] for id in ids if id in state.read]
                one = {"drawn": len(ids), "read": len(labels), "relevant": sum(labels), "unread": unread}
                if len(labels) == len(ids):
                    one["least"], one["most"] = relevant_interval(len(ids), sum(labels), unread)
                found.append(one)
            return found

    def conflicts(self) -> dict[str, dict[str, bool]]:
        """Documents that persons judged differently: whether relevant, by whom. The last of them counts."""
        with self._lock:
            several = {id: held.values() for id, held in self.state().decisions.items() if len(held) > 1}
        said = {id: {one["by"]: one["relevant"] for one in several[id] if one["source"] == PERSON} for id in several}
        return {id: votes for id, votes in said.items() if len(set(votes.values())) > 1}

    def judged_by_models(self) -> int:
        """How many documents models have judged and no person has."""
        with self._lock:
            state = self.state()
            return len(state.known) - len(state.read)

    def audit(self) -> list[Event]:
        """All that happened, in order."""
        with self._lock:
            return [dict(event) for event in self._log.refresh()]

    def export(self, format: str, may_read: Callable[[list[str]], Collection[str]] = set) -> str:
        """Every judged document in a ``format``: csv with all decisions, ris of the relevant ones, or qrels (TREC's).

        Of all judged documents' ids, texts are told of those that ``may_read`` gives back. Raises BadInput for another
        format.
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
                for one in state.decisions[id].values():
                    text = _cell(texts.get(id, ""))
                    rows.writerow((id, int(one["relevant"]), _cell(one["by"]), one["at"], one["source"], text))
            return file.getvalue()

    def reasons(self, ids: Iterable[str], count: int = 8) -> dict[str, list[str]]:
        """The words of each of some documents that speak most for it, by all that was judged."""
        with self._lock:
            labels = self.state().known
            return {id: self.documents.reasons(id, labels, count) for id in ids}

    def _event(self, kind: str, by: str, **more: Any) -> Event:
        return {"kind": kind, "by": by, "at": round(self._clock(), 3), **more}


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_BATCH:
        raise BadInput(f"{count} documents", value=count, expected=f"1 to {MAX_BATCH}")


def _cell(value: Any) -> Any:
    """A cell that a spreadsheet does not take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _ris(id: str, text: str) -> str:
    """A document as a record of RIS: its first line is the title, the others the abstract."""
    title, _, abstract = text.partition("\n")
    lines = ["TY  - GEN", f"ID  - {id}", f"TI  - {' '.join(title.split())}", f"AB  - {' '.join(abstract.split())}"]
    return "\n".join([*lines, "ER  - ", ""]) + "\n"
