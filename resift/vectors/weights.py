"""The weight of the vector similarity when it is combined with the engine's score.

A hit's rescored score is score · exp(beta · similarity), where beta = alpha / (1 - alpha). The weight ``alpha`` goes
from 0 (only the engine's score counts) to 1 (only the similarity counts).
"""

from __future__ import annotations

from dataclasses import dataclass

from resift.errors import BadInput

DEFAULT_ALPHA = 0.5
"""Alpha of untrained models. Chosen on Cranfield, CISI and mtrag-govt."""

ADAPTED_MAX_ALPHA = 0.75
"""Maximum alpha in sessions, for models adapted to their documents. Chosen on the same collections."""

MAX_BETA = 32.0
"""Largest beta. With it, exp(beta · (1 + cosine)) times any BM25 score is within the range of 32-bit floats."""


@dataclass(frozen=True)
class Alphas:
    """The weights (alpha) of a model's similarity relative to the engine's score.

    With alpha = 0, hits are ranked by the engine's score alone. With alpha = 1, the similarity dominates the ranking.

    Attributes:
        alpha: The default weight for searches without a session.
        max_alpha: The limit of the weight in a session: the more documents a user judges, the closer the weight gets to
            this value. It has no effect if it is below ``alpha``.

    Raises:
        BadInput: If a weight is not from 0 to 1.
    """

    alpha: float = DEFAULT_ALPHA
    max_alpha: float = DEFAULT_ALPHA

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("max_alpha", self.max_alpha)):
            if not 0 <= value <= 1:
                raise BadInput(f"{name} is {value}", value=value, expected="0 to 1")


def beta_from_alpha(alpha: float) -> float:
    """Convert alpha, the weight of the similarity, to the factor beta in score · exp(beta · similarity).

    The factor is alpha / (1 - alpha), because (1 - alpha) · log(score) + alpha · similarity gives the same order of
    hits. It is at most MAX_BETA. At this maximum, the engine's score only decides between documents of nearly equal
    similarity.

    Args:
        alpha: The weight of the similarity, from 0 to 1.

    >>> [beta_from_alpha(alpha) for alpha in (0, 0.5, 0.75, 1)]
    [0.0, 1.0, 3.0, 32.0]
    """
    return min(alpha / (1 - alpha), MAX_BETA) if alpha < 1 else MAX_BETA


def alpha_from_beta(beta: float) -> float:
    """Convert the weight of the similarity from beta to alpha. This is the inverse of :func:`beta_from_alpha`.

    Args:
        beta: The factor of the similarity in a rescored score, score · exp(beta · similarity). At least 0.

    Returns:
        The weight alpha = beta / (1 + beta), from 0 (only the engine's score counts) to 1 (only the similarity counts).
    """
    return beta / (1 + beta)


def discount_alpha(alpha: float, known_share: float | None, strength: float = 1.0) -> float:
    """Reduce the weight of the similarity for a query with words that the model does not know.

    The factor beta (see :func:`beta_from_alpha`) is multiplied by the square of ``known_share``, because only the
    engine can match unknown words. A model thus does little harm to texts in a language that it does not know. The
    square was chosen in experiments with pages in seven languages other than English.

    Args:
        alpha: Weight of the similarity, from 0 to 1.
        known_share: Share of the query's words that its vector represents, from 0 to 1. If None, only ``strength``
            changes the weight.
        strength: Additional factor of beta. By default 1.

    Returns:
        The reduced alpha.
    """
    factor = strength if known_share is None else strength * known_share**2
    return alpha if factor == 1 else alpha_from_beta(beta_from_alpha(alpha) * factor)
