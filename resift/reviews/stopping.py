"""Statistical stopping criterion for reviews.

Each run of the last n documents that were read is treated as a random sample of the documents that were unread before
it. In a ranking by relevance, such a run contains more relevant documents than a random sample, so the test is
conservative. It assumes that the ranking is no worse than chance, and that people make no mistakes.

Source: M. Callaghan and F. Müller-Hansen, "Statistical stopping criteria for automated screening in systematic
reviews", Systematic Reviews 9, 273 (2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from resift.errors import BadInput, needs_extra

CONFIDENCE = 0.95  # confidence level of all tests and intervals
TARGET = 0.95  # default target recall
_RECENT = 100  # number of the latest documents from which the cost of another relevant document is estimated
_Samples = list[tuple[int, int, int]]  # see _final_samples


@dataclass(frozen=True)
class Progress:
    """The progress of a review, in which people read documents until they have found most of the relevant documents.

    Attributes:
        total: The number of documents in the review.
        read: The number of judged documents.
        relevant: The number of documents that were judged relevant.
        target: The target recall.
        p: The p-value of the hypothesis that the recall is still below the target (see :func:`p_value`).
        recall: The lower and the upper limit of the recall, with a confidence of 95 %. The upper limit is always 1.
        cost: The estimated number of documents to read until the next relevant document, or None before the first
            judgement.
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
        """Whether the review may stop.

        It may stop when all documents were read, or when the recall has reached its target with a confidence of 95 %.
        """
        return self.read >= self.total or self.p <= 1 - CONFIDENCE


def progress(labels: Sequence[bool], total: int, target: float = TARGET) -> Progress:
    """Calculate the progress of a review, such as its estimated recall, from the judgements so far.

    Args:
        labels: For each judged document, in the order of reading, whether it is relevant.
        total: The number of documents in the review, including unread documents.
        target: The target recall, above 0 and below 1.

    Raises:
        BadInput: If the target is out of range, or there are more labels than documents.
    """
    if not 0 < target < 1:
        raise BadInput(f"the target is {target}", value=target, expected="a recall above 0 and below 1")
    if len(labels) > total:
        raise BadInput(f"{len(labels)} judgements of {total} documents", value=len(labels), expected=f"at most {total}")
    relevant, samples = int(np.sum(labels)), _final_samples(labels, total)
    p, best = _p_value(samples, relevant, total - len(labels), target)
    missed = _max_missed(samples, total - len(labels), best) if len(labels) < total else 0
    return Progress(
        total=total,
        read=len(labels),
        relevant=relevant,
        target=target,
        p=p,
        recall=(relevant / (relevant + missed) if relevant + missed else 0.0, 1.0),
        cost=_documents_per_relevant(labels),
    )


def p_value(labels: Sequence[bool], total: int, target: float) -> float:
    """Return the p-value of the hypothesis that the recall is still below ``target``.

    The test treats the last n documents as a random sample of the documents that were unread before them. If k of the n
    documents are relevant, p is the probability P(X ≤ k) of a hypergeometric distribution. Let N be the number of
    documents that were unread before the sample, R the number of relevant documents read so far, and r the number of
    relevant documents read before the sample. Under the null hypothesis, floor(R / target − r + 1) of the N documents
    are relevant.

    The smallest p over all n is returned, as in the package buscarpy. This is appropriate for documents that were read
    in the order of a ranking, because the last n documents then contain more relevant documents than a random sample.
    For documents in random order the result is too small.

    Args:
        labels: Whether each judged document is relevant, in the order of reading.
        total: The number of documents in the review, including unread documents.
        target: The target recall, above 0 and below 1.

    Source: equation 5 of Callaghan and Müller-Hansen (2020).
    """
    return _p_value(_final_samples(labels, total), int(np.sum(labels)), total - len(labels), target)[0]


def _p_value(samples: _Samples, relevant: int, unread: int, target: float) -> tuple[float, int]:
    """Return the p-value of the hypothesis that the recall is still below a target, as described at :func:`p_value`.

    The hypothesis is tested with several samples of judged documents, such as the last 50 or the last 100 documents.

    Args:
        samples: The samples, as returned by :func:`_final_samples`.
        relevant: The number of relevant documents read so far.
        unread: The number of unread documents.
        target: The target recall.

    Returns:
        The smallest p-value of all samples, and the position in ``samples`` of the sample that yields it.
    """
    missed = int(np.floor(relevant / target)) - relevant + 1
    if missed > unread:  # impossible
        return 0.0, 0
    return _smallest_p_value(samples, missed)


def _final_samples(labels: Sequence[bool], total: int) -> _Samples:
    """Return the samples of judged documents with which :func:`p_value` tests the recall.

    Each sample consists of the documents that were judged last, such as the last 50. There is a sample for each
    possible number of relevant documents. If several samples contain the same number of relevant documents, only the
    largest is returned, because its p-value is the smallest.

    Args:
        labels: For each judged document, in the order of reading, whether it is relevant.
        total: The number of documents in the review, including unread documents.

    Returns:
        A tuple for each sample, smallest sample first. It contains the number of relevant documents in the sample, the
        size of the sample, and the number of documents that were unread before the sample was read.
    """
    backwards = np.asarray(labels[::-1], np.int64)
    sizes = np.append(np.flatnonzero(backwards), len(backwards)).tolist()
    return [(count, size, total - len(backwards) + size) for count, size in enumerate(sizes)]


