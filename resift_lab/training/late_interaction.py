"""Training of a reranker (:class:`LateInteraction`) on queries with relevant documents.

Training raises the score of a query's relevant document above the scores of hard negatives: irrelevant documents that
BM25 ranks high. The loss is the cross-entropy of choosing the relevant document
(:mod:`resift_lab.training.late_interaction_gradient`). Adam updates only the words of a batch. Words that occur in many
queries ("when", "how") have shifts: their vectors in queries differ from their vectors in documents. The constants were
chosen on the first 70 % of the questions of a part of SQuAD. Needs only NumPy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from resift.encoders.late_interaction import LateInteraction, PreparedDocuments
from resift.errors import BadInput
from resift.text import tokenize
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.training.adam import Adam, rate_factor
from resift_lab.training.late_interaction_gradient import Gradient, Parameters
from resift_lab.training.options import LateInteractionOptions
from resift_lab.training.progress import Progress

# Largest values of the threshold and of the length penalty.
_MAX_THRESHOLD = 0.9
_MAX_LENGTH = 10


class RerankerTrainer:
    """A training run of a late-interaction reranker on judged queries.

    Args:
        start: The reranker to start from.
        documents: The documents, prepared by ``start``.
        queries: The texts of the queries.
        relevant: For each query, the positions of its relevant documents in ``documents``.
        candidates: For each query, the positions of documents that another search ranks high, best first. The
            irrelevant documents among them serve as negative examples.
        options: The settings of the training.

    Raises:
        BadInput: If a query has no relevant document, or all of its candidates are relevant.
    """

    def __init__(
        self,
        start: LateInteraction,
        documents: PreparedDocuments,
        queries: Sequence[str],
        relevant: Sequence[Sequence[int]],
        candidates: Sequence[NDArray[np.int64]],
        options: LateInteractionOptions,
    ) -> None:
        self.start, self.documents, self.options = start, documents, options
        self.queries = [_known_words(start.table, text) for text in queries]
        self.relevant = [np.array(sorted(positions), np.int64) for positions in relevant]
        self.negatives = [
            _hard_negatives(query, positions, best, options.pool)
            for query, positions, best in zip(queries, self.relevant, candidates, strict=True)
        ]
        self.shifted = _frequent_words(self.queries, options.frequent)
        self.parameters = self._parameters()
        self.gradient = Gradient(self.parameters)
        self._adams = {
            "rows": Adam(self.parameters.rows, options.rate),
            "log_weights": Adam(self.parameters.log_weights, options.weight_rate),
            "shifts": Adam(self.parameters.shifts, options.shift_rate),
            "scalars": Adam(self.parameters.scalars, options.weight_rate),
        }
        self._batch = options.batch_size(len(queries))
        self._step, self._steps = 0, options.epochs * -(-len(queries) // self._batch)

    def _parameters(self) -> Parameters:
        """Copy the word vectors, weights and scoring parameters of the initial reranker into trainable arrays.

        Each frequent query word has a shift, a vector that is added to its word vector in queries. A shift starts at
        zero if the initial reranker has no shift for the word.
        """
        start, table = self.start, self.start.table
        parameters = Parameters.initial(table.rows(), table.weights, self.shifted, start.parameters)
        for word, shift in start.shifts.items():
            if (row := parameters.shift_rows[table.index[word]]) >= 0:
                parameters.shifts[row] = shift
        return parameters

    def fit(
        self, after_epoch: Callable[[LateInteraction], None] | None = None, progress: Progress | None = None
    ) -> LateInteraction:
        """Train the reranker for all epochs of the settings, and return it.

        A new trainer with the same arguments returns the same result on the same machine.

        Args:
            after_epoch: A function that is called with the current reranker after each epoch.
            progress: A function that is called with the number of processed queries and the total number.

        Returns:
            The trained reranker.
        """
        count, epochs = len(self.queries), self.options.epochs
        for epoch in range(epochs):
            for done in self.train_epoch(epoch):
                if progress:
                    progress(epoch * count + done, epochs * count)
            if after_epoch:
                after_epoch(self.export())
        return self.export()

    def train_epoch(self, number: int) -> Iterator[int]:
        """Train on all queries once, in a random order that depends only on the seed and the epoch.

        Args:
            number: The epoch, counted from 0.

        Yields:
            After each step, the number of queries that have been processed in this epoch.
        """
        rng = np.random.default_rng([self.options.seed, number])
        order = rng.permutation(len(self.queries))
        for start in range(0, len(order), self._batch):
            batch = order[start : start + self._batch]
            for query in batch:
                if len(self.queries[query]):
                    self._add_gradient(query, rng)
            self._apply_gradient(len(batch))
            yield start + len(batch)

    def _add_gradient(self, query: int, rng: np.random.Generator) -> None:
        """Add the gradient of a query's loss to the gradient of the batch.

        The loss compares a random relevant document of the query with random irrelevant documents (negatives).

        Args:
            query: Position of the query.
            rng: Random generator that draws the documents.
        """
        positive = self.relevant[query][rng.integers(len(self.relevant[query]))]
        negatives = rng.permutation(self.negatives[query])[: self.options.negatives]
        chosen = np.concatenate([[positive], negatives])
        mean_length = self.start.parameters.mean_length
        self.gradient.add_query(self.parameters, self.documents, mean_length, self.queries[query], chosen)

    def _apply_gradient(self, queries: int) -> None:
        """Update the parameters with the gradient of a batch, and reset the gradient to zero.

        Args:
            queries: The number of queries in the batch. The summed gradient is divided by this number.
        """
        parameters, gradient, scale = self.parameters, self.gradient, np.float32(1 / queries)
        remaining = rate_factor(self._step, self._steps)
        self._step += 1

        def update(name: str, rows: NDArray[np.int64], by_row: NDArray[np.float32]) -> None:
            self._adams[name].update(rows, by_row * scale, self._step, remaining)

        touched, words = np.flatnonzero(gradient.touched), np.flatnonzero(gradient.query_words)
        update("rows", touched, _tangent_gradient(gradient.rows[touched], parameters.rows[touched]))
        parameters.rows[touched] = unit_rows(parameters.rows[touched])
        update("log_weights", words, gradient.log_weights[words])
        shifts = parameters.shift_rows[words]
        shifts = shifts[shifts >= 0]
        update("shifts", shifts, gradient.shifts[shifts])
        update("scalars", np.arange(len(parameters.scalars)), gradient.scalars)
        # Outside of these limits a LateInteraction is invalid, or no word matches.
        limits = np.array([[_MAX_THRESHOLD], [_MAX_LENGTH]], np.float32)
        np.clip(parameters.scalars[:2], 0, limits, out=parameters.scalars[:2])
        gradient.clear()

    def export(self) -> LateInteraction:
        """Return a copy of the reranker with the parameters that have been trained so far."""
        table, parameters = self.start.table, self.parameters
        threshold, length_penalty, _ = parameters.scalars[:, 0].tolist()
        words = WordVectors(table.words, parameters.rows.copy(), np.exp(parameters.log_weights), info=table.info)
        shifts = {table.words[word]: parameters.shifts[row].copy() for row, word in enumerate(self.shifted)}
        return LateInteraction(
            self.start.name,
            words,
            shifts,
            replace(self.start.parameters, threshold=threshold, length_penalty=length_penalty),
            self.start.info,
        )


def _known_words(table: WordVectors, text: str) -> NDArray[np.int64]:
    """Return the row numbers of the distinct words of a text in a table of word vectors. Unknown words are left out."""
    return np.array([row for row in dict.fromkeys(map(table.index.__getitem__, tokenize(text))) if row >= 0], np.int64)


def _hard_negatives(
    query: str, relevant: NDArray[np.int64], candidates: NDArray[np.int64], pool: int
) -> NDArray[np.int64]:
    """Return the best candidates of a query that are not relevant, which serve as negative examples.

    Args:
        query: The query, for error messages.
        relevant: The positions of the relevant documents.
        candidates: The positions of the candidates, best first.
        pool: The maximum number of documents to return.

    Returns:
        The positions of the documents.

    Raises:
        BadInput: If there is no relevant document, or no irrelevant candidate.
    """
    if not len(relevant):
        raise BadInput(f"query {query!r} has no relevant document", value=query, expected="a relevant document or more")
    negatives = candidates[~np.isin(candidates, relevant)][:pool]
    if not len(negatives):
        raise BadInput(
            f"all candidates of query {query!r} are relevant",
            value=query,
            expected="candidates that are not relevant",
        )
    return negatives


def _frequent_words(queries: Sequence[NDArray[np.int64]], count: int) -> NDArray[np.int64]:
    """Return the words that occur in many queries. A word is represented by its row in a table of word vectors.

    Args:
        queries: The row numbers of the distinct words of each query.
        count: The minimum number of queries that contain a word.

    Returns:
        The row numbers of the words, in ascending order.
    """
    queries_with = Counter(word for words in queries for word in words.tolist())
    return np.array(sorted(word for word, number in queries_with.items() if number >= count), np.int64)


def _tangent_gradient(gradient: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Project the gradient of unit vectors onto the tangent space of the unit sphere.

    Args:
        gradient: The gradient with respect to n vectors of D dimensions, shape (n, D).
        rows: The unit vectors, shape (n, D).

    Returns:
        The gradient without its component in the direction of each vector, shape (n, D).
    """
    return np.asarray(gradient - (gradient * rows).sum(axis=1, keepdims=True) * rows)
