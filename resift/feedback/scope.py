"""Decide how much judgements that were made for earlier queries count for the current query.

The weight of a judgement that was made for an earlier query is multiplied by

    SCOPE_WEIGHT · context dependence of the current query · nearness of the document to the current query.

:func:`resift.text.context_dependence` defines the context dependence. The nearness is from 0 to 1. It is the mean of
the document's own nearness and the largest nearness among the relevant documents of the same earlier query, because
the relevant documents of a query share a subject.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.feedback.expansion import Bag
from resift.text import bag_of_words
from resift.vectors.similarity import unit_rows

SCOPE_DEVIATIONS = (1.0, 3.0)
"""Standard deviations above the mean similarity of the background at which nearness is 0, and at which it is 1."""

SCOPE_WEIGHT = 0.5
"""Maximum weight of a judgement that was made for an earlier query."""

MIN_BACKGROUND = 5
"""Minimum number of background documents that give a meaningful mean and deviation."""


def nearness_by_vectors(
    vectors: NDArray[Any], query: NDArray[Any], background: NDArray[Any]
) -> NDArray[np.floating[Any]]:
    """Return how much nearer judged documents are to a query than random documents of the index are.

    Args:
        vectors: Vectors of the m judged documents with K dimensions, scaled to length 1, shape (m, K).
        query: Query vector, shape (K,).
        background: Vectors of n random documents of the index, shape (n, K).

    Returns:
        Array of shape (m,). It is (z - 1) / 2, where z is the number of standard deviations by which the similarity of
        a document exceeds the mean similarity of the background (see :data:`SCOPE_DEVIATIONS`). It is not clipped.
    """
    low, high = SCOPE_DEVIATIONS
    direction = unit_rows(query)
    similarities = unit_rows(background) @ direction
    deviation = max(float(similarities.std()), 1e-6)
    return np.asarray(((vectors @ direction - similarities.mean()) / deviation - low) / (high - low))


def nearness_by_words(words: Collection[str], queries: Sequence[str], bags: Sequence[Bag]) -> NDArray[np.float64]:
    """Return the share of a query's words that each judged document contains.

    Words of the earlier query for which a document was judged count as words of the document. This measure replaces
    :func:`nearness_by_vectors` in an index without vectors, and for queries whose words are all unknown to the model,
    such as an article number.

    Args:
        words: Words of the current query.
        queries: The m queries for which the documents were judged.
        bags: The m bags of words of the documents.

    Returns:
        Array of shape (m,), with values from 0 to 1. All values are 1 if there are no words.
    """
    if not words:
        return np.ones(len(queries))
    shares = []
    for query, bag in zip(map(bag_of_words, queries), bags, strict=True):
        shares.append(sum(word in query or word in bag for word in words) / len(words))
    return np.array(shares)


def largest_by_query(
    values: NDArray[Any], queries: Sequence[str], grades: NDArray[np.float64]
) -> NDArray[np.floating[Any]]:
    """Return, for each judgement, the largest value among the relevant documents of the same query.

    Args:
        values: Value of each of the m judgements, shape (m,).
        queries: The m queries for which the documents were judged.
        grades: Sign (positive for relevant documents) and weight of each judgement, shape (m,).

    Returns:
        Array of shape (m,). For queries without relevant documents it contains the original values.
    """
    largest: dict[str, float] = {}
    for query, value, grade in zip(queries, values.tolist(), grades.tolist(), strict=True):
        if grade > 0:
            largest[query] = max(value, largest.get(query, value))
    return np.array([largest.get(query, value) for query, value in zip(queries, values.tolist(), strict=True)])
