"""The five documents that tests of both engines search, and their vocabulary."""

from __future__ import annotations

from resift.contracts.testing import TEXTS, documents, ids, knn_body

__all__ = ["CONTENT_WORDS", "TEXTS", "documents", "ids", "knn_body"]

# The words with a meaning that have vectors in the tests' model. Its other words are the three stop words.
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
