"""``resift train reranker`` and ``resift train emboost``: trainings on queries whose relevant documents are known."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import click

from resift.cli.failures import PROBLEMS_FOUND
from resift.cli.options import combine_options, engine_at, json_option, model_option
from resift.cli.output import print_report, progress_bar
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.encoders.late_interaction import LateInteraction
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.encoders.residual import SPELLING as EMBOOST_SPELLING
from resift.errors import BadInput, needs_extra
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors
from resift.vectors.table import WordVectors
from resift_lab.commands.judged_source import JudgedSource, sourced
from resift_lab.commands.options import out_option, shares_of, weighted_names
from resift_lab.commands.saved import saved_line
from resift_lab.commands.settings import set_option
from resift_lab.corpus import DocumentFrequencies
from resift_lab.evaluation.baselines.late_interaction import SPELLING
from resift_lab.evaluation.data.parts import SplitCollection, read_split_collection, split_in_blocks
from resift_lab.evaluation.served import Asked, Served, served_by
from resift_lab.training.options import EmBoostOptions, LateInteractionOptions
from resift_lab.vectors.mixture import mix_vectors

Sources = list[tuple[str, float]]
judged_options = combine_options(
    out_option,
    click.option(
        "--split",
        "shares",
        callback=shares_of,
        metavar="A,B,C",
        help="Shares of training, validation and test queries, in blocks; the test block is never trained on.",
    ),
    click.option(
        "--vectors",
        "sources",
        multiple=True,
        default=[DEFAULT_MODEL],
        show_default=True,
        metavar="DIR[=WEIGHT]",
        callback=weighted_names,
        help="Word vectors to start from. May be repeated.",
    ),
)


@click.command("reranker", epilog="Example: resift train reranker --from-feedback news --out trained-reranker")
@click.option("--collection", "folder", metavar="DIR", help="Judged queries in BEIR's layout: corpus, queries, qrels.")
@click.option(
    "--from-feedback", "of_sessions", metavar="INDEX", help="Learn from what sessions judged in this index instead."
)
@click.option(
    "--from-ubi", "of_ubi", metavar="INDEX", help="Learn from what clients did with this index's hits, by UBI, instead."
)
@sourced
@judged_options
@model_option
@set_option(LateInteractionOptions)
@json_option
def reranker_command(
    folder: str | None,
    of_sessions: str | None,
    of_ubi: str | None,
    source: JudgedSource,
    out: str,
    shares: tuple[float, ...] | None,
    sources: Sources,
    model: str,
    as_json: bool,
    settings: dict[str, Any],
) -> None:
    """Train a reranker on judged queries; the index and its vectors stay as they are.

    Queries of qrels/train.tsv are trained on, those of qrels/dev.tsv choose the result, and those of qrels/test.tsv
    judge it. With a single qrels.tsv the queries are cut in three by the order of their documents (70, 10 and 20 parts
    unless --split says otherwise). Without --split all of them train what is written, once the held-back ones have
    judged.

    It is judged by what it makes of the hits that are served without it: those of BM25 and the vectors of --model,
    which is the model that the index is searched with. If training made nothing better, the untrained reranker is
    written; if that does not help either, or perhaps by chance (p of 0.05 or more), nothing is written and the exit
    status is 3. Needs the extra 'lab'.
    """
    from resift_lab.training.late_interaction_selection import train_reranker

    started, options = time.perf_counter(), LateInteractionOptions(**settings)
    if sum(source is not None for source in (folder, of_sessions, of_ubi)) != 1:
        raise BadInput("--collection, --from-feedback and --from-ubi", expected="one of them")
    index = of_ubi or of_sessions
    searched = load_model(model)
    with ExitStack() as kept_open:
        if index is None:
            data, candidates = read_split_collection(str(folder), shares), None
            served = _served(searched, data.collection.documents)
        else:
            engine = kept_open.enter_context(engine_at(source.engine))
            info = engine.info(index).for_search(searched)
            data, candidates = _judged(source, engine, index, of_ubi is not None, options.pool, shares)
            served = _served_index(engine, info, searched, data.collection.document_ids)
        table = _mixed(sources, data.collection.documents, SPELLING)
        with progress_bar("training") as progress:
            reranker, report = train_reranker(data, table, served, options, candidates, progress)
    reranker.info |= {"indices": [] if index is None else [index], "beside": searched.hash}
    _save(reranker, report, out, as_json, time.perf_counter() - started)


def _save(reranker: LateInteraction, report: dict[str, Any], out: str, as_json: bool, seconds: float) -> None:
    """Write the reranker if it helps, and say what was measured; ends the command if it does not."""
    lines, useful = _report_lines(report, seconds), report["better"]
    if useful:
        reranker.save(out)
        size = f"{len(reranker.table)} words of {reranker.table.dim} dimensions"
        lines.append(f"{reranker.name}, {size}, hash {reranker.hash}, in {out}")
    saved = {"name": reranker.name, "dim": reranker.table.dim, "hash": reranker.hash, "folder": out} if useful else None
    print_report({**report, "model": saved}, as_json, *lines)
    if not useful:
        why = "searches are no better with it, or perhaps by chance (p of 0.05 or more): judge more queries"
        click.echo(f"warning: {why}; nothing was written to {out}", err=True)
        sys.exit(PROBLEMS_FOUND)
    if report["unlearnable"]:
        told = f"{report['unlearnable']} queries teach nothing: all of their candidates are relevant"
        click.echo(f"warning: {told}", err=True)
    if report["kept"] == "untrained":
        click.echo("warning: training made nothing better; the untrained reranker is kept", err=True)


def _served(model: Model, documents: list[str]) -> Served:
    """Searches of documents as they are served with a model."""
    from resift_lab.commands.served_search import ServedSearch
    from resift_lab.evaluation.registry import system_of
    from resift_lab.training.systems import LEARNERS

    return served_by(ServedSearch, system_of(model, LEARNERS), documents)


def _served_index(engine: Engine, info: IndexInfo, model: Model, ids: Sequence[str]) -> Served:
    """Searches of an index as they are served with a model."""
    from resift_lab.commands.served_search import IndexSearch

    positions = {id: position for position, id in enumerate(ids)}
    search = IndexSearch(engine, info, model.similarity, model.table.idf, positions)
    return lambda query: search.hits(
        Asked(query, model.encode_one(query), model.alpha, model.alpha, known_share=model.known_share)
    )


def _judged(
    source: JudgedSource, engine: Engine, index: str, from_ubi: bool, pool: int, shares: tuple[float, ...] | None
) -> tuple[SplitCollection, list[Any]]:
    """What was judged, split in blocks, and each query's candidates; prints how much of it there is."""
    from resift_lab.evaluation.judged_collection import judged_collection

    judged = judged_collection(engine, [one for _, one in source.judgements(engine, index, from_ubi)], index, pool)
    collection = judged.collection
    click.echo(
        f"{len(collection.queries)} queries with a relevant document, {collection.skipped} without one left out; "
        f"{judged.missing} judgements of documents that are gone",
        err=True,
    )
    return split_in_blocks(collection, shares), judged.candidates


