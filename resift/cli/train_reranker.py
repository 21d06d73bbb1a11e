"""``resift train reranker``: learn from queries and their relevant documents, and say whether it helps."""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from resift.cli.evaluate import shares_of
from resift.cli.options import bar_of
from resift.errors import BadInput
from resift.ranking.late_interaction import SPELLING
from resift.training.late_interaction import LateInteractionOptions
from resift.vectors.packaged import DEFAULT, load_vectors

if TYPE_CHECKING:
    from resift.evaluation.data import Collection, Split
    from resift.vectors.table import WordVectors

_SHARES = (70.0, 10.0, 20.0)
split_option = click.option(
    "--split",
    "shares",
    callback=shares_of,
    metavar="A,B,C",
    help="Shares of training, validation and test queries, in blocks; the test block is never trained on.",
)
sources_option = click.option(
    "--vectors",
    "sources",
    multiple=True,
    default=[DEFAULT],
    show_default=True,
    metavar="DIR[=W]",
    help="Word vectors to start from, with a weight; may be repeated.",
)


@click.command("reranker")
@click.option("--collection", "folder", metavar="DIR", help="BEIR's layout: corpus, queries, qrels.")
@click.option("--from-feedback", "index", metavar="INDEX", help="What sessions judged of an index, in place of DIR.")
@click.option("--out", required=True, metavar="DIR", help="The reranker's folder.")
@click.option("--engine", envvar=["RESIFT_ENGINE", "OPENSEARCH_URL"], default="resift.db", help="Of --from-feedback.")
@click.option("--store", envvar="RESIFT_STORE", default="sessions.db", help="Of --from-feedback: where sessions are.")
@split_option
@sources_option
@click.option(
    "--epochs",
    default=LateInteractionOptions.epochs,
    show_default=True,
    help="Passes over the queries; more where there are few.",
)
@click.option(
    "--negatives", default=LateInteractionOptions.negatives, show_default=True, help="Documents against a relevant one."
)
@click.option(
    "--pool",
    default=LateInteractionOptions.pool,
    show_default=True,
    help="BM25's best, which negatives are drawn from.",
)
@click.option(
    "--rate",
    default=LateInteractionOptions.rate,
    show_default=True,
    help="Learning rate of the word rows at the start.",
)
@click.option("--seed", default=0, show_default=True)
def reranker_command(
    folder: str | None,
    index: str | None,
    out: str,
    engine: str,
    store: str,
    shares: tuple[float, ...] | None,
    sources: tuple[str, ...],
    **settings: Any,
) -> None:
    """Train a reranker on judged queries; the index and its vectors stay as they are.

    Queries of qrels/train.tsv are trained on, those of qrels/dev.tsv choose, those of qrels/test.tsv judge. With one
    qrels.tsv the queries are cut in three by the order of their documents (70, 10, 20 unless --split says otherwise),
    and without --split all of them train what is kept, once the held-back ones have judged. Where training
    made nothing better, the untrained reranker is kept; where that does not help either, nothing is written and the
    exit status is 3.
    """
    from resift.evaluation.data import block_split
    from resift.training.judged import learn

    started = time.perf_counter()
    options, hard = LateInteractionOptions(**settings), None
    if (folder is None) == (index is None):
        raise BadInput("--collection and --from-feedback", expected="one of them")
    if folder is not None:
        collection, split, everything = _parts(folder, shares)
    else:
        collection, hard = _judged(index or "", engine, store, options.pool)
        split, everything = block_split(collection, shares or _SHARES), shares is None
    table = mixed(sources, collection.documents, SPELLING)
    with bar_of("training") as progress:
        model, report = learn(collection, table, split, options, everything, hard, progress)
    tell(report, time.perf_counter() - started)
    if not report["better"]:
        click.echo(f"warning: it does not help on the held-back queries; nothing was written to {out}", err=True)
        sys.exit(3)
    if report["kept"] == "untrained":
        click.echo("warning: training made nothing better; the untrained reranker is kept", err=True)
    elif report["p"]["bm25"]["mrr@10"] >= 0.05:
        click.echo("warning: the gain over BM25 may be chance (p of 0.05 or more): judge more queries", err=True)
    model.save(out)
    click.echo(f"{model.name}, {len(model.table)} words of {model.table.dim} dimensions, hash {model.hash}, in {out}")


