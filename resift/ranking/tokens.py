"""Sparse queries in a session: which tokens of judged documents come into a query of weighted tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from resift.ranking.feedback import METHODS, Feedback
from resift.ranking.own_vectors import blended, strength
from resift.vectors.similarity import unit_rows

MAX_ADDED = 64
Tokens = Mapping[str, float]


def moved_tokens(query: Tokens, documents: Sequence[Tokens], grades: Sequence[float]) -> dict[str, float]:
    """The tokens of a query as judged documents' tokens move them, heaviest first, at the length (l2) of the query's.

    Tokens are the dimensions of vectors, which Rocchio's formula moves of which the query becomes
    e / (1 + e) for an evidence of e. What comes out below 0 is left out, and of tokens that the
    query lacks only the MAX_ADDED heaviest come in. ``grades``: those of the documents, each not 0.

    >>> moved_tokens({"fire": 1.0}, [{"fire": 1.0, "bush": 1.0}], [1.0])
    {'fire': 0.985, 'bush': 0.1725}
    """
    names = list(dict.fromkeys(token for tokens in (query, *documents) for token in tokens))
    places = {name: place for place, name in enumerate(names)}
    rows = np.zeros((1 + len(documents), len(names)), np.float32)
    for row, tokens in zip(rows, (query, *documents), strict=True):
        row[[places[name] for name in tokens]] = list(tokens.values())
    marks = np.asarray(grades, np.float64)
    feedback = Feedback(unit_rows(rows[1:]), marks, np.ones(len(names), np.float32), method=METHODS["rocchio"])
    weights = np.maximum(blended(rows[0], feedback.transform_query(rows[0]), strength(feedback.evidence)), 0)
    added = [place for place, name in enumerate(names) if name not in query]
    weights[sorted(added, key=lambda place: -weights[place])[MAX_ADDED:]] = 0
    weights = unit_rows(weights) * np.linalg.norm(rows[0])
    order = np.argsort(-weights, kind="stable")
    return {names[place]: round(float(weights[place]), 4) for place in order if weights[place] >= 0.0001}
