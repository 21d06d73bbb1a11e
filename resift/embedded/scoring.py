"""Score documents: BM25 as in Lucene, exact k-NN, and Resift's two Painless scripts in NumPy.

The BM25 score of a term in a field of a document is

    boost · idf · tf / (tf + k1 · (1 − b + b · length / mean length))   with idf = ln(1 + (n − df + 0.5) / (df + 0.5))

- tf is the number of times that the term occurs in the field, and length the number of terms in the field.
- n is the number of documents that have the field, df the number of documents that have the term in the field, and mean
  length the mean of length over the n documents.
- k1 = 1.2 and b = 0.75.

All computations round as in OpenSearch, so that ties are the same as there: BM25 uses 32-bit floats and Lucene's lossy
encoding of lengths, and scripts add 64-bit floats sequentially as Painless does.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.cache import TtlCache
from resift.embedded.tables import IndexTables, Matches, Rows, Scores, decode_vector
from resift.errors import BadInput, UnsupportedQuery
from resift.query.dsl import VECTOR_FIELD
from resift.rewriting.similarity import script_source
from resift.schema import convert, read_struct
from resift.vectors.weights import MAX_BETA

_K1, _B = np.float32(1.2), np.float32(0.75)
_EXACT_LENGTHS = 24  # smaller lengths are stored exactly
_MANTISSA_BITS = 4  # bits with which larger lengths are stored
_CACHED_POSTINGS = 1_000_000  # maximum number of cached postings, of 12 bytes each


class Bm25:
    """A scorer that computes BM25 scores from the term statistics of an index.

    The statistics are read when the object is created, so create a new object after the index has changed. The postings
    of a term (its documents and frequencies) are cached, because the searches of a session often contain the same
    words.

    Args:
        db: The database connection.
        tables: The database tables of the index.
    """

    def __init__(self, db: sqlite3.Connection, tables: IndexTables) -> None:
        sums = ", ".join(f"total({column} > 0), total({column})" for column in tables.columns)
        (totals,) = db.execute(f"SELECT {sums} FROM {tables.lengths}").fetchall()
        self._tables = tables
        self._documents = totals[::2]  # number of documents that have each text field
        self._terms = totals[1::2]  # number of terms in each text field
        self._cache = TtlCache[Matches](_CACHED_POSTINGS, math.inf)  # by column and term

    def matches(
        self,
        db: sqlite3.Connection,
        field: str,
        terms: Sequence[str],
        require_all: bool,
        boost: float,
        within: Rows | None,
    ) -> Matches:
        """Find the documents that contain some terms in a field, and compute their BM25 scores.

        Args:
            db: The database connection.
            field: The name of the text field.
            terms: The terms. A term that occurs several times in the query is repeated.
            require_all: Whether a document must contain all terms. Otherwise, a single term is enough.
            boost: The factor by which the scores are multiplied.
            within: If not None, only the documents with these row numbers can match.

        Returns:
            The row numbers of the matching documents in ascending order, and the score of each document.
        """
        term_matches, column = [], self._tables.meta.fields.index(field)
        for term, times in Counter(terms).items():
            rows, frequencies = self._postings(db, column, term)
            if len(rows):
                weight = np.float32(boost * times) * _idf(self._documents[column], len(rows))
                if within is not None:
                    places = np.minimum(np.searchsorted(rows, within), len(rows) - 1)
                    places = places[rows[places] == within]
                    rows, frequencies = rows[places], frequencies[places]
                term_matches.append((rows, np.asarray(weight - weight / (np.float32(1) + frequencies), np.float32)))
        if not term_matches or (require_all and len(term_matches) < len(set(terms))):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        return sum_by_row(term_matches, len(term_matches) if require_all else 1)

    def rows_with_term(self, db: sqlite3.Connection, field: str, term: str) -> Rows:
        """Return the row numbers of the documents that contain a term in a field, in ascending order.

        Args:
            db: The database connection.
            field: The name of the text field.
            term: The term, as the analyzer returns it.
        """
        return self._postings(db, self._tables.meta.fields.index(field), term)[0]

    def _postings(self, db: sqlite3.Connection, column: int, term: str) -> Matches:
        """Find the documents that contain a term in a field, and compute the normalised frequency of the term.

        The normalised frequency in a document is tf / (k1 · (1 − b + b · length / mean length)). Here tf is the
        frequency of the term in the document, and k1 and b are the parameters of BM25.

        Args:
            db: The database connection.
            column: The number of the text field.
            term: The term, as the analyzer returns it.

        Returns:
            The row numbers of the documents in ascending order, and the normalised frequency in each document. Both
            arrays have the shape (n_documents,).
        """
        cached = self._cache.get((column, term))
        if cached is not None:
            return cached
        postings, lengths = self._tables.postings, self._tables.lengths
        sql = (
            f"SELECT p.doc, p.frequency, l.c{column} FROM "
            f"(SELECT doc, count(*) AS frequency FROM {postings} WHERE term = ? AND col = ? GROUP BY doc) p "
            f"JOIN {lengths} l ON l.row = p.doc ORDER BY p.doc"
        )
        table = np.array(db.execute(sql, (term, f"c{column}")).fetchall(), np.int64).reshape(-1, 3)
        rows, frequencies = table[:, 0].copy(), table[:, 1].astype(np.float32)
        if len(table):
            mean = np.float32(self._terms[column] / self._documents[column])
            frequencies = _normalized_frequencies(frequencies, table[:, 2], mean)
        # A key and two empty arrays take as much memory as 20 postings.
        return self._cache.put((column, term), (rows, frequencies), len(table) + 20)


def sum_by_row(matches: list[Matches], minimum: int) -> Matches:
    """Add up the scores that each document has in several results.

    Args:
        matches: The results. Each consists of the row numbers and the scores of documents.
        minimum: The minimum number of results in which a document must occur. Other documents are left out.

    Returns:
        The row numbers of these documents in ascending order, and the sums of their scores.
    """
    if len(matches) == 1 == minimum:
        return matches[0]
    rows, places, counts = np.unique(
        np.concatenate([rows for rows, _ in matches]), return_inverse=True, return_counts=True
    )
    sums = np.bincount(places, np.concatenate([scores for _, scores in matches]), len(rows)).astype(np.float32)
    return rows[counts >= minimum], sums[counts >= minimum]


def _idf(documents: float, frequency: int) -> np.float32:
    """Return the inverse document frequency of a term, as BM25 in Lucene defines it.

    Args:
        documents: The number n of documents that have the field.
        frequency: The number df of documents that have the term in the field.
    """
    idf: np.float32 = np.float32(math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5)))
    return idf


def _normalized_frequencies(frequencies: Scores, lengths: NDArray[np.int64], mean: np.float32) -> Scores:
    """Compute the normalised frequency of a term in documents, with the same rounding as Lucene's ``BM25Similarity``.

    See :meth:`Bm25._postings` for the formula.

    Args:
        frequencies: The frequency of the term in each document, of shape (n_documents,).
        lengths: The length of each document in terms, of shape (n_documents,).
        mean: The mean length over all documents that have the field, in terms.

    Returns:
        The normalised frequencies, of shape (n_documents,).
    """
    inverse = np.float32(1) / (_K1 * ((np.float32(1) - _B) + _B * _lossy_lengths(lengths).astype(np.float32) / mean))
    return np.asarray(frequencies * inverse, np.float32)


def _lossy_lengths(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round text lengths as Lucene does when it stores each length in a single byte.

    Lengths below 24 are exact. For larger lengths, only the four highest bits of (length - 24) are preserved.

    Args:
        lengths: The lengths in terms, of shape (n_documents,).
    """
    rest = np.maximum(lengths - _EXACT_LENGTHS, 0)
    _, bits = np.frexp(rest)  # the number of binary digits
    shift = np.maximum(bits - _MANTISSA_BITS, 0)
    return np.where(lengths < _EXACT_LENGTHS, lengths, _EXACT_LENGTHS + ((rest >> shift) << shift))


Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Script:
    """A script that scores documents by the similarity of their vectors to a query vector.

    Attributes:
        name: The name of the script.
        field: The name of the vector field.
        query: The query vector, of shape (n_dimensions,).
        mask: Weights of the dimensions, of shape (n_dimensions,). The query vector and the document vectors are
            multiplied by them.
        beta: A factor for the similarity, or None. With a factor, the score is exp(beta · similarity). Otherwise, the
            score is the similarity.
    """

    name: str
    field: str
    query: Doubles
    mask: Doubles
    beta: float | None


