"""When a review may stop: what it can promise about the relevant documents that nobody has read.

M. Callaghan and F. Müller-Hansen, "Statistical stopping criteria for automated screening in systematic reviews",
Systematic Reviews 9, 273 (2020). Each run of the last n documents that were read is taken for a random sample of the
documents that were unread when it began. In a ranking by relevance such a run has more relevant documents than a random
one, so the test errs on the side of reading on: it assumes that the ranking is no worse than chance, and that who reads
makes no mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from resift.errors import BadInput, needs_extra

CONFIDENCE = TARGET = 0.95
_RECENT = 100  # documents whose relevant ones tell what finding one more costs
_Runs = list[tuple[int, int, int]]


@dataclass(frozen=True)
class Progress:
    """How far a review is.

    ``total`` documents, ``read`` of them judged, ``relevant`` of those. ``recall`` (low, high): with a confidence of
    95 % the part of all relevant documents that was found is at least ``low``; at most all were. ``p``: how likely it
    is that so few were found of late if the recall is below ``target``; ``may_stop`` says whether that is at most 5 %.
    ``cost``: about how many documents have to be read now to find one more; None before any was read.
    """

    total: int
    read: int
    relevant: int
    target: float
    p: float
    recall: tuple[float, float]
    cost: int | None

    @property
    def may_stop(self) -> bool:
        """Whether the target is reached, with a confidence of 95 %."""
        return self.read >= self.total or self.p <= 1 - CONFIDENCE


def progress(labels: Sequence[bool], total: int, target: float = TARGET) -> Progress:
    """How far a review is that has read ``labels`` (whether relevant, in the order of reading) of ``total`` documents.

    Raises BadInput for a ``target`` recall that is not above 0 and below 1, or more labels than documents.
    """
    if not 0 < target < 1:
        raise BadInput(f"target is {target}", value=target, expected="a recall above 0 and below 1")
    if len(labels) > total:
        raise BadInput(f"{len(labels)} judgements of {total} documents", value=len(labels), expected=f"at most {total}")
    found, runs = int(np.sum(labels)), _runs(labels, total)
    p, place = _p_value(runs, found, total - len(labels), target)
    missed = _most_missed(runs, total - len(labels), place) if len(labels) < total else 0
    recall = (found / (found + missed) if found + missed else 0.0, 1.0)
    return Progress(total, len(labels), found, target, p, recall, _cost(labels))


def p_value(labels: Sequence[bool], total: int, target: float) -> float:
    """How likely it is at most, 0 to 1, to find as few relevant documents as of late if the recall is below ``target``.

    For the last n documents read, k of them relevant, that is P(X ≤ k) of a hypergeometric distribution: of the N
    documents that were unread before, floor(found / target - found before + 1) are relevant under the null hypothesis
    (equation 5 of the paper). The smallest over all n counts, as in buscarpy: that suits
    a ranking, whose runs have more relevant documents than random ones, and would be too bold in a random order.
    """
    return _p_value(_runs(labels, total), int(np.sum(labels)), total - len(labels), target)[0]


def _p_value(runs: _Runs, found: int, unread: int, target: float) -> tuple[float, int]:
    """The same, and which of the ``runs`` has it."""
    missed = int(np.floor(found / target)) - found + 1
    return _smallest(runs, missed) if missed <= unread else (0.0, 0)  # more than there are


def _runs(labels: Sequence[bool], total: int) -> _Runs:
    """Of the runs of documents read last: how many are relevant, how many they are, and how many were unread before.

    Of all runs with as many relevant documents only the longest, whose probability is the smallest.
    """
    backwards = np.asarray(labels[::-1], np.int64)
    sizes = np.append(np.flatnonzero(backwards), len(backwards)).tolist()
    return [(count, size, total - len(backwards) + size) for count, size in enumerate(sizes)]


def _smallest(runs: _Runs, missed: int, least: float = 1.0) -> tuple[float, int]:
    """The smallest P(X ≤ count) of all ``runs`` if ``missed`` documents are, and of which; ``least`` and -1 if none is
    below it.

    Runs are halved again and again. Of some that follow each other, none is below the P of the first one's count in the
    last one's size: it grows with the count, and falls with the size.
    """
    place, parts = -1, [(0, len(runs) - 1)]
    while parts:
        first, last = parts.pop()
        (count, *_), (_, size, unread) = runs[first], runs[last]
        bound = _at_most(count, unread, count + missed, size)
        if bound >= least:
            continue
        if first == last:
            least, place = bound, last
        else:
            middle = (first + last) // 2
            parts += [(first, middle), (middle + 1, last)]
    return least, place


def _most_missed(runs: _Runs, unread: int, place: int) -> int:
    """How many of ``unread`` documents may be relevant at most, with a confidence of 95 %: the most that the same test
    does not refuse. What the run at a ``place`` refuses is tried first."""
    refused, most = float(np.nextafter(1 - CONFIDENCE, 1)), unread
    while place >= 0:
        count, size, before = runs[place]
        low, high = 0, most
        while low < high:  # the more are missed, the less likely it is
            middle = (low + high + 1) // 2
            if _at_most(count, before, count + middle, size) < refused:
                high = middle - 1
            else:
                low = middle
        most = low
        _, place = _smallest(runs, most, refused)
    return most


def _at_most(count: int, total: int, relevant: int, drawn: int) -> float:
    """P(X ≤ count) of a hypergeometric distribution: of ``total`` documents, ``relevant`` are, and ``drawn`` are drawn.

    From the likeliest X on, each probability is that of its neighbour times a fraction; those of less than e⁻⁸⁰⁰ of the
    likeliest are left out. scipy.stats takes a hundred times as long where there are a hundred thousand documents.
    """
    mode = (drawn + 1) * (relevant + 1) // (total + 2)
    width = int(40 * (drawn * relevant / total) ** 0.5) + 100
    low, high = max(0, drawn + relevant - total, mode - width), min(drawn, relevant, mode + width)
    if not low <= count < high:
        return float(count >= high)
    x = np.arange(low, high, dtype=np.float64)
    growth = (relevant - x) * (drawn - x) / ((x + 1) * (total - relevant - drawn + x + 1))
    below, above = np.cumprod(1 / growth[: mode - low][::-1])[::-1], np.cumprod(growth[mode - low :])
    chances = np.concatenate([below, [1.0], above])
    return float(chances[: count - low + 1].sum() / chances.sum())


def _cost(labels: Sequence[bool]) -> int | None:
    """How many documents were read of late for a relevant one, as if one more of each had been: none is no promise."""
    recent = labels[-_RECENT:]
    return round((len(recent) + 1) / (sum(recent) + 1)) if recent else None


def relevant_interval(read: int, relevant: int, unread: int) -> tuple[int, int]:
    """How many of ``unread`` documents are relevant, at least and at most, with a confidence of 95 %.

    ``read`` of them were drawn at random and read, of which ``relevant`` are: the exact interval of the hypergeometric
    distribution (2.5 % at each end). It assumes nothing of the ranking.
    """
    with needs_extra("review", "A review"):
        from scipy.stats import hypergeom
    possible = np.arange(relevant, unread - read + relevant + 1)
    tail = (1 - CONFIDENCE) / 2
    fits = (hypergeom.cdf(relevant, unread, possible, read) > tail) & (
        hypergeom.sf(relevant - 1, unread, possible, read) > tail
    )
    return int(possible[fits].min()), int(possible[fits].max())
