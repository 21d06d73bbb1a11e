"""The systems that protocols measure, and an adapter for encoders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from resift.arrays import Floats
from resift.encoders.known_words import known_share
from resift.vectors.table import WordVectors
from resift.vectors.weights import ADAPTED_MAX_ALPHA, DEFAULT_ALPHA
from resift_lab.fingerprints import fingerprints_in

if TYPE_CHECKING:
    from resift_lab.evaluation.pairwise import Matrix

MAX_ALPHA = ADAPTED_MAX_ALPHA  # of systems that do not say what their weight comes near to with feedback


class System(Protocol):
    """A system that turns texts into rows, which are compared by a similarity.

    A system learns from the documents only, never from the queries. It may also have the attributes ``table`` (its word
    vectors), ``alpha`` and ``max_alpha`` (its weights against BM25, see :func:`weights_of`), ``seen`` (fingerprints of
    the queries it was trained on) and ``note`` (a warning, after ``fit``).

    Attributes:
        similarity: Name of a similarity, or a function of two sets of rows.
    """

    similarity: Any

    def fit(self, documents: Sequence[str]) -> Matrix:
        """Learn from the documents, and return their rows, of shape (N, K)."""

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Return the rows of other texts, of shape (n, K). Call ``fit`` first."""


class Encoder:
    """A system that encodes each text independently and learns nothing from the documents.

    Args:
        encode: A function that returns the vectors of n texts, of shape (n, K), float32.
        similarity: Name of the similarity.
        table: The word vectors behind the encoder, if it has any.
        alpha: Weight of the similarity against BM25.
        max_alpha: Limit of this weight with much feedback.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[str]], Floats],
        similarity: str = "cosine",
        table: WordVectors | None = None,
        alpha: float = DEFAULT_ALPHA,
        max_alpha: float = MAX_ALPHA,
    ) -> None:
        self.queries, self.similarity, self.table = encode, similarity, table
        self.alpha, self.max_alpha = alpha, max_alpha

    @property
    def seen(self) -> Sequence[str]:
        """Return fingerprints of the queries that the word vectors were trained on."""
        return () if self.table is None else fingerprints_in(self.table.info)

    def fit(self, documents: Sequence[str]) -> Floats:
        """Return the vectors of the documents, of shape (N, K)."""
        return self.queries(documents)


class Taught(Encoder):
    """A system whose queries are encoded by a student, and whose documents by the student's teacher.

    Args:
        fit: The teacher's function that encodes documents.
        encoder: The student, which encodes queries.
    """

    def __init__(self, fit: Callable[[Sequence[str]], Matrix], encoder: Encoder) -> None:
        super().__init__(encoder.queries, encoder.similarity, encoder.table, encoder.alpha, encoder.max_alpha)
        self._fit = fit

    def fit(self, documents: Sequence[str]) -> Matrix:
        """Return the teacher's vectors of the documents, of shape (N, K)."""
        return self._fit(documents)


def known_by(system: System, text: str) -> float:
    """Return the share of a query's words that a fitted system knows, 0 to 1.

    Returns:
        The value of :func:`resift.encoders.known_words.known_share`, or 1 if the system has no table of word vectors.
    """
    table = getattr(system, "table", None)
    if table is None:
        return 1.0
    alpha, max_alpha = weights_of(system)
    return known_share(table, text, adapted=max_alpha > alpha)


def weights_of(system: System) -> tuple[float, float]:
    """Return a fitted system's weight against BM25 without feedback, and its limit with much feedback."""
    return getattr(system, "alpha", DEFAULT_ALPHA), getattr(system, "max_alpha", MAX_ALPHA)
