"""Decide how much judgements that were made for earlier queries count for the current query.

The weight of a judgement that was made for an earlier query is multiplied by

    SCOPE_WEIGHT · context dependence of the current query · nearness of the document to the current query.

:func:`resift.text.context_dependence` defines the context dependence. If the current query refines the earlier query
(see :func:`fits_refinement`), 1 replaces the context dependence. The nearness is from 0 to 1. It is the mean of the
document's own nearness and the largest nearness among the relevant documents of the same earlier query, because the
relevant documents of a query share a subject.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.feedback.expansion import Bag
from resift.porter import stem
from resift.text import bag_of_words
from resift.vectors.similarity import unit_rows

SCOPE_DEVIATIONS = (1.0, 3.0)
"""Standard deviations above the mean similarity of the background at which nearness is 0, and at which it is 1."""

SCOPE_WEIGHT = 0.5
"""Maximum weight of a judgement that was made for an earlier query."""

MIN_BACKGROUND = 5
"""Minimum number of background documents that give a meaningful mean and deviation."""


def is_same_query(recorded: str, query: str) -> bool:
    """Return whether the query that a judgement records is a certain query. Case and additional spaces are ignored.

    A judgement without a query, such as a click on a document's own page, only counts as made for a search without a
    text, for example by vectors alone.

    Args:
        recorded: The query that the judgement records, or "" if the judgement was made without a query.
        query: The text of the query, or "" if the search has no text.

    >>> is_same_query("Bush fire", " bush  fire"), is_same_query("", "fire"), is_same_query("C++", "C#")
    (True, False, False)
    >>> is_same_query("", "")
    True
    """
    return recorded == query or " ".join(recorded.casefold().split()) == " ".join(query.casefold().split())


def fits_refinement(earlier_query: str, query: str, document_words: Collection[str]) -> bool:
    """Return whether a query refines an earlier query in a way that fits a document judged for the earlier query.

    A refined query only adds content words to the earlier query, or only leaves out some of its content words. It
    usually has the same purpose. But an added word can also name another thing: after "mouse", "mouse pad" does not ask
    for a mouse. So if words were added, the document must contain one of them. Words are compared by their stems.

    Args:
        earlier_query: The earlier query.
        query: The text of the current query.
        document_words: The words of the document.

    >>> fits_refinement("mouse", "wireless mouse", ["wireless", "usb"])
    True
    >>> fits_refinement("mouse", "mouse pads", ["mouse", "usb"])
    False
    >>> fits_refinement("linux music player", "music player", [])
    True
    >>> fits_refinement("music player", "video player", ["video"])
    False
    """
    earlier, current = _content_stems(earlier_query), _content_stems(query)
    if not (earlier and current and (earlier <= current or current <= earlier)):
        return False
    added = current - earlier
    # A stem has the first letter of its word. Most words of long documents are thus not stemmed.
    initials = {word[:1] for word in added}
    return not added or any(word[:1] in initials and stem(word) in added for word in document_words)


@lru_cache(1 << 12)
def _content_stems(text: str) -> frozenset[str]:
    """Return the stems of a query's content words, which are all words except function words such as "the"."""
    return frozenset(map(stem, bag_of_words(text)))


def nearness_by_vectors(
    vectors: NDArray[Any], query: NDArray[Any], background: NDArray[Any]
) -> NDArray[np.floating[Any]]:
    """Measure how near judged documents are to a query, compared with random documents of the index.

    Args:
        vectors: The vectors of the judged documents, scaled to unit length, shape (n_judged, n_dimensions).
        query: The query vector, shape (n_dimensions,).
        background: The vectors of random documents of the index, shape (n_background, n_dimensions).

    Returns:
        The nearness of each judged document, (z - 1) / 2, as an array of shape (n_judged,). Here z is the number of
        standard deviations by which the document is more similar to the query than the mean random document. For
        example, z = 1 gives 0, z = 3 gives 1, and z = 5 gives 2.
    """
    low, high = SCOPE_DEVIATIONS
    direction = unit_rows(query)
    similarities = unit_rows(background) @ direction
    deviation = max(float(similarities.std()), 1e-6)
    return np.asarray(((vectors @ direction - similarities.mean()) / deviation - low) / (high - low))


def nearness_by_words(words: Collection[str], queries: Sequence[str], bags: Sequence[Bag]) -> NDArray[np.float64]:
    """Measure how near judged documents are to a query, as the share of the query's words that each document contains.

    The words of the query for which a document was judged count as words of the document, too. This measure replaces
    :func:`nearness_by_vectors` if the index has no vectors, or if the embedding model knows no word of the query.

    Args:
        words: The words of the current query.
        queries: For each document, the query for which it was judged.
        bags: For each document, its bag of words.

    Returns:
        Array of shape (n_documents,), from 0 to 1. All values are 1 if ``words`` is empty.
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
    """Replace each judgement's value with the largest value among the relevant documents judged for the same query.

    The relevant documents of a query share a subject. So if a single relevant document of an earlier query is near to
    the current query, all judgements for the earlier query get its high value. Documents that were judged without a
    query need not have the same subject, so their values are unchanged.

    Args:
        values: The nearness of each judged document to the current query, shape (n_judgements,).
        queries: For each judgement, the query for which the document was judged, or "" if there was none.
        grades: The sign (positive for relevant documents) and weight of each judgement, shape (n_judgements,).

    Returns:
        Array of shape (n_judgements,). Values are unchanged for queries without relevant documents.

    >>> largest_by_query(np.array([0.2, 0.9, 0.5]), ["fire", "fire", "rain"], np.array([1.0, 1.0, -1.0])).tolist()
    [0.9, 0.9, 0.5]
    """
    largest: dict[str, float] = {}
    for query, value, grade in zip(queries, values.tolist(), grades.tolist(), strict=True):
        if grade > 0 and query:
            largest[query] = max(value, largest.get(query, value))
    return np.array([largest.get(query, value) for query, value in zip(queries, values.tolist(), strict=True)])
