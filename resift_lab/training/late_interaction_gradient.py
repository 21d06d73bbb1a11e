"""The loss of a late interaction for a query, and its gradient, derived by hand.

The score s of a document is (see :mod:`resift.encoders.late_interaction`)

    s = Σ_i w_i · m_i / (Σ_i w_i · (1 + c · l)),    m_i = max(0, b_i - t),    b_i = max_j q_i · d_j

with these symbols:

- q_i: the vector of a query word. Frequent query words have a shift, a trained vector that is added to the word vector.
- d_j: the vector of a word of the document
- w_i: the weight of a query word. Its logarithm is trained.
- t: the threshold of similarities
- c: the length penalty
- l: the length of the document, divided by the mean length

The loss is the cross-entropy of choosing the relevant document by a softmax of κ · s over all candidates. At the
maximum over j, the gradient flows only to the pair of words that has the maximum. The word vectors have unit length,
which the caller restores after each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.late_interaction import PreparedDocuments, ScoringParameters

# Initial value of κ, the factor of scores in the softmax.
_KAPPA = 25.0


@dataclass
class Parameters:
    """The trained parameters of a late interaction for V words: float32 arrays that are changed in place.

    Attributes:
        rows: The vectors of V words with D dimensions, scaled to unit length, shape (V, D).
        log_weights: The logarithms of the word weights, shape (V,).
        shifts: The shifts of S words. The shift of a word is added to its word vector in queries. Shape (S, D).
        shift_rows: The row number of each word's shift in ``shifts``, or -1 for a word without a shift, shape (V,).
        scalars: The threshold t of similarities, the length penalty c, and the logarithm of κ, the factor of the scores
            in the softmax; shape (3, 1).
    """

    rows: Floats
    log_weights: Floats
    shifts: Floats
    shift_rows: NDArray[np.int64]
    scalars: Floats

    @classmethod
    def initial(
        cls, rows: Floats, weights: Floats, shifted: NDArray[np.int64], scoring: ScoringParameters
    ) -> Parameters:
        """Create parameters from word vectors, with shifts of zero.

        A shift is a vector that is added to the vector of a word when the word occurs in a query.

        Args:
            rows: The vectors of V words with D dimensions, shape (V, D).
            weights: The word weights, shape (V,).
            shifted: The row numbers of the words that have a shift.
            scoring: The initial scoring parameters: the threshold, above which a similarity counts, and the length
                penalty of documents.
        """
        shift_rows = np.full(len(rows), -1, np.int64)
        shift_rows[shifted] = np.arange(len(shifted))
        return cls(
            rows=np.array(rows),
            log_weights=np.log(np.maximum(weights, 1e-6)).astype(np.float32),
            shifts=np.zeros((max(1, len(shifted)), rows.shape[1]), np.float32),
            shift_rows=shift_rows,
            scalars=np.array([scoring.threshold, scoring.length_penalty, np.log(_KAPPA)], np.float32)[:, None],
        )

    def query_vectors(self, words: NDArray[np.int64]) -> Floats:
        """Return the vectors of a query's words.

        A frequent query word has a shift, a trained vector that is added to its word vector.

        Args:
            words: The row numbers of the m words, shape (m,).

        Returns:
            Vectors of shape (m, D) for D dimensions.
        """
        rows: Floats = self.rows[words]
        shift_rows = self.shift_rows[words]
        rows[shift_rows >= 0] += self.shifts[shift_rows[shift_rows >= 0]]
        return rows


class Gradient:
    """The summed gradient of a batch with respect to :class:`Parameters`, for V words and S shifts.

    Args:
        parameters: The parameters, which determine the shapes of the arrays.

    Attributes:
        rows: The gradient with respect to the word vectors, shape (V, D).
        log_weights: The gradient with respect to the logarithms of the word weights, shape (V,).
        shifts: The gradient with respect to the shifts, shape (S, D).
        scalars: The gradient with respect to the scalars, shape (3, 1).
        touched: Whether each word occurs in a query or document of the batch, so that its gradient may differ from
            zero, shape (V,).
        query_words: Whether each word occurs in a query of the batch, shape (V,).
    """

    def __init__(self, parameters: Parameters) -> None:
        self.rows = np.zeros_like(parameters.rows)
        self.log_weights = np.zeros_like(parameters.log_weights)
        self.shifts, self.scalars = np.zeros_like(parameters.shifts), np.zeros_like(parameters.scalars)
        self.touched, self.query_words = np.zeros(len(self.rows), bool), np.zeros(len(self.rows), bool)

    def clear(self) -> None:
        """Set the gradient to 0.

        The array of word gradients is large, so only rows that are not zero are written.
        """
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
        """Add the gradient of a query's loss to the gradient of the batch.

        The loss is the cross-entropy of choosing the relevant document from several documents. Documents without words
        are ignored. Nothing is added if the relevant document has no words, or if no other document has words.

        Args:
            parameters: The current parameters.
            documents: All documents.
            mean_length: The mean length of a document, in words.
            words: The row numbers of the query's m distinct words, shape (m,).
            chosen: The positions of the documents to choose from: first the relevant document, then the irrelevant
                documents.
        """
        self.query_words[words] = True
        spans = [documents.positions[documents.starts[text] : documents.starts[text + 1]] for text in chosen]
        has_words = np.array([len(span) > 0 for span in spans])
        if not has_words[0] or has_words.sum() < 2:
            return
        pairs = _WordPairs(parameters, documents, words, [span for span in spans if len(span)])
        lengths = documents.lengths[chosen[has_words]] / np.float32(mean_length)
        by_pair = pairs.similarity_gradient(self._add_scoring_gradient(parameters, words, pairs.best, lengths))
        by_query_row = by_pair.T @ pairs.document_rows
        self.rows[pairs.ids[pairs.known]] += (by_pair @ pairs.query_vectors)[pairs.known]
        self.rows[words] += by_query_row
        self.touched[pairs.ids[pairs.known]] = True
        self.touched[words] = True
        shift_rows = parameters.shift_rows[words]
        self.shifts[shift_rows[shift_rows >= 0]] += by_query_row[shift_rows >= 0]

    def _add_scoring_gradient(
        self, parameters: Parameters, words: NDArray[np.int64], best: Floats, lengths: Floats
    ) -> NDArray[np.float32]:
        """Add the gradient of a query's loss with respect to the scoring parameters and the word weights.

        The scoring parameters are the similarity threshold and the length penalty. The word weights are trained as
        logarithms, so their gradient is computed with respect to the logarithms.

        Args:
            parameters: The current parameters.
            words: The row numbers of the query's m words, shape (m,).
            best: The largest similarity of each query word to a word of each of the n documents, shape (m, n).
            lengths: The lengths of the documents, divided by the mean length, shape (n,).

        Returns:
            The gradient with respect to ``best``, shape (m, n).
        """
        threshold, penalty, log_kappa = parameters.scalars[:, 0]
        kappa, weights = np.exp(log_kappa), np.exp(parameters.log_weights[words])
        match, total = np.maximum(best - threshold, 0), weights.sum()
        norms = 1 + penalty * lengths
        scores = weights @ match / (total * norms)
        logits = kappa * scores
        powers = np.exp(logits - logits.max())
        by_logit = powers / powers.sum()
        by_logit[0] -= 1  # gradient of the cross-entropy: probabilities minus the right answer
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
    """The similarities of the m words of a query with the u distinct words of n documents.

    Attributes:
        ids: The ids of the documents' distinct words, shape (u,).
        known: Whether the table of word vectors contains each distinct word, shape (u,).
        document_rows: The vectors of the distinct words with D dimensions, shape (u, D).
        query_vectors: The vectors of the query's words, shape (m, D). Frequent query words have a shift, a trained
            vector that has been added to the word vector.
        best: The largest similarity of each query word to a word of each document, shape (m, n).
    """

    def __init__(
        self,
        parameters: Parameters,
        documents: PreparedDocuments,
        words: NDArray[np.int64],
        spans: Sequence[NDArray[np.int64]],
    ) -> None:
        self._sizes = np.array([len(span) for span in spans])
        distinct, self._columns = np.unique(np.concatenate(spans), return_inverse=True)
        self.ids = documents.words[distinct]
        self.known = self.ids < len(parameters.rows)
        self.document_rows = np.zeros((len(self.ids), parameters.rows.shape[1]), np.float32)
        self.document_rows[self.known] = parameters.rows[self.ids[self.known]]
        self.query_vectors = parameters.query_vectors(words)
        self._similarities = (self.query_vectors @ self.document_rows.T)[:, self._columns]
        starts = np.concatenate([[0], np.cumsum(self._sizes)[:-1]])
        self.best = np.maximum.reduceat(self._similarities, starts, axis=1)

    def similarity_gradient(self, by_best: NDArray[np.float32]) -> Floats:
        """Convert the gradient with respect to :attr:`best` to a gradient with respect to all similarities.

        The query has m words, and the n documents have u distinct words.

        Args:
            by_best: The gradient with respect to the largest similarities in :attr:`best`, shape (m, n).

        Returns:
            The gradient with respect to the similarity of each document word to each query word, shape (u, m). It is 0
            for a similarity that is not the largest in any document.
        """
        is_best = self._similarities == np.repeat(self.best, self._sizes, axis=1)
        by_occurrence = np.repeat(by_best, self._sizes, axis=1) * is_best
        by_pair = np.zeros((len(self.ids), len(by_best)), np.float32)
        np.add.at(by_pair, self._columns, by_occurrence.T)
        return by_pair
