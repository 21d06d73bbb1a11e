"""Mixtures and ensembles of word vectors: several tables, or several layers of a model, combined into a single table.

In EmBoost (Cakaloglu, Xu and Raghavan 2022, section 3.2) a mixture weighs the layers of one embedding model
(equation 2), and an ensemble weighs several embedding models (equation 4). Both concatenate, add or average the
vectors, and may weigh a word by its inverse document frequency. :func:`mix_vectors` does both, because a layer is a
table like any other: :func:`resift_lab.training.distill.layer_vectors` reads the layers of a transformer.
:func:`subword_vectors` creates a further source from the spelling of words, which covers every word.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput, DimensionMismatch
from resift.text import hashed_ngrams
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.corpus import (
    MIN_IDF,
    DocumentFrequencies,
    document_frequency,
    smoothed_idf,
    sparse_counts,
)

AGGREGATES = ("concat", "sum", "average")
# Sizes of character n-grams, and the number of hash buckets for them.
_NGRAM_SIZES = (3, 4, 5)
_BUCKETS = 2**15
# Largest number of spelling dimensions.
_MAX_SPELLING_DIM = 10_000


def mix_vectors(
    tables: Sequence[WordVectors],
    coefficients: Sequence[float] | None = None,
    aggregate: str = "concat",
    corpus: DocumentFrequencies | None = None,
    spelling: tuple[int, float] | None = None,
) -> WordVectors:
    """Combine tables of word vectors into a single table.

    The result contains the words of all tables and of the corpus, except words that no table contains. With
    ``spelling``, it contains all of these words. If a table lacks a word, zeros take the place of the table's vector.

    Each table is first scaled so that its vectors have a mean length of 1. With a corpus, the mean vector of its
    words is subtracted from the table's vectors before they are scaled.

    Args:
        tables: The tables to combine.
        coefficients: The factor by which each table's vectors are multiplied. None means 1 for each table.
        aggregate: ``concat`` concatenates the vectors of a word, ``sum`` adds them, and ``average`` divides the sum by
            the sum of the coefficients. ``sum`` and ``average`` need tables with the same number of dimensions.
        corpus: Document frequencies of a corpus. If set, a word's weight is its inverse document frequency in the
            corpus. Otherwise it is the largest of the word's weights in the tables.
        spelling: The number of dimensions and the coefficient of vectors that are computed from the spelling of words
            (:func:`subword_vectors`) and appended to the combined vectors, or None.

    Raises:
        DimensionMismatch: If tables that are to be added have different numbers of dimensions.
        BadInput: If another argument is out of range, or a table knows none of the words.
        MissingExtra: If ``spelling`` is set and SciPy is not installed.

    Source:
        Cakaloglu, Xu and Raghavan 2022 (EmBoost), section 3.2, equations 2 and 4.
    """
    factors = np.ones(len(tables)) if coefficients is None else np.asarray(coefficients, np.float64)
    _check(tables, factors, aggregate, spelling)
    words = _all_words(tables, corpus)
    scaled = [factor * _scaled_rows(table, words, corpus) for table, factor in zip(tables, factors, strict=True)]
    rows = _aggregated(scaled, factors, aggregate)
    known = np.asarray(rows.any(axis=1))
    if spelling is not None:
        dim, factor = spelling
        rows = np.hstack([rows, factor * subword_vectors(words, dim)])
        known[:] = True  # every word has a spelling
    known_words = list(compress(words, known))
    weights = _largest_weights(tables, known_words) if corpus is None else corpus.weights(known_words)
    info: dict[str, Any] = {
        "source": " + ".join(str(table.info.get("source", "vectors")) for table in tables),
        "mixture": {"aggregate": aggregate, "coefficients": factors.tolist(), "idf": corpus is not None},
    }
    if spelling:
        info["spelling"] = list(spelling)
    return WordVectors(known_words, rows[known].astype(np.float32), weights, info=info)


def _check(
    tables: Sequence[WordVectors], factors: NDArray[np.float64], aggregate: str, spelling: tuple[int, float] | None
) -> None:
    if not tables or factors.shape != (len(tables),) or not np.isfinite(factors).all() or not factors.any():
        raise BadInput(
            f"{len(tables)} tables and coefficients {factors.tolist()} do not fit",
            expected="a finite coefficient for each table, not all 0",
        )
    if aggregate not in AGGREGATES:
        raise BadInput(f"unknown aggregate {aggregate!r}", value=aggregate, expected=" | ".join(AGGREGATES))
    dims = [table.dim for table in tables]
    if aggregate != "concat" and len(set(dims)) > 1:
        raise DimensionMismatch(
            f"tables of {', '.join(map(str, dims))} dimensions cannot be added",
            value=dims,
            expected="the same number of dimensions in all tables, or the aggregate concat",
        )
    if spelling is not None:
        dim, factor = spelling
        if not (1 <= dim <= _MAX_SPELLING_DIM and 0 < factor < np.inf):
            raise BadInput(
                f"spelling has {dim} dimensions and the coefficient {factor}",
                value=dim,
                expected=f"1 to {_MAX_SPELLING_DIM} dimensions and a coefficient above 0",
            )


def _all_words(tables: Sequence[WordVectors], corpus: DocumentFrequencies | None) -> list[str]:
    """Return the distinct words of a corpus and of several tables of word vectors.

    Args:
        tables: The tables of word vectors.
        corpus: The document frequencies of the corpus, or None for no corpus.

    Returns:
        The words of the corpus, most frequent first, and then the other words of the tables.
    """
    corpus_words = () if corpus is None else (word for word, _ in corpus.frequency.most_common())
    return list(dict.fromkeys(chain(corpus_words, *(table.words for table in tables))))


def _aggregated(
    scaled: Sequence[NDArray[np.float64]], factors: NDArray[np.float64], aggregate: str
) -> NDArray[np.float64]:
    if aggregate == "concat":
        return np.hstack(scaled)
    total: NDArray[np.float64] = np.sum(scaled, axis=0)
    # Coefficients of opposite signs may add up to 0.
    return total if aggregate == "sum" else total / (factors.sum() or 1)


def _scaled_rows(table: WordVectors, words: Sequence[str], corpus: DocumentFrequencies | None) -> NDArray[np.float64]:
    """Look up words in a table, centre their vectors, and scale the vectors to a mean length of 1.

    Args:
        table: A table of D dimensions.
        words: The V words to look up.
        corpus: Document frequencies of a corpus. The weighted mean vector of the words in the corpus is then subtracted
            from each vector. None to leave the vectors uncentred.

    Returns:
        Vectors of shape (V, D), zeros for words that the table does not contain.

    Raises:
        BadInput: If the table contains none of the words.
    """
    ids = np.array([table.index[word] for word in words])
    known = ids >= 0
    if not known.any():
        raise BadInput(
            f"the table with the word {table.words[0]!r} has a vector for none of the words",
            value=table.words[0],
            expected="vectors of the corpus' language",
        )
    rows = table.rows(ids[known]).astype(np.float64)
    centred = rows - _corpus_mean(rows, list(compress(words, known)), corpus)
    scaled = np.zeros((len(words), table.dim))
    scaled[known] = centred / max(float(np.linalg.norm(centred, axis=1).mean()), 1e-12)
    return scaled


def _corpus_mean(rows: NDArray[np.float64], words: Sequence[str], corpus: DocumentFrequencies | None) -> Any:
    """Return the weighted mean of the vectors of a corpus' words, which is subtracted to centre word vectors.

    The weight of a word is its document frequency, multiplied by its inverse document frequency.

    Args:
        rows: The vectors of V words with D dimensions, shape (V, D).
        words: The words, in the order of their vectors.
        corpus: Document frequencies of the corpus, or None.

    Returns:
        The mean vector, of shape (D,), or 0 if ``corpus`` is None or the corpus contains none of the words.
    """
    if corpus is None:
        return 0
    frequency = corpus.of_words(words)
    shares = frequency * smoothed_idf(frequency, corpus.documents, MIN_IDF)
    return shares @ rows / shares.sum() if shares.any() else 0


def _largest_weights(tables: Sequence[WordVectors], words: Sequence[str]) -> Floats:
    """Return the largest weight that each word has in any of several tables.

    Args:
        tables: The tables of word vectors.
        words: The V words.

    Returns:
        Weights of shape (V,).
    """
    weights = np.zeros(len(words), np.float32)
    for table in tables:
        ids = np.array([table.index[word] for word in words])
        np.maximum(weights, np.where(ids >= 0, table.weights[ids], 0), out=weights)
    return weights


def subword_vectors(words: Sequence[str], dim: int) -> Floats:
    """Compute a vector for each word from its spelling. Words that share character n-grams have similar vectors.

    The n-grams of 3 to 5 characters of ``"<word>"`` are hashed by CRC-32 into 32,768 buckets, and each bucket has a
    random vector. The vector of a word is the sum of the vectors of its n-grams, each weighted by the inverse
    frequency of the n-gram's bucket among ``words``, and scaled to unit length.

    Args:
        words: The V words.
        dim: The number of dimensions.

    Returns:
        Unit vectors of shape (V, ``dim``).

    Raises:
        MissingExtra: If SciPy is not installed.

    Source:
        The n-grams are those of fastText (Bojanowski et al. 2017).
    """
    buckets = [hashed_ngrams(word, _NGRAM_SIZES, _BUCKETS) for word in words]
    offsets = np.cumsum([0, *map(len, buckets)])
    counts = sparse_counts(np.fromiter(chain.from_iterable(buckets), np.int32), offsets, _BUCKETS)
    counts.data = smoothed_idf(document_frequency(counts), len(words)).astype(np.float32)[counts.indices]
    directions: NDArray[Any] = np.random.default_rng(0).standard_normal((_BUCKETS, dim), np.float32)
    return unit_rows(counts @ directions)
