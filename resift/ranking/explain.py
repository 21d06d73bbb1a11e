"""Why a session ranks as it does: what its judgements have taught, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.ranking.feedback import Feedback
from resift.ranking.judgements import JudgedDocument
from resift.text import tokenize
from resift.vectors.similarity import unit_rows

_TITLE, _READ = 80, 5000


def explain(model: Model, feedback: Feedback, judged: Sequence[JudgedDocument], count: int = 5) -> dict[str, Any]:
    """What the session has taught. ``because``: each document that counts, with its words that pull or push most.

    ``towards`` and ``away``: the vocabulary's words nearest to where queries move, and farthest from it; ``asked``:
    the words that the engine is asked for too, heaviest first; ``stronger`` and ``weaker``: the dimensions that weigh
    most and least in the direction, by the mask's change if there is one, each with the words that are largest in it.
    """
    direction = np.asarray(feedback.mask**2 * feedback.shift, np.float32)
    change = feedback.mask - 1 if feedback.method.masked else direction
    order = np.argsort(-change, kind="stable")
    signs = {one.judgement.grade > 0 for one in judged}

    def dimensions(rows: Any, sign: int) -> list[dict[str, Any]]:
        return [
            {"dimension": int(row), "weight": round(float(change[row]), 4), "words": model.top_words(int(row))}
            for row in rows
            if change[row] * sign > 0
        ]

    return {
        "because": [_because(model, direction, one, count) for one in judged],
        "towards": model.nearest_words(direction, count) if True in signs else [],
        "away": model.nearest_words(-direction, count) if False in signs else [],
        "asked": list(feedback.expansion_terms)[: 2 * count],
        "stronger": dimensions(order[:count], 1),
        "weaker": dimensions(order[::-1][:count], -1),
    }


def _because(model: Model, direction: Floats, one: JudgedDocument, count: int) -> dict[str, Any]:
    sign = 1 if one.judgement.grade > 0 else -1
    return {
        "index": one.judgement.index,
        "document": one.judgement.document,
        "grade": one.judgement.grade,
        "title": title(one.text),
        "words": _telling(model, one.text, sign * direction, count),
    }


def _telling(model: Model, text: str, direction: Floats, count: int) -> list[str]:
    """The text's words whose vectors, times their weights, lie most in ``direction`` (K,), best first."""
    words = list(dict.fromkeys(tokenize(text[:_READ])))
    ids, offsets = model.table.ids(words)
    known = [(word, id) for word, id in zip(words, (ids[i:j] for i, j in pairwise(offsets)), strict=True) if len(id)]
    if not known:
        return []
    words = [word for word, _ in known]
    weights = model.table.weights[[id[0] for _, id in known]]
    scores = (model.encode(words) @ direction) * weights
    order = np.argsort(-scores, kind="stable")[:count]
    return [words[i] for i in order if scores[i] > 0]


def title(text: str) -> str:
    """A text's first line, cut at the end of a word."""
    line = next(iter(text.lstrip()[:_READ].splitlines()), "").strip()
    return line if len(line) <= _TITLE else re.sub(r"\s+\S*$", "", line[:_TITLE]) + "…"


def reasons(
    model: Model, feedback: Feedback, judged: Sequence[JudgedDocument], vectors: Floats, change: Floats
) -> list[dict[str, Any] | None]:
    """Of each hit, with its vector (n, K) and the ``change`` (n,) of its similarity: the judgement it comes from.

    It is the judged document nearest to the hit under the mask, a relevant one where the hit went up and an
    irrelevant one where it went down; None where there is none of that kind.
    """
    documents = np.stack([one.vector for one in judged])
    grades = np.array([one.judgement.grade for one in judged])
    near = unit_rows(vectors * feedback.mask) @ unit_rows(documents * feedback.mask).T
    weighed = np.where(np.outer(change, grades) > 0, near * np.abs(grades), -np.inf)
    best = weighed.argmax(axis=1)
    rows = np.arange(len(near))
    known: dict[int, dict[str, Any]] = {
        place: {
            "index": judged[place].judgement.index,
            "document": judged[place].judgement.document,
            "grade": judged[place].judgement.grade,
            "title": title(judged[place].text),
        }
        for place in set(best.tolist())
    }
    similar, gains = near[rows, best].astype(float).round(6).tolist(), change.astype(float).round(6).tolist()
    there = np.isfinite(weighed[rows, best]).tolist()
    return [
        {**known[place], "similarity": similarity, "gain": gain} if one else None
        for place, similarity, gain, one in zip(best.tolist(), similar, gains, there, strict=True)
    ]
