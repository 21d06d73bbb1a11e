"""Late interaction: a document is judged word by word against the query, by one table of static word vectors.

score(q, d) = Σ_i w_i · max(0, max_j cos(q_i, d_j) - t) / Σ_i w_i / (1 + c · |d| / mean length)

over the query's different words i and the document's words j: ColBERT's sum of maxima (Khattab and Zaharia 2020, eq. 3)
with a weight for each query word and BM25's way with long documents, and without a transformer. Query words may have
rows of their own ("when" need not be similar to "when", but to years). A word that the table lacks is similar to itself
alone. A reranker needs the documents' texts and no vectors, so an index can stay as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput, DimensionMismatch
from resift.text import tokenize
from resift.vectors.folder import content_hash, read_folder, write_folder
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

FILE = "reranker.json"
SPELLING, IDF_POWER, ALPHA = (128, 0.6), 1.2, 0.7
_CACHE, _MARK = 50_000_000, 12


@dataclass(frozen=True)
class PreparedDocuments:
    """Texts ready to be scored, end to end.

    ``words`` (U,): the different words, as rows of the table, or V and above for words that it lacks, which ``others``
    numbers; ``places`` (T,): each text's different words, as places in ``words``; ``starts`` (n + 1,): where a text's
    begin; ``lengths`` (n,): words of each text, repeated ones too.
    """

    words: NDArray[np.int64]
    places: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: Floats
    others: dict[str, int]

    def take(self, chosen: NDArray[np.int64]) -> PreparedDocuments:
        """Some of the texts, by their places."""
        spans = [self.places[self.starts[place] : self.starts[place + 1]] for place in chosen]
        flat = np.concatenate([np.zeros(0, np.int64), *spans])
        kept, places = np.unique(flat, return_inverse=True)
        starts = np.cumsum([0, *map(len, spans)])
        return PreparedDocuments(self.words[kept], places.ravel(), starts, self.lengths[chosen], self.others)


class LateInteraction:
    """Scores texts for a query.

    ``table``: rows of length 1, and the weight of each word in a query; ``shifts``: what is added to some words' rows
    when they are in a query, by word, (D,) each; ``threshold`` t, ``length`` c and ``mean_length``: see the module;
    ``alpha``: the weight of these scores against BM25's when both are z-scored; ``info``: how it was made.
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
        alpha: float = ALPHA,
        info: dict[str, Any] | None = None,
    ) -> None:
        limits = {"threshold": (threshold, 0, 1), "length": (length, 0, np.inf), "alpha": (alpha, 0, 1)}
        for key, (value, low, high) in limits.items():
            if not low <= value <= high:
                raise BadInput(f"{key} is {value}", value=value, expected=f"{low} to {high}")
        if not 0 < mean_length < np.inf:
            raise BadInput(f"mean_length is {mean_length}", value=mean_length, expected="more than 0")
        self.name, self.table, self.shifts = name, table, dict(shifts or {})
        for word, shift in self.shifts.items():
            if shift.shape != (table.dim,):
                raise DimensionMismatch(
                    f"the shift of {word!r} has {shift.shape[-1]} dimensions",
                    value=shift.shape[-1],
                    expected=str(table.dim),
                )
        self.threshold, self.length, self.mean_length, self.alpha = threshold, length, mean_length, alpha
        self.info = dict(info or {})

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits that identify settings, words and arrays."""
        return content_hash(self._settings(), self.table.words, self._arrays())

    @property
    def seen(self) -> Sequence[str]:
        """Fingerprints of the queries that it was trained on."""
        text = str(self.info.get("seen", ""))
        return [text[start : start + _MARK] for start in range(0, len(text), _MARK)]

    @cached_property
    def _unknown(self) -> float:
        """What a word weighs that the table lacks: as much as the heaviest one in a hundred."""
        return float(np.quantile(self.table.weights, 0.99))

    def prepare(self, texts: Sequence[str]) -> PreparedDocuments:
        """Texts as word numbers. Raises BadInput where an item is not a string."""
        others: dict[str, int] = {}
        known, first = self.table.index, len(self.table)
        texts = list(texts)
        tokens = []
        for position, text in enumerate(texts):
            if not isinstance(text, str):
                raise BadInput(f"text {position} is a {type(text).__name__}", value=text, expected="a string")
            tokens.append(tokenize(text))

        def number(word: str) -> int:
            row = known[word]
            return row if row >= 0 else others.setdefault(word, first + len(others))

        bags = [list(map(number, dict.fromkeys(words))) for words in tokens]
        starts = np.cumsum([0, *map(len, bags)])
        flat = np.fromiter(chain.from_iterable(bags), np.int64, int(starts[-1]))
        words, places = np.unique(flat, return_inverse=True)
        return PreparedDocuments(words, places.ravel(), starts, np.array([len(t) for t in tokens], np.float32), others)

    def scores(self, query: str, documents: Sequence[str] | PreparedDocuments) -> Floats:
        """How well each document fits the query, (n,), from 0 to 1; 0 where one of the two has no words."""
        held = documents if isinstance(documents, PreparedDocuments) else self.prepare(documents)
        words = list(dict.fromkeys(tokenize(query)))
        if not words or not len(held.places):
            return np.zeros(len(held.lengths), np.float32)
        weights = self._weights(words)
        total = weights @ self.matches(words, held)
        return np.asarray(total / max(weights.sum(), 1e-12) / self._norms(held), np.float32)

    def rows(self, held: PreparedDocuments) -> Floats:
        """Rows of the documents' different words that the table knows, at length 1."""
        return self._units(held.words[held.words < len(self.table)])

    @cached_property
    def _factors(self) -> Floats:
        """What brings each row of the matrix to length 1, (V,)."""
        squares = [
            np.einsum("ij,ij->i", part, part, dtype=np.float64) for part in np.array_split(self.table.matrix, 64)
        ]
        lengths = np.sqrt(np.concatenate(squares))
        return np.asarray(np.divide(1, lengths, out=np.zeros(len(lengths)), where=lengths > 0), np.float32)

    def _units(self, ids: NDArray[np.int64]) -> Floats:
        rows: Floats = np.asarray(self.table.matrix).take(ids, 0).astype(np.float32)
        rows *= self._factors.take(ids)[:, None]
        return rows

    def matches(self, words: Sequence[str], held: PreparedDocuments, rows: Floats | None = None) -> Floats:
        """max(0, max_j cos(q_i, d_j) - t) of each of a query's ``words`` with each document, (m, n).

        ``rows``: what :meth:`rows` gives, if it is at hand.
        """
        known = held.words < len(self.table)
        rows = self.rows(held) if rows is None else rows
        queries = np.array([self.table.index[word] for word in words])
        similar = np.zeros((len(words), len(held.words)), np.float32)
        found = queries >= 0
        similar[np.ix_(found, known)] = self._query_rows([w for w, f in zip(words, found, strict=True) if f]) @ rows.T
        for line, word in zip(similar, words, strict=True):
            if word in held.others:
                line[held.words == held.others[word]] = 1
        np.maximum(similar - np.float32(self.threshold), 0, out=similar)
        best = np.zeros((len(words), len(held.lengths)), np.float32)
        filled = np.flatnonzero(np.diff(held.starts))
        best[:, filled] = np.maximum.reduceat(similar[:, held.places], held.starts[filled], axis=1)
        return best

    def _query_rows(self, words: Sequence[str]) -> Floats:
        rows = self._units(np.array([self.table.index[word] for word in words], np.int64))
        for place, word in enumerate(words):
            if word in self.shifts:
                rows[place] += self.shifts[word]
        return rows

    def _weights(self, words: Sequence[str]) -> Floats:
        rows = [self.table.index[word] for word in words]
        return np.array([self.table.weights[row] if row >= 0 else self._unknown for row in rows], np.float32)

    def _norms(self, held: PreparedDocuments) -> Floats:
        return np.asarray(1 + self.length * held.lengths / self.mean_length, np.float32)

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
        """Write the folder, whole or not at all."""
        return write_folder(folder, FILE, self._settings(), self.table.words, self._arrays())

    @classmethod
    def load(cls, folder: str | Path) -> LateInteraction:
        """Read a folder that :meth:`save` wrote. Raises ModelNotFound, or CorruptModel where its hash differs."""
        info, words, arrays = read_folder(folder, FILE)
        table = WordVectors(words, arrays["vectors"], arrays["weights"], arrays.get("scales"), info.pop("vectors"))
        shifts = dict(zip(info.pop("shifted"), np.asarray(arrays["shifts"]), strict=True))
        name, _, _ = (info.pop(key) for key in ("name", "kind", "tokenizer"))
        numbers = {key: info.pop(key) for key in ("threshold", "length", "mean_length", "alpha")}
        return cls(name, table, shifts, **numbers, info=info)


