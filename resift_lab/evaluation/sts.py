"""Semantic textual similarity: correlation of predicted similarities with the gold scores of sentence pairs.

The correlation of a task is computed over its pairs. The value of a file is the mean over its tasks, weighted by their
numbers of pairs, and the value of several files is the same mean over all of their tasks (SentEval's ``wmean``, Muffo
et al. 2021). ``spearman_all`` and ``pearson_all`` are computed over all pairs of a file, regardless of the tasks, and
averaged over files in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput, needs_extra
from resift_lab.evaluation.baselines.dynamax import DynaMaxPairs
from resift_lab.evaluation.data import SentencePairs
from resift_lab.evaluation.metrics import Numbers, pearson, spearman
from resift_lab.evaluation.pairwise import pair_similarity
from resift_lab.evaluation.significance import chunk_sizes
from resift_lab.evaluation.system import System

with needs_extra("lab", "Evaluation"):
    from scipy.stats import rankdata

RESAMPLES = 1000
METRICS: dict[str, Callable[..., float]] = {"spearman": spearman, "pearson": pearson}


@dataclass(frozen=True)
class StsTask:
    """The predicted and the human similarities of the sentence pairs in a task.

    Attributes:
        file: Name of the file that contains the pairs.
        name: Name of the task.
        predicted: Predicted similarities of the task's n pairs, shape (n,).
        gold: Human similarity scores of the pairs, shape (n,).
    """

    file: str
    name: str
    predicted: Numbers
    gold: Numbers


def run_sts(system: System, files: Sequence[SentencePairs]) -> list[StsTask]:
    """Let a system predict the similarity of sentence pairs, and return the predictions and human scores by task.

    The system is fitted on the sentences of each file before it predicts the file's pairs.

    Args:
        system: The system to evaluate.
        files: The sentence pairs of each file.

    Returns:
        The predictions and gold scores of each task of each file.

    Raises:
        BadInput: If two files have the same name, or no task has at least two pairs.
    """
    if len({pairs.name for pairs in files}) < len(files):
        raise BadInput(
            "two files of the same name", value=[pairs.name for pairs in files], expected="each file once, by its name"
        )
    tasks = []
    for pairs in files:
        predicted = np.asarray(_predicted_similarities(system, pairs), np.float64)
        gold, names = np.asarray(pairs.scores), np.asarray(pairs.tasks)
        for name in dict.fromkeys(pairs.tasks):
            part = names == name
            tasks.append(StsTask(pairs.name, name, predicted[part], gold[part]))
    if not any(len(task.gold) > 1 for task in tasks):
        raise BadInput("no task has two pairs", expected="at least one task with two pairs or more")
    return tasks


def _predicted_similarities(system: System, pairs: SentencePairs) -> NDArray[Any]:
    """Predict how similar the two sentences of each pair are.

    Args:
        system: The system to evaluate. It is fitted on all sentences of the pairs first.
        pairs: The n sentence pairs.

    Returns:
        The predicted similarities, shape (n,).
    """
    if isinstance(system, DynaMaxPairs):
        return system.pair_similarities(pairs.left, pairs.right)
    # fitted on both sides, because neither sentence of a pair is a query or a document
    system.fit([*pairs.left, *pairs.right])
    return pair_similarity(system.encode_queries(pairs.left), system.encode_queries(pairs.right), system.similarity)


def correlations(tasks: Sequence[StsTask]) -> dict[str, Any]:
    """Return the correlations of predicted and human similarities: over all pairs, for each file and for each task.

    Args:
        tasks: The predictions of a system, by task.

    Returns:
        A dictionary with these entries:

        - ``spearman`` and ``pearson``: means over the tasks, weighted by their number of pairs.
        - ``spearman_all`` and ``pearson_all``: computed over all pairs of a file, and averaged over the files.
        - ``pairs``: the number of pairs.
        - ``files`` and ``tasks``: the same entries for each file and each task. Tasks have no ``…_all``.

        The correlation of a task with a single pair is None, and the means ignore it.
    """
    members: dict[str, list[StsTask]] = {}
    for task in tasks:
        members.setdefault(task.file, []).append(task)
    files = {
        name: {
            **_weighted_averages(group, METRICS),
            **{f"{key}_all": value for key, value in _weighted_averages([_join_tasks(group)], METRICS).items()},
            "pairs": sum(len(task.gold) for task in group),
        }
        for name, group in members.items()
    }
    whole = _weighted_averages([_join_tasks(group) for group in members.values()], METRICS)
    return {
        **_weighted_averages(tasks, METRICS),
        **{f"{key}_all": value for key, value in whole.items()},
        "pairs": sum(len(task.gold) for task in tasks),
        "files": files,
        "tasks": {f"{t.file}/{t.name}": {**_weighted_averages([t], METRICS), "pairs": len(t.gold)} for t in tasks},
    }


def _join_tasks(tasks: Sequence[StsTask]) -> StsTask:
    """Join the pairs of several tasks into a single task, which has the name of the first task's file."""
    predicted, gold = (np.concatenate(side) for side in zip(*((t.predicted, t.gold) for t in tasks), strict=True))
    return StsTask(tasks[0].file, tasks[0].file, predicted, gold)


