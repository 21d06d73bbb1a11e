"""``resift eval feedback``: what relevance feedback by a simulated user does to rankings."""

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

_CODEWORDS = 64


@click.command("feedback", epilog="Example: resift eval feedback DIR --method ridge+lexical")
@click.argument("folder", required=False, metavar="[DIR]")
@click.option("--train", metavar="FILE", help="Labelled documents to search, instead of DIR.")
@click.option("--test", metavar="FILE", help="Labelled documents that are the queries.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="NAME",
    show_default=DEFAULT_METHOD,
    help="How the session learns. May be repeated.",
)
@set_option(FeedbackOptions, "seed")
@click.option(
    "--alpha",
    type=Fraction(),
    show_default="the encoder's own",
    help="Weight of the similarity against BM25, before any feedback.",
)
@click.option(
    "--topics", is_flag=True, help="Measure sessions of two topics instead: a query that is judged, then another one."
)
@click.option(
    "--turns",
    metavar="DIR",
    help="Measure conversations instead: a BEIR folder with people's marks on the turns, in turns.jsonl.",
)
@click.option(
    "--rewritten", is_flag=True, help="With --turns: search with the queries of rewritten.jsonl, where it has a turn's."
)
@click.option(
    "--unjudged",
    type=click.Choice(["skip", "irrelevant"]),
    show_default="skip where DIR's judgements name irrelevant documents",
    help="What the simulated user does about hits of DIR that nobody judged.",
)
@system_options()
def feedback(
    folder: str | None,
    train: str | None,
    test: str | None,
    methods: tuple[str, ...],
    alpha: float | None,
    topics: bool,
    turns: str | None,
    rewritten: bool,
    unjudged: str | None,
    choice: SystemChoice,
    settings: dict[str, Any],
) -> None:
    """Relevance feedback by a simulated user, in labelled documents or a BEIR folder.

    Without --encoder or --model the vectors are adapted to the documents, as "resift index --adapt" does.

    With labelled documents (--train, --test) relevant and irrelevant ones of the first 30 are judged, half of each
    (Passalis and Tefas 2018, Table 5). With DIR the first ten documents are judged; where its judgements name
    irrelevant documents too, as those of pools do, the first ten that they name. All figures of DIR, and those named
    residual, are of the ranking without the judged documents; queries of which every relevant one was judged have none
    (all_judged counts them). Of pools there is also nDCG without what nobody judged (condensed_ndcg@10), and the part
    of the first ten documents that somebody did (judged@10). Rankings are those that are served: the documents are
    indexed in an embedded engine, and the rewritten search is asked; with labelled documents its window holds all.

    With --turns each later turn of a conversation with an earlier "yes" is searched in the session and without it
    (ndcg@5, ndcg@5_without_session), also without the marked documents (residual) or the unjudged ones (condensed).

    Methods: mask, rocchio, mask+rocchio, ridge, lexical, ridge+lexical, whitened, qdrant, refit, classifier; baselines:
    none, rocchio, rm3, more_like_this. Each method is compared with the ranking before.
    """
    if not (choice.encoder or choice.model):
        choice = replace(choice, encoder="adapted")
    options, methods = FeedbackOptions(seed=choice.seed, **settings), _known(methods)
    if turns or rewritten:
        if not turns or folder or train or test or topics or unjudged:
            raise BadInput("--turns DIR is measured alone", value=turns, expected="--turns DIR [--rewritten]")
        _measure_turns(turns, rewritten, alpha, methods[0], choice)
        return
    protocol = _protocol(folder, train, test, unjudged, choice)
    bench = _bench(protocol.documents, protocol.queries, alpha, choice, protocol.whole)
    facts = {**asdict(options), "documents": len(bench.documents), "encoder": choice.name, "alpha": bench.alpha}
    facts["skipped"] = protocol.skipped
    facts |= {"unjudged": protocol.unjudged} if protocol.unjudged else {}
    del facts["queries"]  # how many are drawn, which the report says
    if topics:
        _measure_topics(bench, protocol, options, facts, choice)
    else:
        _measure_rounds(bench, protocol, options, methods, facts, choice)


def _known(methods: tuple[str, ...]) -> tuple[str, ...]:
    """The methods, or the one that is served. Raises BadInput for an unknown one, before anything is read."""
    from resift_lab.evaluation.feedback.methods import check_method

    for method in methods:
        check_method(method)
    return methods or (DEFAULT_METHOD,)


def _protocol(
    folder: str | None, train: str | None, test: str | None, unjudged: str | None, choice: SystemChoice
) -> FeedbackProtocol:
    """What is measured on, by the files that were named. Raises BadInput if they are too few or too many."""
    from resift.vectors.packaged import load_vectors
    from resift_lab.evaluation.data import read_classes, read_collection
    from resift_lab.evaluation.feedback.graded import Graded
    from resift_lab.evaluation.feedback.same_class import SameClass

    if folder and not (train or test):
        return Graded(read_collection(folder), unjudged)
    if unjudged:
        raise BadInput("--unjudged is about a folder's judgements", value=unjudged, expected="DIR")
    if not (train and test) or folder:
        raise BadInput("nothing, or two things, to measure on", expected="DIR | --train FILE --test FILE")
    first = None
    if choice.encoder == "adapted":
        # adapting knows the documents, so its first ranking would leave less to gain than the paper's
        first = choice.named(f"boew:{min(_CODEWORDS, len(load_vectors(choice.vectors)))}")
    return SameClass(read_classes(train), read_classes(test), first)


def _bench(
    documents: Sequence[str],
    queries: Sequence[str],
    alpha: float | None,
    choice: SystemChoice,
    whole: bool = False,
) -> FeedbackBench:
    from resift_lab.commands.served_search import ServedSearch
    from resift_lab.evaluation.feedback.bench import FeedbackBench

    system = choice.system()
    bench = FeedbackBench(system, documents, queries, ServedSearch, alpha=alpha, whole=whole)
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
        summary += f"; {protocol.skipped} queries that no document is relevant to left out"
    if report["all_judged"]:
        summary += f"; {report['all_judged']} queries without a relevant document beyond the judged ones left out"
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
