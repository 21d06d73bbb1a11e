"""Similarities of many texts' vectors at once, block by block, so that memory stays flat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from scipy.spatial.distance import cdist

from resift.arrays import Floats
from resift.errors import BadInput
from resift.vectors.similarity import SIMILARITIES, unit_rows

Matrix = Any  # NDArray (n, K) or scipy's csr_matrix (n, K)
Block = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]

_CELLS = 8_000_000


def similarity_blocks(
    queries: Matrix, database: Matrix, similarity: str | Block = "cosine"
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Similarities of ``queries`` (Q, K) with ``database`` (N, K) as (rows, (B, N)) blocks, in order.

    ``similarity`` is a name of :data:`resift.vectors.similarity.SIMILARITIES`, or a function of (B, K) and (N, K) that
    gives (B, N). Sparse matrices are compared by cosine or, with ``dot``, by their inner product. A zero vector is
    similar to nothing (0). A block holds at most eight million numbers, or one query.
    """
    if queries.shape[1] != database.shape[1]:
        raise BadInput(f"queries have {queries.shape[1]} dimensions", expected=f"the database's {database.shape[1]}")
    compare = similarity if callable(similarity) else _compare(similarity, issparse(database))
    if similarity == "cosine":
        queries, database = unit_matrix(queries), unit_matrix(database)
    widest = max(database.shape[0], queries.shape[1] if issparse(queries) else 1)
    size = max(1, min(1024, _CELLS // max(1, widest)))
    for start in range(0, queries.shape[0], size):
        rows = slice(start, min(start + size, queries.shape[0]))
        yield rows, compare(queries[rows], database)


def pair_similarity(left: Matrix, right: Matrix, similarity: str = "cosine") -> NDArray[Any]:
    """Similarity of each row of ``left`` (n, K) with the same row of ``right`` (n, K); shape (n,) float64."""
    _compare(similarity, issparse(left))
    if issparse(left) or similarity in ("cosine", "dot"):
        if similarity == "cosine":
            left, right = unit_matrix(left), unit_matrix(right)
        product = left.multiply(right) if issparse(left) else left * right
        return np.asarray(product.sum(axis=1), np.float64).ravel()
    function = SIMILARITIES[similarity]
    return np.array([function(a, b[None])[0] for a, b in zip(left, right, strict=True)], np.float64)


def unit_matrix(matrix: Matrix) -> Matrix:
    """Rows of length 1 (l2), dense or sparse as they came; a zero row stays zero."""
    if not issparse(matrix):
        return unit_rows(matrix)
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    found = csr_matrix(matrix, copy=True)
    found.data *= np.repeat(scale, np.diff(found.indptr)).astype(found.dtype)
    return found


def _named(similarity: str) -> Callable[[NDArray[Any], NDArray[Any]], Floats]:
    if similarity not in SIMILARITIES:
        raise BadInput(
            f"unknown similarity {similarity!r}", value=similarity, expected=" | ".join([*SIMILARITIES, "dot"])
        )
    return SIMILARITIES[similarity]


def _compare(similarity: str, sparse: bool) -> Block:
    if sparse:
        if similarity not in ("cosine", "dot"):
            raise BadInput(f"similarity {similarity!r} of word counts", value=similarity, expected="cosine")
        return _sparse_dot
    if similarity in ("cosine", "dot"):
        return _dot
    if similarity == "jaccard":
        return _jaccard
    function = _named(similarity)
    return lambda queries, database: np.stack([function(query, database) for query in queries])


def _dot(queries: NDArray[Any], database: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(queries @ database.T)


def _sparse_dot(queries: Matrix, database: Matrix) -> NDArray[Any]:
    """Inner products (B, N); the queries made dense, which is faster than sparse by sparse on common words."""
    return np.ascontiguousarray((database @ np.ascontiguousarray(queries.toarray().T)).T)


def _jaccard(queries: NDArray[Any], database: NDArray[Any]) -> NDArray[Any]:
    """Fuzzy Jaccard (Muffo et al. 2021, eq. 8), by sum(min) = (sum a + sum b - |a - b|) / 2."""
    a, b = np.maximum(queries, 0).astype(np.float64), np.maximum(database, 0).astype(np.float64)
    total, apart = a.sum(axis=1)[:, None] + b.sum(axis=1), cdist(a, b, "cityblock")
    whole = total + apart
    return np.asarray(np.divide(total - apart, whole, out=np.zeros_like(total), where=whole > 0))
