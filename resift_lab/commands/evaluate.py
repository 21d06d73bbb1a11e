"""``resift eval``: how well a system ranks documents or judges sentences, in files of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resift.cli.lazy import LazyGroup
from resift.cli.options import engine_option, json_option, library_at, model_option, option_for
from resift.cli.output import print_report, print_table, progress_bar
from resift.contracts.search_options import SearchRequest
from resift.errors import BadInput
from resift_lab.commands.feedback import feedback
from resift_lab.commands.options import Fraction, shares_of
from resift_lab.commands.systems import (
    SystemChoice,
    compare_option,
    system_options,
    warn_unadapted,
)

if TYPE_CHECKING:
    from resift_lab.evaluation.data import Collection

CLASSES = ("map11", "p@10", "p@20", "p@50", "ip@20", "ip@50")
STS = ("spearman", "pearson", "spearman_all", "pearson_all")
RETRIEVAL = ("ndcg@10", "map", "recall@1", "recall@3", "recall@5", "recall@10", "recall@100", "mrr@10")


@click.group(
    "eval",
    cls=LazyGroup,
    lazy={"word2doc": "resift_lab.commands.word2doc:eval_command"},
    epilog="Example: resift eval retrieval DIR --hybrid --compare bm25",
)
def evaluate() -> None:
    """Measure encoders and baselines on labelled documents, sentence pairs or a retrieval collection.

    An encoder is mean, boew:K[,SIGMA], sfbow …; a baseline is tfidf, tfidf-stop, bm25, lsi:K, pv-dbow:K, mean-plain,
    dynamax, sif, model2vec, adapted, late or st:FOLDER (a sentence-transformers model). All figures are fractions or
    correlations, with bootstrap 95 % intervals; p is of a paired randomisation test.

    Needs the extra 'lab'.
    """


@evaluate.command("classes", epilog="Example: resift eval classes --train train.jsonl --test test.jsonl")
@click.option(
    "--train",
    required=True,
    metavar="FILE",
    help="The documents to search: JSON lines {id, text, label}, plain or gzip.",
)
@click.option("--test", required=True, metavar="FILE", help="The documents that are the queries, in the same form.")
@system_options(compare_option)
def classes(train: str, test: str, choice: SystemChoice) -> None:
    """Same-class retrieval: each test document searches the training documents; those of its label are relevant.

    map11 is the 11-point interpolated mean average precision, p@K the precision among the first K, ip@K the largest
    precision at K or any later rank (what Passalis and Tefas 2018 print as top-K precision).
    """
    from resift_lab.evaluation.data import read_classes
    from resift_lab.evaluation.protocol import run_classes
    from resift_lab.evaluation.report import run_report

    name, database, queries = choice.name, read_classes(train), read_classes(test)
    system, second = choice.system(), choice.other()
    run = run_classes(system, database, queries)
    other = run_classes(second, database, queries) if second else None
    warn_unadapted(system, second)
    report = {"task": "classes", **run_report(run, name, choice.seed, other, choice.compare or "")}
    summary = f"{report['queries']} queries, {report['documents']} documents, {report['classes']} classes"
    choice.print_report(report, CLASSES, summary + _skipped(report, "of a label that no training document has"))
    if report["unknown"]:
        unknown = f"{report['unknown']} of {len(queries.texts)} test documents have no word that {name} knows"
        click.echo(f"warning: {unknown}; for them the order of the file decides", err=True)


@evaluate.command("sts", epilog="Example: resift eval sts pairs.tsv --encoder sfbow")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@system_options(compare_option)
def sts(files: tuple[str, ...], choice: SystemChoice) -> None:
    """Sentence pairs: correlation with gold scores, averaged over tasks weighted by their pairs.

    Each FILE is tab-separated without quoting, plain or gzip. Its first line names the columns: task, score, sentence1,
    sentence2.
    """
    from resift_lab.evaluation.data import read_pairs
    from resift_lab.evaluation.report import sts_report
    from resift_lab.evaluation.sts import run_sts

    name, read = choice.name, [read_pairs(file) for file in files]
    system, second = choice.system(), choice.other()
    tasks = run_sts(system, read)
    other = run_sts(second, read) if second else None
    report = {"task": "sts", **sts_report(tasks, name, choice.seed, other, choice.compare or "")}
    choice.print_report(report, STS, f"{report['pairs']} pairs, {len(report['tasks'])} tasks")


@evaluate.command("retrieval", epilog="Example: resift eval retrieval DIR --hybrid --compare bm25")
@click.argument("folder", metavar="DIR")
@click.option("--hybrid", is_flag=True, help="Rank as the service does, by the encoder and BM25 together.")
@click.option(
    "--alpha",
    type=Fraction(),
    show_default="the encoder's own",
    help="Weight of the encoder in --hybrid; BM25 has the rest.",
)
@click.option(
    "--judgments", metavar="FILE", help="Queries and ratings of a judgement list of the Search Relevance Workbench."
)
@click.option(
    "--split",
    "shares",
    callback=shares_of,
    metavar="A,B,C",
    help='Only the last block of queries, as "resift train reranker" cuts them.',
)
@system_options(compare_option)
def retrieval(
    folder: str,
    hybrid: bool,
    alpha: float | None,
    judgments: str | None,
    shares: tuple[float, ...] | None,
    choice: SystemChoice,
) -> None:
    """Rank a BEIR folder's documents for its queries: corpus.jsonl, queries.jsonl, qrels.tsv; plain or gzip.

    With --judgments corpus.jsonl is enough. Queries that the model was trained on are left out and counted
    (trained_on). If it was trained on all of them, all are used, with a warning.

    With --hybrid the documents are indexed in an embedded engine, and the rewritten search is asked, as the service
    does it. A reranker reads the first hits of that search by --vectors. Counts of words are mixed with BM25, both as
    z-scores.

    With --hybrid, --json gives the figures of BM25 and of the encoder alone under "alone". The system of --compare is
    never combined with BM25: "--hybrid --compare bm25" shows what the encoder adds. Where the judgements name
    irrelevant documents too, condensed_ndcg@10 leaves out what nobody judged; judged@10 is the part that somebody did.
    """
    from resift_lab.commands.served_search import ServedSearch
    from resift_lab.evaluation.protocol import run_hybrid, run_retrieval, unseen_queries
    from resift_lab.evaluation.report import run_report

    if alpha is not None and not hybrid:
        raise BadInput(f"--alpha {alpha} without --hybrid", value=alpha, expected="--hybrid, which it is a weight of")
    name, collection, alone = choice.name, _collection(folder, judgments, shares), {}
    system, second, available = choice.system(), choice.other(), len(collection.queries)
    collection, trained_on = unseen_queries(system, collection)
    if trained_on == available:
        click.echo("warning: the model was trained on all of these queries; new ones will fare worse", err=True)
    if hybrid:
        with progress_bar("searching", "queries") as progress:
            run, bm25, vectors = run_hybrid(system, collection, alpha, ServedSearch, progress)
        alone, name = {"bm25": bm25.means(), name: vectors.means()}, f"{name} + bm25"
    else:
        run = run_retrieval(system, collection)
    other = run_retrieval(second, collection) if second else None
    warn_unadapted(system, second)
    report = {"task": "retrieval", **run_report(run, name, choice.seed, other, choice.compare or "")}
    if hybrid:
        report["alone"] = alone
    if trained_on:
        report["trained_on"] = trained_on
    summary = f"{report['queries']} queries, {report['documents']} documents"
    if len(collection.queries) < available:
        summary += f"; {trained_on} queries that the model was trained on left out"
    choice.print_report(report, _reported(report), summary + _skipped(report, "without a relevant document"))


def _collection(folder: str, judgments: str | None, shares: tuple[float, ...] | None) -> Collection:
    """The folder's documents and queries; with ``shares`` of the queries only the last block."""
    from resift_lab.evaluation.data import block_split, read_collection, with_queries

    collection = read_collection(folder, judgments=judgments)
    return collection if shares is None else with_queries(collection, block_split(collection, shares).test.tolist())


