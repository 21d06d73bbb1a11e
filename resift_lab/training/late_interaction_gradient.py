"""The loss of a late interaction on one query, and its gradient, worked out by hand.

With q_i the row of query word i (its shift added), d_j those of a document's words, w_i = exp(log weight), threshold t,
length penalty c and the document's length l over the mean one, a document has the score

    s = Σ_i w_i · m_i / (Σ_i w_i · (1 + c · l)),    m_i = max(0, b_i - t),    b_i = max_j q_i · d_j

(:mod:`resift.encoders.late_interaction`). The loss is the cross-entropy of picking the relevant document, which is the
first, by a softmax of κ · s over all. Through the maximum, the gradient flows only to the word pair that made it; rows
have length 1, which the caller restores after each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.late_interaction import PreparedDocuments, ScoringParameters

_KAPPA = 25.0


@dataclass
class Parameters:
    """What is trained, float32 arrays that are changed in place.

    ``rows`` (V, D) of length 1 and ``log_weights`` (V,) of the words; ``shifts`` (S, D) of the words that have one,
    ``shift_of`` (V,) a word's row of ``shifts``, or -1; ``scalars`` (3, 1): threshold, length penalty and log κ.
    """

    rows: Floats
    log_weights: Floats
    shifts: Floats
    shift_of: NDArray[np.int64]
    scalars: Floats

    @classmethod
    def initial(
        cls, rows: Floats, weights: Floats, shifted: NDArray[np.int64], scoring: ScoringParameters
    ) -> Parameters:
        """Parameters without shifts as yet; ``shifted`` are the words that may get one."""
        shift_of = np.full(len(rows), -1, np.int64)
        shift_of[shifted] = np.arange(len(shifted))
        return cls(
            np.array(rows),
            np.log(np.maximum(weights, 1e-6)).astype(np.float32),
            np.zeros((max(1, len(shifted)), rows.shape[1]), np.float32),
            shift_of,
            np.array([scoring.threshold, scoring.length_penalty, np.log(_KAPPA)], np.float32)[:, None],
        )

    def query_rows(self, words: NDArray[np.int64]) -> Floats:
        """Rows of a query's words (m, D), with their shifts."""
        rows: Floats = self.rows[words]
        own = self.shift_of[words]
        rows[own >= 0] += self.shifts[own[own >= 0]]
        return rows


class Gradient:
    """Gradients of a batch by :class:`Parameters`, and which words they are not 0 for.

    ``touched`` (V,): words of the queries and of their documents, by whose ``rows`` there is a gradient;
    ``query_words`` (V,): words of the queries, by whose ``log_weights`` and ``shifts`` there is one.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.rows = np.zeros_like(parameters.rows)
        self.log_weights = np.zeros_like(parameters.log_weights)
        self.shifts, self.scalars = np.zeros_like(parameters.shifts), np.zeros_like(parameters.scalars)
        self.touched, self.query_words = np.zeros(len(self.rows), bool), np.zeros(len(self.rows), bool)

    def clear(self) -> None:
        """Set all to 0. Rows that were not touched are 0 already: the table is large, and a batch's words are few."""
        self.rows[self.touched] = 0
        self.log_weights[:], self.shifts[:], self.scalars[:] = 0, 0, 0
        self.touched[:], self.query_words[:] = False, False

    def add_query(
        self,
        parameters: Parameters,
        documents: PreparedDocuments,
        mean_length: float,
        words: NDArray[np.int64],
        chosen: NDArray[np.int64],
    ) -> None:
        """Add the gradient of one query's loss.

        ``words`` (m,): its different words, as rows of the table; ``chosen``: positions of its documents, the relevant
        one first. Documents without words are left out, and so is a query that then has none to choose from.
        """
        self.query_words[words] = True
        spans = [documents.positions[documents.starts[text] : documents.starts[text + 1]] for text in chosen]
        filled = np.array([len(span) > 0 for span in spans])
        if not filled[0] or filled.sum() < 2:
            return
        pairs = _WordPairs(parameters, documents, words, [span for span in spans if len(span)])
        lengths = documents.lengths[chosen[filled]] / np.float32(mean_length)
        by_pair = pairs.spread(self._add_by_match(parameters, words, pairs.best, lengths))
        by_query_row = by_pair.T @ pairs.document_rows
        self.rows[pairs.ids[pairs.known]] += (by_pair @ pairs.query_rows)[pairs.known]
        self.rows[words] += by_query_row
        self.touched[pairs.ids[pairs.known]] = True
        self.touched[words] = True
        own = parameters.shift_of[words]
        self.shifts[own[own >= 0]] += by_query_row[own >= 0]

    def _add_by_match(
        self, parameters: Parameters, words: NDArray[np.int64], best: Floats, lengths: Floats
    ) -> NDArray[np.float32]:
        """Add the gradient by the scalars and log weights, and return that by the ``best`` similarities b (m, n)."""
        threshold, penalty, log_kappa = parameters.scalars[:, 0]
        kappa, weights = np.exp(log_kappa), np.exp(parameters.log_weights[words])
        match, total = np.maximum(best - threshold, 0), weights.sum()
        norms = 1 + penalty * lengths
        scores = weights @ match / (total * norms)
        logits = kappa * scores
        powers = np.exp(logits - logits.max())
        by_logit = powers / powers.sum()
        by_logit[0] -= 1  # cross-entropy: probabilities less the right answer
        by_score = kappa * by_logit
        by_best = (weights[:, None] * (by_score / (total * norms))) * (match > 0)
        self.scalars[:, 0] += (
            -by_best.sum(),
            -(by_score * scores * lengths / norms).sum(),
            (by_logit * logits).sum(),
        )
        self.log_weights[words] += weights * ((match / norms - scores) @ by_score) / total
        return np.asarray(by_best)


class _WordPairs:
    """Similarities of a query's m words with the words of its n documents, and the best with each document.

    ``ids`` (u,): the documents' different words, of which ``known`` (u,) have a row; ``best`` (m, n).
    """

    def __init__(
        self,
        parameters: Parameters,
        documents: PreparedDocuments,
        words: NDArray[np.int64],
        spans: Sequence[NDArray[np.int64]],
    ) -> None:
        self._sizes = np.array([len(span) for span in spans])
        different, self._columns = np.unique(np.concatenate(spans), return_inverse=True)
        self.ids = documents.words[different]
        self.known = self.ids < len(parameters.rows)
        self.document_rows = np.zeros((len(self.ids), parameters.rows.shape[1]), np.float32)
        self.document_rows[self.known] = parameters.rows[self.ids[self.known]]
        self.query_rows = parameters.query_rows(words)
        self._similarities = (self.query_rows @ self.document_rows.T)[:, self._columns]
        starts = np.concatenate([[0], np.cumsum(self._sizes)[:-1]])
        self.best = np.maximum.reduceat(self._similarities, starts, axis=1)

    def spread(self, by_best: NDArray[np.float32]) -> Floats:
        """The gradient by each pair's similarity (u, m), from that by the best similarities (m, n)."""
        is_best = self._similarities == np.repeat(self.best, self._sizes, axis=1)
        by_occurrence = np.repeat(by_best, self._sizes, axis=1) * is_best
        by_pair = np.zeros((len(self.ids), len(by_best)), np.float32)
        np.add.at(by_pair, self._columns, by_occurrence.T)
        return by_pair
