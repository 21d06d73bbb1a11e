"""The demonstration: a transcript of what marking hits does, through the same HTTP API that the page uses."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from resift.cli import serving
from resift.cli.demo_corpus import Question, corpus_file, load_questions
from resift.cli.options import opened, port_option
from resift.encoders.registry import load_model
from resift.errors import BadInput
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Files

INDEX = "resift-demo"
QUESTION = "How much is the filing fee?"
_FIELDS = ("title", "text")
_READ, _COUNTED = 6, 10
_TITLE, _LINE = 36, 100
_RANKINGS = ("BM25 alone", "with vectors", "in the session")

Hit = dict[str, Any]
Say = Callable[[str], Any]


class Searcher:
    """The reranker's HTTP API, called within this process. ``client`` is the application's test client."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def search(self, query: str, **options: Any) -> list[Hit]:
        """Enough hits that ten are left when those that were marked are taken out."""
        answer = self._post("search", query=query, size=_READ + _COUNTED, documents="card", **options)
        hits: list[Hit] = answer["hits"]["hits"]
        return hits

    def mark(self, query: str, session: str, relevant: Sequence[Hit]) -> dict[str, Any]:
        """Judge hits relevant in a session. Returns what the session has learned."""
        ids = [hit["_id"] for hit in relevant]
        learned: dict[str, Any] = self._post("feedback", query=query, session=session, relevant=ids)["learned"]
        return learned

    def _post(self, path: str, **body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.client.post(f"/v1/{path}", json={"index": INDEX, **body}).get_json()
        if "error" in answer:
            raise BadInput(answer["error"]["message"], expected=answer["error"].get("expected"))
        return answer


class Demo:
    """Searches, marks hits and searches again, and says what came of it.

    ``say`` prints a line. Of the hits, those that people judged relevant are marked; they have a ✓ wherever they are
    shown.
    """

    def __init__(self, searcher: Searcher, say: Say) -> None:
        self.searcher, self.say = searcher, say

    def play(self, query: str, relevant: Collection[str]) -> None:
        """The transcript of one query."""
        plain, first = self.searcher.search(query, alpha=0.0), self.searcher.search(query)
        self._show(f'"{query}"', first, relevant)
        marked = _worth_marking(first, relevant)
        learned = self.searcher.mark(query, "demo", marked)
        ranks = " ".join(str(first.index(hit) + 1) for hit in marked)
        self.say(f"\n  a person marks these as relevant: {ranks}")
        self.say(f"  the session now leans towards: {', '.join(learned['towards'])}")
        again = self.searcher.search(query, session="demo")
        self._show("the same search in this session, without the marked hits", _without(again, marked), relevant)
        self._show_ranks([_without(hits, marked) for hits in (plain, first, again)], relevant)

    def count_all(self, questions: Sequence[Question]) -> None:
        """Say how the same goes for many questions, so that nobody has to trust one example."""
        counts = [count for number, one in enumerate(questions) if (count := self._count(one, f"demo-{number}"))]
        gains = sum(after > before for _, before, after in counts)
        losses = sum(after < before for _, before, after in counts)
        self.say(
            f"\nthe number of ✓ among these ten, on average over the first questions of {len(counts)} conversations"
        )
        for name, column in zip(_RANKINGS, zip(*counts, strict=True), strict=True):
            self.say(f"  {name:<15} {sum(column) / len(column):.1f}")
        self.say(f"  ({gains} questions gain from the session, {losses} lose)")

    def _count(self, question: Question, session: str) -> tuple[int, int, int] | None:
        """The number of ✓ in each ranking; None where a person would have found nothing to mark."""
        first = self.searcher.search(question.text)
        marked = _worth_marking(first, question.relevant)
        if not marked:
            return None
        self.searcher.mark(question.text, session, marked)
        plain = self.searcher.search(question.text, alpha=0.0)
        again = self.searcher.search(question.text, session=session)
        before, with_vectors, after = (
            len(_relevant_ranks(_without(hits, marked), question.relevant)) for hits in (plain, first, again)
        )
        return before, with_vectors, after

    def _show(self, title: str, hits: Sequence[Hit], relevant: Collection[str]) -> None:
        self.say(f"\n{title}")
        for rank, hit in enumerate(hits[:_READ], 1):
            tick = "✓" if hit["_id"] in relevant else "·"
            self.say(f"  {rank}. {tick} {_excerpt(hit)}")

    def _show_ranks(self, rankings: Sequence[Sequence[Hit]], relevant: Collection[str]) -> None:
        self.say(f"\nranks of the ✓ among the first {_COUNTED} hits, the marked ones left out")
        for name, hits in zip(_RANKINGS, rankings, strict=True):
            self.say(f"  {name:<15} {' '.join(map(str, _relevant_ranks(hits, relevant))) or 'none'}")


def _worth_marking(hits: Sequence[Hit], relevant: Collection[str]) -> list[Hit]:
    """What a person who reads the first hits marks: the relevant ones."""
    return [hit for hit in hits[:_READ] if hit["_id"] in relevant]


def _without(hits: Sequence[Hit], marked: Sequence[Hit]) -> list[Hit]:
    # A hit that was marked rises, but its reader knows it already: it must not count as a gain.
    known = {hit["_id"] for hit in marked}
    return [hit for hit in hits if hit["_id"] not in known]


def _relevant_ranks(hits: Sequence[Hit], relevant: Collection[str]) -> list[int]:
    return [rank for rank, hit in enumerate(hits[:_COUNTED], 1) if hit["_id"] in relevant]


def _excerpt(hit: Hit) -> str:
    """A hit's title and the beginning of its text in one line, as its card on the page has them."""
    title, text = (hit["resift"]["card"][part] for part in ("title", "text"))
    begun = text.startswith(title.removesuffix("…"))  # what has no title is called by its first words
    return _cut(text if begun else f"{_cut(title, _TITLE)} | {text}", _LINE)


def _cut(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"


def _run(settings: Mapping[str, str], folder: str) -> None:
    """Index the documents and print the transcript. ``settings`` are RESIFT_* variables."""
    from resift.reranker import Config, create_app

    model = load_model()
    with opened(settings["RESIFT_ENGINE"]) as engine:
        engine.drop_if_exists(INDEX)
        letters = DeadLetters(Path(folder, "demo.dead.jsonl"))
        report = Indexer(engine, model, INDEX, letters).run(iter(Files([corpus_file()])), _FIELDS)
        click.echo(
            f"{report.indexed} documents indexed in {report.seconds:.2f} s "
            f"({engine.ping()}; model {model.name}, {model.dim} dimensions)"
        )
        app = create_app(Config.from_environment(settings), engine=engine, model=model)
        demo = Demo(Searcher(app.test_client()), click.echo)
        questions = load_questions()
        asked = next(one for one in questions if one.text == QUESTION)
        demo.say(f'The question comes from a conversation that began "{asked.opening}"')
        demo.say(
            "✓: people judged the passage relevant to this question or to another one of that conversation (MTRAG)"
        )
        demo.play(asked.text, asked.relevant)
        demo.count_all([one for one in questions if one.text == one.opening])


@click.command(epilog="Example: resift demo --engine opensearch")
@click.option(
    "--engine",
    default="sqlite",
    show_default=True,
    metavar="sqlite|opensearch|URL",
    help="opensearch: OPENSEARCH_URL or port 9200.",
)
@port_option
@click.option("--no-serve", is_flag=True, help="End after the transcript.")
def demo(engine: str, port: int, no_serve: bool) -> None:
    """Index 447 passages, show how marking hits changes the next search, and serve the search page."""
    metrics = nullcontext() if no_serve else serving.shared_metrics()
    # The service reads words for its suggestions in a thread of its own, which may touch the files until the very end.
    temporary = tempfile.TemporaryDirectory(prefix="resift-demo-", ignore_cleanup_errors=True)
    with temporary as folder, metrics:
        url = {
            "sqlite": f"{folder}/demo.db",
            "opensearch": os.environ.get("OPENSEARCH_URL", "http://127.0.0.1:9200"),
        }.get(engine, engine)
        settings = {
            "RESIFT_ENGINE": url,
            "RESIFT_STORE": f"{folder}/sessions.db",
            "RESIFT_INDEX": INDEX,
        }
        _run(settings, folder)
        if not no_serve:
            click.echo(f"\nThe same on a page: http://127.0.0.1:{port}/?index={INDEX} (Ctrl-C ends)")
            serving.run(settings, "127.0.0.1", port, 2)
