"""``resift train reranker``: learn from queries and their relevant documents, and say whether it helps."""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from resift.errors import BadInput
from resift.model import DEFAULT, load_vectors
from resift.training.reranker import Options

if TYPE_CHECKING:
    from resift.evaluation.data import Collection
    from resift.training.judged import Split
    from resift.vectors import WordVectors

_SHARES = (70.0, 10.0, 20.0)


def _shares(context: Any, parameter: Any, value: str | None) -> tuple[float, ...] | None:
    if value is None:
        return None
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        raise BadInput(f"--split {value}", value=value, expected="three numbers, as 60,10,30") from None


@click.command("reranker")
@click.option("--collection", "folder", required=True, metavar="DIR", help="BEIR's layout: corpus, queries, qrels.")
@click.option("--out", required=True, metavar="DIR", help="The reranker's folder.")
@click.option(
    "--split",
    "shares",
    callback=_shares,
    metavar="A,B,C",
    help="Shares of training, validation and test queries, in blocks; the test block is never trained on.",
)
@click.option(
    "--vectors",
    "sources",
    multiple=True,
    default=[DEFAULT],
    show_default=True,
    metavar="DIR[=W]",
    help="Word vectors to start from, with a weight; may be repeated.",
)
@click.option(
    "--epochs", default=Options.epochs, show_default=True, help="Passes over the queries; more where there are few."
)
@click.option("--negatives", default=Options.negatives, show_default=True, help="Documents against a relevant one.")
@click.option("--pool", default=Options.pool, show_default=True, help="BM25's best, which negatives are drawn from.")
@click.option("--rate", default=Options.rate, show_default=True, help="Learning rate of the word rows at the start.")
@click.option("--seed", default=0, show_default=True)
def reranker_command(
    folder: str, out: str, shares: tuple[float, ...] | None, sources: tuple[str, ...], **settings: Any
) -> None:
    """Train a reranker on judged queries; the index and its vectors stay as they are.

    Queries of qrels/train.tsv are trained on, those of qrels/dev.tsv choose, those of qrels/test.tsv judge. With one
    qrels.tsv the queries are cut in three by the order of their documents (70, 10, 20 unless --split says otherwise),
    and without --split all of them train what is kept, once the held-back ones have judged. Where the reranker does not
    help on held-back queries, nothing is written and the exit status is 3.
    """
    from resift.training.judged import learn

    started = time.perf_counter()
    collection, split, everything = _parts(folder, shares)
    table = mixed(sources, collection.documents)
    with click.progressbar(length=1, label="training", file=sys.stderr) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        model, report = learn(collection, table, split, Options(**settings), everything, progress=progress)
    tell(report, time.perf_counter() - started)
    if not report["better"]:
        click.echo(f"warning: it does not help on the held-back queries; nothing was written to {out}", err=True)
        sys.exit(3)
    if report["p"]["bm25"]["mrr@10"] >= 0.05:
        click.echo("warning: the gain over BM25 may be chance (p of 0.05 or more): judge more queries", err=True)
    model.save(out)
    click.echo(f"{model.name}, {len(model.table)} words of {model.table.dim} dimensions, hash {model.hash}, in {out}")


def mixed(sources: tuple[str, ...], documents: list[str]) -> WordVectors:
    """Word vectors by their folders (``DIR`` or ``DIR=WEIGHT``), mixed with spelling and the documents' idf."""
    from resift.late import SPELLING
    from resift.mixture import Idf, mix

    tables, weights = [], []
    for source in sources:
        name, equals, weight = source.rpartition("=")
        try:
            weights.append(float(weight) if equals else 1.0)
        except ValueError:
            raise BadInput(f"--vectors {source}", value=source, expected="DIR or DIR=WEIGHT") from None
        tables.append(load_vectors(name if equals else source))
    return mix(tables, weights, idf=Idf.of(documents), spelling=SPELLING)


def _parts(folder: str, shares: tuple[float, ...] | None) -> tuple[Collection, Split, bool]:
    """The collection, its split, and whether the judging queries may be trained on at the end."""
    from resift.evaluation.data import has_part, read_collection
    from resift.training.judged import block_split

    if not has_part(folder, "train"):
        collection = read_collection(folder)
        return collection, block_split(collection, shares or _SHARES), shares is None
    if shares is not None:
        raise BadInput(
            "--split, and qrels/train.tsv", value=folder, expected="one of them: the folder has its own split"
        )
    whole = [read_collection(folder, "train")]
    whole += [read_collection(folder, part) for part in ("dev", "test") if has_part(folder, part)]
    return joined(whole, has_part(folder, "dev"), has_part(folder, "test"))


def joined(parts: list[Collection], validation: bool, test: bool) -> tuple[Collection, Split, bool]:
    """Parts of one folder as one collection and its split; validation is cut from training where there is none."""
    import numpy as np

    from resift.evaluation.data import Collection
    from resift.training.judged import Split, block_split

    first = parts[0]
    split = block_split(first, (90, 10, 0)) if not validation else None
    ends = np.cumsum([0, *(len(part.queries) for part in parts)])
    spans = [np.arange(start, end) for start, end in pairwise(ends)]
    train, dev = (split.train, split.validation) if split else (spans[0], spans[1])
    judges = spans[-1] if test else np.zeros(0, np.int64)
    collection = Collection(
        first.name,
        first.document_ids,
        first.documents,
        [id for part in parts for id in part.query_ids],
        [query for part in parts for query in part.queries],
        [grades for part in parts for grades in part.grades],
        0,
    )
    return collection, Split(train, dev, judges), False


def tell(report: dict[str, Any], seconds: float) -> None:
    """What training found."""
    from resift.training.judged import MEASURES

    parts = report["queries"]
    click.echo(
        f"{parts['train']} queries to train, {parts['validation']} to choose, {parts['test']} held back; "
        f"{report['epochs']} epochs, alpha {report['alpha']:g}, {seconds:.0f} s"
    )
    click.echo(f"{report['judges']} {report['judged_on']} queries".ljust(22) + "".join(f"{m:>10}" for m in MEASURES))
    for name, values in report["systems"].items():
        click.echo(f"  {name:20}" + "".join(f"{values[measure]:10.4f}" for measure in MEASURES))
    for name, values in report["p"].items():
        click.echo(f"  p against {name:10}" + "".join(f"{values[measure]:10.4f}" for measure in MEASURES))
