"""``resift train word2doc`` and ``resift eval word2doc``: which document a few keywords mean."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import click

from resift.cli.options import json_option
from resift.cli.output import print_report, progress_bar
from resift.cli.text_fields import no_documents
from resift.errors import needs_extra
from resift.ingest.readers import BadLine, Files, Record
from resift.vectors.packaged import load_vectors
from resift_lab.commands.options import checkpoint_beside, out_option, seed_option, vectors_option
from resift_lab.commands.settings import set_option
from resift_lab.training.options import Word2DocOptions
from resift_lab.word2doc.model import Word2Doc

_COLUMNS = ("word2doc@1", "retriever@1", "read@1", "network@1", "word2doc@10", "retriever@10", "wins", "losses")
_SHOWN = 10  # documents that a query is shown with
_NOT_TEXT = ("id", "_id", "label")


@click.command("word2doc", epilog="Example: resift train word2doc --corpus corpus.jsonl --out word2doc")
@click.option(
    "--corpus",
    "files",
    required=True,
    multiple=True,
    metavar="FILE",
    help="Documents with a title and texts. May be repeated.",
)
@out_option
@vectors_option
@set_option(Word2DocOptions, "seed")
@seed_option
def train_command(
    files: tuple[str, ...],
    out: str,
    vectors: str,
    seed: int,
    settings: dict[str, Any],
) -> None:
    """Learn which document a few keywords mean, from the documents alone. Needs the extra 'train'.

    Of each document one keyword is held back. The table says how often these find their document, as they are and
    with typos.
    """
    with needs_extra("lab", "training"):
        from resift_lab.training.word2doc import train

    started, options = time.perf_counter(), Word2DocOptions(seed=seed, **settings)
    source = Files(files)
    documents = titled_texts(source)
    if not documents.ids:
        raise no_documents(source)
    checkpoint = checkpoint_beside(out)
    with progress_bar("training") as progress:
        model, report = train(
            documents.ids,
            documents.titles,
            documents.bodies,
            load_vectors(vectors),
            options,
            progress,
            checkpoint,
        )
    model.save(out)
    checkpoint.unlink(missing_ok=True)
    seconds = time.perf_counter() - started
    line = f"word2doc of {len(documents.ids)} documents, {seconds:.0f} s, hash {model.hash}, in {out}"
    click.echo("\n".join([*_report_lines(report), line]))


@click.command("word2doc", epilog="Example: resift eval word2doc word2doc --query 'fire sydny'")
@click.argument("folder", metavar="DIR")
@click.option("--query", "queries", multiple=True, help="Predict ten documents for it instead. May be repeated.")
@json_option
def eval_command(folder: str, queries: tuple[str, ...], as_json: bool) -> None:
    """Held-back keywords of the word2doc model in DIR, as they are and with typos, against its retriever alone."""
    model = Word2Doc.load(folder)
    if queries:
        found = {query: [{"id": id, "score": score} for id, score in model.predict(query, _SHOWN)] for query in queries}
        click.echo(json.dumps({"predictions": found}, ensure_ascii=False))
        return
    with needs_extra("lab", "measuring"):
        from resift_lab.training.word2doc_report import judge

    report = judge(model)
    print_report({"task": "word2doc", **report}, as_json, *_report_lines(report))


def _report_lines(report: dict[str, Any]) -> list[str]:
    """A line for each kind of typo."""
    lines = [f"{report['queries']} unseen keywords".ljust(22) + "".join(f"{name:>13}" for name in _COLUMNS)]
    for kind, values in {**report["kinds"], "all slips": report["noisy"]}.items():
        cells = (f"{values[c]:13d}" if isinstance(values[c], int) else f"{values[c]:13.4f}" for c in _COLUMNS)
        lines.append(f"  {kind:20}" + "".join(cells))
    noisy = report["noisy"]
    return [*lines, f"all slips: {noisy['ratio']:.2f} times the retriever, p {noisy['p']:.4f}"]


@dataclass(frozen=True)
class TitledTexts:
    """Documents as three lists of one length; a document without a title or a body has an empty one."""

    ids: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)


def titled_texts(records: Iterable[Record | BadLine], title: str = "title") -> TitledTexts:
    """Documents with their title apart from the rest.

    Args:
        records: documents as the readers give them; lines that hold no document are left out.
        title: the field of the title. A body is all other fields that are texts, a line each, but for ids and labels.
    """
    found = TitledTexts()
    for document in (record for record in records if isinstance(record, Record)):
        texts = {name: value for name, value in document.source.items() if isinstance(value, str)}
        found.ids.append(document.id)
        found.titles.append(texts.pop(title, ""))
        found.bodies.append("\n".join(value for name, value in texts.items() if name not in _NOT_TEXT))
    return found
