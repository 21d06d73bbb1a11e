"""What came of a replay: figures with intervals, and a check of these intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift_lab.evaluation.significance import chunks
from resift_lab.log_replay.replay import Observation, Skipped

Numbers = NDArray[np.float64]
FIRST = 10  # hits of a page
RUNS = 100  # of the A/A check
_RESAMPLES = 2000
WEIGHTED = "all, weighted by place"
_MOST = 10  # that a click weighs
_GROUPS: dict[str, Callable[[Observation], bool]] = {
    "all": lambda one: True,
    WEIGHTED: lambda one: True,
    "clicked at 1": lambda one: one.position == 1,
    "clicked at 2-3": lambda one: one.position in (2, 3),
    "clicked at 4-10": lambda one: one.position is not None and 4 <= one.position <= 10,
    "clicked below 10": lambda one: one.position is not None and one.position > 10,
    "place not logged": lambda one: one.position is None,
    "after 1 click": lambda one: one.earlier == 1,
    "after 2-3 clicks": lambda one: one.earlier in (2, 3),
    "after 4 clicks or more": lambda one: one.earlier >= 4,
}
BIAS = (
    "What was shown is what could be clicked: documents that a session alone brings up count nothing here, and hits "
    "that stood high were clicked more because they stood there. A log of searches without sessions favours the "
    "ranking without; a log of searches in sessions favours sessions. The rows by place show it. Weighted by place, a "
    "click at n counts n times, at most ten, as if a hit there were looked at by one in n (Joachims et al. 2017)."
)


@dataclass(frozen=True)
class Row:
    """Clicks of one kind: how many, of how many clients; mean reciprocal rank without and with the session, their
    difference with its 95 % interval; and the shares of the clicks that were in the first ten, and that moved."""

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
    """What sessions are worth to the clients of a log: ``rows`` by the kind of click.

    ``false_alarms``: of RUNS runs of the A/A check, in which each client's two rankings are swapped at random, those
    whose interval leaves 0 out; some 5 are expected. ``unstable``: of ``asked_twice`` plain searches that were sent
    twice, those that ranked the clicked document otherwise. ``skipped``: clicks that were not replayed, and why;
    ``events`` and ``robots`` of the log, and what ``share`` of its clients was drawn.
    """

    index: str
    rows: dict[str, Row]
    false_alarms: int
    asked_twice: int
    unstable: int
    skipped: Skipped
    events: int
    clients: int
    share: float
    robots: int

    def to_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {**asdict(self), "bias": BIAS}

    def table(self) -> list[list[str]]:
        """The rows as texts, below their head; reciprocal ranks in hundredths."""
        head = ["", "CLICKS", "CLIENTS", "MRR WITHOUT", "WITH", "DIFFERENCE", "95 %", "FIRST TEN", "WITH", "UP", "DOWN"]
        return [head, *([name, *_cells(row)] for name, row in self.rows.items())]

    @property
    def lines(self) -> list[str]:
        """What else is to be said, in English."""
        part = "all clients" if self.share == 1 else f"{100 * self.share:.3g} % of the clients, drawn at random"
        left_out = f"; {self.robots} clients with too many events left out" if self.robots else ""
        skipped = self.skipped
        return [
            f"{self.events} events read; sample: {self.clients} clients ({part}){left_out}",
            f"clicks not replayed: {skipped.first} before any session, {skipped.again} on documents that were "
            f"clicked before, {skipped.unknown} of unknown documents or queries",
            f"A/A: with and without swapped at random, {self.false_alarms} of {RUNS} intervals leave 0 out (5 are "
            f"expected); {self.unstable} of {self.asked_twice} searches that were sent twice differ",
            BIAS,
        ]

    def __str__(self) -> str:
        table = self.table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        rows = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
        return "\n".join([*rows, *self.lines])


def _cells(row: Row) -> list[str]:
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


def rows_of(observations: Sequence[Observation], seed: int = 0) -> dict[str, Row]:
    """The rows of a report; kinds of which there is no click are left out."""
    rng = np.random.default_rng(seed)
    groups = {name: [one for one in observations if belongs(one)] for name, belongs in _GROUPS.items()}
    return {name: _row(found, rng, weighted=name == WEIGHTED) for name, found in groups.items() if found}


def _row(found: Sequence[Observation], rng: np.random.Generator, weighted: bool) -> Row:
    without = np.array([_reciprocal(one.without) for one in found])
    moved = np.array([_reciprocal(one.with_session) for one in found])
    weights = np.array([min(one.position or 1, _MOST) if weighted else 1 for one in found], np.float64)
    sums, counts = _by_client(found, weights)

    def mean(values: NDArray[Any]) -> float:
        return float(np.average(values, weights=weights))

    return Row(
        len(found),
        len(counts),
        mean(without),
        mean(moved),
        mean(moved - without),
        interval(sums, counts, rng),
        mean(without >= 1 / FIRST),
        mean(moved >= 1 / FIRST),
        mean(moved > without),
        mean(moved < without),
    )


def false_alarms(observations: Sequence[Observation], seed: int = 0) -> int:
    """In how many of RUNS A/A runs, each with every client's rankings swapped or not, the interval leaves 0 out."""
    rng = np.random.default_rng([seed, 1])
    sums, counts = _by_client(observations, np.ones(len(observations)))
    alarms = 0
    for _ in range(RUNS if len(counts) else 0):
        low, high = interval(sums * rng.choice([-1.0, 1.0], len(sums)), counts, rng, resamples=500)
        alarms += not low <= 0 <= high
    return alarms


