"""Explain what a session has learned, and why it moves hits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.feedback.feedback import Feedback
from resift.feedback.judgements import JudgedDocument
from resift.text import FUNCTION_WORDS, bag_of_words, tokenize
from resift.vectors.similarity import unit_rows

_MAX_TITLE = 80  # characters
_READ_CHARACTERS = 5000  # characters of a text that are read
_MAX_TEXT = 20_000  # characters of a hit in which expansion words are looked up, as many as sessions learn from
_WORDS = 5  # number of words in each list of an explanation
_CANDIDATES = 20  # number of words of a document from which these are chosen

WordValues = Callable[[str, Sequence[str]], Mapping[str, float]]
"""A function that takes the name of an index and some words, and returns the value of each word for searching."""


def _equal_values(index: str, words: Sequence[str]) -> Mapping[str, float]:
    """Return 1 for each word: without document counts, all words are equally useful."""
    return dict.fromkeys(words, 1.0)


def explain(
    model: Model,
    feedback: Feedback,
    judged: Sequence[JudgedDocument],
    expansion_words: Sequence[str] = (),
    word_values: WordValues = _equal_values,
) -> dict[str, Any]:
    """Return a summary of what a session has learned, as JSON. Function words such as "the" are left out.

    Args:
        model: The model of the document vectors.
        feedback: The feedback that was learned from the judged documents.
        judged: The judged documents, with their judgements.
        expansion_words: Expansion words of the query, heaviest first.
        word_values: A function that returns how useful words are for searching an index. Function words of any language
            have small values, because most documents contain them.

    Returns:
        A dictionary with these keys:

        - ``because``: for each judged document its index, id, grade and title, and the five words that contribute
          most to its influence. The contribution of a word is multiplied by its value for searching.
        - ``towards``: the five words nearest to the direction in which queries move. Empty without relevant documents.
        - ``away``: the five words nearest to the opposite direction. Empty without irrelevant documents.
        - ``asked``: the first ten expansion words.
        - ``mask``: the dimensions whose weights the mask changed, see :func:`_explain_mask`. None if the feedback
          has no mask.
    """
    direction = np.asarray(feedback.mask**2 * feedback.shift, np.float32)
    # For methods that do not move queries, the direction is zero. All words would be equally near to it.
    moves = bool(np.any(direction))
    has_relevant = any(document.judgement.grade > 0 for document in judged)
    has_irrelevant = any(document.judgement.grade < 0 for document in judged)
    return {
        "because": _explain_judgements(model, direction, judged, word_values),
        "towards": _nearest_words(model, direction) if moves and has_relevant else [],
        "away": _nearest_words(model, -direction) if moves and has_irrelevant else [],
        "asked": list(expansion_words[: 2 * _WORDS]),
        "mask": _explain_mask(model, feedback) if feedback.method.masked else None,
    }


def _explain_mask(model: Model, feedback: Feedback) -> dict[str, list[dict[str, Any]]]:
    """Return the dimensions of the vectors whose weights the mask changed most.

    A mask contains a weight for each dimension. A dimension is described by the words whose own vectors are nearest to
    its unit vector. In the vectors of a bag of embedded words (BoEW), each dimension is a codeword, and these are the
    words with the largest memberships in the codeword.

    For each dimension, the change of its weight is multiplied by its root mean square in the vectors of the judged
    documents. Dimensions are ordered by these products, because the mask also changes the weights of dimensions that
    hardly occur in these documents.

    Args:
        model: The model of the document vectors.
        feedback: The feedback with the mask. Weights start at 1.

    Returns:
        A dictionary with the lists ``gained`` (weights above 1) and ``lost`` (weights below 1), each with at most five
        dimensions, most important first. An item contains the number of the dimension as ``codeword``, its ``weight``
        and its five nearest ``words``.
    """
    mask = feedback.mask
    effects = (mask - 1) * np.sqrt(np.square(feedback.vectors).mean(axis=0)) if len(feedback.vectors) else mask - 1
    order, axes = np.argsort(-effects, kind="stable"), np.eye(len(mask), dtype=np.float32)
    rows = {"gained": order[effects[order] > 0][:_WORDS], "lost": order[effects[order] < 0][::-1][:_WORDS]}
    return {
        name: [
            {"codeword": row, "weight": round(float(mask[row]), 4), "words": _nearest_words(model, axes[row])}
            for row in codewords.tolist()
        ]
        for name, codewords in rows.items()
    }


def _nearest_words(model: Model, direction: Floats) -> list[str]:
    """Return up to five words whose vectors are most similar to a direction, most similar first.

    Function words such as "the" are skipped.

    Args:
        model: The embedding model, which contains the vocabulary and the word vectors.
        direction: A vector of shape (n_dimensions,), for example the direction in which a query was moved.
    """
    nearest = model.nearest_words(direction, 3 * _WORDS)
    return [word for word in nearest if word not in FUNCTION_WORDS][:_WORDS]


def _explain_judgements(
    model: Model, direction: Floats, judged: Sequence[JudgedDocument], word_values: WordValues
) -> list[dict[str, Any]]:
    """Describe judged documents, each with the words that contribute most to its influence on queries.

    Args:
        model: The embedding model, which contains the word vectors.
        direction: The direction in which the session moves queries, of shape (n_dimensions,). For an irrelevant
            document, the opposite direction counts.
        judged: The judged documents.
        word_values: A function that returns how useful words are for searching an index.
    """
    contributions = [
        _contributions(model, document.text, direction if document.judgement.grade > 0 else -direction)
        for document in judged
    ]
    # The words of all documents of an index are counted by a single request.
    words_by_index: dict[str, dict[str, None]] = {}
    for document, words in zip(judged, contributions, strict=True):
        words_by_index.setdefault(document.judgement.index, {}).update(dict.fromkeys(words))
    values = {index: word_values(index, list(words)) for index, words in words_by_index.items()}
    return [
        {**_describe_judgement(document), "words": _most_useful_words(words, values[document.judgement.index])}
        for document, words in zip(judged, contributions, strict=True)
    ]


def _most_useful_words(contributions: Mapping[str, float], values: Mapping[str, float]) -> list[str]:
    """Return up to five words with the largest products of contribution and value, largest first.

    Args:
        contributions: The contribution of each word to the influence of a document, which is positive.
        values: The value of each word for searching. If no word has a value, all values count as 1: no other document
            contains any of the words.
    """
    useful = {word: contribution * values[word] for word, contribution in contributions.items() if values.get(word)}
    return _largest((useful or contributions).items(), _WORDS)


def _largest(weights: Iterable[tuple[str, float]], count: int) -> list[str]:
    """Return the words with the largest weights, largest first. Words with equal weights keep their order."""
    return [word for word, _ in sorted(weights, key=lambda item: -item[1])[:count]]


def _describe_judgement(document: JudgedDocument) -> dict[str, Any]:
    """Return the index, id, grade and title of a judged document, as JSON."""
    return {
        "index": document.judgement.index,
        "document": document.judgement.document,
        "grade": document.judgement.grade,
        "title": title_of(document.title_text or document.text),
    }


def _contributions(model: Model, text: str, direction: Floats) -> dict[str, float]:
    """Return up to 20 words of a text that contribute most to its similarity with a direction.

    The contribution of a word is the inner product of its vector and the direction, times the weight of the word.
    English function words such as "the" are left out.

    Args:
        model: The embedding model, which contains the word vectors.
        text: The text. Only the first 5000 characters are read.
        direction: A vector of shape (n_dimensions,).

    Returns:
        The contribution of each word, largest first. Words with a contribution of zero or less are left out.
    """
    table = model.table
    tokens = dict.fromkeys(tokenize(text[:_READ_CHARACTERS]))
    rows = {word: row for word in tokens if word not in FUNCTION_WORDS and (row := table.index[word]) >= 0}
    if not rows:
        return {}
    words, ids = list(rows), np.fromiter(rows.values(), np.int64)
    scores = (model.word_vectors(ids) @ direction) * table.weights[ids]
    order = np.argsort(-scores, kind="stable")[:_CANDIDATES]
    return {words[i]: float(scores[i]) for i in order if scores[i] > 0}


def title_of(text: str) -> str:
    r"""Return the first line of a text, as a title. Lines of more than 80 characters are cut at the end of a word.

    >>> title_of("  Bush fire\nSydney")
    'Bush fire'
    """
    line = next(iter(text.lstrip()[:_READ_CHARACTERS].splitlines()), "").strip()
    return line if len(line) <= _MAX_TITLE else re.sub(r"\s+\S*$", "", line[:_MAX_TITLE]) + "…"


def explain_moves(
    feedback: Feedback, judged: Sequence[JudgedDocument], vectors: NDArray[Any], moved: Sequence[int]
) -> list[dict[str, Any] | None]:
    """Return, for each of n hits, the judgement that explains best why the session moved the hit up or down.

    For each judged document, the weight of its judgement is multiplied by its similarity to the hit, calculated with
    the feedback's mask of the dimensions. The document with the largest product is the explanation, if it agrees with
    the movement: a relevant document can explain that a hit moved up, and an irrelevant document that a hit moved down.
    There is no explanation for hits that stayed in place, moved in the other direction, or are similar to no judged
    document.

    Movement is measured in ranks and not in similarities, because a session can reduce all similarities. The hits
    whose similarity falls least then move up.

    Args:
        feedback: The part of the feedback that applies to the search, from :meth:`Feedback.scoped_to_query`. Its
            vectors must be from the same field as the vectors of the hits.
        judged: The judged documents from which the feedback was learned.
        vectors: Vectors of the hits, shape (n, K).
        moved: Number of ranks that the session moved each hit up, shape (n,). Negative for hits that moved down.

    Returns:
        An item for each hit. It is None if no judgement explains the movement of the hit. Otherwise it is a dictionary
        with the judged document's ``index``, id (``document``), ``grade`` and ``title``, its ``similarity`` to the hit,
        and the number of ranks that the hit ``moved``.
    """
    # Documents whose judgements do not apply to this search cannot be reasons.
    documents = [judged[position] for position in feedback.positions]
    if not documents:
        return [None] * len(vectors)
    # The vectors of the feedback are of the same field as the mask. ``document.vector`` is always a vector of Resift.
    similarities = unit_rows(vectors * feedback.mask) @ unit_rows(feedback.vectors * feedback.mask).T
    nearest = (similarities * np.abs(feedback.grades)).argmax(axis=1)
    largest = similarities[np.arange(len(vectors)), nearest].astype(float).round(4)
    agrees = (np.asarray(moved) * feedback.grades[nearest] > 0) & (largest > 0)
    reasons: list[dict[str, Any] | None] = []
    for position, similarity, places, is_reason in zip(
        nearest.tolist(), largest.tolist(), moved, agrees.tolist(), strict=True
    ):
        reason = {**_describe_judgement(documents[position]), "similarity": similarity, "moved": places}
        reasons.append(reason if is_reason else None)
    return reasons


def explain_moves_by_words(
    feedback: Feedback,
    judged: Sequence[JudgedDocument],
    weights: Mapping[str, float],
    hits: Sequence[tuple[str, int | None]],
    moved: Sequence[int],
    query: str = "",
) -> list[dict[str, Any] | None]:
    """Return, for each of n hits, the relevant document whose words moved the hit up, in a search without vectors.

    This is the relevant document with which the hit shares the most expansion words. Each word counts by its weight,
    and each document by the weight of its judgement. A judged document is explained by its own judgement only, also if
    it is irrelevant and moved down. Unjudged hits that moved down get no explanation, because they only fell behind
    hits that gained score.

    Args:
        feedback: The part of the feedback that applies to the search, from :meth:`Feedback.scoped_to_query`.
        judged: The judged documents from which the feedback was learned.
        weights: The expansion words of the search, with their weights, heaviest first.
        hits: For each hit, its text, and its position in ``judged`` or None if the hit is not judged.
        moved: Number of ranks that the session moved each hit up, shape (n,). Negative for hits that moved down.
        query: The text of the query. Its words are not listed.

    Returns:
        An item for each hit, as from :func:`explain_moves`. Its ``similarity`` is None, and it also has ``words``, at
        most five expansion words that the hit shares with the judged document, heaviest first.
    """
    bags = feedback.bags or ({},) * len(feedback.positions)
    query_words = bag_of_words(query)
    reasons: list[dict[str, Any] | None] = []
    for (text, own_position), places in zip(hits, moved, strict=True):
        text_words = bag_of_words(text[:_MAX_TEXT])
        words = [word for word in weights if word in text_words]
        candidates = [row for row, position in enumerate(feedback.positions) if own_position in (None, position)]
        shared = {row: [word for word in words if word in bags[row]] for row in candidates}
        strengths = {row: feedback.grades[row] * sum(map(weights.__getitem__, shared[row])) for row in candidates}
        row = max(candidates, key=strengths.__getitem__, default=None)
        if row is None or feedback.grades[row] * places <= 0 or (own_position is None and strengths[row] <= 0):
            reasons.append(None)
            continue
        listed = [word for word in shared[row] if word not in query_words][:_WORDS]
        description = _describe_judgement(judged[feedback.positions[row]])
        reasons.append({**description, "similarity": None, "moved": places, "words": listed})
    return reasons