def _reported(report: dict[str, Any]) -> tuple[str, ...]:
    """The metrics that a report of a retrieval collection has."""
    from resift_lab.evaluation.protocol import CONDENSED

    return (*RETRIEVAL, *(name for name in CONDENSED if name in report))


def _skipped(report: dict[str, Any], why: str) -> str:
    return f"; {report['skipped']} queries {why} left out" if report["skipped"] else ""


evaluate.add_command(feedback)


@evaluate.command("index", epilog="Example: resift eval index news DIR --engine http://127.0.0.1:9200 --knn 100")
@click.argument("index")
@click.argument("judged", metavar="DIR|FILE")
@option_for(SearchRequest, "knn", metavar="N", show_default="RESIFT_KNN")
@engine_option
@model_option
@json_option
def index(index: str, judged: str, knn: int | None, engine: str, model: str, as_json: bool) -> None:
    """The searches of INDEX as they are served, against judgements of its documents by their ids.

    These are queries.jsonl and qrels.tsv in a folder DIR of BEIR's layout, or a judgement list of the Search Relevance
    Workbench in a FILE. The model is the one that INDEX was attached with, if it is in the working directory.
    """
    from resift_lab.evaluation.data import read_judgements
    from resift_lab.evaluation.judged_search import evaluate as measure

    path = Path(judged)
    queries, grades = read_judgements(path) if path.is_dir() else read_judgements(path.parent, judgments=path)
    with library_at(engine, model, index) as opened, progress_bar("searching", "queries") as progress:
        opened.service.info(index)  # as resift search does
        found = measure(opened.index(index), queries, grades, knn=knn, progress=progress)
    rows = found.rows()
    if as_json:
        print_report({"task": "index", "queries": len(found.queries), "skipped": found.skipped, "measures": rows}, True)
        return
    click.echo(f"{found.caption}\n")
    figures = [[one["measure"], *(f"{one[name]:.4f}" for name in ("mean", "low", "high"))] for one in rows]
    print_table(["MEASURE", "MEAN", "LOW", "HIGH"], figures)


@evaluate.command("review", epilog="Example: resift eval review DIR --batch 10 --seeds 5")
@click.argument("folder", metavar="DIR")
@click.option("--batch", type=click.IntRange(1, 1000), default=10, show_default=True, help="Documents read at a time.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many simulations.")
@json_option
def review(folder: str, batch: int, seeds: int, as_json: bool) -> None:
    """Simulated reviews of the only query of a collection, from one random prior of each class on.

    In percent: work saved over sampling at a recall of 95 and 100 % (wss@95, wss@100), relevant records found after a
    tenth was read (rrf@10), the average time to discovery (atd), and recall and part read where the review may stop.
    """
    from resift_lab.evaluation.data import read_collection
    from resift_lab.evaluation.reviews import FIGURES, review_report

    report = review_report(read_collection(folder), seeds, batch)
    lines = [f"{report['relevant']} of {report['documents']} documents are relevant; means of {seeds} simulations"]
    print_report(report, as_json, "\n".join([*lines, *(f"{name:12} {report[name]:6.2f}" for name in FIGURES)]))