def _one_plus_cosine(query: Doubles, vectors: Doubles) -> Doubles:
    """Return 1 plus the cosine similarity between a query vector and each document vector, of shape (n_documents,).

    The cosine similarity to a zero vector is defined as 0.

    Args:
        query: The query vector, of shape (n_dimensions,).
        vectors: The document vectors, of shape (n_dimensions, n_documents).
    """
    squares = _sequential_sum(vectors**2) * _sequential_sum((query**2)[:, None])
    cosines = np.divide(
        _sequential_sum(query[:, None] * vectors), np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0
    )
    return np.asarray(np.maximum(1 + cosines, 0))


def _jaccard(query: Doubles, vectors: Doubles) -> Doubles:
    """Return the fuzzy Jaccard similarity between a query vector and each document vector, of shape (n_documents,).

    The similarity is the sum of the component-wise minima, divided by the sum of the component-wise maxima. Negative
    components count as 0.

    Args:
        query: The query vector, of shape (n_dimensions,).
        vectors: The document vectors, of shape (n_dimensions, n_documents).
    """
    a, b = np.maximum(query, 0)[:, None], np.maximum(vectors, 0)
    shared, total = _sequential_sum(np.minimum(a, b)), _sequential_sum(np.maximum(a, b))
    return np.asarray(np.divide(shared, total, out=np.zeros_like(total), where=total > 0))


