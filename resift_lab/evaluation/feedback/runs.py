"""Runs of simulated feedback: rounds of judging and ranking, and sessions of two topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift.feedback.methods import DEFAULT_METHOD
from resift_lab.evaluation.feedback.bench import FeedbackBench
from resift_lab.evaluation.feedback.methods import check_method, scores_after
from resift_lab.evaluation.feedback.options import FeedbackOptions
from resift_lab.evaluation.feedback.protocol import FeedbackProtocol
from resift_lab.evaluation.protocol import Run


def run_feedback(
    bench: FeedbackBench,
    protocol: FeedbackProtocol,
    options: FeedbackOptions,
    methods: Sequence[str] = (DEFAULT_METHOD,),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, list[tuple[Run, Run]]]:
    """Rounds of judging and ranking: for each method a pair a round, (after, before) over the same queries.

    ``before`` is the ranking that was judged first; where a figure leaves out judged documents, it leaves out those
    that the method's session has judged. ``progress`` is told how many queries are done, and how many there are, each
    once for every method. Queries of which every relevant document was judged count as ``all_judged``. Raises BadInput
    for an unknown method, and for a round with nothing left to find.
    """
    for method in methods:
        check_method(method)
    queries = _drawn(protocol, options)
    runs: dict[str, list[tuple[Run, Run]]] = {}
    for number, method in enumerate(methods):
        values = []
        for done, query in enumerate(queries, number * len(queries) + 1):
            values.append(_rounds(bench, protocol, options, method, query))
            progress(done, len(methods) * len(queries))
        figures = np.stack(values, axis=2)
        _check_rounds(figures)
        runs[method] = [
            (_run(protocol, after, _counts(after)), _run(protocol, before, {})) for after, before in figures
        ]
    return runs


def _rounds(
    bench: FeedbackBench, protocol: FeedbackProtocol, options: FeedbackOptions, method: str, query: int
) -> NDArray[np.float64]:
    """One query's figures after and before each round, (rounds, 2, M)."""
    # by query, so that the noise of a query is the same whichever method runs and whichever others are drawn
    rng = np.random.default_rng([options.seed, query])
    first = scores = protocol.first(bench, query)
    judged: list[tuple[int, float]] = []
    figures = np.full((options.rounds, 2, len(protocol.metrics)), np.nan)
    for after, before in figures:
        judged += protocol.judge(query, scores, judged, options, rng)
        scores = scores_after(bench, method, query, judged, first)
        documents = [document for document, _ in judged]
        after[:] = protocol.measure(query, scores, documents)
        before[:] = protocol.measure(query, first, documents)
    return figures


def _counts(figures: NDArray[np.float64]) -> dict[str, int]:
    """How many queries have figures (Q, M), and of how many nothing is left to find because all of it was judged."""
    return {"queries": len(figures), "all_judged": int(np.isnan(figures).any(axis=1).sum())}


def _check_rounds(figures: NDArray[np.float64]) -> None:
    """Raise BadInput for the first of the rounds (rounds, 2, Q, M) in which no figure of any query is defined."""
    empty = np.flatnonzero(np.isnan(figures).all(axis=(1, 2, 3)))
    if len(empty):
        message = f"after round {empty[0] + 1} no query has a relevant document that was not judged"
        raise BadInput(message, expected="more judged documents, or fewer --judgements or --rounds")


def run_topics(bench: FeedbackBench, protocol: FeedbackProtocol, options: FeedbackOptions) -> dict[str, dict[str, Run]]:
    """Two-topic sessions: one query is judged, and the next is about the same (``related``) or not (``unrelated``).

    For each there is the ranking without a session (``before``), with what the session's relevance scope lets through
    (``after``), and with all that was judged (``whole``). Judged documents are left out of all rankings.
    """
    figures: dict[str, dict[str, list[list[float]]]] = {
        kind: {name: [] for name in ("before", "after", "whole")} for kind in ("related", "unrelated")
    }
    for query in _drawn(protocol, options):
        rng = np.random.default_rng([options.seed, query])
        judged = protocol.judge(query, protocol.first(bench, query), [], options, rng)
        documents = [document for document, _ in judged]
        for kind, pool in zip(figures, protocol.other_queries(query), strict=True):
            if not len(pool):
                continue
            other = int(rng.choice(pool))
            scores = {
                "before": bench.served(other),
                "after": bench.served(other, bench.judged(bench.queries[query], judged)),
                "whole": bench.served(other, bench.judged("", judged)),
            }
            for name, found in scores.items():
                figures[kind][name].append(protocol.measure(other, found, documents))
    return {kind: {name: _topic_run(protocol, rows) for name, rows in ways.items()} for kind, ways in figures.items()}


def _topic_run(protocol: FeedbackProtocol, rows: list[list[float]]) -> Run:
    table = np.array(rows).reshape(-1, len(protocol.metrics))
    return _run(protocol, table, _counts(table))


def _drawn(protocol: FeedbackProtocol, options: FeedbackOptions) -> list[int]:
    """Positions of the queries, in the order that the seed draws them."""
    order = np.random.default_rng(options.seed).permutation(len(protocol.queries))
    return [int(query) for query in order[: options.queries]]


def _run(protocol: FeedbackProtocol, table: NDArray[Any], facts: dict[str, Any]) -> Run:
    """The run of figures (Q, M)."""
    return Run({name: table[:, column] for column, name in enumerate(protocol.metrics)}, facts)
