"""The transcript of ``resift demo``: rankings of packaged questions before and after marks.

The passages with their questions and judgements were written by people for MTRAG (IBM, Apache-2.0). The products are
synthetic (``benchmarks/make_products.py``). See ``resift/data/demo/NOTICE``.

The transcript uses all questions that have a relevant hit among the first six, and further relevant documents. It shows
the hits of the question that gains most, and the ranks of the question that loses most.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from resift.ingest.readers import Files, Record
from resift.library import Hit, Index

_READ = 6  # number of first hits that a person reads and marks
_COUNTED = 10  # number of unmarked hits in which relevant hits are counted
_TITLE, _LINE = 36, 100  # maximum characters of a title and a line
_RANKINGS = ("BM25 alone", "with vectors", "in the session")  # names of Rankings.hits


@dataclass(frozen=True)
class Demo:
    """The packaged data of a demonstration: documents, and questions with relevance judgements.

    Attributes:
        index: The name of the index for the documents.
        documents: The name of the file with the documents.
        questions: The name of the file with the questions.
        fields: The names of the text fields.
        judged: A text for the transcript that says who judged the relevance of the documents.
        origin: A text for the transcript that says where a question comes from. The placeholder ``{}`` in this text is
            replaced with :attr:`Question.opening`.
    """

    index: str
    documents: str
    questions: str
    fields: tuple[str, ...]
    judged: str
    origin: str


PASSAGES = Demo(
    index="resift-demo",
    documents="corpus.jsonl.gz",
    questions="questions.jsonl.gz",
    fields=("title", "text"),
    judged="people judged the passage relevant to this question (MTRAG)",
    origin='in a conversation that began "{}"',
)
PRODUCTS = Demo(
    index="resift-shop",
    documents="products.jsonl.gz",
    questions="product-questions.jsonl.gz",
    fields=("title", "description"),
    judged="the synthetic product matches the wish of this person",
    origin="by a person who wants one {}",
)
FIELDS, QUESTION = PASSAGES.fields, "How much is the filing fee?"


@dataclass(frozen=True)
class Question:
    """A question of the demonstration, with its relevant documents.

    Attributes:
        text: The question.
        opening: A text that describes the conversation to which the question belongs: its first question or, in the
            product demonstration, what the person wants to buy.
        relevant: The ids of the documents that people judged relevant to the question.
    """

    text: str
    opening: str
    relevant: frozenset[str]


def corpus_file(demo: Demo = PASSAGES) -> str:
    """Return the path of the packaged documents of a demonstration.

    The file contains a JSON object per line, with the id ``_id`` and the text fields.

    Args:
        demo: The demonstration.
    """
    return _data_path(demo.documents)


def load_questions(demo: Demo = PASSAGES) -> list[Question]:
    """Load the packaged questions of a demonstration, each with the ids of its relevant documents.

    Args:
        demo: The demonstration.

    Returns:
        The questions, conversation by conversation. The questions of a conversation are in the order in which they were
        asked.
    """
    questions, opening, conversation = [], "", None
    for record in Files([_data_path(demo.questions)]):
        assert isinstance(record, Record)
        turn = record.source
        if turn["conversation"] != conversation:
            conversation, opening = turn["conversation"], turn.get("wants", turn["text"])
        relevant = frozenset(document for document, mark in turn["marks"].items() if mark > 0)
        questions.append(Question(turn["text"], opening, relevant))
    return questions


def _data_path(name: str) -> str:
    return str(files("resift") / "data" / "demo" / name)


@dataclass
class Rankings:
    """The hits for a question in three searches, which show the effect of marking relevant documents.

    Attributes:
        question: The question that was searched for.
        hits: The first hits of the three searches: with BM25 only; with BM25 and vectors; and with BM25 and vectors
            after the marks.
        marked: The relevant hits of the second search that were marked in the session.
        learned: A description of what the session has learned from the marks.
    """

    question: Question
    hits: tuple[Sequence[Hit], ...]
    marked: Sequence[Hit]
    learned: dict[str, Any]

    @classmethod
    def search_and_mark(cls, index: Index, question: Question, session: str) -> Rankings | None:
        """Search for a question, mark the relevant documents among the first six hits, and search again.

        For comparison, a third search ranks by BM25 only.

        Args:
            index: The index to search.
            question: The question to search for.
            session: The id of the session in which documents are marked.

        Returns:
            The hits of the three searches. None if the first six hits contain no relevant document, or all relevant
            documents of the question, so that marks cannot improve the search.
        """
        size = _READ + _COUNTED  # at least _COUNTED hits remain without the marked hits
        demo_session = index.session(session)
        first = demo_session.search(question.text, size)
        marked = [hit for hit in first[:_READ] if hit.id in question.relevant]
        if not marked or len(marked) == len(question.relevant):
            return None
        learned = demo_session.mark(relevant=marked, explain=True)["learned"]
        plain = index.search(question.text, size, alpha=0.0)
        return cls(question, (plain, first, demo_session.search(question.text, size)), marked, learned)

    @property
    def unmarked_hits(self) -> list[list[Hit]]:
        """For each search in :attr:`hits`, the hits without the documents that were marked relevant.

        After they are marked, these documents move to the top of the ranking. Readers already know them, so a fair
        comparison of the rankings leaves them out.
        """
        known = {hit.id for hit in self.marked}
        return [[hit for hit in hits if hit.id not in known] for hits in self.hits]

    @property
    def relevant_ranks(self) -> list[list[int]]:
        """For each search in :attr:`hits`, the ranks of the relevant documents among the first ten hits.

        Hits that were marked relevant are left out before counting, as in :attr:`unmarked_hits`.
        """
        relevant = self.question.relevant
        return [
            [rank for rank, hit in enumerate(hits[:_COUNTED], 1) if hit.id in relevant] for hits in self.unmarked_hits
        ]

    @property
    def gain(self) -> float:
        """The improvement in the ranks of the relevant documents after documents were marked.

        Each ranking is measured by the sum of 1 / rank over the relevant documents that were not marked. The gain is
        the sum after marking minus the sum before. It is negative if the ranks become worse.
        """
        _, before, after = (sum(1 / rank for rank in ranks) for ranks in self.relevant_ranks)
        return after - before


def print_transcript(index: Index, demo: Demo, say: Callable[[str], Any]) -> list[str]:
    """Search for all questions of a demonstration, and print how marks change the rankings.

    Args:
        index: The index that contains the documents.
        demo: The demonstration.
        say: A function that prints a line of text.

    Returns:
        The three questions whose rankings improve most, as examples for the search page.
    """
    # The index's words are read in the background, and the transcript must not depend on when this happens.
    index.library.service.words.enabled = False
    questions = enumerate(load_questions(demo))
    answers = (Rankings.search_and_mark(index, question, f"demo-{number}") for number, question in questions)
    rankings = sorted(filter(None, answers), key=lambda ranking: -ranking.gain)
    best, worst = rankings[0], rankings[-1]
    say(f"✓: {demo.judged}")
    title = f'"{best.question.text}", {demo.origin.format(best.question.opening)}'
    _show(title, best.hits[1], best.question.relevant, say)
    say(f"\n  a person marks these as relevant: {' '.join(str(best.hits[1].index(hit) + 1) for hit in best.marked)}")
    say(f"  the session now leans towards: {', '.join(best.learned.get('towards', []))}")
    _show(
        "the same search in this session, without the marked hits", best.unmarked_hits[2], best.question.relevant, say
    )
    for ranking, how in ((best, "gains most"), (worst, "loses most" if worst.gain < 0 else "gains least")):
        say(f'\nthe question that {how}: "{_cut(ranking.question.text, _TITLE)}"')
        say(f"ranks of the ✓ among the first {_COUNTED} hits, without the marked hits")
        for name, ranks in zip(_RANKINGS, ranking.relevant_ranks, strict=True):
            say(f"  {name:<15} {' '.join(map(str, ranks)) or 'none'}")
    _summarize(rankings, say)
    return list(dict.fromkeys(ranking.question.text for ranking in rankings))[:3]


def _summarize(rankings: Sequence[Rankings], say: Callable[[str], Any]) -> None:
    """Print the mean number of relevant documents among the first ten hits of a question, for each of three searches.

    :attr:`Rankings.hits` describes the three searches. Documents that were marked relevant are not counted.

    The last line counts the questions for which the relevant documents rank higher after marking than before, and the
    questions for which they rank lower.

    Args:
        rankings: The hits for each question.
        say: A function that prints a line.
    """
    say(f"\nmean number of ✓ in these ten hits, over {len(rankings)} questions with a ✓ to mark and another ✓ to find")
    for name, column in zip(
        _RANKINGS, zip(*(ranking.relevant_ranks for ranking in rankings), strict=True), strict=True
    ):
        say(f"  {name:<15} {sum(map(len, column)) / len(column):.1f}")
    gains, losses = (sum(ranking.gain * sign > 0 for ranking in rankings) for sign in (1, -1))
    say(f"  (the session raises the ✓ for {gains} questions, and lowers them for {losses})")


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
