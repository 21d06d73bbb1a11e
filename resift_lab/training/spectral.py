"""Rows that self-supervised training starts from, out of two sources.

One is a table of word vectors, the other the corpus itself: latent semantic indexing (Deerwester et al. 1990), the
singular vectors of its tf-idf matrix. Both are centred, given the same weight and set side by side, so that the inner
product of two texts is the mean of what both sources say.
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

_NOISE = 0.3
_EPSILON = 1e-9


def rows_from_vectors(corpus: Documents, vectors: WordVectors, seed: int) -> Floats:
    """Rows (V, D) of the corpus' words at length 1.

    A word that the table lacks gets the mean of the documents that hold it, plus a little noise that tells it from
    others of the same documents. Raises BadInput if the table knows none.
    """
    table_rows = np.array([vectors.index[word] for word in corpus.words])
    known = table_rows >= 0
    if not known.any():
        message = f"none of the corpus' {len(table_rows)} words has a vector"
        raise BadInput(message, value=corpus.words[0], expected="vectors that fit")
    rows = np.zeros((len(table_rows), vectors.dim), np.float32)
    rows[known] = unit_rows(vectors.rows()[table_rows[known]])
    documents = unit_rows(corpus.means(rows, corpus.idf))
    holds = corpus.counts[:, ~known].astype(bool).astype(np.float32)
    context = unit_rows(holds.T @ (documents - documents.mean(axis=0)))
    noise = unit_rows(np.random.default_rng(seed).normal(size=context.shape))
    rows[~known] = (1 - _NOISE) * context + _NOISE * noise
    return rows


def rows_from_corpus(corpus: Documents, dim: int, seed: int) -> Floats:
    """Rows (V, at most ``dim``): right singular vectors of the tf-idf matrix, (1 + log tf) · idf at length 1.

    Each is divided by the fourth root of its singular value, which keeps the first from drowning the rest. Raises
    MissingExtra without SciPy.
    """
    with needs_extra("lab", "Latent semantic indexing"):
        from scipy.sparse import diags
        from scipy.sparse.linalg import svds

    matrix = corpus.counts.copy()
    matrix.data = (1 + np.log(matrix.data)) * corpus.idf[matrix.indices]
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    matrix = (diags(1 / np.maximum(norms, _EPSILON)) @ matrix).astype(np.float64)
    # the sparse solver is no faster where most singular vectors are wanted, and finds no more than size - 1
    if (size := min(matrix.shape)) <= 4 * dim:
        _, values, axes = np.linalg.svd(matrix.toarray(), full_matrices=False)
    else:
        start = np.random.default_rng(seed).normal(size=size)
        _, values, axes = svds(matrix, k=dim, v0=start)
    best = np.argsort(-values, kind="stable")[:dim]
    best = best[values[best] > 1e-6 * values.max(initial=0)]
    return np.asarray(axes[best].T / values[best] ** 0.25, np.float32)


def side_by_side(corpus: Documents, sources: Sequence[Floats]) -> Floats:
    """Tables ``sources`` (V, D_i) centred, with documents of the same mean square length, joined to (V, sum D_i).

    A word of the corpus, drawn by frequency, has length 1 in the mean square.
    """
    joined = []
    for source in sources:
        means = corpus.means(source, corpus.idf)
        centre = means.mean(axis=0)
        spread = np.sqrt(((means - centre) ** 2).sum(axis=1).mean())
        joined.append((source - centre) / max(float(spread), _EPSILON))
    rows = np.hstack(joined)
    length = np.sqrt(np.average((rows**2).sum(axis=1), weights=corpus.frequency))
    return np.asarray(rows / max(float(length), _EPSILON), np.float32)


def on_document_axes(corpus: Documents, rows: Floats, weights: Floats, dim: int) -> Floats:
    """``rows`` (V, D) centred on the documents' mean and turned to the documents' principal axes, (V, ``dim``).

    The axes are those of the documents' centred means at length 1; ``dim`` is at most D.
    """
    means = corpus.means(rows, weights)
    centre = means.mean(axis=0)
    axes = principal_axes(unit_rows(means - centre).astype(np.float64), dim)
    return np.asarray((rows - centre) @ axes, np.float32)
