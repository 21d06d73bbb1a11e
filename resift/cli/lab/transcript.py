"""What marking hits does to the demonstration's questions: rankings before and after, and how many questions gain.

Passages, questions and judgements are people's own, from MTRAG (IBM, Apache-2.0); ``resift/data/demo/NOTICE`` says what
was changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from resift.ingest.readers import Files, Record
from resift.library import Hit, Index

QUESTION = "How much is the filing fee?"
FIELDS = ("title", "text")
_READ, _COUNTED = 6, 10
_TITLE, _LINE = 36, 100
_RANKINGS = ("BM25 alone", "with vectors", "in the session")


@dataclass(frozen=True)
class Question:
    """A question of a conversation, how the conversation began, and the ids of the relevant passages.

    ``relevant`` holds every passage that people judged relevant to this question or to another one of the same
    conversation: somebody who asks the question is after them all.
    """

    text: str
    opening: str
    relevant: frozenset[str]


def corpus_file() -> str:
    """The path of the packaged passages, JSON lines with ``_id``, ``title`` and ``text``."""
    return _path("corpus.jsonl.gz")


def load_questions() -> list[Question]:
    """All packaged questions, one conversation after another, each in the order in which it was held."""
    conversations = defaultdict(list)
    for record in Files([_path("questions.jsonl.gz")]):
        assert isinstance(record, Record)
        conversations[record.source["conversation"]].append(record.source)
    questions = []
    for turns in conversations.values():
        relevant = frozenset(passage for turn in turns for passage, mark in turn["marks"].items() if mark > 0)
        questions += [Question(turn["text"], turns[0]["text"], relevant) for turn in turns]
    return questions


def _path(name: str) -> str:
    return str(files("resift") / "data" / "demo" / name)


@dataclass
class Rankings:
    """The first hits of a question by BM25 alone, with vectors, and in a session that marked the relevant ones among
    the first that a person reads; ``learned``: what the session learned of these, None without any."""

    hits: tuple[Sequence[Hit], ...]
    marked: Sequence[Hit]
    learned: dict[str, Any] | None

    @classmethod
    def ask(cls, index: Index, question: Question, session: str) -> Rankings:
        """Search, mark and search again."""
        size, asker = _READ + _COUNTED, index.session(session)  # ten are left without those that are marked
        # what is printed shall not depend on when the index's words have been read
        index.library.service.words.is_used = False
        plain, first = index.search(question.text, size, alpha=0.0), asker.search(question.text, size)
        marked = [hit for hit in first[:_READ] if hit.id in question.relevant]
        learned = asker.mark(relevant=marked)["learned"] if marked else None
        return cls((plain, first, asker.search(question.text, size)), marked, learned)

    @property
    def unread(self) -> list[list[Hit]]:
        """The same without the marked hits: these rise, but their reader knows them already."""
        known = {hit.id for hit in self.marked}
        return [[hit for hit in hits if hit.id not in known] for hits in self.hits]

    def ranks(self, relevant: Collection[str]) -> list[list[int]]:
        """The ranks of the relevant hits among the first ten that are left."""
        return [[rank for rank, hit in enumerate(hits[:_COUNTED], 1) if hit.id in relevant] for hits in self.unread]


def play(index: Index, question: Question, say: Callable[[str], Any]) -> None:
    """Say what marking the relevant hits of one question does."""
    found = Rankings.ask(index, question, "demo")
    first, again = found.hits[1], found.unread[2]
    _show(f'"{question.text}"', first, question.relevant, say)
    say(f"\n  a person marks these as relevant: {' '.join(str(first.index(hit) + 1) for hit in found.marked)}")
    say(f"  the session now leans towards: {', '.join((found.learned or {}).get('towards', []))}")
    _show("the same search in this session, without the marked hits", again, question.relevant, say)
    say(f"\nranks of the ✓ among the first {_COUNTED} hits, the marked ones left out")
    for name, ranks in zip(_RANKINGS, found.ranks(question.relevant), strict=True):
        say(f"  {name:<15} {' '.join(map(str, ranks)) or 'none'}")


def count_all(index: Index, questions: Sequence[Question], say: Callable[[str], Any]) -> None:
    """Say how the same goes for many questions, so that nobody has to trust one example."""
    found = [(Rankings.ask(index, one, f"demo-{number}"), one) for number, one in enumerate(questions)]
    counts = [list(map(len, rankings.ranks(one.relevant))) for rankings, one in found if rankings.marked]
    say(f"\nthe number of ✓ among these ten, on average over the first questions of {len(counts)} conversations")
    for name, column in zip(_RANKINGS, zip(*counts, strict=True), strict=True):
        say(f"  {name:<15} {sum(column) / len(column):.1f}")
    gains, losses = (sum((after - before) * sign > 0 for _, before, after in counts) for sign in (1, -1))
    say(f"  ({gains} questions gain from the session, {losses} lose)")


def _show(title: str, hits: Sequence[Hit], relevant: Collection[str], say: Callable[[str], Any]) -> None:
    say(f"\n{title}")
    for rank, hit in enumerate(hits[:_READ], 1):
        title, text = (hit.source.get(name, "") for name in FIELDS)
        line = _cut(f"{_cut(title, _TITLE)} | {text}" if title else text, _LINE)
        say(f"  {rank}. {'✓' if hit.id in relevant else '·'} {line}")


def _cut(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"
