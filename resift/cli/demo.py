"""The demonstration: what marking hits does to packaged questions over packaged passages, and the page over them."""

from __future__ import annotations

import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

import click

from resift import library
from resift.cli import serve
from resift.cli.options import port_option
from resift.cli.transcript import PASSAGES, PRODUCTS, Demo, corpus_file, play
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Files

INDEX = PASSAGES.index


def _run(url: str, folder: str, demo: Demo) -> list[str]:
    """Index the documents, print the transcript, and give the questions for the page."""
    with library.open(url, sessions=f"{folder}/sessions.db") as opened:
        opened.engine.drop_if_exists(demo.index)
        letters = DeadLetters(Path(folder, "demo.dead.jsonl"))
        documents = iter(Files([corpus_file(demo)]))
        report = Indexer(opened.engine, opened.model, demo.index, letters).run(documents, demo.fields)
        click.echo(
            f"{report.indexed} documents indexed in {report.seconds:.2f} s "
            f"({opened.engine.ping()}; model {opened.model.name}, {opened.model.dim} dimensions)"
        )
        return play(opened.index(demo.index), demo, click.echo)


@click.command(epilog="Example: resift demo shop --engine opensearch")
@click.argument("what", type=click.Choice(["passages", "shop"]), default="passages")
@click.option(
    "--engine",
    default="sqlite",
    show_default=True,
    metavar="sqlite|opensearch|URL",
    help="opensearch: OPENSEARCH_URL or port 9200.",
)
@port_option
@click.option("--no-serve", is_flag=True, help="End after the transcript.")
def demo(what: str, engine: str, port: int, no_serve: bool) -> None:
    """Index 447 passages, or 288 products of a shop, show how marks change a search, and serve the search page."""
    metrics = nullcontext() if no_serve else serve.shared_metrics()
    # The service reads words for its suggestions in a thread of its own, which may touch the files until the very end.
    temporary = tempfile.TemporaryDirectory(prefix="resift-demo-", ignore_cleanup_errors=True)
    with temporary as folder, metrics:
        cluster = os.environ.get("OPENSEARCH_URL", "http://127.0.0.1:9200")
        url = {"sqlite": f"{folder}/demo.db", "opensearch": cluster}.get(engine, engine)
        shown = PRODUCTS if what == "shop" else PASSAGES
        examples = _run(url, folder, shown)
        if not no_serve:
            click.echo(f"\nThe same on a page: http://127.0.0.1:{port}/?index={shown.index} (Ctrl-C ends)")
            settings = {"RESIFT_ENGINE": url, "RESIFT_STORE": f"{folder}/sessions.db", "RESIFT_INDEX": shown.index}
            settings["RESIFT_PAGE_FIELDS"] = ",".join(f"example={one}" for one in examples if "," not in one)
            serve.run(settings, "127.0.0.1", port, 2)