def _mixed(sources: Sources, documents: list[str], spelling: tuple[int, float]) -> WordVectors:
    """The tables of word vectors, mixed with their weights, the documents' idf and dimensions made from letters."""
    tables = [load_vectors(name) for name, _ in sources]
    idf = DocumentFrequencies.from_texts(documents)
    return mix_vectors(tables, [weight for _, weight in sources], idf=idf, spelling=spelling)


def _report_lines(report: dict[str, Any], seconds: float) -> list[str]:
    from resift_lab.training.late_interaction_selection import MEASURES

    parts = report["queries"]
    lines = [
        f"{parts['train']} queries to train, {parts['validation']} to choose, {parts['test']} held back; "
        f"{report['epochs']} epochs, alpha {report['alpha']:g}, {seconds:.0f} s",
        f"{report['judges']} {report['judged_on']} queries".ljust(22) + "".join(f"{m:>10}" for m in MEASURES),
    ]
    for title, systems in (("", report["systems"]), ("p against ", report["p"])):
        for name, values in systems.items():
            lines.append(f"  {title + name:20}" + "".join(f"{values[measure]:10.4f}" for measure in MEASURES))
    return lines


@click.command("emboost", epilog="Example: resift train emboost --collection DIR --out own-model")
@click.option(
    "--collection",
    "folder",
    required=True,
    metavar="DIR",
    help="Judged queries in BEIR's layout: corpus, queries, qrels.",
)
@judged_options
@set_option(EmBoostOptions)
def emboost_command(
    folder: str,
    out: str,
    shares: tuple[float, ...] | None,
    sources: Sources,
    settings: dict[str, Any],
) -> None:
    """Train EmBoost's residual network on judged queries: an encoder. Needs the extra 'lab'.

    network is fcrr (fully connected) or convrr (convolutional); the paper has rate=0.001 and scale=0.05.

    Its vectors are new ones, so documents have to be indexed with it (resift index --model). Queries are split as for
    "resift train reranker", and those of the test part are never trained on. The epoch that is best on the validation
    queries is written. If that is the untrained mixture of word vectors, nothing is, and the exit status is 3.
    """
    with needs_extra("lab", "training"):
        import resift_lab.training.emboost  # noqa: F401
    from resift_lab.training.emboost_selection import choose_encoder

    started, options = time.perf_counter(), EmBoostOptions(**settings)
    data = read_split_collection(folder, shares)
    table = _mixed(sources, data.collection.documents, EMBOOST_SPELLING)
    blocks = [load_vectors(name).dim for name, _ in sources]
    # what is left of the mixture's dimensions are those made from letters
    blocks.append(table.dim - sum(blocks))
    with progress_bar("training") as progress:
        model, curve = choose_encoder(data.collection, table, blocks, data.split, options, progress)
    lines = [
        f"epoch {epoch}: recall@1 of {len(data.split.validation)} validation queries {value:.4f}"
        for epoch, value in enumerate(curve)
    ]
    lines.append(f"{time.perf_counter() - started:.0f} s")
    if model is not None:
        model.save(out)
        lines.append(saved_line(model, out))
    click.echo("\n".join(lines))
    if model is None:
        click.echo(f"warning: no better than without training; nothing was written to {out}", err=True)
        sys.exit(PROBLEMS_FOUND)
