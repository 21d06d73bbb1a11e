"""The demonstration: a transcript of what marking hits does, through the same HTTP API that the page uses."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from resift.cli import serving
from resift.cli.options import fields_option, model_option
from resift.encoders.registry import load_model
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Files
from resift.plugin.connect import open_engine

INDEX = "resift-demo"
LEE_QUERY, LEE_ABOUT = "strike", r"industrial action|workers|union\b"
_TOP = 6


def lee_corpus() -> str:
    """300 news items of the Australian Broadcasting Corporation, in a file that gensim ships (Lee et al. 2005)."""
    return str(files("gensim") / "test" / "test_data" / "lee_background.cor")


class Demo:
    """Indexes a corpus, then searches, marks and searches again, telling each step by ``say``."""

    def __init__(self, settings: Mapping[str, str], say: Callable[[str], Any]) -> None:
        self.settings, self.say = settings, say

    def run(self, source: Files, fields: list[str], query: str | None, about: str | None, is_lee: bool) -> None:
        """Play the transcript. ``about`` is a pattern of what the person is after (else the first hit is)."""
        from resift.reranker import Config, create_app

        engine, model = open_engine(self.settings["RESIFT_ENGINE"]), load_model(self.settings["RESIFT_MODEL"])
        engine.drop_if_exists(INDEX)
        dead = DeadLetters(Path(self.settings["RESIFT_STORE"]).with_name("demo.dead.jsonl"))
        report = Indexer(engine, model, INDEX, dead).run(source, fields)
        self.say(
            f"{report.indexed} documents indexed in {report.seconds:.2f} s "
            f"({engine.ping()}; model {model.name}, {model.dim} dimensions)"
        )
        app = create_app(Config.from_environment(self.settings), engine=engine, model=model)
        self.client = app.test_client()
        query = query or (LEE_QUERY if is_lee else self._first_words(engine))
        self._transcript(query, about or (LEE_ABOUT if is_lee else None))
        engine.close()

    def _first_words(self, engine: Any) -> str:
        hit = engine.search(INDEX, {"query": {"match_all": {}}, "size": 1}).hits[0]
        words = re.findall(r"\w{6,}", " ".join(str(value) for value in hit["_source"].values()))
        return " ".join(words[:2]) or "the"

    def _transcript(self, query: str, about: str | None) -> None:
        plain = self._search(query, alpha=0.0)
        self._show(f'BM25 alone, "{query}"', plain, about)
        reranked = self._search(query)
        self._show("with the vectors' similarity", reranked, about)
        marked = reranked[:_TOP]
        if about:
            relevant = [hit["_id"] for hit in marked if _is_about(hit, about)]
        else:
            relevant = [hit["_id"] for hit in marked[:1]]
        irrelevant = [hit["_id"] for hit in marked if hit["_id"] not in relevant]
        answer = self._post("feedback", query=query, session="demo", relevant=relevant, irrelevant=irrelevant)
        self.say(f"\n  a person marks these {len(marked)} hits: {len(relevant)} relevant (✓), {len(irrelevant)} not")
        self.say(f"  the session now leans towards: {', '.join(answer['learned']['towards'])}")
        again = self._search(query, session="demo")
        self._show("the same search in this session", again, about)
        if about:
            self.say("\nranks of the relevant hits on the first page")
            for name, hits in (("BM25", plain), ("with vectors", reranked), ("in the session", again)):
                ranks = [str(rank) for rank, hit in enumerate(hits, 1) if _is_about(hit, about)]
                self.say(f"  {name:<14} {' '.join(ranks)}")

    def _search(self, query: str, **options: Any) -> list[dict[str, Any]]:
        hits: list[dict[str, Any]] = self._post("search", query=query, **options)["hits"]["hits"]
        return hits

    def _post(self, path: str, **body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.client.post(f"/v1/{path}", json={"index": INDEX, **body}).get_json()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def _show(self, title: str, hits: list[dict[str, Any]], about: str | None) -> None:
        self.say(f"\n{title}")
        for rank, hit in enumerate(hits[:_TOP], 1):
            mark = " " if about is None else "✓" if _is_about(hit, about) else "·"
            text = " ".join(str(value) for name, value in hit["_source"].items() if isinstance(value, str))
            self.say(f"  {rank}. {mark} {text[:88].strip()}…")


def _is_about(hit: dict[str, Any], pattern: str) -> bool:
    return re.search(pattern, " ".join(map(str, hit["_source"].values())), re.IGNORECASE) is not None


@click.command()
@click.option(
    "--engine",
    default="sqlite",
    show_default=True,
    metavar="sqlite|opensearch|URL",
    help="opensearch: OPENSEARCH_URL or port 9200.",
)
@click.option("--corpus", metavar="FILE", help="Your own documents. [300 news items that gensim ships]")
@fields_option
@click.option("--query", help="What to search for.")
@click.option("--about", help="Regular expression of texts that count as relevant.")
@click.option("--port", default=8080, show_default=True)
@click.option("--no-serve", is_flag=True, help="End after the transcript.")
@model_option
def demo(
    engine: str,
    corpus: str | None,
    fields: list[str],
    query: str | None,
    about: str | None,
    port: int,
    no_serve: bool,
    model: str,
) -> None:
    """Index a small corpus, show how marking hits changes the next search, and serve the search page."""
    metrics = nullcontext() if no_serve else serving.shared_metrics()
    with tempfile.TemporaryDirectory(prefix="resift-demo-") as folder, metrics:
        url = {
            "sqlite": f"{folder}/demo.db",
            "opensearch": os.environ.get("OPENSEARCH_URL", "http://127.0.0.1:9200"),
        }.get(engine, engine)
        source = Files([corpus]) if corpus else Files([lee_corpus()], "text")
        settings = {
            "RESIFT_ENGINE": url,
            "RESIFT_MODEL": model,
            "RESIFT_STORE": f"{folder}/sessions.db",
            "RESIFT_INDEX": "resift-demo",
        }
        Demo(settings, click.echo).run(source, fields, query, about, is_lee=corpus is None)
        if not no_serve:
            click.echo(f"\nThe same on a page: http://127.0.0.1:{port}/?index=resift-demo (Ctrl-C ends)")
            serving.run(settings, "127.0.0.1", port, 2)
