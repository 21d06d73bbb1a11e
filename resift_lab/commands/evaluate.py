"""The command group ``resift eval``, which evaluates encoders, baselines, indices and reviews."""

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
from resift_lab.commands.options import Fraction, parse_shares
from resift_lab.commands.systems import (
    SystemChoice,
    compare_option,
    system_options,
    warn_unadapted,
)

if TYPE_CHECKING:
    from resift_lab.evaluation.data import Collection

# Metrics in the tables of the commands.
CLASSES = ("map11", "p@10", "p@20", "p@50", "ip@20", "ip@50")
STS = ("spearman", "pearson", "spearman_all", "pearson_all")
RETRIEVAL = ("ndcg@10", "map", "recall@1", "recall@3", "recall@5", "recall@10", "recall@100", "mrr@10")


@click.group(
    "eval",
    cls=LazyGroup,
    locations={"word2doc": "resift_lab.commands.word2doc:eval_command"},
    epilog="Example: resift eval retrieval DIR --hybrid --compare bm25",
)
def evaluate() -> None:
    """Evaluate encoders and baselines on labelled documents, sentence pairs or a retrieval collection.

    Encoders: mean, boew:K[,SIGMA], sfbow[:UNIVERSE] and others that 'resift model' creates. Baselines: tfidf,
    tfidf-stop, bm25, lsi:K, pv-dbow:K, mean-plain, dynamax, dynamax-plain (without words that have no vector),
    sfbow-counts, sif, model2vec, adapted (word vectors adapted to the documents), svm:T,FILE (class probabilities of a
    linear classifier that is trained on the labelled documents of FILE, with the softmax temperature T), late (an
    untrained reranker) and st:FOLDER (a sentence-transformers model).

    K is the number of codewords (boew) or dimensions (lsi, pv-dbow), and SIGMA the width of the codewords. UNIVERSE
    names the vectors with which words are compared, for example pca100 for 100 principal axes.

    Metrics are fractions or correlations, with 95 % bootstrap intervals. p values are from paired randomisation tests.
    Needs the extra 'lab'.
    """


@evaluate.command("classes", epilog="Example: resift eval classes --train train.jsonl --test test.jsonl")
@click.option(
    "--train",
    required=True,
    metavar="FILE",
    help="The documents to search: JSON lines with 'id', 'text' and 'label', plain or gzip.",
)
@click.option(
    "--test", required=True, metavar="FILE", help="The documents that are used as queries, in the same format."
)
@system_options(compare_option)
def classes(train: str, test: str, choice: SystemChoice) -> None:
    """Evaluate same-class retrieval: documents with the same label as the query are relevant.

    Each test document is a query for the training documents. map11 is the 11-point interpolated mean average precision,
    p@K the precision among the first K documents, and ip@K the largest precision at K or any later rank, which Passalis
    and Tefas 2018 call top-K precision.
    """
    from resift_lab.evaluation.data import read_labelled_documents
    from resift_lab.evaluation.protocol import run_classes
    from resift_lab.evaluation.report import run_report

    name, database, queries = choice.name, read_labelled_documents(train), read_labelled_documents(test)
    system, second = choice.system(), choice.second_system()
    run = run_classes(system, database, queries)
    second_run = run_classes(second, database, queries) if second else None
    warn_unadapted(system, second)
    report = {"task": "classes", **run_report(run, name, choice.seed, second_run, choice.compare or "")}
    summary = f"{report['queries']} queries, {report['documents']} documents, {report['classes']} classes"
    choice.print_report(report, CLASSES, summary + _skipped(report, "with a label that no training document has"))
    if report["unknown"]:
        click.echo(
            f"warning: {report['unknown']} of {len(queries.texts)} test documents have no word that {name} knows; "
            "their hits are in the order of the file",
            err=True,
        )


