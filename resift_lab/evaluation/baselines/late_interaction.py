"""Late interaction as a system to evaluate (see :mod:`resift.encoders.late_interaction`)."""

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

SPELLING = (128, 0.6)
"""Dimensions and coefficient of the spelling vectors (see :func:`resift_lab.vectors.mixture.mix_vectors`)."""

IDF_POWER = 1.2
"""Exponent of the word weights of an untrained reranker."""

# larger collections are not scored completely, because comparing all words of all documents takes too long
_MAX_SCORED = 20_000

# documents per query that are scored in larger collections, selected by BM25
_CANDIDATES = 1000

_MAX_CACHED = 50_000_000  # numbers of 4 bytes each


class LateInteractionSystem:
    """A late-interaction reranker, evaluated like an encoder that returns vectors of texts.

    The "vector" of a text only contains the position of the text in its list. The similarity function uses these
    positions to look up the texts, and then computes the reranker's scores. In collections of more than 20,000
    documents, only the first 1,000 hits of BM25 are scored for a query, and all other documents have the score 0.

    Args:
        model: The reranker. None means an untrained reranker with the inverse document frequencies of the documents.
        vectors: Folder or name of the word vectors. Used by the untrained reranker and by :meth:`first_stage_encoder`.
    """

    def __init__(self, model: LateInteraction | None, vectors: str | Path = DEFAULT_MODEL) -> None:
        self.model, self.vectors = model, vectors
        self.similarity: Any = self._compare

    @property
    def training_fingerprints(self) -> Sequence[str]:
        """Fingerprints (short hashes) of the queries that the reranker was trained on."""
        return () if self.model is None else fingerprints_in(self.model.info)

    @property
    def alpha(self) -> float:
        """The weight of the reranker's scores when they are combined with the first-stage scores, from 0 to 1."""
        return RERANKER_ALPHA if self.model is None else self.model.alpha

    @property
    def reranker(self) -> LateInteraction:
        """The late-interaction reranker. Without a saved model, it exists only after :meth:`fit` has created it."""
        assert self.model is not None
        return self.model

    def first_stage_encoder(self) -> Encoder:
        """Return the encoder for the first-stage search, whose hits the reranker reorders.

        The encoder's vector of a text is the mean of its word vectors.
        """
        model = build_model("mean", load_vectors(self.vectors))
        return Encoder(model.encode, model.similarity, model.table, model.alpha, model.max_alpha)

    def fit(self, documents: Sequence[str]) -> NDArray[np.int64]:
        """Prepare the N documents for scoring.

        A late-interaction reranker compares single words, so there is no vector for the whole document. The returned
        rows are placeholders, which tell the similarity function which document to score.

        Args:
            documents: The texts of the documents.

        Returns:
            An array of shape (N, K), where K is the number of dimensions of the word vectors. Each row repeats the
            position of its document.
        """
        if self.model is None:
            self.model = self._untrained(documents)
        self._bm25 = BM25() if len(documents) > _MAX_SCORED else None
        if self._bm25 is None:
            self._scorer = CollectionScorer(self.model, documents)
        else:
            self._terms, self._prepared = self._bm25.fit(documents), self.model.prepare(documents)
        return self._positions(len(documents))

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Store the texts of n queries for scoring.

        A late-interaction reranker compares single words, so there is no vector for the whole query. The returned rows
        are placeholders, which tell the similarity function which stored query to score.

        Args:
            texts: The texts of the queries.

        Returns:
            An array of shape (n, K), where K is the number of dimensions of the word vectors. Each row repeats the
            position of its query.
        """
        self._texts = list(texts)
        return self._positions(len(texts))

    def _untrained(self, documents: Sequence[str]) -> LateInteraction:
        table = load_vectors(self.vectors)
        mixture = mix_vectors([table], corpus=DocumentFrequencies.from_texts(documents), spelling=SPELLING)
        return untrained_reranker(mixture, documents)

    def _positions(self, count: int) -> NDArray[np.int64]:
        # as wide as the word vectors, because a run reports the width as the dimensions of the system
        width = self.model.table.dim if self.model else 1
        return np.broadcast_to(np.arange(count)[:, None], (count, width))

    def _compare(self, queries: NDArray[Any], documents: NDArray[Any]) -> Floats:
        """Return the reranker's scores of all documents for some queries, in place of similarities of vectors.

        Queries and documents are given as placeholder "vectors", in which each number is the position of the text.

        Args:
            queries: The placeholders of the queries, from :meth:`encode_queries`, shape (B, K).
            documents: The placeholders of the documents, from :meth:`fit`, shape (N, K).

        Returns:
            The reranker's scores, shape (B, N), float32.
        """
        texts = [self._texts[position] for position in queries[:, 0]]
        if self._bm25 is None:
            return self._scorer.scores(texts)
        scores = np.zeros((len(texts), len(documents)), np.float32)
        lexical = (self._terms @ self._bm25.encode_queries(texts).T).T.toarray()
        for line, text, bm25 in zip(scores, texts, lexical, strict=True):
            best = np.argpartition(-bm25, _CANDIDATES)[:_CANDIDATES]
            line[best] = self.reranker.scores(text, select_documents(self._prepared, best))
        return scores


def select_documents(documents: PreparedDocuments, selected: NDArray[np.int64]) -> PreparedDocuments:
    """Select some of the documents that were prepared for a reranker.

    Args:
        documents: The prepared documents.
        selected: The positions of the documents to select, shape (n,).

    Returns:
        The selected documents, in the order of the positions.
    """
    spans = [documents.positions[documents.starts[text] : documents.starts[text + 1]] for text in selected]
    flat = np.concatenate([np.zeros(0, np.int64), *spans])
    words, positions = np.unique(flat, return_inverse=True)
    starts, lengths = np.cumsum([0, *map(len, spans)]), documents.lengths[selected]
    # ravel, because NumPy 2.0 (and no other release) returns the inverse in the shape of the input
    return PreparedDocuments(documents.words[words], positions.ravel(), starts, lengths, documents.unknown_words)


def untrained_reranker(table: WordVectors, documents: Sequence[str]) -> LateInteraction:
    """Create a late-interaction reranker from word vectors, without training.

    Args:
        table: Word vectors whose weights are inverse document frequencies. The reranker raises the weights to the power
            of 1.2.
        documents: Documents that the reranker will score. Only their mean length is used.
    """
    weights = table.weights ** np.float32(IDF_POWER)
    units = WordVectors(table.words, unit_rows(table.rows()), weights, info=table.info)
    lengths = list(map(len, tokenize_documents(documents)))
    parameters = ScoringParameters(mean_length=max(1.0, float(np.mean(lengths))))
    return LateInteraction("late-interaction", units, parameters=parameters)


class CollectionScorer:
    """A scorer that applies a late-interaction reranker to all documents of a collection.

    The similarities between a query word and the documents are cached, because other queries may contain the same word.

    Args:
        model: The reranker.
        documents: The texts of the collection.
    """

    def __init__(self, model: LateInteraction, documents: Sequence[str]) -> None:
        self.model, self.prepared = model, model.prepare(documents)
        self._rows = model.distinct_word_vectors(self.prepared)
        self._matches: dict[str, Floats] = {}

    def scores(self, queries: Sequence[str]) -> Floats:
        """Score all N documents of the collection for each of Q queries.

        Args:
            queries: The texts of the queries.

        Returns:
            The reranker's scores, shape (Q, N), float32.
        """
        norms = self.model._length_divisors(self.prepared)
        scores = np.zeros((len(queries), len(norms)), np.float32)
        for line, query in zip(scores, queries, strict=True):
            words = list(dict.fromkeys(tokenize(query)))
            self._cache_similarities(words)
            weights = self.model._weights(words)
            for word, weight in zip(words, weights, strict=True):
                if word in self._matches:
                    line += weight * self._matches[word]
            line /= max(float(weights.sum()), 1e-12) * norms
        return scores

    def _cache_similarities(self, words: Sequence[str]) -> None:
        """Compute the largest similarity of each query word to any word of each document, and cache it.

        Words that are already cached are skipped. If the cache has grown too large, it is emptied first.

        Args:
            words: The words of a query.
        """
        if len(self._matches) * len(self.prepared.lengths) > _MAX_CACHED:
            self._matches = {}
        missing = [word for word in words if word not in self._matches]
        if missing and len(self.prepared.positions):
            matches = self.model.matches(missing, self.prepared, self._rows)
            self._matches.update(zip(missing, matches, strict=True))
