"""Mixtures and ensembles of word vectors: several tables, or layers of one, made into one table.

Cakaloglu et al. 2022 (EmBoost): a mixture weighs the layers of one embedding (eq. 2), an ensemble weighs embeddings
(eq. 4); both add, average or join, and a word may weigh its inverse document frequency. Here both are
:func:`mix_vectors`, a layer being a table like any other. :func:`subwords` makes a source from spelling alone, which
knows every word.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput, DimensionMismatch
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.corpus import (
    MIN_IDF,
    DocumentFrequencies,
    document_frequency,
    hashed_ngrams,
    smoothed_idf,
    sparse_counts,
)

AGGREGATES = ("concat", "sum", "average")
_SIZES = (3, 4, 5)
_MOST_SPELLING = 10_000
_BUCKETS = 2**15


def mix_vectors(
    tables: Sequence[WordVectors],
    coefficients: Sequence[float] | None = None,
    aggregate: str = "concat",
    idf: DocumentFrequencies | None = None,
    spelling: tuple[int, float] | None = None,
) -> WordVectors:
    """One table of the words of all ``tables`` and of ``idf``'s texts; a word that nobody knows has no row.

    Every table is first centred on the mean of its words in ``idf``'s texts, where they are given, and brought to the
    same mean length, so that ``coefficients`` (1 each) say how much each counts. ``aggregate``: ``concat`` joins rows;
    ``sum`` and ``average`` (the sum over the coefficients' sum) want tables of one dimension (eqs. 2 and 4). A word
    that a table lacks has zeros there. With ``idf`` a word weighs its inverse document frequency, else the largest of
    its tables' weights. ``spelling``: dimensions and coefficient of :func:`subwords`, joined as a last source.

    Raises DimensionMismatch if tables to be added differ in their dimensions, BadInput for other values that do not
    fit, and MissingExtra without SciPy where ``spelling`` needs it.
    """
    factors = np.ones(len(tables)) if coefficients is None else np.asarray(coefficients, np.float64)
    _check(tables, factors, aggregate, spelling)
    words = _all_words(tables, idf)
    parts = [factor * _part(table, words, idf) for table, factor in zip(tables, factors, strict=True)]
    rows = _aggregated(parts, factors, aggregate)
    known = np.asarray(rows.any(axis=1))
    if spelling is not None:
        dim, factor = spelling
        rows = np.hstack([rows, factor * subwords(words, dim)])
        known[:] = True  # every word has a spelling
    kept = list(compress(words, known))
    weights = _largest(tables, kept) if idf is None else idf.weights(kept)
    info = {
        "source": " + ".join(str(table.info.get("source", "vectors")) for table in tables),
        "mixture": {"aggregate": aggregate, "coefficients": factors.tolist(), "idf": idf is not None},
        **({"spelling": list(spelling)} if spelling else {}),
    }
    return WordVectors(kept, rows[known].astype(np.float32), weights, info=info)


def _check(
    tables: Sequence[WordVectors], factors: NDArray[np.float64], aggregate: str, spelling: tuple[int, float] | None
) -> None:
    if not tables or factors.shape != (len(tables),) or not np.isfinite(factors).all() or not factors.any():
        raise BadInput(
            f"{len(tables)} tables and coefficients {factors.tolist()}", expected="a finite number each, not all 0"
        )
    if aggregate not in AGGREGATES:
        raise BadInput(f"unknown aggregate {aggregate!r}", value=aggregate, expected=" | ".join(AGGREGATES))
    dims = [table.dim for table in tables]
    if aggregate != "concat" and len(set(dims)) > 1:
        raise DimensionMismatch(
            f"tables of {', '.join(map(str, dims))} dimensions", value=dims, expected="one dimension, or concat"
        )
    if spelling is not None:
        dim, factor = spelling
        if not (1 <= dim <= _MOST_SPELLING and 0 < factor < np.inf):
            expected = f"1 to {_MOST_SPELLING} dimensions, a number above 0"
            raise BadInput(f"spelling {dim} by {factor}", value=dim, expected=expected)


def _all_words(tables: Sequence[WordVectors], idf: DocumentFrequencies | None) -> list[str]:
    """The words of the corpus, most frequent first, then those of the tables, each once."""
    corpus = () if idf is None else (word for word, _ in idf.frequency.most_common())
    return list(dict.fromkeys(chain(corpus, *(table.words for table in tables))))


def _aggregated(
    parts: Sequence[NDArray[np.float64]], factors: NDArray[np.float64], aggregate: str
) -> NDArray[np.float64]:
    if aggregate == "concat":
        return np.hstack(parts)
    total: NDArray[np.float64] = np.sum(parts, axis=0)
    # coefficients of opposite signs may add up to 0
    return total if aggregate == "sum" else total / (factors.sum() or 1)


def _part(table: WordVectors, words: Sequence[str], idf: DocumentFrequencies | None) -> NDArray[np.float64]:
    """A table's rows for ``words`` (V, D), centred and of mean length 1; zeros where it has none."""
    ids = np.array([table.index[word] for word in words])
    known = ids >= 0
    if not known.any():
        raise BadInput("a table knows none of the words", value=table.words[0], expected="vectors that fit")
    rows = table.rows(ids[known]).astype(np.float64)
    centred = rows - _centre(rows, list(compress(words, known)), idf)
    part = np.zeros((len(words), table.dim))
    part[known] = centred / max(float(np.linalg.norm(centred, axis=1).mean()), 1e-12)
    return part


def _centre(rows: NDArray[np.float64], words: Sequence[str], idf: DocumentFrequencies | None) -> Any:
    """The mean row, weighed by document frequency and idf; 0, for no centring, without texts that hold the words."""
    if idf is None:
        return 0
    frequency = idf.of_words(words)
    shares = frequency * smoothed_idf(frequency, idf.documents, MIN_IDF)
    return shares @ rows / shares.sum() if shares.any() else 0


def _largest(tables: Sequence[WordVectors], words: Sequence[str]) -> Floats:
    weights = np.zeros(len(words), np.float32)
    for table in tables:
        found = np.array([table.index[word] for word in words])
        np.maximum(weights, np.where(found >= 0, table.weights[found], 0), out=weights)
    return weights


def subwords(words: Sequence[str], dim: int) -> Floats:
    """Rows of length 1 (V, ``dim``) by the words' spelling: words of shared character n-grams are similar.

    The n-grams of 3 to 5 characters of "<word>" (fastText's, Bojanowski et al. 2017) fall into 32,768 buckets by
    CRC-32, each with a direction of its own; a word is their sum, each weighed by how rare it is among ``words``.
    Raises MissingExtra without SciPy.
    """
    buckets = [hashed_ngrams(word, _SIZES, _BUCKETS) for word in words]
    offsets = np.cumsum([0, *map(len, buckets)])
    counts = sparse_counts(np.fromiter(chain.from_iterable(buckets), np.int32), offsets, _BUCKETS)
    counts.data = smoothed_idf(document_frequency(counts), len(words)).astype(np.float32)[counts.indices]
    directions: NDArray[Any] = np.random.default_rng(0).standard_normal((_BUCKETS, dim), np.float32)
    return unit_rows(counts @ directions)
