"""The demonstration: what marking hits does to packaged questions over packaged passages, and the page over them."""

from __future__ import annotations

import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

import click

from resift import library
from resift.cli import serve
from resift.cli.lab.transcript import FIELDS, QUESTION, corpus_file, count_all, load_questions, play
from resift.cli.options import port_option
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Files

INDEX = "resift-demo"


def _run(url: str, folder: str) -> None:
    """Index the documents and print the transcript."""
    with library.open(url, sessions=f"{folder}/sessions.db") as opened:
        opened.engine.drop_if_exists(INDEX)
        letters = DeadLetters(Path(folder, "demo.dead.jsonl"))
        report = Indexer(opened.engine, opened.model, INDEX, letters).run(iter(Files([corpus_file()])), FIELDS)
        click.echo(
            f"{report.indexed} documents indexed in {report.seconds:.2f} s "
            f"({opened.engine.ping()}; model {opened.model.name}, {opened.model.dim} dimensions)"
        )
        questions = load_questions()
        asked = next(one for one in questions if one.text == QUESTION)
        click.echo(f'The question comes from a conversation that began "{asked.opening}"')
        judged = "this question or to another one of that conversation (MTRAG)"
        click.echo(f"✓: people judged the passage relevant to {judged}")
        play(opened.index(INDEX), asked, click.echo)
        count_all(opened.index(INDEX), [one for one in questions if one.text == one.opening], click.echo)


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
    metrics = nullcontext() if no_serve else serve.shared_metrics()
    # The service reads words for its suggestions in a thread of its own, which may touch the files until the very end.
    temporary = tempfile.TemporaryDirectory(prefix="resift-demo-", ignore_cleanup_errors=True)
    with temporary as folder, metrics:
        cluster = os.environ.get("OPENSEARCH_URL", "http://127.0.0.1:9200")
        url = {"sqlite": f"{folder}/demo.db", "opensearch": cluster}.get(engine, engine)
        _run(url, folder)
        if not no_serve:
            click.echo(f"\nThe same on a page: http://127.0.0.1:{port}/?index={INDEX} (Ctrl-C ends)")
            settings = {"RESIFT_ENGINE": url, "RESIFT_STORE": f"{folder}/sessions.db", "RESIFT_INDEX": INDEX}
            serve.run(settings, "127.0.0.1", port, 2)
