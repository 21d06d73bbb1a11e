"""Calculate the share of a text's words that a model's vector represents."""

from __future__ import annotations

from resift.text import tokenize
from resift.vectors.table import WordVectors


def known_share(table: WordVectors, text: str, *, adapted: bool) -> float:
    """Return the share of a text's words, by weight, that a model's vector represents.

    For a general model, the words in its table count as represented. They are weighted as in the vector.

    A model that was adapted to its documents knows nearly all their words. For such a model, all words without digits
    count as represented, and words are weighted by idf. Words with digits do not count: a query for "U2278DE" or
    "18/45" asks for exactly this word, and vectors do not distinguish it from similar words.

    Args:
        table: The model's word table.
        text: The text, a query or document.
        adapted: Whether the model was adapted to the documents.

    Returns:
        A number from 0 to 1. It is 1 for a text without words.
    """
    words = tokenize(text)
    if adapted:
        words = list(dict.fromkeys(words))
        weights = list(map(table.idf, words))
        is_known = [not any(map(str.isdigit, word)) for word in words]
    else:
        rows = [table.index[word] for word in words]
        weights = [table.unknown_weight if row < 0 else float(table.weights[row]) for row in rows]
        is_known = [row >= 0 for row in rows]
    total = sum(weights)
    if total <= 0:
        return 1.0
    return sum(weight for weight, known in zip(weights, is_known, strict=True) if known) / total
