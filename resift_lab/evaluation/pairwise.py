"""Similarities of many texts' vectors at once, block by block, so that memory stays flat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput, needs_extra
from resift.vectors.similarity import SIMILARITIES, unit_rows

with needs_extra("lab", "Evaluation"):
    from scipy.sparse import csr_matrix, issparse
    from scipy.spatial.distance import cdist

Matrix = Any  # NDArray (n, K) or scipy's csr_matrix (n, K)
Block = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]

_CELLS = 8_000_000


def similarity_blocks(
    queries: Matrix, database: Matrix, similarity: str | Block = "cosine"
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Similarities of ``queries`` (Q, K) with ``database`` (N, K) as (rows, (B, N)) blocks, in order.

    ``similarity`` is a name of :data:`resift.vectors.similarity.SIMILARITIES`, or a function of (B, K) and (N, K) that
    gives (B, N). Sparse matrices are compared by cosine or, with ``dot``, by their inner product. A zero vector is
    similar to nothing (0). A block holds at most eight million numbers, or one query. Raises BadInput if the dimensions
    differ, and for a similarity that is unknown or that sparse matrices do not have.
    """
    if queries.shape[1] != database.shape[1]:
        raise BadInput(f"queries have {queries.shape[1]} dimensions", expected=f"the database's {database.shape[1]}")
    compare = similarity if callable(similarity) else _block_function(similarity, issparse(database))
    if similarity == "cosine":
        queries, database = unit_matrix(queries), unit_matrix(database)
    # sparse queries are made dense for their block, so that their width counts too
    widest = max(database.shape[0], queries.shape[1] if issparse(queries) else 1)
    size = max(1, min(1024, _CELLS // max(1, widest)))
    for start in range(0, queries.shape[0], size):
        rows = slice(start, min(start + size, queries.shape[0]))
        yield rows, compare(queries[rows], database)


def pair_similarity(left: Matrix, right: Matrix, similarity: str = "cosine") -> NDArray[np.float64]:
    """Similarity of each row of ``left`` (n, K) with the same row of ``right`` (n, K); shape (n,).

    Raises BadInput for a similarity that is unknown or that sparse matrices do not have.
    """
    # raises for a similarity that the matrices do not have
    _block_function(similarity, issparse(left))
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
    units = csr_matrix(matrix, copy=True)
    units.data *= np.repeat(scale, np.diff(units.indptr)).astype(units.dtype)
    return units


def _block_function(similarity: str, sparse: bool) -> Block:
    """What compares a block of queries with the database by a similarity's name."""
    if sparse:
        if similarity not in ("cosine", "dot"):
            raise BadInput(f"similarity {similarity!r} of word counts", value=similarity, expected="cosine")
        return _sparse_dot
    if similarity not in _DENSE:
        raise BadInput(f"unknown similarity {similarity!r}", value=similarity, expected=" | ".join(_DENSE))
    return _DENSE[similarity]


def _dot(queries: NDArray[Any], database: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(queries @ database.T)


def _sparse_dot(queries: Matrix, database: Matrix) -> NDArray[Any]:
    """Inner products (B, N); the queries made dense, which is faster than sparse by sparse on common words."""
    return np.ascontiguousarray((database @ np.ascontiguousarray(queries.toarray().T)).T)


def _jaccard(queries: NDArray[Any], database: NDArray[Any]) -> NDArray[Any]:
    """Fuzzy Jaccard (Muffo et al. 2021, eq. 8), by sum(min) = (sum a + sum b - |a - b|) / 2."""
    a, b = np.maximum(queries, 0).astype(np.float64), np.maximum(database, 0).astype(np.float64)
    total, distance = a.sum(axis=1)[:, None] + b.sum(axis=1), cdist(a, b, "cityblock")
    union = total + distance
    return np.asarray(np.divide(total - distance, union, out=np.zeros_like(total), where=union > 0))


_DENSE: dict[str, Block] = {"cosine": _dot, "jaccard": _jaccard, "dot": _dot}
