"""The command ``resift demo``, which shows how marking hits changes searches over packaged documents."""

from __future__ import annotations

import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

import click

from resift import library
from resift.cli import serve
from resift.cli.options import port_option
from resift.cli.transcript import PASSAGES, PRODUCTS, Demo, corpus_file, print_transcript
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Files

INDEX = PASSAGES.index


def _print_demo(url: str, folder: str, demo: Demo) -> list[str]:
    """Index the documents of a demonstration, run example searches, and print how relevance feedback changes the hits.

    Args:
        url: The URL of an OpenSearch cluster, or the path of an SQLite file.
        folder: The folder for temporary files.
        demo: The documents and questions to use.

    Returns:
        Example questions for the search page.
    """
    with library.open(url, sessions=f"{folder}/sessions.db") as demo_library:
        engine, model = demo_library.engine, demo_library.model
        engine.drop_if_exists(demo.index)
        dead_letters = DeadLetters(Path(folder, "demo.dead.jsonl"))
        documents = iter(Files([corpus_file(demo)]))
        report = Indexer(engine, model, demo.index, dead_letters).run(documents, demo.fields)
        click.echo(
            f"{report.indexed} documents indexed in {report.seconds:.2f} s "
            f"({engine.ping()}; model {model.name}, {model.dim} dimensions)"
        )
        return print_transcript(demo_library.index(demo.index), demo, click.echo)


@click.command(epilog="Example: resift demo shop --engine opensearch")
@click.argument("what", type=click.Choice(["passages", "shop"]), default="passages")
@click.option(
    "--engine",
    default="sqlite",
    show_default=True,
    metavar="sqlite|opensearch|URL",
    help="Engine to use; 'opensearch' stands for OPENSEARCH_URL or port 9200 of this machine.",
)
@port_option
@click.option("--no-serve", is_flag=True, help="Exit after the transcript, without serving the search page.")
def demo(what: str, engine: str, port: int, no_serve: bool) -> None:
    """Show with example documents how marking relevant hits improves later searches.

    The command indexes 447 passages or 288 shop products, marks relevant hits of example searches, and prints the
    rankings before and after the marks. Then it serves a search page for the documents until you press Ctrl-C.
    """
    metrics = nullcontext() if no_serve else serve.shared_metrics()
    # A background thread of the service reads words for its suggestions, and may access the files until the end.
    temporary = tempfile.TemporaryDirectory(prefix="resift-demo-", ignore_cleanup_errors=True)
    with temporary as folder, metrics:
        cluster = os.environ.get("OPENSEARCH_URL", "http://127.0.0.1:9200")
        url = {"sqlite": f"{folder}/demo.db", "opensearch": cluster}.get(engine, engine)
        selected = PRODUCTS if what == "shop" else PASSAGES
        examples = _print_demo(url, folder, selected)
        if not no_serve:
            click.echo(f"\nSearch page: http://127.0.0.1:{port}/?index={selected.index} (Ctrl-C stops)")
            settings = {"RESIFT_ENGINE": url, "RESIFT_STORE": f"{folder}/sessions.db", "RESIFT_INDEX": selected.index}
            settings["RESIFT_PAGE_FIELDS"] = ",".join(
                f"example={question}" for question in examples if "," not in question
            )
            serve.run(settings, "127.0.0.1", port, 2)