def _sequential_sum(numbers: Doubles) -> Doubles:
    """Return the sum of each column, with the same rounding errors as a loop over the rows.

    ``np.sum`` may use pairwise summation, which rounds differently.

    Args:
        numbers: The numbers, of shape (n_rows, n_columns).
    """
    return np.asarray(np.add.reduce(np.ascontiguousarray(numbers), axis=0))


# For each script file: the similarity, and its value for a document that is similar to nothing.
_SCRIPTS: dict[str, tuple[Callable[[Doubles, Doubles], Doubles], float]] = {
    "masked_cosine": (_one_plus_cosine, 1.0),
    "fuzzy_jaccard": (_jaccard, 0.0),
}


def parse_script(script: Any, dim: int) -> Script:
    """Parse the script of a ``script_score`` query. Only Resift's own scripts are supported.

    Args:
        script: The script as a JSON object.
        dim: The number of dimensions of the vectors.

    Raises:
        UnsupportedQuery: If the script is not a script of Resift.
        BadInput: If the parameters of the script are malformed.
    """
    source = script.get("source") if isinstance(script, Mapping) else None
    name = next((name for name in _SCRIPTS if source == script_source(name)), None)
    if name is None or set(script) - {"lang", "source", "params"} or script.get("lang", "painless") != "painless":
        expected = "an inline script, the text of masked_cosine.painless or fuzzy_jaccard.painless"
        message = "the embedded engine only runs Resift's own scripts"
        raise UnsupportedQuery(message, value=str(script)[:200], expected=expected)
    params = read_struct(_ScriptParameters, convert("params of a script", script.get("params"), dict[str, Any]))
    mask = np.ones(dim) if params.mask is None else checked_numbers("mask", params.mask, dim)
    return Script(name, params.field, checked_numbers("query vector", params.query, dim), mask, params.beta)


