"""``resift eval feedback``: what relevance feedback by a simulated user does to rankings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from resift.cli.options import option_of
from resift.cli.systems import SystemChoice, system_options
from resift.errors import BadInput
from resift.evaluation.feedback.options import FeedbackOptions
from resift.evaluation.system import ALPHA
from resift.ranking.feedback import DEFAULT_METHOD

if TYPE_CHECKING:
    from resift.evaluation.feedback.bench import FeedbackBench
    from resift.evaluation.feedback.protocol import FeedbackProtocol

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
@option_of(FeedbackOptions, "queries", "Queries to draw by chance.")
@option_of(FeedbackOptions, "judgements", "Documents that are judged in a round.")
@option_of(FeedbackOptions, "rounds", "How often the ranking is judged and computed again.")
@option_of(FeedbackOptions, "noise", "Probability that a judgement is wrong.")
@click.option(
    "--alpha", default=ALPHA, show_default=True, help="Weight of the similarity against BM25, before any feedback."
)
@click.option(
    "--first",
    metavar="NAME",
    show_default=f"boew:{_CODEWORDS} if the encoder is adapted, else the same",
    help="With --train: the encoder of the first ranking.",
)
@click.option(
    "--topics", is_flag=True, help="Measure sessions of two topics instead: a query that is judged, then another one."
)
@click.option("--baselines/--no-baselines", default=True, show_default=True, help="Measure the baselines too.")
@system_options
def feedback(
    folder: str | None,
    train: str | None,
    test: str | None,
    methods: tuple[str, ...],
    alpha: float,
    first: str | None,
    topics: bool,
    baselines: bool,
    choice: SystemChoice,
    **settings: Any,
) -> None:
    """Relevance feedback by a simulated user, in labelled documents or a BEIR folder.

    Without --encoder or --model the vectors are adapted to the documents, as "resift index --adapt" does.

    With labelled documents (--train, --test) relevant and irrelevant ones of the first 30 are judged, half of each
    (Passalis and Tefas 2018, Table 5). With DIR the first ten documents are judged, ranked by the similarity and BM25.
    All figures of DIR, and those named residual, are of the ranking without the judged documents.

    Methods: mask, rocchio, mask+rocchio, ridge, lexical, ridge+lexical, whitened; baselines: none, rocchio, rm3,
    more_like_this. There is no --compare here: each method is compared with the ranking before.
    """
    if choice.compare:
        raise BadInput(
            f"--compare {choice.compare}", value=choice.compare, expected="--method: methods are compared, not encoders"
        )
    if not (choice.encoder or choice.model):
        choice = replace(choice, encoder="adapted")
    options = FeedbackOptions(seed=choice.seed, **settings)
    protocol = _protocol(folder, train, test, first, choice)
    bench = _bench(protocol, alpha, choice)
    facts = {
        "documents": len(protocol.documents),
        "encoder": choice.name,
        "alpha": alpha,
        "judgements": options.judgements,
        "rounds": options.rounds,
        "noise": options.noise,
        "seed": options.seed,
    }
    if topics:
        _measure_topics(bench, protocol, options, facts, choice)
    else:
        _measure_rounds(bench, protocol, options, methods or (DEFAULT_METHOD,), baselines, facts, choice)


def _protocol(
    folder: str | None, train: str | None, test: str | None, first: str | None, choice: SystemChoice
) -> FeedbackProtocol:
    """What is measured on, by the files that were named. Raises BadInput if they are too few or too many."""
    from resift.evaluation.data import read_classes, read_collection
    from resift.evaluation.feedback.graded import Graded
    from resift.evaluation.feedback.same_class import SameClass
    from resift.vectors.packaged import load_vectors

    if folder and not (train or test or first):
        return Graded(read_collection(folder))
    if not (train and test) or folder:
        raise BadInput(
            "nothing, or two things, to measure on", expected="DIR | --train FILE --test FILE [--first NAME]"
        )
    if not first and choice.encoder == "adapted":
        # adapting knows the documents, so its first ranking would leave less to gain than the paper's
        first = f"boew:{min(_CODEWORDS, len(load_vectors(choice.vectors)))}"
    return SameClass(read_classes(train), read_classes(test), choice.named(first) if first else None)


def _bench(protocol: FeedbackProtocol, alpha: float, choice: SystemChoice) -> FeedbackBench:
    from resift.evaluation.feedback.bench import FeedbackBench

    system = choice.system()
    bench = FeedbackBench(system, protocol.documents, protocol.queries, alpha=alpha)
    if note := getattr(system, "note", ""):
        click.echo(f"warning: {note}; the vectors are not adapted", err=True)
    return bench


def _measure_rounds(
    bench: FeedbackBench,
    protocol: FeedbackProtocol,
    options: FeedbackOptions,
    methods: tuple[str, ...],
    baselines: bool,
    facts: dict[str, Any],
    choice: SystemChoice,
) -> None:
    from resift.evaluation.feedback.methods import BASELINES
    from resift.evaluation.feedback.runs import run_feedback
    from resift.evaluation.report import feedback_report

    names = tuple(dict.fromkeys((*methods, *(BASELINES if baselines else ()))))
    figures = feedback_report(run_feedback(bench, protocol, options, names), methods[0], choice.seed)
    report = {"task": "feedback", "protocol": protocol.name, **figures, **facts}
    summary = f"{report['queries']} queries, {report['documents']} documents"
    choice.print_report(report, protocol.metrics, summary)


def _measure_topics(
    bench: FeedbackBench,
    protocol: FeedbackProtocol,
    options: FeedbackOptions,
    facts: dict[str, Any],
    choice: SystemChoice,
) -> None:
    from resift.evaluation.feedback.runs import run_topics
    from resift.evaluation.report import as_json, topics_report, topics_table

    figures = topics_report(run_topics(bench, protocol, options))
    report = {"task": "feedback", "protocol": "topics", **figures, **facts}
    click.echo(as_json(report) if choice.as_json else topics_table(report, protocol.metrics))
