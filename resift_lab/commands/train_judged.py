"""The commands ``resift train reranker`` and ``resift train emboost``, which train on judged queries."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
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
from resift_lab.commands.judged_source import JudgedSource, judged_source_options
from resift_lab.commands.options import device_option, out_option, parse_shares, parse_weighted_names
from resift_lab.commands.saved import saved_model_line
from resift_lab.commands.settings import set_option
from resift_lab.corpus import DocumentFrequencies
from resift_lab.evaluation.baselines.late_interaction import SPELLING
from resift_lab.evaluation.data.parts import SplitCollection, read_split_collection, split_in_blocks
from resift_lab.evaluation.served import Served, SimulatedSearch, search_function
from resift_lab.training.device import Device
from resift_lab.training.options import EmBoostOptions, LateInteractionOptions
from resift_lab.vectors.mixture import mix_vectors

# Folders of word vectors with their weights.
WeightedVectors = list[tuple[str, float]]
judged_options = combine_options(
    out_option,
    click.option(
        "--split",
        "shares",
        callback=parse_shares,
        metavar="A,B,C",
        help="Shares of training, validation and test queries, for example 60,10,30. The test queries are then never "
        "used for training.",
    ),
    click.option(
        "--vectors",
        "vectors",
        multiple=True,
        default=[DEFAULT_MODEL],
        show_default=True,
        metavar="DIR[=WEIGHT]",
        callback=parse_weighted_names,
        help="A folder with word vectors to start from, or resift-en for the word vectors that come with Resift. May "
        "be repeated, with weights.",
    ),
)


@click.command("reranker", epilog="Example: resift train reranker --from-feedback news --out trained-reranker")
@click.option(
    "--collection",
    "folder",
    metavar="DIR",
    help="A folder of judged queries in BEIR's layout: corpus, queries, qrels.",
)
@click.option(
    "--from-feedback",
    "of_sessions",
    metavar="INDEX",
    help="Train on the judgements of sessions in this index, instead of --collection.",
)
@click.option(
    "--from-ubi",
    "of_ubi",
    metavar="INDEX",
    help="Train on the clicks on this index's hits in the log of User Behavior Insights, instead of --collection.",
)
@judged_source_options
@judged_options
@model_option
@set_option(LateInteractionOptions)
@device_option
@json_option
def reranker_command(
    out: str,
    vectors: WeightedVectors,
    model: str,
    device: Device,
    as_json: bool,
    settings: dict[str, Any],
    **queries: Any,
) -> None:
    """Train a reranker on judged queries. The index and its vectors are not changed.

    The queries of qrels/train.tsv train the reranker, the queries of qrels/dev.tsv choose the epoch and the weight, and
    the queries of qrels/test.tsv evaluate the result. With a single qrels.tsv, the queries are sorted by their first
    relevant document in the corpus and divided into three blocks: 70 % for training, 10 % for validation and 20 % for
    the test. --split changes the shares. Without --split, the written reranker is finally trained on all queries.

    The evaluation compares searches with and without the reranker. Both use BM25 and the vectors of --model, the model
    that the index is searched with. If training does not improve the reranker, the untrained reranker is written. If
    searches with the untrained reranker are not significantly better either (p < 0.05), nothing is written, and the
    exit status is 3. Needs the extra 'lab'.
    """
    from resift_lab.training.late_interaction_selection import train_reranker

    started, options = time.perf_counter(), LateInteractionOptions(**settings)
    source = _QuerySource(**queries)
    source.check()
    index, searched = source.index, load_model(model)
    with ExitStack() as stack:
        if index is None:
            data, candidates = read_split_collection(str(source.folder), source.shares), None
            _warn_of_skipped(data)
            served = _service_search(searched, data.collection.documents, device)
        else:
            engine = stack.enter_context(engine_at(source.source.engine))
            info = engine.info(index).for_search(searched)
            data, candidates = _read_judged_queries(source, engine, index, options.pool)
            served = _index_search(engine, info, searched, data.collection.document_ids)
        table = _mix_vectors(vectors, data.collection.documents, SPELLING)
        with progress_bar("training") as progress:
            reranker, report = train_reranker(data, table, served, options, candidates, progress)
    reranker.info |= {"indices": [] if index is None else [index], "beside": searched.hash}
    _save_or_exit(reranker, report, out, as_json, time.perf_counter() - started)


@dataclass(frozen=True)
class _QuerySource:
    """The options of ``resift train reranker`` that name the judged queries and divide them into parts.

    Attributes:
        folder: A folder in BEIR's layout, or None.
        of_sessions: The index whose judgements are read from sessions, or None.
        of_ubi: The index whose judgements are derived from the clicks in the UBI log, or None.
        source: The addresses of the engine and of the session store.
        shares: Shares of training, validation and test queries, such as (60, 10, 30). None means the default shares, or
            the parts that the folder defines.
    """

    folder: str | None
    of_sessions: str | None
    of_ubi: str | None
    source: JudgedSource
    shares: tuple[float, ...] | None

    @property
    def index(self) -> str | None:
        """The name of the index with the judgements, or None if the judged queries are in a folder."""
        return self.of_ubi or self.of_sessions

    def check(self) -> None:
        """Check that the options name exactly one source of judged queries.

        Raises:
            BadInput: If there is no source, or more than one.
        """
        if sum(source is not None for source in (self.folder, self.of_sessions, self.of_ubi)) != 1:
            raise BadInput(
                "the source of the judged queries is missing or ambiguous",
                expected="exactly one of --collection DIR, --from-feedback INDEX and --from-ubi INDEX",
            )


def _save_or_exit(reranker: LateInteraction, report: dict[str, Any], out: str, as_json: bool, seconds: float) -> None:
    """Print the report of a training run, and save the reranker if it improves searches. Otherwise exit with status 3.

    Args:
        reranker: The trained reranker.
        report: The report of :func:`resift_lab.training.late_interaction_selection.train_reranker`.
        out: The folder to save the reranker in.
        as_json: Whether to print JSON instead of text.
        seconds: The duration of the training.
    """
    lines, useful = _report_lines(report, seconds), report["better"]
    if useful:
        reranker.save(out)
        size = f"{len(reranker.table)} words of {reranker.table.dim} dimensions"
        lines.append(f"{reranker.name}, {size}, hash {reranker.hash}, in {out}")
    saved = {"name": reranker.name, "dim": reranker.table.dim, "hash": reranker.hash, "folder": out} if useful else None
    print_report({**report, "model": saved}, as_json, *lines)
    if report["unlearnable"]:
        click.echo(
            f"warning: {report['unlearnable']} queries were not used, because all of their candidates are relevant",
            err=True,
        )
    if not useful:
        reason = "searches with the reranker are not significantly better (p of 0.05 or more): judge more queries"
        click.echo(f"warning: {reason}; nothing was written to {out}", err=True)
        sys.exit(PROBLEMS_FOUND)
    if report["kept"] == "untrained":
        click.echo("warning: training did not improve the reranker; the untrained reranker is saved", err=True)


def _service_search(model: Model, documents: list[str], device: Device) -> Served:
    """Index documents in a temporary engine, and return a function that searches them in the same way as the service.

    Args:
        model: The model that encodes documents and queries.
        documents: The texts of the documents.
        device: The device of the model's teacher, a transformer that encodes the documents for a model of static
            queries.

    Returns:
        A function that takes the text of a query and returns its hits.
    """
    from resift_lab.commands.served_search import ServedSearch
    from resift_lab.evaluation.registry import as_system
    from resift_lab.training.systems import system_builders

    return search_function(ServedSearch, as_system(model, system_builders(device)), documents)


def _index_search(engine: Engine, info: IndexInfo, model: Model, ids: Sequence[str]) -> Served:
    """Return a function that searches an existing index in the same way as the service.

    Args:
        engine: The engine with the index.
        info: A description of the index.
        model: The model that encodes the queries.
        ids: The ids of the documents in the test collection. A hit is represented by its position in this list.

    Returns:
        A function that takes the text of a query and returns its hits.
    """
    from resift_lab.commands.served_search import IndexSearch

    positions = {id: position for position, id in enumerate(ids)}
    search = IndexSearch(engine, info, model.similarity, model.table.idf, positions)
    return lambda query: search.hits(
        SimulatedSearch(query, model.encode_query(query), model.alpha, model.alpha, known_share=model.known_share)
    )


def _read_judged_queries(
    source: _QuerySource, engine: Engine, index: str, pool: int
) -> tuple[SplitCollection, list[Any]]:
    """Read the relevance judgements of an index, divide the queries into parts, and print the number of queries.

    Args:
        source: The source of the judgements, and the shares of training, validation and test queries.
        engine: The engine with the index.
        index: The name of the index.
        pool: The number of hits to fetch for each query. They become the query's candidates: training draws negatives
            (irrelevant documents) from them.

    Returns:
        The judged queries, divided into training, validation and test queries, and the positions of each query's
        candidates.
    """
    from resift_lab.evaluation.judged_collection import judged_collection

    from_ubi = source.of_ubi is not None
    judgements = [judgement for _, judgement in source.source.judgements(engine, index, from_ubi)]
    judged = judged_collection(engine, judgements, index, pool)
    collection = judged.collection
    click.echo(
        f"{len(collection.queries)} queries with a relevant document (skipped: {collection.skipped} queries without a "
        f"relevant document, {judged.missing} judgements of deleted documents)",
        err=True,
    )
    return split_in_blocks(collection, source.shares), judged.candidates


def _warn_of_skipped(data: SplitCollection) -> None:
    """Print how many queries of a folder are not used, because no document is relevant to them."""
    if data.collection.skipped:
        reason = "because no document is relevant to them"
        click.echo(f"warning: {data.collection.skipped} queries were not used, {reason}", err=True)


def _mix_vectors(vectors: WeightedVectors, documents: list[str], spelling: tuple[int, float]) -> WordVectors:
    """Combine several tables of word vectors into one table with the words of the documents.

    Args:
        vectors: Pairs of a folder of word vectors and its weight.
        documents: The texts of the documents. A word's weight in the table is its inverse document frequency in them.
        spelling: The number of dimensions and the weight of additional vectors, which are computed from the spelling of
            words.

    Returns:
        The combined table.
    """
    tables = [load_vectors(name) for name, _ in vectors]
    idf = DocumentFrequencies.from_texts(documents)
    return mix_vectors(tables, [weight for _, weight in vectors], corpus=idf, spelling=spelling)


def _report_lines(report: dict[str, Any], seconds: float) -> list[str]:
    from resift_lab.training.late_interaction_selection import MEASURES

    parts = report["queries"]
    lines = [
        f"{parts['train']} queries to train, {parts['validation']} to choose, {parts['test']} held out; "
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
    help="A folder of judged queries in BEIR's layout: corpus, queries, qrels.",
)
@judged_options
@set_option(EmBoostOptions)
def emboost_command(
    folder: str,
    out: str,
    shares: tuple[float, ...] | None,
    vectors: WeightedVectors,
    settings: dict[str, Any],
) -> None:
    """Train EmBoost, an encoder with a residual network, on judged queries.

    '--set network=NAME' chooses between 'fcrr' (fully connected) and 'convrr' (convolutional). '--set paper=true'
    trains as the authors of EmBoost (Cakaloglu, Xu and Raghavan 2022): 400 steps with batches of 2000 queries,
    rate=0.001, scale=0.05 and fixed weights of the vectors. '--set negatives=semi-hard' chooses easier negatives, and
    '--set layers=N' stacks N layers.

    The queries are divided into training, validation and test queries, as by 'resift train reranker'. The test queries
    are never used for training. After each epoch, the recall@1 on the validation queries is measured. The encoder of
    the best epoch is saved. If no epoch has a better recall@1 than the word vectors before training, nothing is saved,
    and the exit status is 3. With 'paper=true', the encoder of the last epoch is always saved, even if it is worse than
    the word vectors. To use the new encoder, index the documents with it (resift index --model).

    Needs the extra 'lab'.
    """
    with needs_extra("lab", "training"):
        import resift_lab.training.emboost  # noqa: F401
    from resift_lab.training.emboost_selection import choose_encoder

    started, options = time.perf_counter(), EmBoostOptions(**settings)
    data = read_split_collection(folder, shares)
    _warn_of_skipped(data)
    table = _mix_vectors(vectors, data.collection.documents, EMBOOST_SPELLING)
    blocks = [load_vectors(name).dim for name, _ in vectors]
    # The remaining dimensions of the mixture are those of the spelling.
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
        lines.append(saved_model_line(model, out))
    click.echo("\n".join(lines))
    if model is None:
        click.echo(f"warning: no better than without training; nothing was written to {out}", err=True)
        sys.exit(PROBLEMS_FOUND)
