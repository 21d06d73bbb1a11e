"""Score texts for a query by late interaction of static word vectors.

The score of a document d for a query q is

    score(q, d) = Σ_i w_i · max(0, max_j cos(q_i, d_j) - t) / Σ_i w_i / (1 + c · |d| / mean length)

with

- the distinct query words i and their weights w_i,
- the document words j, of which there are |d|,
- a threshold t,
- a length penalty c, and the mean length of the documents in words.

The score differs from ColBERT's sum of maximum similarities in these points:

- The vectors are static word vectors, so no transformer is needed.
- Query words have weights, and the score is normalised by the document's length as in BM25.
- A query word can have a shift, which is added to its vector in queries. For example, "when" in a query need not be
  similar to "when" in a document, but to years.
- A word without a vector is similar only to itself.

A reranker of this kind needs the texts of the documents, of which it reads the first 10,000 characters. It needs no
stored vectors, so it works on any index.

Source: Khattab and Zaharia 2020 ("ColBERT"), eq. 3, for the sum of maximum similarities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import BATCH, Floats, text_batches
from resift.errors import BadInput, DimensionMismatch
from resift.text import tokenize
from resift.vectors.folder import content_hash, corrupt_model_errors, read_folder, write_folder
from resift.vectors.table import WordVectors
from resift.vectors.weights import beta_from_alpha

RERANKER_FILE = "reranker.json"
"""Name of the JSON file in a reranker's folder."""

RERANKER_ALPHA = 0.8
"""Default weight of the reranker's scores against the engine's scores."""

_MAX_CHARACTERS = 2**19  # characters of documents that are prepared together
_MAX_SIMILARITIES = 2**22  # word pairs that are compared together
_READ_CHARACTERS = 10_000  # characters of a text that are read, because 100 longer hits would take too long


@dataclass(frozen=True)
class PreparedDocuments:
    """Tokenized texts that can be scored for several queries, from :meth:`LateInteraction.prepare`.

    The n texts have U distinct words in total. T is the sum of the numbers of distinct words in each text.

    Attributes:
        words: The distinct words of all texts as integers, shape (U,). A known word is its row in the table of V words.
            Unknown words are numbered from V on.
        positions: The distinct words of each text, as positions in ``words``, concatenated to shape (T,).
        starts: Offsets in ``positions`` where the texts start and end, shape (n + 1,).
        lengths: Number of words of each text, including repetitions, shape (n,), float32.
        unknown_words: The number of each unknown word in ``words``, by word.
    """

    words: NDArray[np.int64]
    positions: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: Floats
    unknown_words: dict[str, int]


@dataclass(frozen=True)
class ScoringParameters:
    """Parameters of :class:`LateInteraction`, a reranker that scores documents by the similarities of single words.

    Attributes:
        threshold: A threshold from 0 to 1. Smaller similarities between a query word and a document count as 0.
        length_penalty: How much the scores of long documents are lowered, at least 0. 0 means no penalty.
        mean_length: The mean number of words of the documents, above 0.
        alpha: The weight of the scores when they are combined with the engine's scores, from 0 to 1. See
            :func:`score_factors`.

    Raises:
        BadInput: If a parameter is out of range.
    """

    threshold: float = 0.05
    length_penalty: float = 0.25
    mean_length: float = 1.0
    alpha: float = RERANKER_ALPHA

    def __post_init__(self) -> None:
        ranges = {
            "threshold": (self.threshold, 0, 1),
            "length_penalty": (self.length_penalty, 0, np.inf),
            "alpha": (self.alpha, 0, 1),
        }
        for name, (value, low, high) in ranges.items():
            if not low <= value <= high:
                raise BadInput(f"{name} is {value}", value=value, expected=f"{low} to {high}")
        if not 0 < self.mean_length < np.inf:
            raise BadInput(f"mean_length is {self.mean_length}", value=self.mean_length, expected="more than 0")