def _judged(index: str, url: str, store: str, pool: int) -> tuple[Collection, list[Any]]:
    """What sessions judged, as a collection, and for each query the engine's candidates after what was disliked.

    Grades of one query and document are added over sessions. Queries without a relevant document are left out, as are
    documents that are not in the index any more; both are counted.
    """
    import numpy as np

    from resift.evaluation.data import Collection
    from resift.plugin.connect import open_engine, open_session_store
    from resift.plugin.query_dsl import document_text
    from resift.reranker.config import Config
    from resift.reranker.sessions import Sessions

    engine, sessions = open_engine(url), open_session_store(store, Config.from_environment().session_index)
    try:
        fields = list(engine.info(index).fields)
        held = {id: document_text(source, fields) for id, source, _ in sorted(engine.scan(index), key=lambda d: d[0])}
        places = {id: place for place, id in enumerate(held)}
        grades: dict[str, dict[int, float]] = {}
        gone = 0
        for one in Sessions(sessions).judgements(index):
            if one.document not in places:
                gone += 1
            elif one.query.strip():
                judged = grades.setdefault(one.query.strip(), {})
                judged[places[one.document]] = judged.get(places[one.document], 0.0) + one.grade
        kept = {query: found for query, found in sorted(grades.items()) if max(found.values()) > 0}
        if not kept:
            raise BadInput(f"no session found a document of {index} relevant", value=index, expected="marks or clicks")
        hard = []
        for query, found in kept.items():
            body = {"query": {"multi_match": {"query": query, "fields": fields}}, "size": pool, "_source": False}
            best = [places[hit["_id"]] for hit in engine.search(index, body).hits if hit["_id"] in places]
            disliked = [place for place, grade in found.items() if grade < 0]
            others = range(min(pool + len(found), len(held)))
            hard.append(np.array(list(dict.fromkeys([*disliked, *best, *others])), np.int64))
    finally:
        engine.close()
        sessions.close()
    click.echo(
        f"{len(kept)} queries with a relevant document, {len(grades) - len(kept)} without one left out; "
        f"{gone} judgements of documents that are gone"
    )
    ids, texts = list(held), list(held.values())
    queries = list(kept)
    return Collection(index, ids, texts, queries, queries, list(kept.values()), len(grades) - len(kept)), hard


def mixed(sources: tuple[str, ...], documents: list[str], spelling: tuple[int, float]) -> WordVectors:
    """Word vectors by their folders (``DIR`` or ``DIR=WEIGHT``), mixed with spelling and the documents' idf."""
    from resift.corpus import DocumentFrequencies
    from resift.vectors.mixture import mix_vectors

    parts = [weighted_name(source) for source in sources]
    tables = [load_vectors(name) for name, _ in parts]
    return mix_vectors(
        tables, [weight for _, weight in parts], idf=DocumentFrequencies.from_texts(documents), spelling=spelling
    )


def weighted_name(text: str) -> tuple[str, float]:
    """``NAME`` or ``NAME=WEIGHT``; without one the weight is 1."""
    name, equals, weight = text.rpartition("=")
    try:
        return (name, float(weight)) if equals else (text, 1.0)
    except ValueError:
        raise BadInput(f"{text} has no weight", value=text, expected="NAME or NAME=WEIGHT") from None


@click.command("emboost")
@click.option("--collection", "folder", required=True, metavar="DIR", help="BEIR's layout: corpus, queries, qrels.")
@click.option("--out", required=True, metavar="DIR", help="The model's folder.")
@click.option("--network", type=click.Choice(["fcrr", "convrr"]), default="convrr", show_default=True)
@split_option
@sources_option
@click.option("--epochs", default=8, show_default=True, help="Passes over the queries, at most.")
@click.option("--batch", default=256, show_default=True, help="Queries a step.")
@click.option("--rate", default=3e-3, show_default=True, help="Adam's learning rate (the paper's: 0.001).")
@click.option("--scale", default=0.5, show_default=True, help="Of the residual (the paper's: 0.05).")
@click.option("--seed", default=0, show_default=True)
def emboost_command(
    folder: str, out: str, shares: tuple[float, ...] | None, sources: tuple[str, ...], **settings: Any
) -> None:
    """Train EmBoost's residual network on judged queries: an encoder. Needs the extra 'train'.

    Its vectors are new ones: documents have to be indexed with it (resift index --model). The parts of the queries are
    those of "resift train reranker"; the test part is never trained on. The epoch that is best on the validation
    queries is kept, and none is, with exit status 3, where that is the untrained mixture.
    """
    from resift.cli.options import import_torch
    from resift.encoders.residual import SPELLING as LETTERS

    import_torch()
    from resift.training.emboost import EmBoostOptions as Settings
    from resift.training.judged import choose_encoder

    started = time.perf_counter()
    collection, split, _ = _parts(folder, shares)
    table = mixed(sources, collection.documents, LETTERS)
    blocks = [load_vectors(weighted_name(source)[0]).dim for source in sources]
    with bar_of("training") as progress:
        blocks.append(table.dim - sum(blocks))
        model, curve = choose_encoder(collection, table, blocks, split, Settings(**settings), progress)
    for epoch, value in enumerate(curve):
        click.echo(f"epoch {epoch}: recall@1 of {len(split.validation)} validation queries {value:.4f}")
    click.echo(f"{time.perf_counter() - started:.0f} s")
    if model is None:
        click.echo(f"warning: no better than without training; nothing was written to {out}", err=True)
        sys.exit(3)
    model.save(out)
    click.echo(f"{model.name}, {model.dim} dimensions, hash {model.hash}, in {out}")


def _parts(folder: str, shares: tuple[float, ...] | None) -> tuple[Collection, Split, bool]:
    """The collection, its split, and whether the judging queries may be trained on at the end."""
    from resift.evaluation.data import block_split, has_part, read_collection

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

    from resift.evaluation.data import Collection, Split, block_split

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
