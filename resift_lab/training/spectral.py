"""Initial word vectors for self-supervised training, from two sources.

The first source is a table of word vectors. The second is the corpus itself, by latent semantic indexing (Deerwester et
al. 1990): the singular vectors of its tf-idf matrix. The vectors of both sources are centred, scaled to the same weight
and concatenated. The inner product of two texts is then the mean of their inner products by each source.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from resift.arrays import Floats
from resift.errors import BadInput, needs_extra
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.training.documents import Documents
from resift_lab.training.principal import principal_axes

# Share of noise in the vector of a word that the table lacks.
_NOISE = 0.3
_EPSILON = 1e-9


def initial_vectors(corpus: Documents, vectors: WordVectors, seed: int) -> Floats:
    """Choose initial vectors for the words of a corpus, from a table of word vectors.

    A word that is not in the table gets the mean vector of the documents that contain the word. Noise is added to this
    vector, so that the vectors of two words from the same documents differ.

    Args:
        corpus: The documents, with a vocabulary of V words.
        vectors: The table of word vectors, with D dimensions.
        seed: The seed of the noise.

    Returns:
        Vectors of shape (V, D). Words in the table have unit vectors.

    Raises:
        BadInput: If the table contains none of the words.
    """
    table_rows = np.array([vectors.index[word] for word in corpus.words])
    known = table_rows >= 0
    if not known.any():
        message = f"none of the corpus' {len(table_rows)} words has a vector"
        raise BadInput(message, value=corpus.words[0], expected="word vectors in the language of the corpus")
    rows = np.zeros((len(table_rows), vectors.dim), np.float32)
    rows[known] = unit_rows(vectors.rows()[table_rows[known]])
    documents = unit_rows(corpus.mean_vectors(rows, corpus.idf))
    contains = corpus.counts[:, ~known].astype(bool).astype(np.float32)
    context = unit_rows(contains.T @ (documents - documents.mean(axis=0)))
    noise = unit_rows(np.random.default_rng(seed).normal(size=context.shape))
    rows[~known] = (1 - _NOISE) * context + _NOISE * noise
    return rows


def look_up_vectors(corpus: Documents, words: Sequence[str], vectors: WordVectors, seed: int) -> tuple[Floats, Floats]:
    """Look up the vectors and weights of words in a table, and choose vectors for words that are not in the table.

    A word of the corpus that is not in the table gets a vector as in :func:`initial_vectors`, scaled to the mean
    length of the others, and the weight of unknown words.

    Args:
        corpus: The documents, with a vocabulary of V words.
        words: The n words. They begin with the words of the corpus, and all other words are in the table.
        vectors: The table of word vectors, with D dimensions.
        seed: The seed of the noise in the vectors of words that are not in the table.

    Returns:
        Vectors of shape (n, D), and weights of shape (n,).
    """
    table_rows = np.array([vectors.index[word] for word in words])
    known = table_rows >= 0
    rows = np.zeros((len(words), vectors.dim), np.float32)
    rows[known] = vectors.rows(table_rows[known])
    missing = np.flatnonzero(~known)
    length = np.linalg.norm(rows[known], axis=1).mean()
    rows[missing] = length * initial_vectors(corpus, vectors, seed)[missing]
    weights = np.where(known, vectors.weights[table_rows], vectors.unknown_weight).astype(np.float32)
    return rows, weights


def lsi_vectors(corpus: Documents, dim: int, seed: int) -> Floats:
    """Return word vectors from the corpus by latent semantic indexing.

    The word vectors consist of the right singular vectors of the tf-idf matrix, whose entries are (1 + log tf) · idf
    and whose rows are scaled to unit length. Each singular vector is divided by the fourth root of its singular value,
    so that the first singular vectors do not dominate the others.

    Args:
        corpus: The documents, with a vocabulary of V words.
        dim: The maximum number of dimensions.
        seed: The seed of the sparse solver.

    Returns:
        Vectors of shape (V, ``dim``), or of fewer dimensions if the rank of the matrix is lower.

    Raises:
        MissingExtra: If SciPy is not installed.

    Source:
        Deerwester et al. 1990, "Indexing by latent semantic analysis".
    """
    with needs_extra("adapt", "Latent semantic indexing"):
        from scipy.sparse import diags
        from scipy.sparse.linalg import svds

    matrix = corpus.counts.copy()
    matrix.data = (1 + np.log(matrix.data)) * corpus.idf[matrix.indices]
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    matrix = (diags(1 / np.maximum(norms, _EPSILON)) @ matrix).astype(np.float64)
    size = min(matrix.shape)
    # The sparse solver returns at most size - 1 singular vectors, and is not faster for a large share of them.
    if size <= 4 * dim:
        _, values, axes = np.linalg.svd(matrix.toarray(), full_matrices=False)
    else:
        start = np.random.default_rng(seed).normal(size=size)
        _, values, axes = svds(matrix, k=dim, v0=start)
    best = np.argsort(-values, kind="stable")[:dim]
    best = best[values[best] > 1e-6 * values.max(initial=0)]
    return np.asarray(axes[best].T / values[best] ** 0.25, np.float32)


def concatenate_sources(corpus: Documents, sources: Sequence[Floats]) -> Floats:
    """Centre and scale the word vectors of several sources, and concatenate them.

    Each source is scaled so that the mean squared length of the documents' vectors is 1. Finally, all vectors are
    scaled so that their mean squared length is 1. In this mean, each word counts as often as it occurs in the
    documents.

    Args:
        corpus: The documents, with a vocabulary of V words.
        sources: An array for each source, with the vectors of the V words, shape (V, D_i) for the D_i dimensions of
            source i.

    Returns:
        Vectors of shape (V, sum of the D_i), float32.
    """
    joined = []
    for source in sources:
        means = corpus.mean_vectors(source, corpus.idf)
        centre = means.mean(axis=0)
        spread = np.sqrt(((means - centre) ** 2).sum(axis=1).mean())
        joined.append((source - centre) / max(float(spread), _EPSILON))
    rows = np.hstack(joined)
    length = np.sqrt(np.average((rows**2).sum(axis=1), weights=corpus.frequency))
    return np.asarray(rows / max(float(length), _EPSILON), np.float32)


def project_on_document_axes(
    corpus: Documents, rows: Floats, weights: Floats, dim: int, further_rows: Floats | None = None
) -> Floats:
    """Subtract the mean vector of the documents from word vectors, and project them onto the documents' principal axes.

    The principal axes are computed from the centred vectors of the documents, scaled to unit length. The vector of a
    document is the weighted mean of its word vectors.

    Args:
        corpus: The documents, with a vocabulary of V words.
        rows: The vectors of V words with D dimensions, shape (V, D).
        weights: The word weights, shape (V,).
        dim: The number of axes, at most D.
        further_rows: The vectors of n further words, shape (n, D), or None. They do not change the axes.

    Returns:
        Vectors of shape (V + n, ``dim``), float32.
    """
    means = corpus.mean_vectors(rows, weights)
    centre = means.mean(axis=0)
    axes = principal_axes(unit_rows(means - centre).astype(np.float64), dim)
    projected = rows if further_rows is None else np.concatenate([rows, further_rows])
    return np.asarray((projected - centre) @ axes, np.float32)
