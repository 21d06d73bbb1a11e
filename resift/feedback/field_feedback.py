"""Feedback on the index's own vector fields and sparse token fields, which were filled by other programs.

It is unknown how well such vectors distinguish topics. A session therefore estimates this from the judged documents,
and moves queries less if the vectors distinguish topics badly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.feedback.evidence import HALF_FOR_VECTORS, evidence_share
from resift.feedback.feedback import Feedback
from resift.feedback.rocchio import rocchio_shift
from resift.feedback.scope import MIN_BACKGROUND
from resift.vectors.similarity import unit_rows

# Queries are moved only if judged documents are more similar to their query than random documents, by at least this
# number of standard deviations. For vectors that distinguish topics well, the difference is 2 to 5 deviations. For
# plain means of word vectors, it is at most 2.
_MIN_DEVIATIONS = 1.5
# The score bonus of relevant documents, in standard deviations, if the vectors do not distinguish topics.
_BONUS_DEVIATIONS = 4.0
MAX_ADDED_TOKENS = 64  # tokens that the query lacks
_MIN_TOKEN_WEIGHT = 0.0001  # lighter tokens are left out, because weights are rounded to four decimal places

Tokens = Mapping[str, float]
"""A sparse vector: tokens with their weights."""


def blend_queries(query: NDArray[Any], transformed: NDArray[Any], share: float) -> Floats:
    """Return a weighted mean of a query vector and a transformed query vector.

    Both vectors are scaled to unit length, averaged as (1 - share) · query + share · transformed, and the result is
    scaled to the Euclidean length of ``query``.

    Args:
        query: The query vector, of shape (n_dimensions,). If it is zero, the transformed vector at unit length is
            returned.
        transformed: The transformed query vector, of shape (n_dimensions,).
        share: The weight of the transformed vector, from 0 to 1.

    Returns:
        The mean, as a float32 array of shape (n_dimensions,).
    """
    length = float(np.linalg.norm(query))
    share = share if length else 1.0
    blend = (1 - share) * unit_rows(query) + share * unit_rows(transformed)
    return np.asarray((length or 1.0) * unit_rows(blend), np.float32)


@dataclass(frozen=True)
class FieldFeedback:
    """Feedback learned from the vectors that judged documents have in a particular field of an index.

    Attributes:
        feedback: The feedback, which contains these vectors scaled to unit length.
        lengths: The original Euclidean lengths of the vectors, as an array of shape (n_documents,).
    """

    feedback: Feedback
    lengths: NDArray[np.float64]

    @cached_property
    def _background(self) -> Floats:
        """The vectors of a random sample of the index's documents, of shape (n_documents, n_dimensions).

        The array has no rows if there is no sample.
        """
        background = self.feedback.background
        return np.zeros((0, self.dim), np.float32) if background is None else background.vectors

    @property
    def dim(self) -> int:
        """The number of dimensions of the vectors."""
        return int(self.feedback.vectors.shape[1])

    def topic_separation(self, query: NDArray[Any]) -> float:
        """Estimate how well the vectors in the field separate documents on the query's topic from other documents.

        All judged documents were hits of the query, so good vectors place them nearer to the query than a random sample
        of the index. Let z be the difference between the mean similarities of the two groups, in standard deviations of
        the sample. The estimate is z - 1.5, limited to the range from 0 to 1. With fewer than five documents in the
        sample, the estimate is 1.

        Args:
            query: The query vector, of shape (n_dimensions,).

        Returns:
            The estimate, from 0 to 1.
        """
        if len(self._background) < MIN_BACKGROUND:
            return 1.0
        direction = unit_rows(query)
        similarities = self._background @ direction
        difference = (self.feedback.vectors @ direction).mean() - similarities.mean()
        return float(np.clip(difference / max(float(similarities.std()), 1e-6) - _MIN_DEVIATIONS, 0, 1))

    def move_query(self, query: NDArray[Any], topic_separation: float) -> Floats:
        """Move a query vector towards relevant and away from irrelevant documents.

        The result is a weighted mean of the query and of mask² ⊙ q, where q is the vector that
        :meth:`Feedback.transform_query` returns for the query. With e for the total weight of the judgements, the
        weight of mask² ⊙ q is topic_separation · e / (0.6 + e). At e = 0.6 (:data:`HALF_FOR_VECTORS`), half of the
        largest weight is reached.

        The mask is squared because the field contains document vectors without a mask. The inner product of mask² ⊙ q
        with such a vector d equals the inner product of mask ⊙ q with mask ⊙ d.

        Args:
            query: The query vector, of shape (n_dimensions,).
            topic_separation: How well the vectors separate documents on the query's topic from other documents, from 0
                to 1. See :meth:`topic_separation`.

        Returns:
            A float32 array of shape (n_dimensions,), with the same Euclidean length as the query.
        """
        share = topic_separation * evidence_share(self.feedback.evidence, HALF_FOR_VECTORS)
        return blend_queries(query, self.feedback.mask**2 * self.feedback.transform_query(query), share)

    def relevant_bonus(self, moved: NDArray[Any], topic_separation: float, space: str) -> float:
        """Return a bonus to add to the k-NN scores of documents that the user marked relevant.

        The bonus keeps these documents near the top if the vectors hardly separate documents on the query's topic from
        other documents. It corresponds to 4 · (1 - topic_separation) standard deviations of the similarities in a
        random sample of the index. It is never negative.

        Args:
            moved: The moved query vector, of shape (n_dimensions,).
            topic_separation: How well the vectors separate documents on the query's topic from other documents, from 0
                to 1. See :meth:`topic_separation`.
            space: The k-NN space type of the field in OpenSearch, for example ``l2``, which determines how scores are
                computed.
        """
        relevant = self.feedback.grades > 0
        if len(self._background) < MIN_BACKGROUND or topic_separation >= 1 or not relevant.any():
            return 0.0
        direction, length = unit_rows(moved), float(np.linalg.norm(moved))
        bonus = _BONUS_DEVIATIONS * (1 - topic_separation) * float((self._background @ direction).std())
        if space == "innerproduct":
            return bonus * length * float(self.lengths[relevant].mean())
        if space != "l2":
            return bonus / 2
        cosines, lengths = self.feedback.vectors[relevant] @ direction, self.lengths[relevant]

        def scores(cosines: NDArray[Any]) -> NDArray[Any]:
            squares = length**2 + lengths**2 - 2 * length * lengths * cosines
            return np.asarray(1 / (1 + np.maximum(squares, 0)))

        return float((scores(cosines + bonus) - scores(cosines)).mean())


def move_tokens(query: Tokens, documents: Sequence[Tokens], grades: Sequence[float]) -> dict[str, float]:
    """Move a sparse query (tokens with weights) towards relevant documents, by Rocchio's formula.

    Each token is a dimension. The result is a weighted mean of the original query and the query that Rocchio's formula
    returns. With e for the sum of the judgements' weights, the share of the latter is e / (1 + e). Tokens of negative
    weight are left out, and at most 64 tokens that the query lacks are added.

    Args:
        query: The tokens of the query, with their weights.
        documents: The tokens of each judged document, with their weights.
        grades: The sign (positive for relevant documents) and weight of each judgement. No grade is 0.

    Returns:
        The tokens with their weights, heaviest first. The weights have the same Euclidean length as the query's
        weights.

    >>> move_tokens({"fire": 1.0}, [{"fire": 1.0, "bush": 1.0}], [1.0])
    {'fire': 0.985, 'bush': 0.1725}
    """
    names = list(dict.fromkeys(token for tokens in (query, *documents) for token in tokens))
    columns = {name: column for column, name in enumerate(names)}
    rows = np.zeros((1 + len(documents), len(names)), np.float32)
    for row, tokens in zip(rows, (query, *documents), strict=True):
        row[[columns[name] for name in tokens]] = list(tokens.values())
    judgements = np.asarray(grades, np.float64)
    length = float(np.linalg.norm(rows[0])) or 1.0
    transformed = rows[0] + length * rocchio_shift(unit_rows(rows[1:]), judgements)
    share = evidence_share(float(np.abs(judgements).sum()))
    weights = np.maximum(blend_queries(rows[0], transformed, share), 0)
    added = [column for column, name in enumerate(names) if name not in query]
    weights[sorted(added, key=lambda column: -weights[column])[MAX_ADDED_TOKENS:]] = 0
    weights = unit_rows(weights) * np.linalg.norm(rows[0])
    order = np.argsort(-weights, kind="stable")
    return {names[column]: round(float(weights[column]), 4) for column in order if weights[column] >= _MIN_TOKEN_WEIGHT}
