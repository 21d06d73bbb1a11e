"""Five documents that the tests of both engines search, and the words that they are made of."""

from __future__ import annotations

from resift.contracts.testing import TEXTS, documents, ids, knn_body

__all__ = ["CONTENT_WORDS", "TEXTS", "documents", "ids", "knn_body"]

# Of which the tests' model knows the vectors, beside three that mean nothing.
CONTENT_WORDS = [
    "fire",
    "bush",
    "flame",
    "smoke",
    "forest",
    "tree",
    "army",
    "gun",
    "soldier",
    "war",
    "ceasefire",
    "peace",
    "rain",
    "river",
    "water",
]
