"""Late interaction: a document is compared with the query word by word, by one table of static word vectors.

score(q, d) = Σ_i w_i · max(0, max_j cos(q_i, d_j) - t) / Σ_i w_i / (1 + c · |d| / mean length)

over the query's different words i and the document's words j. It is ColBERT's sum of maxima (Khattab and Zaharia 2020,
eq. 3) with a weight for each query word and BM25's normalisation by length, and without a transformer. A query word may
have a shift of its own ("when" need not be similar to "when", but to years). A word that the table lacks is similar to
itself alone. A reranker needs the documents' texts, of which it reads the first 10,000 characters, and no vectors, so
it works on any index as it is.
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
RERANKER_ALPHA = 0.8
_CHARACTERS, _SIMILARITIES = 2**19, 2**22  # of documents, and of word pairs, at a time
_READ = 10_000  # characters of a text: a hundred hits of longer ones would take too long to read


@dataclass(frozen=True)
class PreparedDocuments:
    """n texts ready to be scored; :meth:`LateInteraction.prepare` makes them.

    ``words`` (U,): the different words of all texts, as rows of the table, or from V on for words that it lacks, which
    ``unknown_words`` numbers. ``positions`` (T,): the different words of one text after another, as positions in
    ``words``. ``starts`` (n + 1,): where each text's begin in ``positions``. ``lengths`` (n,), float32: how many words
    each text has, repeated ones too.
    """

    words: NDArray[np.int64]
    positions: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: Floats
    unknown_words: dict[str, int]


class LateInteraction:
    """A reranker that scores texts for a query.

    ``table`` (V, D) holds the words' vectors, brought to length 1 when they are compared, and each word's weight w in a
    query. ``shifts`` (D,), float32, by word, are added to the words' rows where they are in a query. ``threshold`` t,
    ``length`` c and ``mean_length`` (words) are those of the formula above. ``alpha``, 0 to 1, is the weight of these
    scores beside the engine's (:func:`score_factors`), and ``info`` says how the reranker was made.

    Raises BadInput if a number is out of its range, and DimensionMismatch if a shift does not have D dimensions.
    """

    def __init__(
        self,
        name: str,
        table: WordVectors,
        shifts: dict[str, Floats] | None = None,
        *,
        threshold: float = 0.05,
        length: float = 0.25,
        mean_length: float = 1.0,
        alpha: float = RERANKER_ALPHA,
        info: dict[str, Any] | None = None,
    ) -> None:
        ranges = {"threshold": (threshold, 0, 1), "length": (length, 0, np.inf), "alpha": (alpha, 0, 1)}
        for setting, (value, low, high) in ranges.items():
            if not low <= value <= high:
                raise BadInput(f"{setting} is {value}", value=value, expected=f"{low} to {high}")
        if not 0 < mean_length < np.inf:
            raise BadInput(f"mean_length is {mean_length}", value=mean_length, expected="more than 0")
        self.name, self.table, self.shifts = name, table, dict(shifts or {})
        for word, shift in self.shifts.items():
            if shift.shape != (table.dim,):
                message = f"the shift of {word!r} has {shift.shape[-1]} dimensions"
                raise DimensionMismatch(message, value=shift.shape[-1], expected=str(table.dim))
        self.threshold, self.length, self.mean_length, self.alpha = threshold, length, mean_length, alpha
        self.info = dict(info or {})

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits that identify settings, words and arrays."""
        return content_hash(self._settings(), self.table.words, self._arrays())

    @property
    def indices(self) -> Sequence[str]:
        """Names of the indices that it is for, because its queries are theirs; none if nothing is known of that."""
        return tuple(self.info.get("indices", ()))

    def prepare(self, texts: Sequence[str]) -> PreparedDocuments:
        """Texts as word numbers, which several queries can be scored against."""
        unknown_words: dict[str, int] = {}
        known, first_unknown = self.table.index, len(self.table)

        def number(word: str) -> int:
            row = known[word]
            return row if row >= 0 else unknown_words.setdefault(word, first_unknown + len(unknown_words))

        tokens = tokenize_documents(texts)
        numbers = [list(map(number, dict.fromkeys(words))) for words in tokens]
        starts = np.cumsum([0, *map(len, numbers)])
        flat = np.fromiter(chain.from_iterable(numbers), np.int64, int(starts[-1]))
        words, positions = np.unique(flat, return_inverse=True)
        lengths = np.array([len(words) for words in tokens], np.float32)
        return PreparedDocuments(words, positions.ravel(), starts, lengths, unknown_words)

    def scores(self, query: str, documents: Sequence[str] | PreparedDocuments) -> Floats:
        """How well each of n documents fits the query, (n,), float32, 0 to 1; 0 where one of them has no words."""
        if not isinstance(documents, PreparedDocuments):
            # a part of them at a time: words and their vectors take a hundred times the memory of the texts
            parts = [self.scores(query, self.prepare(part)) for part in text_batches(documents, BATCH, _CHARACTERS)]
            return np.concatenate([np.zeros(0, np.float32), *parts])
        prepared = documents
        words = list(dict.fromkeys(tokenize(query)))
        if not words or not len(prepared.positions):
            return np.zeros(len(prepared.lengths), np.float32)
        weights = self._weights(words)
        total = weights @ self.matches(words, prepared)
        return np.asarray(total / max(weights.sum(), 1e-12) / self._length_norms(prepared), np.float32)

    def trusted_scores(self, query: str, documents: Sequence[str] | PreparedDocuments) -> Floats:
        """The scores (n,) of n documents, times the part of the query's weight that words of the table have.

        So a query in words that it has not learned, such as one in another language, is not its to decide.
        """
        words = list(dict.fromkeys(tokenize(query)))
        weights, known = self._weights(words), self._ids(words) >= 0
        share = float(weights[known].sum() / max(weights.sum(), 1e-12))
        return np.asarray(np.float32(share) * self.scores(query, documents))

    def rows(self, prepared: PreparedDocuments) -> Floats:
        """The vectors, at length 1, of the documents' different words that the table knows, (U' <= U, D), float32."""
        return self._unit_rows(prepared.words[prepared.words < len(self.table)])

    @cached_property
    def _factors(self) -> Floats:
        """What each row of the matrix is multiplied by to have length 1, (V,)."""
        # in parts: einsum makes a float64 copy of what it is given
        squares = [
            np.einsum("ij,ij->i", part, part, dtype=np.float64) for part in np.array_split(self.table.matrix, 64)
        ]
        lengths = np.sqrt(np.concatenate(squares))
        return np.asarray(np.divide(1, lengths, out=np.zeros(len(lengths)), where=lengths > 0), np.float32)

    def _unit_rows(self, ids: NDArray[np.int64]) -> Floats:
        rows: Floats = np.asarray(self.table.matrix).take(ids, 0).astype(np.float32, copy=False)
        rows *= self._factors.take(ids)[:, None]
        return rows

    def matches(self, words: Sequence[str], prepared: PreparedDocuments, rows: Floats | None = None) -> Floats:
        """max(0, max_j cos(q_i, d_j) - t) of each of m query ``words`` with each of n documents, (m, n), float32.

        ``rows``: what :meth:`rows` gives for the documents, if it is at hand.
        """
        rows = self.rows(prepared) if rows is None else rows
        # a part of the query's words at a time, for a long query and a long document
        size = max(1, _SIMILARITIES // max(1, len(prepared.positions)))
        parts = [self._matches(words[i : i + size], prepared, rows) for i in range(0, len(words), size)]
        return np.concatenate([np.zeros((0, len(prepared.lengths)), np.float32), *parts])

    def _matches(self, words: Sequence[str], prepared: PreparedDocuments, rows: Floats) -> Floats:
        known = prepared.words < len(self.table)
        in_table = self._ids(words) >= 0
        similarities = np.zeros((len(words), len(prepared.words)), np.float32)
        query_rows = self._query_rows([word for word, there in zip(words, in_table, strict=True) if there])
        similarities[np.ix_(in_table, known)] = query_rows @ rows.T
        for line, word in zip(similarities, words, strict=True):
            if word in prepared.unknown_words:
                line[prepared.words == prepared.unknown_words[word]] = 1
        np.maximum(similarities - np.float32(self.threshold), 0, out=similarities)
        best = np.zeros((len(words), len(prepared.lengths)), np.float32)
        # reduceat gives a text without words the next text's value, so such texts are left out
        filled = np.flatnonzero(np.diff(prepared.starts))
        best[:, filled] = np.maximum.reduceat(similarities[:, prepared.positions], prepared.starts[filled], axis=1)
        return best

    def _ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The words' rows of the table, -1 for those that it lacks."""
        return np.array([self.table.index[word] for word in words], np.int64)

    def _query_rows(self, words: Sequence[str]) -> Floats:
        rows = self._unit_rows(self._ids(words))
        for row, word in zip(rows, words, strict=True):
            if word in self.shifts:
                row += self.shifts[word]
        return rows

    def _weights(self, words: Sequence[str]) -> Floats:
        ids = self._ids(words).tolist()
        return np.array([self.table.weights[id] if id >= 0 else self.table.unknown_weight for id in ids], np.float32)

    def _length_norms(self, prepared: PreparedDocuments) -> Floats:
        return np.asarray(1 + self.length * prepared.lengths / self.mean_length, np.float32)

    def _settings(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": "late interaction",
            "tokenizer": "words-1",
            "threshold": self.threshold,
            "length": self.length,
            "mean_length": self.mean_length,
            "alpha": self.alpha,
            "shifted": list(self.shifts),
            "vectors": self.table.info,
            **self.info,
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        shifts = np.array(list(self.shifts.values()), np.float32).reshape(-1, self.table.dim)
        return {**self.table.arrays(), "shifts": shifts}

    def save(self, folder: str | Path) -> Path:
        """Write the reranker to a folder, whole or not at all; returns the folder."""
        return write_folder(folder, RERANKER_FILE, self._settings(), self.table.words, self._arrays())

    @classmethod
    def load(cls, folder: str | Path) -> LateInteraction:
        """Read a folder that :meth:`save` wrote. Raises ModelNotFound, or CorruptModel if it is damaged."""
        info, words, arrays = read_folder(folder, RERANKER_FILE)
        with corrupt_model_errors(folder):
            table = WordVectors.restore(words, arrays, info.pop("vectors"))
            shifts = dict(zip(info.pop("shifted"), arrays["shifts"], strict=True))
            name, _, _ = (info.pop(key) for key in ("name", "kind", "tokenizer"))
            numbers = {key: info.pop(key) for key in ("threshold", "length", "mean_length", "alpha")}
            return cls(name, table, shifts, **numbers, info=info)


def tokenize_documents(texts: Sequence[str]) -> list[list[str]]:
    """The words of each text, as far as they are read."""
    return [tokenize(text[:_READ]) for text in texts]


def score_factors(similarities: NDArray[Any], alpha: float) -> NDArray[np.float64]:
    """What the engine's scores are multiplied by for n similarities, 0 or more, of a weight ``alpha``: exp(beta ·
    similarity), (n,)."""
    return np.asarray(np.exp(beta_from_alpha(alpha) * np.asarray(similarities, np.float64)))
