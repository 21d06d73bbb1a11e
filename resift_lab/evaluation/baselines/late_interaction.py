"""Late interaction as a system: words against words (:mod:`resift.encoders.late_interaction`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.builders import build_model
from resift.encoders.late_interaction import (
    RERANKER_ALPHA,
    LateInteraction,
    PreparedDocuments,
    ScoringParameters,
    tokenize_documents,
)
from resift.text import tokenize
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.corpus import DocumentFrequencies
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.system import Encoder
from resift_lab.fingerprints import fingerprints_in
from resift_lab.vectors.mixture import mix_vectors

SPELLING, IDF_POWER = (128, 0.6), 1.2
_SCORED_WHOLE, _CANDIDATES = 20_000, 1000
_MAX_CACHED = 50_000_000  # numbers, of 4 bytes each


class Late:
    """A reranker as a system: a text's row is its position, and positions are compared by the reranker's scores.

    ``model`` None stands for an untrained one over the folder ``vectors`` and the documents' idf. It is served beside
    the mean of these vectors. In collections above
    20,000 documents only BM25's best 1,000 of a query are scored; the others have 0.
    """

    def __init__(self, model: LateInteraction | None, vectors: str | Path = DEFAULT_MODEL) -> None:
        self.model, self.vectors = model, vectors
        self.similarity: Any = self._compare

    @property
    def seen(self) -> Sequence[str]:
        """Fingerprints of the queries that the reranker was trained on."""
        return () if self.model is None else fingerprints_in(self.model.info)

    @property
    def alpha(self) -> float:
        """The weight of the scores beside those that hits have already."""
        return RERANKER_ALPHA if self.model is None else self.model.alpha

    @property
    def reranker(self) -> LateInteraction:
        """The reranker, once it is fitted."""
        assert self.model is not None
        return self.model

    def beside(self) -> Encoder:
        """The vectors that hits are ranked by before it reads them."""
        model = build_model("mean", load_vectors(self.vectors))
        return Encoder(model.encode, model.similarity, model.table, model.alpha, model.max_alpha)

    def fit(self, documents: Sequence[str]) -> NDArray[np.int64]:
        """Prepare the documents; their positions, (N, K)."""
        if self.model is None:
            self.model = self._untrained(documents)
        # words against words of a large collection takes too long for every document
        self._bm25 = BM25() if len(documents) > _SCORED_WHOLE else None
        if self._bm25 is None:
            self._scorer = CollectionScorer(self.model, documents)
        else:
            self._terms, self._prepared = self._bm25.fit(documents), self.model.prepare(documents)
        return self._positions(len(documents))

    def queries(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Hold the queries; their positions, (n, K)."""
        self._texts = list(texts)
        return self._positions(len(texts))

    def _untrained(self, documents: Sequence[str]) -> LateInteraction:
        table = load_vectors(self.vectors)
        mixture = mix_vectors([table], idf=DocumentFrequencies.from_texts(documents), spelling=SPELLING)
        return untrained_reranker(mixture, documents)

    def _positions(self, count: int) -> NDArray[np.int64]:
        # as wide as the table, because the width is what a run reports as the system's dimensions
        width = self.model.table.dim if self.model else 1
        return np.broadcast_to(np.arange(count)[:, None], (count, width))

    def _compare(self, queries: NDArray[Any], documents: NDArray[Any]) -> Floats:
        """Scores (B, N) of all documents for the queries at the positions ``queries`` (B, K)."""
        texts = [self._texts[position] for position in queries[:, 0]]
        if self._bm25 is None:
            return self._scorer.scores(texts)
        scores = np.zeros((len(texts), len(documents)), np.float32)
        lexical = (self._terms @ self._bm25.queries(texts).T).T.toarray()
        for line, text, bm25 in zip(scores, texts, lexical, strict=True):
            best = np.argpartition(-bm25, _CANDIDATES)[:_CANDIDATES]
            line[best] = self.reranker.scores(text, some_of(self._prepared, best))
        return scores


def some_of(documents: PreparedDocuments, chosen: NDArray[np.int64]) -> PreparedDocuments:
    """Some of the texts, by their positions."""
    spans = [documents.positions[documents.starts[text] : documents.starts[text + 1]] for text in chosen]
    flat = np.concatenate([np.zeros(0, np.int64), *spans])
    kept, positions = np.unique(flat, return_inverse=True)
    starts, lengths = np.cumsum([0, *map(len, spans)]), documents.lengths[chosen]
    # ravel: NumPy 2.0 alone returns the inverse in another shape
    return PreparedDocuments(documents.words[kept], positions.ravel(), starts, lengths, documents.unknown_words)


def untrained_reranker(table: WordVectors, documents: Sequence[str]) -> LateInteraction:
    """A reranker before training, over word vectors whose weights are idf; they are raised to the power of 1.2.

    ``documents`` are those that it will score; of them only the mean length counts.
    """
    weights = table.weights ** np.float32(IDF_POWER)
    units = WordVectors(table.words, unit_rows(table.rows()), weights, info=table.info)
    lengths = list(map(len, tokenize_documents(documents)))
    parameters = ScoringParameters(mean_length=max(1.0, float(np.mean(lengths))))
    return LateInteraction("late-interaction", units, parameters=parameters)


class CollectionScorer:
    """Scores a whole collection for one query after another; a query word's matches are kept for the next queries."""

    def __init__(self, model: LateInteraction, documents: Sequence[str]) -> None:
        self.model, self.prepared = model, model.prepare(documents)
        self._rows = model.rows(self.prepared)
        self._matches: dict[str, Floats] = {}

    def scores(self, queries: Sequence[str]) -> Floats:
        """Scores of all N documents for each of Q queries, (Q, N), float32."""
        norms = self.model._length_norms(self.prepared)
        scores = np.zeros((len(queries), len(norms)), np.float32)
        for line, query in zip(scores, queries, strict=True):
            words = list(dict.fromkeys(tokenize(query)))
            self._match(words)
            weights = self.model._weights(words)
            for word, weight in zip(words, weights, strict=True):
                if word in self._matches:
                    line += weight * self._matches[word]
            line /= max(float(weights.sum()), 1e-12) * norms
        return scores

    def _match(self, words: Sequence[str]) -> None:
        """Put the words' matches into the cache, which is emptied first where it has grown too large."""
        if len(self._matches) * len(self.prepared.lengths) > _MAX_CACHED:
            self._matches = {}
        missing = [word for word in words if word not in self._matches]
        if missing and len(self.prepared.positions):
            found = self.model.matches(missing, self.prepared, self._rows)
            self._matches.update(zip(missing, found, strict=True))
