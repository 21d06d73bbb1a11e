"""Compute the influence of a user's judgements, which grows with their number.

The influence is e / (h + e). Here e, the evidence, is the total weight of the judgements; an explicit mark has the
weight 1. The constant h is the evidence at which the influence is one half. Each purpose has its own h. The values were
chosen on the collections that were used for tuning (``docs/feedback.md``).
"""

from __future__ import annotations

HALF_FOR_WORDS = 3.0
"""The constant h of expansion words and of the weight of the similarity: a mark has a quarter of the full influence.

A single document contains many words that have nothing to do with the query, so the first mark counts little.
"""
HALF_FOR_VECTORS = 0.6
"""The constant h of query vectors in the index's own vector fields: a mark moves the query up to 62 % of the way."""
HALF_FOR_SCORES = 1.0
"""The constant h of query tokens and of the factors of scores: a mark has half of the full influence."""


def evidence_share(evidence: float, half: float = HALF_FOR_SCORES) -> float:
    """Return how much a user's judgements influence a query, from 0 (not at all) to 1.

    The influence is e / (h + e), so it grows with the number of judgements.

    Args:
        evidence: The total weight e of the judgements. An explicit mark has the weight 1.
        half: The evidence h at which the influence is one half.

    >>> evidence_share(1.0), evidence_share(3.0, HALF_FOR_WORDS), evidence_share(0.0)
    (0.5, 0.5, 0.0)
    """
    return evidence / (half + evidence)
