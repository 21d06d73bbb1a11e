"""Choose and weight the expansion words of a query, by Rocchio's formula for term weights.

The weight of a word is

    4 · e₊/(3 + e₊) · mean(relevant) - 3 · e₋/(3 + e₋) · mean(irrelevant)

mean(relevant) is the mean of the word's weights in the relevant documents' bags of words, in which each document counts
by the weight of its judgement. mean(irrelevant) is the same for irrelevant documents. e₊ and e₋ are the total weights
of the positive and of the negative judgements. On this scale, the weights of the query's own words have the Euclidean
length 1.

Source: Rocchio 1971, "Relevance feedback in information retrieval". The factors e/(3 + e) are an addition of Resift.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, ItemsView, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from resift.feedback.evidence import HALF_FOR_WORDS

MAX_TERMS = 60
"""Maximum number of expansion words."""

TERM_WEIGHTS = (4.0, 3.0)
"""Weights of the mean of the relevant and of the irrelevant documents."""

CARRIED_TERMS = 8
"""Maximum number of expansion words from judgements that were made for other queries."""

_AFTER_LATIN = "\u0250"
"""The first character after Unicode's blocks of Latin letters."""

Bag = Mapping[str, float]
"""The words of a document with their weights."""


class PackedBag(Mapping[str, float]):
    """The words of a document with their weights (a bag of words), in a compact form for caches.

    It can be used like a dictionary, but takes a quarter of the memory.

    Args:
        bag: The words and their weights. Words that several bags share should be interned.
    """

    __slots__ = ("_weights", "_words")

    def __init__(self, bag: Bag) -> None:
        self._words, self._weights = tuple(bag), array("d", bag.values())

    def __getitem__(self, word: str) -> float:
        try:
            return self._weights[self._words.index(word)]
        except ValueError:
            raise KeyError(word) from None

    def __contains__(self, word: object) -> bool:
        return word in self._words

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)

    def items(self) -> ItemsView[str, float]:
        """Return the words and their weights. The method of the base class is slower: it searches for each word."""
        return dict(zip(self._words, self._weights, strict=True)).items()


def expansion_terms(
    bags: Sequence[Bag],
    grades: NDArray[np.float64],
    is_for_query: Sequence[bool],
    query_words: Collection[str] = (),
) -> dict[str, float]:
    """Choose the words of judged documents that are added to a query, by Rocchio's formula.

    Numbers, single Latin letters, and words of weight 0 or less, are left out. Judgements that were made for earlier
    queries of the session are evaluated separately, and contribute at most eight words.

    Args:
        bags: Bags of words of the m judged documents. Empty if the feedback method does not expand queries.
        grades: The judgements as an array of shape (m,). The sign is positive for relevant documents, and the absolute
            value is the weight of the judgement.
        is_for_query: For each judgement, whether it was made for the current query.
        query_words: The words of the queries of the judgements. Single letters among them are not left out.

    Returns:
        The weights of at most 60 words, heaviest words first.
    """
    weights = _word_weights(bags, np.where(is_for_query, grades, 0))
    for word, weight in carried_terms(bags, grades, is_for_query, query_words).items():
        weights[word] = weights.get(word, 0.0) + weight
    return _heaviest_words(weights, MAX_TERMS, query_words)


def carried_terms(
    bags: Sequence[Bag],
    grades: NDArray[np.float64],
    is_for_query: Sequence[bool],
    query_words: Collection[str] = (),
) -> dict[str, float]:
    """Choose the words that judgements for earlier queries of the session add to a query, by Rocchio's formula.

    Args:
        bags: Bags of words of the m judged documents.
        grades: The signs and weights of the judgements, shape (m,).
        is_for_query: For each judgement, whether it was made for the current query.
        query_words: The words of the queries of the judgements. Single letters among them are not left out.

    Returns:
        The weights of at most eight words, heaviest words first.
    """
    return _heaviest_words(_word_weights(bags, np.where(is_for_query, 0, grades)), CARRIED_TERMS, query_words)


def _word_weights(bags: Sequence[Bag], grades: NDArray[np.float64]) -> dict[str, float]:
    """Return the weight of each word of the judged documents, by Rocchio's formula (see the module docstring).

    Words of relevant documents get positive weights, and words of irrelevant documents negative weights. For a word of
    both, the two weights are added.

    Args:
        bags: The bag of words of each document: a mapping from words to their weights in the document.
        grades: The judgement of each document, as an array of shape (n_documents,): positive for relevant and negative
            for irrelevant documents. The absolute value is the weight of the judgement. Documents with grade 0 are
            ignored.
    """
    weights: dict[str, float] = {}
    for side_weight, sign in zip(TERM_WEIGHTS, (1, -1), strict=True):
        side = [(abs(grade), bag) for grade, bag in zip(grades.tolist(), bags, strict=False) if grade * sign > 0]
        # The mean times e / (3 + e) is the sum divided by 3 + e.
        divisor = HALF_FOR_WORDS + sum(grade for grade, _ in side)
        for grade, bag in side:
            factor = sign * side_weight * grade / divisor
            for word, value in bag.items():
                weights[word] = weights.get(word, 0.0) + factor * value
    return weights


def _heaviest_words(weights: Mapping[str, float], count: int, query_words: Collection[str]) -> dict[str, float]:
    """Return the ``count`` words with the largest weights, heaviest first.

    Words without a letter, such as numbers, and words with a weight of zero or less are skipped. Single Latin letters
    are skipped, too, unless they are words of a query, as in "vitamin D", or there are no other words.

    Args:
        weights: A mapping from words to weights.
        count: The maximum number of words.
        query_words: The words of the queries.
    """
    # Numbers are serial, telephone or article numbers, which do not help to find similar documents.
    words = [word for word, weight in weights.items() if weight > 0 and any(map(str.isalpha, word))]
    # Single letters are mostly initials, variables and list items.
    words = [word for word in words if word in query_words or not _is_latin_letter(word)] or words
    heaviest = sorted(words, key=weights.__getitem__, reverse=True)[:count]
    return {word: weights[word] for word in heaviest}


def _is_latin_letter(word: str) -> bool:
    """Return whether a word is a single Latin letter, such as "d" or "é"."""
    return len(word) == 1 and word < _AFTER_LATIN
