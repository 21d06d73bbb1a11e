"""Compute similarities of many vectors in blocks, so that memory does not grow with the number of pairs."""

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
# A function that computes the similarities of B queries to N documents, shape (B, N), from their vectors.
Block = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]

# Maximum number of similarities in a block.
_CELLS = 8_000_000


def similarity_blocks(
    queries: Matrix, database: Matrix, similarity: str | Block = "cosine"
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the similarities of each query to all documents, in blocks of B queries.

    A block contains at most eight million similarities, unless a single query needs more. A zero vector has
    similarity 0 to every vector.

    Args:
        queries: Query vectors of shape (Q, K) for Q queries and K dimensions, dense or sparse.
        database: Document vectors of shape (N, K) for N documents, dense or sparse.
        similarity: A name in :data:`resift.vectors.similarity.SIMILARITIES`, or a function of matrices of shapes (B, K)
            and (N, K) that returns shape (B, N). Sparse matrices support ``cosine`` and ``dot``.

    Yields:
        The slice of ``queries`` that the block covers, and the similarities of shape (B, N).

    Raises:
        BadInput: If the dimensions differ, or the similarity is unknown or not supported by sparse matrices.
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
    """Return the similarity of the two texts of each pair, from their vectors.

    Args:
        left: Vectors of the first texts of n pairs, shape (n, K) for K dimensions, dense or sparse.
        right: Vectors of the second texts, in the same order, shape (n, K).
        similarity: Name of the similarity: ``cosine``, ``jaccard`` or ``dot``. Sparse matrices do not support
            ``jaccard``.

    Returns:
        Similarities of shape (n,), float64.

    Raises:
        BadInput: If the similarity is unknown, or not supported for sparse matrices.
    """
    # called only for its error if the similarity is unknown or not supported by sparse matrices
    _block_function(similarity, issparse(left))
    if issparse(left) or similarity in ("cosine", "dot"):
        if similarity == "cosine":
            left, right = unit_matrix(left), unit_matrix(right)
        product = left.multiply(right) if issparse(left) else left * right
        return np.asarray(product.sum(axis=1), np.float64).ravel()
    function = SIMILARITIES[similarity]
    return np.array([function(a, b[None])[0] for a, b in zip(left, right, strict=True)], np.float64)


def unit_matrix(matrix: Matrix) -> Matrix:
    """Scale each row of a dense or sparse matrix to unit length (Euclidean norm). Zero rows stay zero."""
    if not issparse(matrix):
        return unit_rows(matrix)
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    units = csr_matrix(matrix, copy=True)
    units.data *= np.repeat(scale, np.diff(units.indptr)).astype(units.dtype)
    return units


def _block_function(similarity: str, sparse: bool) -> Block:
    """Return the function that computes the similarities of a block of queries to all documents.

    The function takes the vectors of the queries and of the documents.

    Args:
        similarity: Name of the similarity: ``cosine``, ``jaccard`` or ``dot``.
        sparse: Whether the vectors are sparse matrices.

    Raises:
        BadInput: If the similarity is unknown, or not supported for sparse matrices.
    """
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
    """Return the inner products of B queries with N documents, both sparse matrices with K columns.

    The block of queries is made dense first, because a product of two sparse matrices is slower if many texts share
    words.

    Args:
        queries: The vectors of the queries, shape (B, K).
        database: The vectors of the documents, shape (N, K).

    Returns:
        A dense array of shape (B, N).
    """
    return np.ascontiguousarray((database @ np.ascontiguousarray(queries.toarray().T)).T)


def _jaccard(queries: NDArray[Any], database: NDArray[Any]) -> NDArray[Any]:
    """Return the fuzzy Jaccard similarities of B queries and N documents.

    The similarity of two vectors a and b is sum(min(a, b)) / sum(max(a, b)), after negative values were set to 0. It is
    computed from the city-block distance, since sum(min(a, b)) = (sum(a) + sum(b) - sum(|a - b|)) / 2.

    Args:
        queries: Vectors of K dimensions, shape (B, K).
        database: Vectors of K dimensions, shape (N, K).

    Returns:
        Values from 0 to 1, shape (B, N).

    Source:
        Muffo et al. 2021, eq. 8.
    """
    a, b = np.maximum(queries, 0).astype(np.float64), np.maximum(database, 0).astype(np.float64)
    total, distance = a.sum(axis=1)[:, None] + b.sum(axis=1), cdist(a, b, "cityblock")
    union = total + distance
    return np.asarray(np.divide(total - distance, union, out=np.zeros_like(total), where=union > 0))


_DENSE: dict[str, Block] = {"cosine": _dot, "jaccard": _jaccard, "dot": _dot}
