"""The command ``resift eval feedback``, which evaluates relevance feedback by a simulated user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from resift.cli.output import progress_bar
from resift.errors import BadInput
from resift.feedback.methods import DEFAULT_METHOD
from resift_lab.commands.options import Fraction
from resift_lab.commands.settings import set_option
from resift_lab.commands.systems import SystemChoice, system_options, warn_unadapted
from resift_lab.evaluation.feedback.options import FeedbackOptions

if TYPE_CHECKING:
    from resift_lab.evaluation.feedback.bench import FeedbackBench
    from resift_lab.evaluation.feedback.protocol import FeedbackProtocol


@click.command("feedback", epilog="Example: resift eval feedback DIR --method ridge+lexical")
@click.argument("folder", required=False, metavar="[DIR]")
@click.option("--train", metavar="FILE", help="A file of labelled documents to search, instead of DIR.")
@click.option("--test", metavar="FILE", help="A file of labelled documents that are used as queries.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="NAME",
    show_default=DEFAULT_METHOD,
    help="A feedback method to evaluate. May be repeated.",
)
@set_option(FeedbackOptions, "seed")
@click.option(
    "--alpha",
    type=Fraction(),
    show_default="the encoder's own",
    help="Weight of the vectors relative to BM25 in searches without feedback.",
)
@click.option(
    "--topics",
    is_flag=True,
    help="Evaluate sessions with two subjects instead: hits of a query are judged, and then another query follows.",
)
@click.option(
    "--turns",
    metavar="DIR",
    help="Evaluate conversations instead: a folder in BEIR's layout with people's marks on hits, in turns.jsonl.",
)
@click.option(
    "--rewritten",
    is_flag=True,
    help="With --turns: search with the rewritten queries of rewritten.jsonl, as far as it has them.",
)
@click.option(
    "--unjudged",
    type=click.Choice(["skip", "irrelevant"]),
    show_default="skip if DIR has judgements of irrelevant documents, else irrelevant",
    help="How the simulated user treats hits without a judgement in DIR.",
)
@system_options()
def feedback(
    topics: bool,
    methods: tuple[str, ...],
    alpha: float | None,
    choice: SystemChoice,
    settings: dict[str, Any],
    **sources: Any,
) -> None:
    """Evaluate relevance feedback by a simulated user, on labelled documents or on a folder in BEIR's layout.

    The simulated user judges some of the first hits of a query, and the query is repeated in a session with these
    judgements. Each method is compared with the ranking without feedback. Searches are those of the service: the
    documents are indexed in an embedded engine, which runs the rewritten queries. Without --encoder and --model, word
    vectors are adapted to the documents, as 'resift train self' does. '--encoder adapted:mixed' adds the original
    vectors, as 'resift index --adapt' does.

    With DIR, the first ten hits are judged. If the judgements in DIR name irrelevant documents too, hits without a
    judgement are skipped. All metrics are computed on the residual ranking, without the judged documents. Queries
    without any other relevant document are counted as 'all_judged'. If DIR has judgements of irrelevant documents,
    condensed_ndcg@10 ignores hits without a judgement, and judged@10 is the share of judged documents among the first
    ten.

    With --train and --test, documents with the same label as the query are relevant. Equal numbers of relevant and
    irrelevant documents among the first 30 are judged (Passalis and Tefas 2018, Table 5), and the whole collection is
    ranked again by the same system.

    With --turns, each turn of a conversation after a positive mark is searched with the session (ndcg@5) and without
    (ndcg@5_without_session). Further metrics leave out the marked documents (residual) or the hits without a judgement
    (condensed).

    Methods: mask, rocchio, mask+rocchio, ridge, lexical, ridge+lexical, whitened, qdrant, refit, classifier. Baselines:
    none, rocchio, rm3, more_like_this.
    """
    if not (choice.encoder or choice.model):
        choice = replace(choice, encoder="adapted")
    options, methods = FeedbackOptions(seed=choice.seed, **settings), _checked_methods(methods)
    turns, rewritten = sources.pop("turns"), sources.pop("rewritten")
    if turns or rewritten:
        if not turns or topics or any(sources.values()):
            raise BadInput(
                "--turns cannot be combined with another source", value=turns, expected="--turns DIR [--rewritten]"
            )
        _measure_turns(turns, rewritten, alpha, methods[0], choice)
        return
    protocol = _build_protocol(**sources)
    bench = _bench(protocol.documents, protocol.queries, alpha, choice, protocol.whole)
    facts = {**asdict(options), "documents": len(bench.documents), "encoder": choice.name, "alpha": bench.alpha}
    facts["skipped"] = protocol.skipped
    if protocol.unjudged:
        facts["unjudged"] = protocol.unjudged
    del facts["queries"]  # the report contains the number of queries itself
    if topics:
        _measure_topics(bench, protocol, options, facts, choice)
    else:
        _measure_rounds(bench, protocol, options, methods, facts, choice)


def _checked_methods(methods: tuple[str, ...]) -> tuple[str, ...]:
    """Check the names of feedback methods, and fill in the default.

    Args:
        methods: The names from the command line.

    Returns:
        The names, or the name of the service's default method if there are none.

    Raises:
        BadInput: If no feedback method has one of these names.
    """
    from resift_lab.evaluation.feedback.methods import check_method

    for method in methods:
        check_method(method)
    return methods or (DEFAULT_METHOD,)


def _build_protocol(folder: str | None, train: str | None, test: str | None, unjudged: str | None) -> FeedbackProtocol:
    """Return the evaluation protocol for a folder in BEIR's layout, or for two files of labelled documents.

    Args:
        folder: The folder, or None.
        train: The file of labelled documents to search, or None.
        test: The file of labelled documents that serve as queries, or None.
        unjudged: How the simulated user treats hits without a judgement: ``skip`` ignores such hits, ``irrelevant``
            marks them as irrelevant. None means ``skip`` if the folder has judgements of irrelevant documents, and
            ``irrelevant`` if it has none.

    Raises:
        BadInput: If there is neither a folder nor a pair of files, if there are both, or if ``unjudged`` is set without
            a folder.
    """
    from resift_lab.evaluation.data import read_collection, read_labelled_documents
    from resift_lab.evaluation.feedback.graded import GradedFeedback
    from resift_lab.evaluation.feedback.same_class import SameClassFeedback

    if folder and not (train or test):
        return GradedFeedback(read_collection(folder), unjudged)
    if unjudged:
        raise BadInput("--unjudged needs a folder with judgements", value=unjudged, expected="DIR")
    if not (train and test) or folder:
        raise BadInput(
            "the documents are missing or ambiguous", expected="either DIR, or both --train FILE and --test FILE"
        )
    return SameClassFeedback(read_labelled_documents(train), read_labelled_documents(test))


def _bench(
    documents: Sequence[str],
    queries: Sequence[str],
    alpha: float | None,
    choice: SystemChoice,
    whole: bool = False,
) -> FeedbackBench:
    from resift_lab.commands.served_search import ServedSearch
    from resift_lab.evaluation.feedback.bench import BenchOptions, FeedbackBench

    system = choice.system()
    bench = FeedbackBench(system, documents, queries, ServedSearch, BenchOptions(alpha=alpha, whole=whole))
    warn_unadapted(system)
    return bench


def _measure_turns(folder: str, rewritten: bool, alpha: float | None, method: str, choice: SystemChoice) -> None:
    from resift_lab.evaluation.data import read_conversations
    from resift_lab.evaluation.feedback.turns import METRICS, run_turns
    from resift_lab.evaluation.report import run_report

    collection, conversations = read_conversations(folder, rewritten)
    texts = [turn.text for turns in conversations for turn in turns]
    bench = _bench(collection.documents, texts, alpha, choice)
    figures = run_report(run_turns(bench, conversations, method), method, choice.seed)
    facts = {"encoder": choice.name, "alpha": bench.alpha, "rewritten": rewritten}
    report = {"task": "feedback", "protocol": "turns", **figures, **facts}
    summary = f"{report['queries']} turns of {report['conversations']} conversations, {report['documents']} documents"
    choice.print_report(report, METRICS, summary)


def _measure_rounds(
    bench: FeedbackBench,
    protocol: FeedbackProtocol,
    options: FeedbackOptions,
    methods: tuple[str, ...],
    facts: dict[str, Any],
    choice: SystemChoice,
) -> None:
    from resift_lab.evaluation.feedback.methods import BASELINES
    from resift_lab.evaluation.feedback.runs import run_feedback
    from resift_lab.evaluation.report import feedback_report

    names = tuple(dict.fromkeys((*methods, *BASELINES)))
    with progress_bar("marking and searching again", "queries") as progress:
        runs = run_feedback(bench, protocol, options, names, progress)
    figures = feedback_report(runs, methods[0], choice.seed)
    report = {"task": "feedback", "protocol": protocol.name, **figures, **facts}
    summary = f"{report['queries']} queries, {report['documents']} documents"
    if protocol.skipped:
        summary += f"; {protocol.skipped} queries without a relevant document were skipped"
    if report["all_judged"]:
        summary += f"; {report['all_judged']} queries were skipped, because all of their relevant documents were judged"
    choice.print_report(report, protocol.metrics, summary)


def _measure_topics(
    bench: FeedbackBench,
    protocol: FeedbackProtocol,
    options: FeedbackOptions,
    facts: dict[str, Any],
    choice: SystemChoice,
) -> None:
    from resift_lab.evaluation.feedback.runs import run_topics
    from resift_lab.evaluation.report import as_json, topics_report, topics_table

    figures = topics_report(run_topics(bench, protocol, options))
    report = {"task": "feedback", "protocol": "topics", **figures, **facts}
    click.echo(as_json(report) if choice.as_json else topics_table(report, protocol.metrics))