def _measurable_tasks(tasks: Sequence[StsTask]) -> list[StsTask]:
    """Return the tasks with at least two pairs. The correlation of a single pair is not defined."""
    return [task for task in tasks if len(task.gold) > 1]


def _weighted_averages(tasks: Sequence[StsTask], metrics: dict[str, Callable[..., float]]) -> dict[str, float | None]:
    """Average correlations over tasks, weighted by the number of pairs.

    Args:
        tasks: The predictions and gold scores of each task. Tasks with fewer than two pairs are ignored.
        metrics: A dictionary from the name of each correlation to the function that computes it.

    Returns:
        The mean of each correlation, by name. None if every task has fewer than two pairs.
    """
    usable = _measurable_tasks(tasks)
    weights = [len(task.gold) for task in usable]
    return {
        name: float(np.average([metric(t.predicted, t.gold) for t in usable], weights=weights)) if usable else None
        for name, metric in metrics.items()
    }


def intervals(tasks: Sequence[StsTask], seed: int) -> dict[str, tuple[float, float]]:
    """Return bootstrap 95 % confidence intervals of the weighted averages ``spearman`` and ``pearson``.

    Pairs are resampled within each task, 1,000 times.

    Args:
        tasks: The predictions of a system, by task.
        seed: Seed of the bootstrap.

    Returns:
        A dictionary from ``spearman`` and ``pearson`` to the lower and the upper limit.

    Source:
        Efron and Tibshirani 1993, the percentile bootstrap.
    """
    bounds = {}
    for name in METRICS:
        rng, sums = np.random.default_rng(seed), np.zeros(RESAMPLES)
        for task in _measurable_tasks(tasks):
            n = len(task.gold)
            drawn = (rng.integers(0, n, (count, n)) for count in chunk_sizes(RESAMPLES, n))
            parts = [_row_correlations(task.predicted[rows], task.gold[rows], name == "spearman") for rows in drawn]
            sums += n * np.concatenate(parts)
        low, high = np.quantile(sums / sum(len(task.gold) for task in _measurable_tasks(tasks)), [0.025, 0.975])
        bounds[name] = (float(low), float(high))
    return bounds


def p_values(first: Sequence[StsTask], second: Sequence[StsTask], seed: int) -> dict[str, float]:
    """Compare two systems on the same sentence pairs by a randomisation test.

    The predictions are first converted to ranks within the task, or to z-scores for ``pearson``. In each of 1000
    permutations, the two systems' predictions of each pair are swapped at random. The p-value is (1 + m) / (1 + 1000),
    where m is the number of permutations with at least the observed difference.

    Args:
        first: The predictions of the first system, by task.
        second: The predictions of the second system, by task, in the same order.
        seed: Seed of the permutations.

    Returns:
        The two-sided p-value for ``spearman`` and ``pearson``.
    """
    p = {}
    for name in METRICS:
        ranks = name == "spearman"
        rng, sums, observed = np.random.default_rng(seed), np.zeros(RESAMPLES), 0.0
        for a, b in zip(_measurable_tasks(first), _measurable_tasks(second), strict=True):
            x, y = (rankdata(side) if ranks else _standardised(side) for side in (a.predicted, b.predicted))
            n, parts = len(x), []
            observed += n * float(METRICS[name](x, a.gold) - METRICS[name](y, a.gold))
            for count in chunk_sizes(RESAMPLES, n):
                swap = rng.random((count, n)) < 0.5
                gold = np.broadcast_to(a.gold, swap.shape)
                left, right = np.where(swap, y, x), np.where(swap, x, y)
                parts.append(_row_correlations(left, gold, ranks) - _row_correlations(right, gold, ranks))
            sums += n * np.concatenate(parts)
        # the tolerance allows for rounding: equal differences of different permutations may differ in the last digits
        extreme = int(np.count_nonzero(np.abs(sums) >= abs(observed) - 1e-9))
        p[name] = (1 + extreme) / (1 + RESAMPLES)
    return p


def _standardised(values: Numbers) -> Numbers:
    """Shift and scale values to mean 0 and standard deviation 1. Return zeros if all values are equal."""
    spread = values.std()
    return np.asarray((values - values.mean()) / spread if spread > 0 else np.zeros_like(values))


def _row_correlations(left: NDArray[Any], right: NDArray[Any], ranks: bool) -> Numbers:
    """Return the correlation of each row of a matrix with the same row of another matrix.

    Args:
        left: R samples of n values, shape (R, n).
        right: R samples of n values, shape (R, n).
        ranks: True for Spearman's rank correlation, False for Pearson's correlation.

    Returns:
        Correlations of shape (R,), 0 for a constant row.
    """
    if ranks:
        left, right = rankdata(left, axis=1), rankdata(right, axis=1)
    left, right = (side - side.mean(axis=1, keepdims=True) for side in (left, right))
    size = np.sqrt((left**2).sum(axis=1) * (right**2).sum(axis=1))
    return np.asarray(np.divide((left * right).sum(axis=1), size, out=np.zeros(len(size)), where=size > 1e-12))