class LateInteraction:
    """A reranker that scores texts for a query, by late interaction of static word vectors.

    Each word of the query is compared with all words of a text, and its largest similarity counts.

    Args:
        name: Name of the reranker.
        table: Vectors of V words with D dimensions, and the weight of each word in a query.
        shifts: By word, a trained vector of shape (D,) that is added to the word's vector if the word occurs in a
            query.
        parameters: Parameters of the scores.
        info: Provenance, as JSON, which is saved with the reranker.

    Raises:
        DimensionMismatch: If a shift does not have D dimensions.
    """

    def __init__(
        self,
        name: str,
        table: WordVectors,
        shifts: dict[str, Floats] | None = None,
        parameters: ScoringParameters | None = None,
        info: dict[str, Any] | None = None,
    ) -> None:
        self.name, self.table, self.shifts = name, table, dict(shifts or {})
        self.parameters = parameters or ScoringParameters()
        self.info = dict(info or {})
        for word, shift in self.shifts.items():
            if shift.shape != (table.dim,):
                message = f"the shift of {word!r} has {shift.shape[-1]} dimensions"
                raise DimensionMismatch(message, value=shift.shape[-1], expected=str(table.dim))

    @property
    def alpha(self) -> float:
        """The weight of the reranker's scores when they are combined with the engine's scores, from 0 to 1."""
        return self.parameters.alpha

    @cached_property
    def hash(self) -> str:
        """A hash of the reranker's settings, words and arrays, as 16 hexadecimal digits."""
        return content_hash(self._settings(), self.table.words, self._arrays())

    @property
    def indices(self) -> Sequence[str]:
        """The names of the indices for which the reranker was trained. Empty if the names were not recorded."""
        return tuple(self.info.get("indices", ()))

    def prepare(self, texts: Sequence[str]) -> PreparedDocuments:
        """Split texts into words and look up the word vectors, so that the texts can be scored for several queries.

        Args:
            texts: The texts of the documents.
        """
        unknown_words: dict[str, int] = {}
        first_unknown = len(self.table)

        def number(word: str) -> int:
            row = self.table.index[word]
            return row if row >= 0 else unknown_words.setdefault(word, first_unknown + len(unknown_words))

        tokens = tokenize_documents(texts)
        numbers = [list(map(number, dict.fromkeys(words))) for words in tokens]
        starts = np.cumsum([0, *map(len, numbers)])
        flat = np.fromiter(chain.from_iterable(numbers), np.int64, int(starts[-1]))
        words, positions = np.unique(flat, return_inverse=True)
        lengths = np.array([len(words) for words in tokens], np.float32)
        return PreparedDocuments(words, positions.ravel(), starts, lengths, unknown_words)

    def scores(self, query: str, documents: Sequence[str] | PreparedDocuments) -> Floats:
        """Return the score of each document for a query.

        Args:
            query: The query text.
            documents: The texts of the documents, or the result of :meth:`prepare`.

        Returns:
            Float32 array of shape (n_documents,), with values from 0 to 1. The score is 0 if the query or the document
            is empty.
        """
        if not isinstance(documents, PreparedDocuments):
            # In batches, because words and their vectors take about 100 times the memory of the texts.
            batches = text_batches(documents, BATCH, _MAX_CHARACTERS)
            parts = [self.scores(query, self.prepare(batch)) for batch in batches]
            return np.concatenate([np.zeros(0, np.float32), *parts])
        words = list(dict.fromkeys(tokenize(query)))
        if not words or not len(documents.positions):
            return np.zeros(len(documents.lengths), np.float32)
        weights = self._weights(words)
        total = weights @ self.matches(words, documents)
        return np.asarray(total / max(weights.sum(), 1e-12) / self._length_divisors(documents), np.float32)

    def discounted_scores(self, query: str, documents: Sequence[str] | PreparedDocuments) -> Floats:
        """Return the score of each document for a query, reduced if the query contains unknown words.

        The scores are multiplied by the share of the query's words that have a vector. The share is weighted by the
        importance of the words. A query of unknown words, for example in another language, gets scores of 0.

        Args:
            query: The query text.
            documents: The texts of the documents, or the result of :meth:`prepare`.

        Returns:
            Float32 array of shape (n_documents,), with values from 0 to 1.
        """
        words = list(dict.fromkeys(tokenize(query)))
        weights, is_known = self._weights(words), self._row_numbers(words) >= 0
        share = float(weights[is_known].sum() / max(weights.sum(), 1e-12))
        return np.asarray(np.float32(share) * self.scores(query, documents))

    def distinct_word_vectors(self, documents: PreparedDocuments) -> Floats:
        """Return the vectors of all distinct words in some documents, except words that the table does not contain.

        Pass the result to :meth:`matches` to avoid looking up the vectors in each call.

        Args:
            documents: The documents, as prepared by :meth:`prepare`.

        Returns:
            Float32 array of shape (n_words, n_dimensions), with rows of unit length.
        """
        return self._unit_vectors(documents.words[documents.words < len(self.table)])

    @cached_property
    def _unit_length_factors(self) -> Floats:
        """The factor that scales each word vector of the table to unit length, of shape (n_words,)."""
        # In parts, because einsum creates a float64 copy of its arguments.
        squares = [
            np.einsum("ij,ij->i", part, part, dtype=np.float64) for part in np.array_split(self.table.matrix, 64)
        ]
        lengths = np.sqrt(np.concatenate(squares))
        return np.asarray(np.divide(1, lengths, out=np.zeros(len(lengths)), where=lengths > 0), np.float32)

    def _unit_vectors(self, ids: NDArray[np.int64]) -> Floats:
        """Return the vectors of known words, scaled to unit length, of shape (n_words, n_dimensions).

        Args:
            ids: The row numbers of the words in the table, of shape (n_words,).
        """
        rows: Floats = np.asarray(self.table.matrix).take(ids, 0).astype(np.float32, copy=False)
        rows *= self._unit_length_factors.take(ids)[:, None]
        return rows

    def matches(self, words: Sequence[str], documents: PreparedDocuments, word_vectors: Floats | None = None) -> Floats:
        """Return how well each document matches each word of a query.

        The value is the largest cosine of the query word and a word of the document, minus the threshold in the
        parameters, and at least 0.

        Args:
            words: The query words.
            documents: The documents, as prepared by :meth:`prepare`.
            word_vectors: The result of :meth:`distinct_word_vectors` for the documents. If None, it is computed.

        Returns:
            Float32 array of shape (n_query_words, n_documents).
        """
        vectors = self.distinct_word_vectors(documents) if word_vectors is None else word_vectors
        # In parts, to limit the memory for long queries and long documents.
        size = max(1, _MAX_SIMILARITIES // max(1, len(documents.positions)))
        parts = [self._matches_of_words(words[i : i + size], documents, vectors) for i in range(0, len(words), size)]
        return np.concatenate([np.zeros((0, len(documents.lengths)), np.float32), *parts])

    def _matches_of_words(self, words: Sequence[str], documents: PreparedDocuments, word_vectors: Floats) -> Floats:
        """Return how well each document matches each of a few query words, like :meth:`matches`.

        Unlike :meth:`matches`, the method does not limit the memory for long queries.
        """
        known_document_words = documents.words < len(self.table)
        known_query_words = self._row_numbers(words) >= 0
        similarities = np.zeros((len(words), len(documents.words)), np.float32)
        query_rows = self._query_vectors([word for word, known in zip(words, known_query_words, strict=True) if known])
        similarities[np.ix_(known_query_words, known_document_words)] = query_rows @ word_vectors.T
        for line, word in zip(similarities, words, strict=True):
            if word in documents.unknown_words:
                line[documents.words == documents.unknown_words[word]] = 1
        np.maximum(similarities - np.float32(self.parameters.threshold), 0, out=similarities)
        best = np.zeros((len(words), len(documents.lengths)), np.float32)
        # Texts without words are left out, because reduceat would give them the value of the next text.
        filled = np.flatnonzero(np.diff(documents.starts))
        best[:, filled] = np.maximum.reduceat(similarities[:, documents.positions], documents.starts[filled], axis=1)
        return best

    def _row_numbers(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the row number of each word in the table of word vectors, or -1 for unknown words."""
        return np.array([self.table.index[word] for word in words], np.int64)

    def _query_vectors(self, words: Sequence[str]) -> Floats:
        """Return the vectors of known query words, of shape (n_words, n_dimensions).

        If a word has a trained shift, the shift is added to its vector of unit length.
        """
        rows = self._unit_vectors(self._row_numbers(words))
        for row, word in zip(rows, words, strict=True):
            if word in self.shifts:
                row += self.shifts[word]
        return rows

    def _weights(self, words: Sequence[str]) -> Floats:
        """Return the weight of each query word, of shape (n_words,). Unknown words count as rare."""
        ids = self._row_numbers(words).tolist()
        return np.array([self.table.weights[id] if id >= 0 else self.table.unknown_weight for id in ids], np.float32)

    def _length_divisors(self, documents: PreparedDocuments) -> Floats:
        """Return the divisor of each document's score, of shape (n_documents,). Long documents have large divisors."""
        relative_lengths = documents.lengths / self.parameters.mean_length
        return np.asarray(1 + self.parameters.length_penalty * relative_lengths, np.float32)

    def _settings(self) -> dict[str, Any]:
        """Return the settings of the reranker, which are saved and are part of its hash."""
        return {
            "name": self.name,
            "kind": "late interaction",
            "tokenizer": "words-1",
            "threshold": self.parameters.threshold,
            "length": self.parameters.length_penalty,
            "mean_length": self.parameters.mean_length,
            "alpha": self.parameters.alpha,
            "shifted": list(self.shifts),
            "vectors": self.table.info,
            **self.info,
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to be saved, by name."""
        shifts = np.array(list(self.shifts.values()), np.float32).reshape(-1, self.table.dim)
        return {**self.table.arrays(), "shifts": shifts}

    def save(self, folder: str | Path) -> Path:
        """Save the reranker to a folder.

        The folder is written atomically.

        Args:
            folder: The path of the folder.

        Returns:
            The path of the folder.

        Raises:
            BadInput: If the folder contains other files or cannot be written.
        """
        return write_folder(folder, RERANKER_FILE, self._settings(), self.table.words, self._arrays())

    @classmethod
    def load(cls, folder: str | Path) -> LateInteraction:
        """Load a reranker from a folder that :meth:`save` wrote.

        Args:
            folder: The path of the folder.

        Raises:
            ModelNotFound: If the folder contains no reranker.
            CorruptModel: If the files were changed after they were saved.
        """
        info, words, arrays = read_folder(folder, RERANKER_FILE)
        with corrupt_model_errors(folder):
            table = WordVectors.restore(words, arrays, info.pop("vectors"))
            shifts = dict(zip(info.pop("shifted"), arrays["shifts"], strict=True))
            name, _, _ = (info.pop(key) for key in ("name", "kind", "tokenizer"))
            parameters = ScoringParameters(
                threshold=info.pop("threshold"),
                length_penalty=info.pop("length"),
                mean_length=info.pop("mean_length"),
                alpha=info.pop("alpha"),
            )
            return cls(name, table, shifts, parameters, info)


def tokenize_documents(texts: Sequence[str]) -> list[list[str]]:
    """Split the texts of documents into words. Only the first 10,000 characters of each text are read.

    Args:
        texts: The texts of the documents.

    Returns:
        The words of each text.
    """
    return [tokenize(text[:_READ_CHARACTERS]) for text in texts]


def score_factors(similarities: NDArray[Any], alpha: float) -> NDArray[np.float64]:
    """Return the factors by which the engine's scores are multiplied to include the reranker's scores.

    A factor is exp(beta · similarity), where beta depends on ``alpha`` (see
    :func:`resift.vectors.weights.beta_from_alpha`).

    Args:
        similarities: The reranker's scores of the hits, of shape (n_hits,), at least 0.
        alpha: The weight of the reranker's scores, from 0 to 1.

    Returns:
        Array of shape (n_hits,).
    """
    return np.asarray(np.exp(beta_from_alpha(alpha) * np.asarray(similarities, np.float64)))
