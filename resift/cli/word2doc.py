"""``resift train word2doc`` and ``resift eval word2doc``: which document a few keywords mean."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from resift.cli.options import bar_of, import_torch
from resift.errors import BadInput
from resift.vectors.packaged import DEFAULT, load_vectors


@click.command("word2doc")
@click.option(
    "--corpus", "files", multiple=True, metavar="FILE", help="Documents with title and text; may be repeated."
)
@click.option("--collection", "folder", metavar="DIR", help="BEIR's layout, in place of --corpus.")
@click.option("--out", required=True, metavar="DIR", help="The model's folder.")
@click.option("--vectors", default=DEFAULT, show_default=True, metavar="DIR", help="Word vectors that see the query.")
@click.option("--title", default="title", show_default=True, help="The title's field; the others' texts are the body.")
@click.option("--keywords", default=20, show_default=True, help="Of a document, at most.")
@click.option("--epochs", default=8, show_default=True)
@click.option("--hidden", default=512, show_default=True, help="Size of the hidden layers.")
@click.option("--negatives", default=10, show_default=True, help="Documents pushed down for each query.")
@click.option("--rate", default=5e-3, show_default=True, help="Adam's learning rate.")
@click.option("--limit", type=click.IntRange(min=1), help="Take so many documents at most.")
@click.option("--seed", default=0, show_default=True)
@click.option("--resume", is_flag=True, help="Go on from DIR.checkpoint, if there is one.")
def train_command(
    files: tuple[str, ...],
    folder: str | None,
    out: str,
    vectors: str,
    title: str,
    limit: int | None,
    resume: bool,
    **settings: Any,
) -> None:
    """Learn which document keywords mean, from the documents alone. Needs the extra 'train'.

    A keyword a document is held back; the table tells how often it finds its document, as it is and with slips.
    """
    import_torch()
    from resift.training.word2doc import Word2DocOptions, train

    started = time.perf_counter()
    ids, titles, bodies = _documents(files, folder, title, limit)
    checkpoint = Path(f"{out.rstrip('/')}.checkpoint")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    with bar_of("training") as progress:
        model, report = train(
            ids, titles, bodies, load_vectors(vectors), Word2DocOptions(**settings), progress, checkpoint, resume
        )
    model.save(out)
    checkpoint.unlink(missing_ok=True)
    tell(report)
    click.echo(f"word2doc of {len(ids)} documents, {time.perf_counter() - started:.0f} s, hash {model.hash}, in {out}")


@click.command("word2doc")
@click.argument("folder", metavar="DIR")
@click.option("--query", "queries", multiple=True, help="Predict documents for it instead; may be repeated.")
@click.option("--size", default=10, show_default=True, help="Documents to predict.")
@click.option("--seed", default=0, show_default=True, help="Of the slips.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def eval_command(folder: str, queries: tuple[str, ...], size: int, seed: int, as_json: bool) -> None:
    """Held-back keywords of a word2doc model, clean and with slips, against its retriever alone."""
    from resift.cli.options import import_torch
    from resift.word2doc.model import Word2Doc

    model = Word2Doc.load(folder)
    if queries:
        found = {query: [{"id": id, "score": score} for id, score in model.predict(query, size)] for query in queries}
        click.echo(json.dumps({"predictions": found}, ensure_ascii=False))
        return
    import_torch()
    from resift.training.word2doc import judge

    report = judge(model, seed)
    if as_json:
        click.echo(json.dumps({"task": "word2doc", **report, "seed": seed}))
    else:
        tell(report)


def _documents(
    files: tuple[str, ...], folder: str | None, title: str, limit: int | None
) -> tuple[list[str], list[str], list[str]]:
    from resift.ingest.readers import Files, Record

    if bool(files) == (folder is not None):
        raise BadInput("--corpus and --collection", expected="one of them")
    if folder is not None:
        files = (next((str(p) for p in sorted(Path(folder).glob("corpus.jsonl*"))), f"{folder}/corpus.jsonl"),)
    ids: list[str] = []
    titles: list[str] = []
    bodies: list[str] = []
    for record in Files(files):
        if isinstance(record, Record) and (limit is None or len(ids) < limit):
            source = {name: value for name, value in record.source.items() if isinstance(value, str)}
            ids.append(record.id)
            titles.append(source.pop(title, ""))
            bodies.append("\n".join(value for name, value in source.items() if name not in ("id", "_id", "label")))
    return ids, titles, bodies


def tell(report: dict[str, Any]) -> None:
    """A line a kind of slip."""
    columns = ("word2doc@1", "retriever@1", "read@1", "network@1", "word2doc@10", "retriever@10", "wins", "losses")
    click.echo(f"{report['queries']} unseen keywords".ljust(22) + "".join(f"{name:>13}" for name in columns))
    rows = {**report["kinds"], "all slips": report["noisy"]}
    for kind, values in rows.items():
        cells = (f"{values[c]:13d}" if isinstance(values[c], int) else f"{values[c]:13.4f}" for c in columns)
        click.echo(f"  {kind:20}" + "".join(cells))
    click.echo(f"all slips: {report['noisy']['ratio']:.2f} times the retriever, p {report['noisy']['p']:.4f}")
