"""The report of a log replay: metrics with confidence intervals, and a check of these intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift_lab.evaluation.significance import chunk_sizes
from resift_lab.log_replay.replay import Observation, SkippedClicks

Numbers = NDArray[np.float64]
# Number of hits on the first page.
FIRST = 10
# Number of runs of the A/A check (see false_alarms).
RUNS = 100
_RESAMPLES = 2000
# Means and standard errors up to this value are rounding errors of 0.
_NEGLIGIBLE = 1e-12
WEIGHTED = "all, weighted by place"
# Largest weight of a click in the row WEIGHTED, where a click at position n has the weight n.
_MAX_WEIGHT = 10
# The rows of a report, with the clicks that belong to each.
_GROUPS: dict[str, Callable[[Observation], bool]] = {
    "all": lambda click: True,
    WEIGHTED: lambda click: True,
    "clicked at 1": lambda click: click.position == 1,
    "clicked at 2-3": lambda click: click.position in (2, 3),
    "clicked at 4-10": lambda click: click.position is not None and 4 <= click.position <= 10,
    "clicked below 10": lambda click: click.position is not None and click.position > 10,
    "place not logged": lambda click: click.position is None,
    "after 1 click": lambda click: click.earlier == 1,
    "after 2-3 clicks": lambda click: click.earlier in (2, 3),
    "after 4 clicks or more": lambda click: click.earlier >= 4,
}
BIAS = (
    "Click logs are biased. Users could click only what they were shown, so documents that only a session finds count "
    "nothing here, and hits at the top were clicked more because of their position. A log of searches without sessions "
    "favours rankings without sessions, and a log of searches in sessions favours sessions. The rows by position show "
    "this bias. In the row 'all, weighted by place', a click at position n counts n times, but at most ten times, as "
    "if only every n-th user looked at that position (Joachims et al. 2017)."
)


@dataclass(frozen=True)
class ClickMetrics:
    """Ranks of clicked documents with and without sessions, summarised over a group of clicks.

    Attributes:
        clicks: The number of clicks.
        clients: The number of clients.
        mrr_without: The mean reciprocal rank of the clicked documents without the session.
        mrr_with: The mean reciprocal rank of the clicked documents with the session.
        difference: ``mrr_with`` minus ``mrr_without``.
        interval: The 95 % confidence interval of the difference.
        first_ten_without: The share of clicked documents among the first ten hits without the session.
        first_ten_with: The share of clicked documents among the first ten hits with the session.
        up: The share of clicked documents that rank higher with the session.
        down: The share of clicked documents that rank lower with the session.
    """

    clicks: int
    clients: int
    mrr_without: float
    mrr_with: float
    difference: float
    interval: tuple[float, float]
    first_ten_without: float
    first_ten_with: float
    up: float
    down: float


@dataclass(frozen=True)
class Report:
    """The effect of sessions on the ranks of the documents that were clicked in a log.

    Attributes:
        index: The name of the index.
        rows: The metrics of each group of clicks.
        false_alarms: The number of runs of the A/A check, out of ``RUNS``, whose confidence interval excludes 0. Each
            run swaps the two rankings of each client at random, so about 5 of 100 intervals are expected to exclude 0.
        asked_twice: The number of searches without a session that were sent twice.
        unstable: The number of these searches that returned another ranking the second time.
        skipped: The numbers of clicks that were not replayed, by reason.
        events: The number of events in the log.
        clients: The number of clients in the sample.
        share: The share of the log's clients that were drawn for the sample, 0 to 1.
        robots: The number of clients that were excluded because they have too many events.
    """

    index: str
    rows: dict[str, ClickMetrics]
    false_alarms: int
    asked_twice: int
    unstable: int
    skipped: SkippedClicks
    events: int
    clients: int
    share: float
    robots: int

    def to_dict(self) -> dict[str, Any]:
        """Return all values of the report, and a note on the bias of click logs, as a dictionary for JSON."""
        return {**asdict(self), "bias": BIAS}

    def table(self) -> list[list[str]]:
        """Return the report as a table of strings, whose first row is the heading.

        Mean reciprocal ranks are multiplied by 100.
        """
        head = ["", "CLICKS", "CLIENTS", "MRR WITHOUT", "WITH", "DIFFERENCE", "95 %", "FIRST TEN", "WITH", "UP", "DOWN"]
        return [head, *([name, *_cells(row)] for name, row in self.rows.items())]

    @property
    def lines(self) -> list[str]:
        """English sentences about the sample, the skipped clicks, the A/A check and the bias of click logs."""
        sample = "all clients" if self.share == 1 else f"{100 * self.share:.3g} % of the clients, drawn at random"
        robots = f"; {self.robots} clients with too many events were excluded" if self.robots else ""
        skipped = self.skipped
        return [
            f"{self.events} events read; sample: {self.clients} clients ({sample}){robots}",
            f"clicks not replayed: {skipped.first} before any session, {skipped.again} on documents that were "
            f"clicked before, {skipped.unknown} of unknown documents or queries",
            f"A/A check: with the two rankings swapped at random, {self.false_alarms} of {RUNS} intervals exclude 0 "
            f"(about 5 are expected); {self.unstable} of {self.asked_twice} searches that were sent twice differ",
            BIAS,
        ]

    def __str__(self) -> str:
        table = self.table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        rows = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
        return "\n".join([*rows, *self.lines])


def _cells(row: ClickMetrics) -> list[str]:
    low, high = row.interval
    shares = (row.first_ten_without, row.first_ten_with, row.up, row.down)
    return [
        str(row.clicks),
        str(row.clients),
        f"{100 * row.mrr_without:.1f}",
        f"{100 * row.mrr_with:.1f}",
        f"{100 * row.difference:+.1f}",
        f"{100 * low:+.1f} … {100 * high:+.1f}",
        *(f"{100 * share:.0f} %" for share in shares),
    ]


def metrics_by_group(observations: Sequence[Observation], seed: int = 0) -> dict[str, ClickMetrics]:
    """Compare the ranks of clicked documents with and without sessions, for several groups of clicks.

    Clicks are grouped, for example, by the position at which the document was shown.

    Args:
        observations: The ranks of the clicked documents.
        seed: The seed of the bootstrap.

    Returns:
        A dictionary from the name of each group, such as "clicked at 1", to its metrics. Groups without clicks are left
        out.
    """
    rng = np.random.default_rng(seed)
    groups = {name: [click for click in observations if belongs(click)] for name, belongs in _GROUPS.items()}
    return {name: _click_metrics(clicks, rng, weighted=name == WEIGHTED) for name, clicks in groups.items() if clicks}


def _click_metrics(clicks: Sequence[Observation], rng: np.random.Generator, weighted: bool) -> ClickMetrics:
    """Compare the ranks of clicked documents with and without sessions, for a group of clicks.

    Args:
        clicks: The ranks of the clicked documents.
        rng: The source of random numbers for the bootstrap.
        weighted: Whether to weight each click by the position at which the document was shown: a click at position n
            has the weight n, but at most 10. Without a position, the weight is 1.

    Returns:
        The metrics of the group.
    """
    without = np.array([_reciprocal_rank(click.without) for click in clicks])
    with_session = np.array([_reciprocal_rank(click.with_session) for click in clicks])
    weights = np.ones(len(clicks))
    if weighted:
        weights = np.array([min(click.position or 1, _MAX_WEIGHT) for click in clicks], np.float64)
    sums, counts = _changes_by_client(clicks, weights)

    def mean(values: NDArray[Any]) -> float:
        return float(np.average(values, weights=weights))

    return ClickMetrics(
        clicks=len(clicks),
        clients=len(counts),
        mrr_without=mean(without),
        mrr_with=mean(with_session),
        difference=mean(with_session - without),
        interval=mean_interval(sums, counts, rng),
        first_ten_without=mean(without >= 1 / FIRST),
        first_ten_with=mean(with_session >= 1 / FIRST),
        up=mean(with_session > without),
        down=mean(with_session < without),
    )


def false_alarms(observations: Sequence[Observation], seed: int = 0) -> int:
    """Check the confidence intervals with an A/A test, in which the true difference is 0.

    There are ``RUNS`` runs. In each run, the rankings with and without the session are swapped for each client with
    probability 0.5, and the 95 % interval of the difference is computed.

    Args:
        observations: The ranks of the clicked documents.
        seed: The seed of the swaps and the bootstrap.

    Returns:
        The number of runs whose interval excludes 0.
    """
    rng = np.random.default_rng([seed, 1])
    sums, counts = _changes_by_client(observations, np.ones(len(observations)))
    alarms = 0
    for _ in range(RUNS if len(counts) else 0):
        low, high = mean_interval(sums * rng.choice([-1.0, 1.0], len(sums)), counts, rng, resamples=500)
        alarms += not low <= 0 <= high
    return alarms


def mean_interval(
    sums: Numbers, counts: Numbers, rng: np.random.Generator, confidence: float = 0.95, resamples: int = _RESAMPLES
) -> tuple[float, float]:
    """Return a confidence interval of a mean over clicks, by a symmetric bootstrap-t.

    The clicks of a client are not independent, so whole clients are resampled. The deviation of each resampled mean is
    divided by its own standard error. Plain percentiles of the resampled means exclude the true mean too often if there
    are few clients.

    If all clients of a resample have the same mean, the standard error is 0, and the deviation counts as infinite. If
    more than 5 % of the resamples are like this, the interval is [-1, 1].

    Args:
        sums: The sum of the values of each client's clicks, for n clients, shape (n,).
        counts: The number (or total weight) of each client's clicks, shape (n,).
        rng: The source of random numbers.
        confidence: The confidence level, 0 to 1.
        resamples: The number of bootstrap samples.

    Returns:
        The lower and the upper limit, within [-1, 1]. They are -1 and 1 for fewer than three clients.

    Source:
        Hall 1988; Davison and Hinkley 1997, section 3.8.
    """
    if len(counts) < 3:
        return -1.0, 1.0
    (mean,), (error,) = _mean_and_error(sums[None], counts[None])
    distances = []
    for rows in chunk_sizes(resamples, len(counts)):
        drawn = rng.integers(0, len(counts), (rows, len(counts)))
        means, errors = _mean_and_error(sums[drawn], counts[drawn])
        distances.append(_distances_in_errors(np.abs(means - mean), errors))
    # The method "higher" returns one of the distances. Interpolation between infinite distances would give NaN.
    distance = float(np.quantile(np.concatenate(distances), confidence, method="higher"))
    reach = distance * float(error) if error > _NEGLIGIBLE else 0.0
    return max(-1.0, float(mean) - reach), min(1.0, float(mean) + reach)


def _distances_in_errors(deviations: Numbers, errors: Numbers) -> Numbers:
    """Divide deviations of means by the standard errors of these means.

    Args:
        deviations: The absolute deviations of m means, shape (m,).
        errors: The standard errors of the m means, shape (m,).

    Returns:
        Quotients of shape (m,). If the standard error is 0, the quotient is 0 without a deviation, and otherwise
        infinite.
    """
    without_error = np.where(deviations > _NEGLIGIBLE, np.inf, 0.0)
    return np.divide(deviations, errors, out=without_error, where=errors > _NEGLIGIBLE)


def _mean_and_error(sums: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """Return the mean over clicks and its standard error, for several samples of clients.

    Args:
        sums: The sum of the values of each client's clicks, for m samples of n clients, shape (m, n).
        counts: The number of each client's clicks, shape (m, n).

    Returns:
        The mean of each sample, shape (m,), and its standard error, shape (m,). Clicks of the same client are not
        treated as independent.
    """
    total = counts.sum(axis=1)
    means = sums.sum(axis=1) / total
    squares = ((sums - means[:, None] * counts) ** 2).sum(axis=1)
    return means, np.sqrt(squares) / total


def _changes_by_client(clicks: Sequence[Observation], weights: Numbers) -> tuple[Numbers, Numbers]:
    """Add up, for each client, how much the session changes the reciprocal ranks of the clicked documents.

    Args:
        clicks: The ranks of the clicked documents, with and without the session.
        weights: The weight of each click.

    Returns:
        For each of n clients, the weighted sum of the changes over the client's clicks, shape (n,), and the sum of the
        weights of these clicks, shape (n,).
    """
    clients = {client: row for row, client in enumerate(dict.fromkeys(click.client for click in clicks))}
    sums, counts = np.zeros(len(clients)), np.zeros(len(clients))
    for click, weight in zip(clicks, weights, strict=True):
        sums[clients[click.client]] += weight * (_reciprocal_rank(click.with_session) - _reciprocal_rank(click.without))
        counts[clients[click.client]] += weight
    return sums, counts


def _reciprocal_rank(rank: int | None) -> float:
    """Return 1 / rank, or 0 if the rank is None, which means that the document is not among the hits."""
    return 0.0 if rank is None else 1.0 / rank