def interval(
    sums: Numbers, counts: Numbers, rng: np.random.Generator, confidence: float = 0.95, resamples: int = _RESAMPLES
) -> tuple[float, float]:
    """Symmetric bootstrap-t interval of a mean over clicks, whose clients are drawn: their clicks hang together.

    ``sums`` (n,) and ``counts`` (n,): of each client's clicks. Clients are resampled whole, and each mean is measured
    by its own standard error (Hall 1988; Davison and Hinkley 1997, section 3.8): percentiles of the means themselves
    leave out the truth too often where there are few clients. Of less than three nothing is known: -1 to 1.
    """
    if len(counts) < 3:
        return -1.0, 1.0
    (mean,), (error,) = _ratio(sums[None], counts[None])
    distances = []
    for rows in chunks(resamples, len(counts)):
        drawn = rng.integers(0, len(counts), (rows, len(counts)))
        means, errors = _ratio(sums[drawn], counts[drawn])
        distances.append(np.abs(means - mean) / np.where(errors > 0, errors, np.inf))
    reach = float(np.quantile(np.concatenate(distances), confidence)) * float(error)
    return max(-1.0, float(mean) - reach), min(1.0, float(mean) + reach)


def _ratio(sums: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """Means (m,) over the clicks of clients (m, n), and their standard errors (m,)."""
    total = counts.sum(axis=1)
    means = sums.sum(axis=1) / total
    squares = ((sums - means[:, None] * counts) ** 2).sum(axis=1)
    return means, np.sqrt(squares) / total


def _by_client(found: Sequence[Observation], weights: Numbers) -> tuple[Numbers, Numbers]:
    """Of each client, the weighted sum of the differences of its clicks (n,), and the sum of their weights (n,)."""
    clients = {client: row for row, client in enumerate(dict.fromkeys(one.client for one in found))}
    sums, counts = np.zeros(len(clients)), np.zeros(len(clients))
    for one, weight in zip(found, weights, strict=True):
        sums[clients[one.client]] += weight * (_reciprocal(one.with_session) - _reciprocal(one.without))
        counts[clients[one.client]] += weight
    return sums, counts


def _reciprocal(rank: int | None) -> float:
    return 0.0 if rank is None else 1.0 / rank