@evaluate.command("sts", epilog="Example: resift eval sts pairs.tsv --encoder sfbow")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@system_options(compare_option)
def sts(files: tuple[str, ...], choice: SystemChoice) -> None:
    """Evaluate sentence similarity: the correlation with human scores of sentence pairs.

    The mean over tasks is weighted by the number of pairs. Each FILE is tab-separated, without quotes, plain or gzip.
    Its first line names the columns: task, score, sentence1, sentence2.
    """
    from resift_lab.evaluation.data import read_sentence_pairs
    from resift_lab.evaluation.report import sts_report
    from resift_lab.evaluation.sts import run_sts

    name, pairs = choice.name, [read_sentence_pairs(file) for file in files]
    system, second = choice.system(), choice.second_system()
    tasks = run_sts(system, pairs)
    second_tasks = run_sts(second, pairs) if second else None
    report = {"task": "sts", **sts_report(tasks, name, choice.seed, second_tasks, choice.compare or "")}
    choice.print_report(report, STS, f"{report['pairs']} pairs, {len(report['tasks'])} tasks")


@evaluate.command("retrieval", epilog="Example: resift eval retrieval DIR --hybrid --compare bm25")
@click.argument("folder", metavar="DIR")
@click.option("--hybrid", is_flag=True, help="Rank as the service does, by a combination of the encoder and BM25.")
@click.option(
    "--alpha",
    type=Fraction(),
    show_default="the encoder's own",
    help="Weight of the encoder with --hybrid, from 0 (BM25 alone) to 1 (the encoder alone).",
)
@click.option(
    "--judgments",
    metavar="FILE",
    help="A judgement list of the Search Relevance Workbench, instead of the queries and judgements of DIR.",
)
@click.option(
    "--split",
    "shares",
    callback=parse_shares,
    metavar="A,B,C",
    help="Use only the test queries of a split into three parts, as 'resift train reranker' divides them.",
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
    """Evaluate the ranking of documents for judged queries.

    DIR is a folder in BEIR's layout, with corpus.jsonl, queries.jsonl and qrels.tsv, plain or gzip. With --judgments,
    corpus.jsonl is sufficient. Queries that the model was trained on are skipped and counted as 'trained_on'. If the
    model was trained on all queries, all are used, and a warning is printed.

    With --hybrid, the documents are indexed in an embedded engine, which runs the rewritten queries of the service. A
    reranker reorders the first hits of such a search with --vectors. Systems that count words, such as tfidf, are
    combined with BM25 by z-scores instead. --json also prints the metrics of BM25 and of the encoder without
    combination, under 'alone'. The system of --compare is never combined with BM25, so '--hybrid --compare bm25' shows
    the benefit of the encoder.

    If the judgements name irrelevant documents too, condensed_ndcg@10 ignores hits without a judgement, and judged@10
    is the share of judged documents among the first ten.
    """
    from resift_lab.commands.served_search import ServedSearch
    from resift_lab.evaluation.protocol import run_hybrid, run_retrieval, unseen_queries
    from resift_lab.evaluation.report import run_report

    if alpha is not None and not hybrid:
        raise BadInput(f"--alpha {alpha} needs --hybrid", value=alpha, expected="--hybrid, or no --alpha")
    name, collection, alone = choice.name, _read_test_collection(folder, judgments, shares), {}
    system, second, available = choice.system(), choice.second_system(), len(collection.queries)
    collection, trained_on = unseen_queries(system, collection)
    if trained_on == available:
        click.echo(
            "warning: the model was trained on all of these queries; results for new queries will be worse", err=True
        )
    if hybrid:
        with progress_bar("searching", "queries") as progress:
            run, bm25, vectors = run_hybrid(system, collection, alpha, ServedSearch, progress)
        alone, name = {"bm25": bm25.means(), name: vectors.means()}, f"{name} + bm25"
    else:
        run = run_retrieval(system, collection)
    second_run = run_retrieval(second, collection) if second else None
    warn_unadapted(system, second)
    report = {"task": "retrieval", **run_report(run, name, choice.seed, second_run, choice.compare or "")}
    if hybrid:
        report["alone"] = alone
    if trained_on:
        report["trained_on"] = trained_on
    summary = f"{report['queries']} queries, {report['documents']} documents"
    if len(collection.queries) < available:
        summary += f"; {trained_on} queries that the model was trained on were skipped"
    choice.print_report(report, _metrics_to_print(report), summary + _skipped(report, "without a relevant document"))


def _read_test_collection(folder: str, judgments: str | None, shares: tuple[float, ...] | None) -> Collection:
    """Read a test collection from a folder in BEIR's layout.

    Args:
        folder: The folder in BEIR's layout.
        judgments: The path of a judgement list that replaces the queries and judgements of the folder, or None.
        shares: Shares of training, validation and test queries, such as (60, 10, 30). If set, only the test queries are
            returned. None returns all queries.
    """
    from resift_lab.evaluation.data import block_split, read_collection, with_queries

    collection = read_collection(folder, judgments=judgments)
    return collection if shares is None else with_queries(collection, block_split(collection, shares).test.tolist())


def _metrics_to_print(report: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the metrics that ``resift eval retrieval`` prints, in order.

    Args:
        report: The metrics by name. Metrics of condensed rankings, which leave out unjudged documents, are printed only
            if the report contains them.
    """
    from resift_lab.evaluation.protocol import CONDENSED

    return (*RETRIEVAL, *(name for name in CONDENSED if name in report))


def _skipped(report: dict[str, Any], reason: str) -> str:
    return f"; {report['skipped']} queries {reason} were skipped" if report["skipped"] else ""


evaluate.add_command(feedback)


@evaluate.command("index", epilog="Example: resift eval index news DIR --engine http://127.0.0.1:9200 --knn 100")
@click.argument("index")
@click.argument("judged", metavar="DIR|FILE")
@option_for(SearchRequest, "knn", metavar="N", show_default="RESIFT_KNN")
@engine_option
@model_option
@json_option
def index(index: str, judged: str, knn: int | None, engine: str, model: str, as_json: bool) -> None:
    """Measure how well searches in INDEX rank documents with known relevance.

    Every query is searched as the service would search it, without a session. Queries and relevance judgements are
    read from a folder DIR in BEIR's layout (queries.jsonl and qrels.tsv), or from a FILE with a judgement list of the
    Search Relevance Workbench. Both refer to documents by their ids in INDEX.

    If 'resift attach' added vectors to INDEX, the searches use the model that computed these vectors, provided that its
    folder is in the working directory. --model selects another model.
    """
    from resift_lab.evaluation.data import read_judgements
    from resift_lab.evaluation.judged_search import evaluate as measure

    path = Path(judged)
    queries, grades = read_judgements(path) if path.is_dir() else read_judgements(path.parent, judgments=path)
    with library_at(engine, model, index) as opened, progress_bar("searching", "queries") as progress:
        opened.service.infos.get(index)  # raises an error if the index does not exist
        result = measure(opened.index(index), queries, grades, knn=knn, progress=progress)
    rows = result.rows()
    if as_json:
        report = {"task": "index", "queries": len(result.queries), "skipped": result.skipped, "measures": rows}
        print_report(report, True)
        return
    click.echo(f"{result.caption}\n")
    cells = [[row["measure"], *(f"{row[name]:.4f}" for name in ("mean", "low", "high"))] for row in rows]
    print_table(["MEASURE", "MEAN", "LOW", "HIGH"], cells)


@evaluate.command("review", epilog="Example: resift eval review DIR --batch 10 --seeds 5")
@click.argument("folder", metavar="DIR")
@click.option(
    "--batch", type=click.IntRange(1, 1000), default=10, show_default=True, help="Number of documents in a batch."
)
@click.option("--seeds", type=click.IntRange(1, 1000), default=5, show_default=True, help="Number of simulations.")
@json_option
def review(folder: str, batch: int, seeds: int, as_json: bool) -> None:
    """Simulate systematic reviews of a collection, and measure how much reading the ranking saves.

    DIR is a folder in BEIR's layout with a single query. A review starts with a random relevant and a random irrelevant
    document. All metrics are in percent: the work saved over sampling at a recall of 95 and 100 % (wss@95, wss@100),
    the share of relevant documents among the first tenth (rrf@10), the average time to discovery (atd), and, at the
    point where the review may stop, the recall and the share of documents read.
    """
    from resift_lab.evaluation.data import read_collection
    from resift_lab.evaluation.reviews import MEASURES, review_report

    report = review_report(read_collection(folder), seeds, batch)
    lines = [f"{report['relevant']} of {report['documents']} documents are relevant; means of {seeds} simulations"]
    print_report(report, as_json, "\n".join([*lines, *(f"{name:12} {report[name]:6.2f}" for name in MEASURES)]))