def untrained(table: WordVectors, documents: Sequence[str]) -> LateInteraction:
    """A reranker over a mixture as it is; its words' weights (idf) to the power of 1.2."""
    units = unit_rows(table.rows())
    words = WordVectors(table.words, units, table.weights ** np.float32(IDF_POWER), info=table.info)
    lengths = [len(tokenize(text)) for text in documents]
    return LateInteraction("late-interaction", words, mean_length=max(1.0, float(np.mean(lengths))))


def fingerprints(queries: Sequence[str]) -> list[str]:
    """A short mark of each query, 12 hexadecimal digits, by which it is known again."""
    return [blake2b(query.encode("utf-8", "replace"), digest_size=_MARK // 2).hexdigest() for query in queries]


class CollectionScorer:
    """A collection's documents, scored for one query after another; a query word's matches are kept for the next."""

    def __init__(self, model: LateInteraction, documents: Sequence[str]) -> None:
        self.model, self.held = model, model.prepare(documents)
        self._rows = model.rows(self.held)
        self._best: dict[str, Floats] = {}

    def scores(self, queries: Sequence[str]) -> Floats:
        """(Q, N)."""
        norms = self.model._norms(self.held)
        found = np.zeros((len(queries), len(norms)), np.float32)
        for line, query in zip(found, queries, strict=True):
            words = list(dict.fromkeys(tokenize(query)))
            weights = self.model._weights(words)
            missing = [word for word in words if word not in self._best]
            if len(self._best) * len(norms) > _CACHE:
                self._best, missing = {}, words
            if missing and len(self.held.places):
                self._best.update(zip(missing, self.model.matches(missing, self.held, self._rows), strict=True))
            for word, weight in zip(words, weights, strict=True):
                if word in self._best:
                    line += weight * self._best[word]
            line /= max(float(weights.sum()), 1e-12) * norms
        return found