class _ScriptParameters(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of a script in a query, before they are checked. See :class:`Script` for their meaning."""

    field: str
    query: list[float]
    mask: list[float] | None = None
    beta: Annotated[float, msgspec.Meta(ge=0, le=MAX_BETA)] | None = None


def checked_numbers(name: str, values: Any, dim: int) -> Doubles:
    """Convert numbers from a query to an array of shape (``dim``,).

    Args:
        name: The name of the numbers, for error messages.
        values: The numbers.
        dim: The expected number of values.

    Raises:
        BadInput: If there are not exactly ``dim`` numbers, or if a number is not finite or too large for a 32-bit
            float.
    """
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.empty(0)
    # This comparison is also false for NaN.
    if numbers.shape != (dim,) or not (np.abs(numbers) <= np.finfo(np.float32).max).all():
        message = f"the {name} has the shape {numbers.shape} or is not finite"
        raise BadInput(message, value=str(values)[:200], expected=f"{dim} finite numbers")
    return numbers


@dataclass(frozen=True)
class Vectors:
    """All document vectors of an index, in memory.

    Attributes:
        space: The name of the k-NN space, such as "l2", which defines the similarity of vectors.
        rows: The row numbers of the documents that have a vector, in ascending order, of shape (n_documents,).
        vectors: The vectors of these documents, of shape (n_documents, n_dimensions).
    """

    space: str
    rows: Rows
    vectors: Floats

    @classmethod
    def load(cls, db: sqlite3.Connection, tables: IndexTables) -> Vectors:
        """Read all document vectors of an index from the database."""
        sql = f"SELECT row, vector FROM {tables.documents} WHERE vector IS NOT NULL ORDER BY row"
        stored = db.execute(sql).fetchall()
        vectors = np.empty((len(stored), tables.meta.dim), np.float32)
        for i, (row, blob) in enumerate(stored):
            vectors[i] = decode_vector(blob, tables.meta.dim, f"row {row}")
        return cls(tables.meta.space, np.array([row for row, _ in stored], np.int64), vectors)

    def nearest(self, vector: Floats, k: int, allowed: Rows | None) -> Matches:
        """Find the ``k`` documents whose vectors are nearest to a query vector.

        Args:
            vector: The query vector, of shape (n_dimensions,).
            k: The maximum number of documents.
            allowed: If not None, only the documents with these row numbers can be returned.

        Returns:
            The row numbers of the documents in ascending order, and the same scores as in Lucene.
        """
        if self.space == "l2":
            scores = 1 / (1 + ((self.vectors - vector) ** 2).sum(axis=1))
        else:
            near = self.vectors @ vector
            scores = np.where(near > 0, near + 1, 1 / (1 - np.minimum(near, 0)))
        order = np.argsort(-scores, kind="stable")
        if allowed is not None:
            order = order[np.isin(self.rows[order], allowed)]
        order = np.sort(order[:k])
        return self.rows[order], scores[order].astype(np.float32)

    def script_scores(self, script: Script, rows: Rows) -> Scores:
        """Compute the scores of documents with a script.

        The score of a document is the similarity of its vector to the query vector, or exp(beta · similarity) if the
        script has a ``beta``. A document without a vector is scored as follows:

        - Without ``beta``, its score is 0.
        - With ``beta``, it is scored like a document that is similar to nothing. Other scores are multiplied by this
          score, so a score of 0 would move the document to the end of the ranking.

        If the script refers to a field other than VECTOR_FIELD, all documents count as documents without a vector.

        Args:
            script: The parsed script.
            rows: The row numbers of the documents, in ascending order, of shape (n_documents,).

        Returns:
            The scores, of shape (n_documents,).
        """
        has_vector = np.isin(rows, self.rows, assume_unique=True) & (script.field == VECTOR_FIELD)
        similarity, neutral = _SCRIPTS[script.name]
        # If scores are multiplied, a document without a vector counts like a document that is similar to nothing.
        similarities = np.full(len(rows), 0.0 if script.beta is None else neutral)
        vectors = self.vectors[np.searchsorted(self.rows, rows[has_vector])]
        similarities[has_vector] = similarity(script.mask * script.query, (script.mask * vectors).T)
        scores = similarities if script.beta is None else np.exp(script.beta * similarities)
        return np.asarray(scores, np.float32)
