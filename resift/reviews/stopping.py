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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput, needs_extra

CONFIDENCE = 0.95
_RECENT = 100  # documents whose relevant ones tell what finding one more costs


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


def progress(labels: Sequence[bool], total: int, target: float = 0.95) -> Progress:
    """How far a review is that has read ``labels`` (whether relevant, in the order of reading) of ``total`` documents.

    Raises BadInput for a ``target`` recall that is not above 0 and below 1, or more labels than documents.
    """
    if not 0 < target < 1:
        raise BadInput(f"target is {target}", value=target, expected="a recall above 0 and below 1")
    if len(labels) > total:
        raise BadInput(f"{len(labels)} judgements of {total} documents", value=len(labels), expected=f"at most {total}")
    found = int(np.sum(labels))
    missed = _most_missed(labels, total) if len(labels) < total else 0
    recall = (found / (found + missed) if found + missed else 0.0, 1.0)
    return Progress(total, len(labels), found, target, p_value(labels, total, target), recall, _cost(labels))


def p_value(labels: Sequence[bool], total: int, target: float) -> float:
    """How likely it is at most, 0 to 1, to find as few relevant documents as of late if the recall is below ``target``.

    For the last n documents read, k of them relevant, that is P(X ≤ k) of a hypergeometric distribution: of the N
    documents that were unread before, floor(found / target - found before + 1) are relevant under the null hypothesis
    (equation 5 of the paper). The smallest over all n counts, as in buscarpy: that suits
    a ranking, whose runs have more relevant documents than random ones, and would be too bold in a random order.
    """
    found = int(np.sum(labels))
    missed = int(np.floor(found / target)) - found + 1
    return _smallest(_runs(labels, total), missed) if missed <= total - len(labels) else 0.0  # more than there are


def _runs(labels: Sequence[bool], total: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of the runs of documents read last: how many are relevant, how many they are, and how many were unread before.

    Of all runs with as many relevant documents only the longest, whose probability is the smallest.
    """
    backwards = np.asarray(labels[::-1], np.int64)
    sizes = np.append(np.flatnonzero(backwards), len(backwards))
    return np.arange(len(sizes)), sizes, total - len(backwards) + sizes


def _smallest(runs: tuple[NDArray[np.int64], ...], missed: int, least: float = 1.0) -> float:
    """The smallest P(X ≤ count) of all ``runs`` if ``missed`` documents are; ``least`` if none is below it.

    Runs are halved again and again. Of some that follow each other, none is below the P of the first one's count in the
    last one's size: it grows with the count, and falls with the size.
    """
    (counts, sizes, unread), cdf = runs, _distribution().cdf
    first, last = np.array([0]), np.array([len(counts) - 1])
    while len(first):
        least = min(least, float(cdf(counts[last], unread[last], counts[last] + missed, sizes[last]).min()))
        below = cdf(counts[first], unread[last], counts[first] + missed, sizes[last]) < least
        first, last = first[below & (first < last)], last[below & (first < last)]
        middle = (first + last) // 2
        first, last = np.append(first, middle + 1), np.append(middle, last)
    return least


def _most_missed(labels: Sequence[bool], total: int) -> int:
    """How many unread documents may be relevant at most, with a confidence of 95 %: the most that the
    same test does not refuse."""
    runs, refused = _runs(labels, total), float(np.nextafter(1 - CONFIDENCE, 1))
    low, high = 0, total - len(labels)
    while low < high:  # the more are missed, the less likely it is
        middle = (low + high + 1) // 2
        if _smallest(runs, middle, refused) < refused:
            high = middle - 1
        else:
            low = middle
    return low


def _cost(labels: Sequence[bool]) -> int | None:
    """How many documents were read of late for a relevant one, as if one more of each had been: none is no promise."""
    recent = labels[-_RECENT:]
    return round((len(recent) + 1) / (sum(recent) + 1)) if recent else None


def sampled(read: int, relevant: int, unread: int) -> tuple[int, int]:
    """How many of ``unread`` documents are relevant, at least and at most, with a confidence of 95 %.

    ``read`` of them were drawn at random and read, of which ``relevant`` are: the exact interval of the hypergeometric
    distribution (2.5 % at each end). It assumes nothing of the ranking.
    """
    hypergeom = _distribution()
    possible = np.arange(relevant, unread - read + relevant + 1)
    tail = (1 - CONFIDENCE) / 2
    fits = (hypergeom.cdf(relevant, unread, possible, read) > tail) & (
        hypergeom.sf(relevant - 1, unread, possible, read) > tail
    )
    return int(possible[fits].min()), int(possible[fits].max())


def _distribution() -> Any:
    with needs_extra("review", "A review"):
        from scipy.stats import hypergeom

    return hypergeom
