"""Run simulated feedback: rounds of judging and ranking, and sessions with two topics."""

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
    """Simulate relevance feedback for each query, and measure the rankings of each feedback method.

    In each round, a simulated user judges some documents of the ranking, and the method ranks the documents again.

    Args:
        bench: Documents and queries.
        protocol: Initial ranking, simulated judgements and metrics.
        options: Number of queries, judgements and rounds.
        methods: Names of feedback methods.
        progress: Function that is called with the number of finished queries and the total. Each query counts once per
            method.

    Returns:
        For each method, a list with a pair of runs (after, before) for each round. ``after`` is the ranking after the
        judgements of the round, ``before`` the initial ranking. Metrics that ignore judged documents ignore the same
        documents in both runs. ``after.facts["all_judged"]`` is the number of queries whose relevant documents were all
        judged.

    Raises:
        BadInput: If a method is unknown, or if all relevant documents of all queries are judged in a round.
    """
    for method in methods:
        check_method(method)
    queries = _draw_queries(protocol, options)
    runs: dict[str, list[tuple[Run, Run]]] = {}
    for number, method in enumerate(methods):
        tables = []
        for done, query in enumerate(queries, number * len(queries) + 1):
            tables.append(_run_rounds(bench, protocol, options, method, query))
            progress(done, len(methods) * len(queries))
        metrics = np.stack(tables, axis=2)
        _check_rounds(metrics)
        runs[method] = [
            (_table_to_run(protocol, after, _query_counts(after)), _table_to_run(protocol, before, {}))
            for after, before in metrics
        ]
    return runs


def _run_rounds(
    bench: FeedbackBench, protocol: FeedbackProtocol, options: FeedbackOptions, method: str, query: int
) -> NDArray[np.float64]:
    """Simulate all rounds of judging for a query. After each round, measure the new and the initial ranking.

    Args:
        bench: Documents and queries.
        protocol: The protocol, which defines the initial ranking, the simulated judgements and the metrics.
        options: Number of rounds and judgements, and the noise.
        method: Name of the feedback method.
        query: Position of the query.

    Returns:
        For each round, the M metrics of the new ranking and of the initial ranking, shape (rounds, 2, M). Some
        protocols remove the documents that have been judged so far before they measure. They remove them from both
        rankings, so that the two rows can be compared.
    """
    # a generator per query, so that the noise depends neither on the method nor on the other queries
    rng = np.random.default_rng([options.seed, query])
    first = scores = protocol.initial_scores(bench, query)
    judged: list[tuple[int, float]] = []
    metrics = np.full((options.rounds, 2, len(protocol.metrics)), np.nan)
    for after, before in metrics:
        judged += protocol.judge(query, scores, judged, options, rng)
        scores = scores_after(bench, method, query, judged, first)
        documents = [document for document, _ in judged]
        after[:] = protocol.measure(query, scores, documents)
        before[:] = protocol.measure(query, first, documents)
    return metrics


def _query_counts(metrics: NDArray[np.float64]) -> dict[str, int]:
    """Count the queries, and the queries for which the simulated user judged every relevant document.

    Args:
        metrics: M metrics of Q queries, shape (Q, M). The metrics of a query are NaN if all its relevant documents were
            judged, because no relevant document is left to find.

    Returns:
        A dictionary with ``queries``, the number of all queries, and ``all_judged``, the number of queries with a NaN.
    """
    return {"queries": len(metrics), "all_judged": int(np.isnan(metrics).any(axis=1).sum())}


def _check_rounds(metrics: NDArray[np.float64]) -> None:
    """Check that no round consists only of NaN values.

    Args:
        metrics: The M metrics of Q queries in each round, shape (rounds, 2, Q, M). The second axis contains the metrics
            of the new ranking after the round, and the metrics of the initial ranking.

    Raises:
        BadInput: If all metrics of all queries are NaN in a round, because all relevant documents were judged.
    """
    empty = np.flatnonzero(np.isnan(metrics).all(axis=(1, 2, 3)))
    if len(empty):
        message = f"all relevant documents of all queries are judged after round {empty[0] + 1}"
        raise BadInput(message, expected="more judged documents, or fewer --judgements or --rounds")


def run_topics(bench: FeedbackBench, protocol: FeedbackProtocol, options: FeedbackOptions) -> dict[str, dict[str, Run]]:
    """Simulate sessions with two queries: the user judges hits of the first query, and then runs the second query.

    The second query is on the same topic (``related``) or on another topic (``unrelated``). Judged documents are
    removed from all rankings.

    Args:
        bench: Documents and queries.
        protocol: Initial ranking, simulated judgements and metrics.
        options: Number of queries and judgements.

    Returns:
        For ``related`` and ``unrelated`` three runs of the second query: without a session (``before``), with the
        judgements that the session considers relevant for the query (``after``), and with the same judgements as if
        they were made for the second query (``whole``).
    """
    metrics: dict[str, dict[str, list[list[float]]]] = {
        kind: {name: [] for name in ("before", "after", "whole")} for kind in ("related", "unrelated")
    }
    for query in _draw_queries(protocol, options):
        rng = np.random.default_rng([options.seed, query])
        judged = protocol.judge(query, protocol.initial_scores(bench, query), [], options, rng)
        documents = [document for document, _ in judged]
        for kind, candidates in zip(metrics, protocol.queries_by_topic(query), strict=True):
            if not len(candidates):
                continue
            second = int(rng.choice(candidates))
            rankings = {
                "before": bench.search_scores(second),
                "after": bench.search_scores(second, bench.judged_documents(bench.queries[query], judged)),
                "whole": bench.search_scores(second, bench.judged_documents(bench.queries[second], judged)),
            }
            for name, scores in rankings.items():
                metrics[kind][name].append(protocol.measure(second, scores, documents))
    return {kind: {name: _topic_run(protocol, rows) for name, rows in runs.items()} for kind, runs in metrics.items()}


def _topic_run(protocol: FeedbackProtocol, rows: list[list[float]]) -> Run:
    table = np.array(rows).reshape(-1, len(protocol.metrics))
    return _table_to_run(protocol, table, _query_counts(table))


def _draw_queries(protocol: FeedbackProtocol, options: FeedbackOptions) -> list[int]:
    """Draw the queries to evaluate at random, and return their positions in ``protocol.queries``.

    Args:
        protocol: The protocol, which contains all queries.
        options: The maximum number of queries, and the seed.
    """
    order = np.random.default_rng(options.seed).permutation(len(protocol.queries))
    return [int(query) for query in order[: options.queries]]


def _table_to_run(protocol: FeedbackProtocol, table: NDArray[Any], facts: dict[str, Any]) -> Run:
    """Convert a table of metrics to a :class:`Run`.

    Args:
        protocol: The protocol, which names the metrics.
        table: The M metrics of Q queries, shape (Q, M).
        facts: Additional entries for reports, such as the number of queries.
    """
    return Run({name: table[:, column] for column, name in enumerate(protocol.metrics)}, facts)
