"""Weights of a vector similarity in a score.

A score is multiplied by exp(beta · similarity). People state the weight as alpha, from 0 (the score alone) to 1 (the
similarity alone).
"""

from __future__ import annotations

MAX_BETA = 32.0  # exp(2 · 32) times any BM25 score is within the range of 32-bit floats


def beta_from_alpha(alpha: float) -> float:
    """Return the factor of the similarity for a weight.

    The factor is alpha / (1 - alpha), because score · exp(beta · similarity) ranks like the weighted mean
    (1 - alpha) · log(score) + alpha · similarity. It is at most :data:`MAX_BETA`, where the score only decides between
    documents of equal similarity.

    Args:
        alpha: The weight, from 0 to 1.

    >>> [beta_from_alpha(alpha) for alpha in (0, 0.5, 0.75, 1)]
    [0.0, 1.0, 3.0, 32.0]
    """
    return min(alpha / (1 - alpha), MAX_BETA) if alpha < 1 else MAX_BETA


def alpha_from_beta(beta: float) -> float:
    """Return the weight for a factor of the similarity. The inverse of :func:`beta_from_alpha`."""
    return beta / (1 + beta)


def discount_alpha(alpha: float, known: float | None, strength: float = 1.0) -> float:
    """Return the weight of a similarity when the model knows only a part of the query.

    The factor of the similarity is multiplied by known². Only the engine can judge the unknown words, so a model does
    little harm to texts in a language that it does not know. The square was chosen on pages in seven languages other
    than English.

    Args:
        alpha: The weight for a query whose words are all known, from 0 to 1.
        known: The known share of the query's words, from 0 to 1. None leaves the weight unchanged.
        strength: A further factor of beta.
    """
    factor = strength if known is None else strength * known**2
    return alpha if factor == 1 else alpha_from_beta(beta_from_alpha(alpha) * factor)
