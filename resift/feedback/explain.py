"""Why a session ranks as it does: what its judgements have taught, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.feedback.feedback import Feedback
from resift.feedback.judgements import JudgedDocument
from resift.text import FUNCTION_WORDS, tokenize
from resift.vectors.similarity import unit_rows

_TITLE_LENGTH, _READ_LENGTH = 80, 5000  # characters
_COUNT = 5  # words of a kind


def explain(
    model: Model, feedback: Feedback, judged: Sequence[JudgedDocument], asked: Sequence[str] = ()
) -> dict[str, Any]:
    """What a session has taught, from the documents that were ``judged``, the feedback that was learned from them, and
    the words that are ``asked`` for, heaviest first.

    ``because``: each judged document with the five of its words that pull or push most. ``towards`` and ``away``:
    the vocabulary's words nearest to where queries move, and those farthest from it. ``asked``: the first of these
    words, ten at most. Function words ("the", "or") are nowhere among these: they tell a reader nothing.
    """
    direction = np.asarray(feedback.mask**2 * feedback.shift, np.float32)
    # without a direction, as query expansion alone has none, every word would be as near as any other
    moves = bool(np.any(direction))
    pulled = moves and any(one.judgement.grade > 0 for one in judged)
    pushed = moves and any(one.judgement.grade < 0 for one in judged)
    return {
        "because": [_explain_judgement(model, direction, one) for one in judged],
        "towards": _nearest_words(model, direction) if pulled else [],
        "away": _nearest_words(model, -direction) if pushed else [],
        "asked": list(asked[: 2 * _COUNT]),
    }


def _nearest_words(model: Model, direction: Floats) -> list[str]:
    """The vocabulary's words nearest to a direction (K,), but for function words, which tell a reader nothing."""
    nearest = model.nearest_words(direction, 3 * _COUNT)
    return [word for word in nearest if word not in FUNCTION_WORDS][:_COUNT]


def _explain_judgement(model: Model, direction: Floats, one: JudgedDocument) -> dict[str, Any]:
    sign = 1 if one.judgement.grade > 0 else -1
    return {**_describe_judgement(one), "words": _characteristic_words(model, one.text, sign * direction)}


def _describe_judgement(one: JudgedDocument) -> dict[str, Any]:
    return {
        "index": one.judgement.index,
        "document": one.judgement.document,
        "grade": one.judgement.grade,
        "title": title(one.text),
    }


def _characteristic_words(model: Model, text: str, direction: Floats) -> list[str]:
    """The text's words whose vectors, times their weights, lie most in ``direction`` (K,), best first."""
    table = model.table
    tokens = dict.fromkeys(tokenize(text[:_READ_LENGTH]))
    rows = {word: row for word in tokens if word not in FUNCTION_WORDS and (row := table.index[word]) >= 0}
    if not rows:
        return []
    words, ids = list(rows), np.fromiter(rows.values(), np.int64)
    scores = (model.word_vectors(ids) @ direction) * table.weights[ids]
    order = np.argsort(-scores, kind="stable")[:_COUNT]
    return [words[i] for i in order if scores[i] > 0]


def title(text: str) -> str:
    """A text's first line, cut at the end of a word after at most 80 characters.

    >>> title("  Bush fire\\nSydney")
    'Bush fire'
    """
    line = next(iter(text.lstrip()[:_READ_LENGTH].splitlines()), "").strip()
    return line if len(line) <= _TITLE_LENGTH else re.sub(r"\s+\S*$", "", line[:_TITLE_LENGTH]) + "…"


def reasons(
    feedback: Feedback, judged: Sequence[JudgedDocument], vectors: NDArray[Any], moved: Sequence[int]
) -> list[dict[str, Any] | None]:
    """Which judgement moved each of a search's n hits, or None where none can be named.

    ``feedback`` was learned from ``judged`` and is scoped to the search (:meth:`Feedback.scoped`); ``vectors`` (n, K)
    are the hits', and ``moved`` (n,) says how many places each won by the session, negative if it lost some.

    That is the judged document most like the hit under the mask, in proportion to what its judgement counts here, if it
    explains the way that the hit went: up for a relevant one, down for an irrelevant one. A hit that stayed where it
    was, that went the other way, or that is like none of them was moved by what others won or lost. By places, and not
    by similarities: these may all fall, where a session leads away from what most documents have in common, and what
    fell least still goes up.
    """
    # a judgement out of the search's scope did not move anything, near as its document may be
    documents = [judged[position] for position in feedback.positions]
    if not documents:
        return [None] * len(vectors)
    matrix = np.stack([one.vector for one in documents])
    similarities = unit_rows(vectors * feedback.mask) @ unit_rows(matrix * feedback.mask).T
    nearest, rows = (similarities * np.abs(feedback.grades)).argmax(axis=1), np.arange(len(vectors))
    found = similarities[rows, nearest].astype(float).round(6)
    fitting = (np.asarray(moved) * feedback.grades[nearest] > 0) & (found > 0)
    return [
        {**_describe_judgement(documents[position]), "similarity": similarity, "moved": places} if fits else None
        for position, similarity, places, fits in zip(
            nearest.tolist(), found.tolist(), moved, fitting.tolist(), strict=True
        )
    ]