def _smallest_p_value(samples: _Samples, missed: int, bound: float = 1.0) -> tuple[float, int]:
    """Return the smallest p-value of several samples of judged documents, and the position of this sample.

    The p-value of a sample is the probability that a random sample of the same size contains at most as many relevant
    documents (see :func:`p_value`).

    The search halves the list of samples repeatedly, and skips parts that cannot contain the smallest p-value. A
    p-value increases with the number of relevant documents and decreases with the size of the sample. Therefore no
    p-value in a part of the list is smaller than the p-value for the first sample's number of relevant documents and
    the last sample's size.

    Args:
        samples: The samples, as :func:`_final_samples` returns them.
        missed: The assumed number of relevant documents that are still unread.
        bound: Only p-values below this bound are considered. If there is none, ``(bound, -1)`` is returned.
    """
    best, parts = -1, [(0, len(samples) - 1)]
    while parts:
        first, last = parts.pop()
        (count, *_), (_, size, unread) = samples[first], samples[last]
        probability = _cumulative_probability(count, unread, count + missed, size)
        if probability >= bound:
            continue
        if first == last:
            bound, best = probability, last
        else:
            middle = (first + last) // 2
            parts += [(first, middle), (middle + 1, last)]
    return bound, best


def _max_missed(samples: _Samples, unread: int, best: int) -> int:
    """Return an upper limit for the number of relevant documents that are still unread, with a confidence of 95 %.

    The test of :func:`p_value` treats the last judged documents as a random sample, and is repeated with samples of
    several sizes. For each sample, there is a largest number of missed relevant documents that the test does not
    reject. The smallest of these numbers is returned.

    Args:
        samples: The samples of judged documents, as returned by :func:`_final_samples`.
        unread: The number of unread documents.
        best: The position in ``samples`` of a sample with a small p-value. This sample is tested first to save time.
    """
    rejected, most = float(np.nextafter(1 - CONFIDENCE, 1)), unread
    while best >= 0:
        count, size, before = samples[best]
        low, high = 0, most
        while low < high:  # bisection, since the probability decreases with the number of missed documents
            middle = (low + high + 1) // 2
            if _cumulative_probability(count, before, count + middle, size) < rejected:
                high = middle - 1
            else:
                low = middle
        most = low
        _, best = _smallest_p_value(samples, most, rejected)
    return most


def _cumulative_probability(count: int, total: int, relevant: int, drawn: int) -> float:
    """Return the probability that a random sample contains at most ``count`` relevant documents.

    The number X of relevant documents in the sample has a hypergeometric distribution. The probability of each X is
    computed from the probability of X - 1 or X + 1, starting at the most likely X. Probabilities below e⁻⁸⁰⁰ times the
    largest probability are neglected. For 100,000 documents, this takes 1 % of the time of scipy.stats.

    Args:
        count: The largest number of relevant documents in the sample.
        total: The number of documents from which the sample is drawn.
        relevant: The number of relevant documents among them.
        drawn: The size of the sample.
    """
    mode = (drawn + 1) * (relevant + 1) // (total + 2)
    width = int(40 * (drawn * relevant / total) ** 0.5) + 100
    low, high = max(0, drawn + relevant - total, mode - width), min(drawn, relevant, mode + width)
    if not low <= count < high:
        return float(count >= high)
    x = np.arange(low, high, dtype=np.float64)
    growth = (relevant - x) * (drawn - x) / ((x + 1) * (total - relevant - drawn + x + 1))
    below, above = np.cumprod(1 / growth[: mode - low][::-1])[::-1], np.cumprod(growth[mode - low :])
    probabilities = np.concatenate([below, [1.0], above])
    return float(probabilities[: count - low + 1].sum() / probabilities.sum())


def _documents_per_relevant(labels: Sequence[bool]) -> int | None:
    """Estimate how many documents must be read to find another relevant document.

    Of the last n documents that were read, at most 100, let r be relevant. The estimate is (n + 1) / (r + 1), rounded
    to an integer.

    Args:
        labels: For each judged document, in the order of reading, whether it is relevant.

    Returns:
        The estimate, or None before the first judgement.
    """
    recent = labels[-_RECENT:]
    return round((len(recent) + 1) / (sum(recent) + 1)) if recent else None


def relevant_interval(sample_size: int, relevant: int, population: int) -> tuple[int, int]:
    """Estimate the number of relevant documents in a set, from a random sample of the set.

    The estimate is an exact 95 % confidence interval of the hypergeometric distribution, with 2.5 % at each end. It
    makes no assumptions about the ranking.

    Args:
        sample_size: The number of documents in the sample.
        relevant: The number of relevant documents in the sample.
        population: The number of documents in the set, including the sample.

    Returns:
        The lower and the upper limit of the number of relevant documents in the set, including the sample.
    """
    with needs_extra("review", "A review"):
        from scipy.stats import hypergeom
    possible = np.arange(relevant, population - sample_size + relevant + 1)
    tail = (1 - CONFIDENCE) / 2
    fits = (hypergeom.cdf(relevant, population, possible, sample_size) > tail) & (
        hypergeom.sf(relevant - 1, population, possible, sample_size) > tail
    )
    return int(possible[fits].min()), int(possible[fits].max())
