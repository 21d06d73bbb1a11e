"""The commands ``resift train word2doc`` and ``resift eval word2doc``."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from resift.cli.options import json_option
from resift.cli.output import print_report, progress_bar
from resift.cli.text_fields import no_documents_error
from resift.encoders.registry import load_model
from resift.encoders.word2doc import Word2Doc
from resift.errors import BadInput, needs_extra
from resift.ingest.readers import Files
from resift.vectors.packaged import load_vectors
from resift_lab.commands.options import checkpoint_path, out_option, seed_option, vectors_option
from resift_lab.commands.settings import set_option
from resift_lab.training.options import Word2DocOptions
from resift_lab.word2doc.documents import read_titled_texts

_SYSTEMS = ("word2doc@1", "retriever@1", "read@1", "network@1", "index@1")
_COLUMNS = (*_SYSTEMS, "word2doc@10", "retriever@10", "wins", "losses")
# Number of predicted documents to print for a query.
_PREDICTIONS = 10


@click.command("word2doc", epilog="Example: resift train word2doc --corpus corpus.jsonl --out word2doc")
@click.option(
    "--corpus",
    "files",
    required=True,
    multiple=True,
    metavar="FILE",
    help="A file of documents with a field 'title' and other text fields. May be repeated.",
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
    """Train word2doc, a model that predicts which document a few keywords refer to.

    Training needs nothing but the documents: their titles and keywords serve as queries. Two keywords of each document
    are excluded from training. The printed table shows how often word2doc and a plain retriever find the right document
    for an excluded keyword, without and with typing errors. Needs the extra 'lab'.

    'resift index --model DIR' then writes the learned vectors of the documents, and searches with this model encode
    queries with the network.
    """
    with needs_extra("lab", "training"):
        from resift_lab.training.word2doc import train_word2doc

    started, options = time.perf_counter(), Word2DocOptions(seed=seed, **settings)
    source = Files(files)
    documents = read_titled_texts(source)
    if not documents.ids:
        raise no_documents_error(source)
    checkpoint = checkpoint_path(out)
    with progress_bar("training") as progress:
        model, report = train_word2doc(documents, load_vectors(vectors), options, progress, checkpoint)
    model.save(out)
    checkpoint.unlink(missing_ok=True)
    seconds = time.perf_counter() - started
    line = f"word2doc for {len(documents.ids)} documents, trained in {seconds:.0f} s, hash {model.hash}, in {out}"
    click.echo("\n".join([*_report_lines(report), line]))


@click.command("word2doc", epilog="Example: resift eval word2doc word2doc --query 'fire sydny'")
@click.argument("folder", metavar="DIR")
@click.option(
    "--query",
    "queries",
    multiple=True,
    help="Print the ten most likely documents for this query, instead of the evaluation. May be repeated.",
)
@json_option
def eval_command(folder: str, queries: tuple[str, ...], as_json: bool) -> None:
    """Evaluate the word2doc model in DIR on keywords that were excluded from its training.

    The table shows how often the right document is found for a keyword, without and with typing errors. It compares
    word2doc with its retriever alone ('retriever'), with the retriever after spelling correction ('read'), with the
    network without the retriever's scores ('network'), and with the retriever's scores and the vectors that an index
    uses ('index'). 'wins' and 'losses' count the queries that only word2doc, or only the retriever, answers correctly.
    """
    model = load_model(folder)
    if not isinstance(model, Word2Doc):
        expected = "a folder that resift train word2doc wrote"
        raise BadInput(f"{folder} has a model of the kind {model.kind!r}", value=folder, expected=expected)
    if queries:
        predictions = {
            query: [{"id": id, "score": score} for id, score in model.predict(query, _PREDICTIONS)] for query in queries
        }
        click.echo(json.dumps({"predictions": predictions}, ensure_ascii=False))
        return
    with needs_extra("lab", "measuring"):
        from resift_lab.training.word2doc_report import evaluate

    report = evaluate(model)
    print_report({"task": "word2doc", **report}, as_json, *_report_lines(report))


def _report_lines(report: dict[str, Any]) -> list[str]:
    """Format the evaluation of a word2doc model as lines of text: a table with a line for each kind of typing error.

    Args:
        report: The evaluation, as :func:`resift_lab.training.word2doc_report.evaluate` returns it.
    """
    lines = [f"{report['queries']} held-out keywords".ljust(22) + "".join(f"{name:>13}" for name in _COLUMNS)]
    for kind, values in {**report["kinds"], "all errors": report["noisy"]}.items():
        cells = (f"{values[c]:13d}" if isinstance(values[c], int) else f"{values[c]:13.4f}" for c in _COLUMNS)
        lines.append(f"  {kind:20}" + "".join(cells))
    noisy = report["noisy"]
    ratio = "the retriever finds none"
    if noisy["ratio"] is not None:
        ratio = f"{noisy['ratio']:.2f} times the retriever's accuracy"
    return [*lines, f"all errors, first document: {ratio}, p {noisy['p']:.4f}"]
