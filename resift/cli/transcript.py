"""What marking hits does to the demonstration's questions: rankings before and after, and how many questions gain.

Passages, questions and judgements are people's own, from MTRAG (IBM, Apache-2.0); products are made up by
``benchmarks/make_products.py``. ``resift/data/demo/NOTICE`` says more.

Questions are chosen by a rule: those of which a person finds some relevant hit among the first six, and of which there
are others to be found. Of these the one that gains most is shown whole, and the one that loses most with its ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from resift.ingest.readers import Files, Record
from resift.library import Hit, Index

_READ, _COUNTED = 6, 10
_TITLE, _LINE = 36, 100
_RANKINGS = ("BM25 alone", "with vectors", "in the session")


@dataclass(frozen=True)
class Demo:
    """What is shown: the ``index``, the files of its documents and questions, and the ``fields`` that are searched.

    ``judged`` says who judged, and ``asked`` how a question came about, with braces for what is known of that.
    """

    index: str
    documents: str
    questions: str
    fields: tuple[str, ...]
    judged: str
    asked: str


PASSAGES = Demo(
    "resift-demo",
    "corpus.jsonl.gz",
    "questions.jsonl.gz",
    ("title", "text"),
    "people judged the passage relevant to this very question (MTRAG)",
    'in a conversation that began "{}"',
)
PRODUCTS = Demo(
    "resift-shop",
    "products.jsonl.gz",
    "product-questions.jsonl.gz",
    ("title", "description"),
    "the product was made up to be what this person wants",
    "by somebody who wants one {}",
)
FIELDS, QUESTION = PASSAGES.fields, "How much is the filing fee?"


@dataclass(frozen=True)
class Question:
    """A question, how it came about (how its conversation began, or what is wanted), and what is relevant, by id."""

    text: str
    opening: str
    relevant: frozenset[str]


def corpus_file(demo: Demo = PASSAGES) -> str:
    """The path of the packaged documents, JSON lines with ``_id`` and fields."""
    return _path(demo.documents)


def load_questions(demo: Demo = PASSAGES) -> list[Question]:
    """All packaged questions, one conversation after another, each in the order in which it was held."""
    questions, opening, conversation = [], "", None
    for record in Files([_path(demo.questions)]):
        assert isinstance(record, Record)
        turn = record.source
        if turn["conversation"] != conversation:
            conversation, opening = turn["conversation"], turn.get("wants", turn["text"])
        relevant = frozenset(document for document, mark in turn["marks"].items() if mark > 0)
        questions.append(Question(turn["text"], opening, relevant))
    return questions


def _path(name: str) -> str:
    return str(files("resift") / "data" / "demo" / name)


@dataclass
class Rankings:
    """The first hits of a question by BM25 alone, with vectors, and in a session that marked the relevant ones among
    the first that a person reads; ``learned``: what the session learned of these."""

    question: Question
    hits: tuple[Sequence[Hit], ...]
    marked: Sequence[Hit]
    learned: dict[str, Any]

    @classmethod
    def ask(cls, index: Index, question: Question, session: str) -> Rankings | None:
        """Search, mark and search again; None if there is nothing to mark, or nothing relevant left to be found."""
        size, asker = _READ + _COUNTED, index.session(session)  # ten are left without those that are marked
        first = asker.search(question.text, size)
        marked = [hit for hit in first[:_READ] if hit.id in question.relevant]
        if not marked or len(marked) == len(question.relevant):
            return None
        learned = asker.mark(relevant=marked, explain=True)["learned"]
        plain = index.search(question.text, size, alpha=0.0)
        return cls(question, (plain, first, asker.search(question.text, size)), marked, learned)

    @property
    def unread(self) -> list[list[Hit]]:
        """The same without the marked hits: these rise, but their reader knows them already."""
        known = {hit.id for hit in self.marked}
        return [[hit for hit in hits if hit.id not in known] for hits in self.hits]

    @property
    def ranks(self) -> list[list[int]]:
        """The ranks of the relevant hits among the first ten that are left."""
        relevant = self.question.relevant
        return [[rank for rank, hit in enumerate(hits[:_COUNTED], 1) if hit.id in relevant] for hits in self.unread]

    @property
    def gain(self) -> float:
        """By how much the session raises them: the sum of 1 / rank, after less before."""
        _, before, after = (sum(1 / rank for rank in ranks) for ranks in self.ranks)
        return after - before


def play(index: Index, demo: Demo, say: Callable[[str], Any]) -> list[str]:
    """Say what marks do to the questions; those that gain most, the first three of them, for the page."""
    # what is printed shall not depend on when the index's words have been read
    index.library.service.words.enabled = False
    asked = (Rankings.ask(index, one, f"demo-{number}") for number, one in enumerate(load_questions(demo)))
    found = sorted(filter(None, asked), key=lambda rankings: -rankings.gain)
    best, worst = found[0], found[-1]
    say(f"✓: {demo.judged}")
    _show(
        f'"{best.question.text}", {demo.asked.format(best.question.opening)}', best.hits[1], best.question.relevant, say
    )
    say(f"\n  a person marks these as relevant: {' '.join(str(best.hits[1].index(hit) + 1) for hit in best.marked)}")
    say(f"  the session now leans towards: {', '.join(best.learned.get('towards', []))}")
    _show("the same search in this session, without the marked hits", best.unread[2], best.question.relevant, say)
    for one, how in ((best, "gains most"), (worst, "loses most" if worst.gain < 0 else "gains least")):
        say(f'\nthe question that {how}: "{_cut(one.question.text, _TITLE)}"')
        say(f"ranks of the ✓ among the first {_COUNTED} hits, the marked ones left out")
        for name, ranks in zip(_RANKINGS, one.ranks, strict=True):
            say(f"  {name:<15} {' '.join(map(str, ranks)) or 'none'}")
    _count(found, say)
    return list(dict.fromkeys(one.question.text for one in found))[:3]


def _count(found: Sequence[Rankings], say: Callable[[str], Any]) -> None:
    """Say how the same goes for all questions, so that nobody has to trust one example."""
    say(f"\nthe number of ✓ among these ten, on average over {len(found)} questions with a ✓ to mark and one to find")
    for name, column in zip(_RANKINGS, zip(*(one.ranks for one in found), strict=True), strict=True):
        say(f"  {name:<15} {sum(map(len, column)) / len(column):.1f}")
    gains, losses = (sum(one.gain * sign > 0 for one in found) for sign in (1, -1))
    say(f"  (the ✓ rise in the session for {gains} questions, and fall for {losses})")


def _show(title: str, hits: Sequence[Hit], relevant: Collection[str], say: Callable[[str], Any]) -> None:
    say(f"\n{title}")
    for rank, hit in enumerate(hits[:_READ], 1):
        title, text = (
            hit.source.get(name, "") for name in ("title", "description" if "description" in hit.source else "text")
        )
        line = _cut(f"{_cut(title, _TITLE)} | {text}" if title else text, _LINE)
        say(f"  {rank}. {'✓' if hit.id in relevant else '·'} {line}")


def _cut(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"
