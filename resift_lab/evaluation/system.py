"""What is measured: the System protocol, and any encoder as one."""

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
    """Turns texts into rows that ``similarity``, a name or a function of two sets of rows, compares.

    What has to be learnt is learnt from the documents, never from the queries. A system may also have ``table``, the
    word vectors behind it; ``alpha`` and ``max_alpha``, its weights against BM25 without and with much feedback (see
    :func:`weights_of`); ``seen``, fingerprints of the queries that it was trained on; and ``note``, a warning once it
    is fitted.
    """

    similarity: Any

    def fit(self, documents: Sequence[str]) -> Matrix:
        """Learn what has to be learnt from the documents, and return their rows, (N, K)."""

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Rows of other texts, (n, K), after ``fit``."""


class Encoder:
    """A model, or anything else that encodes each text by itself and learns nothing from the documents.

    ``encode`` gives n texts' vectors, (n, K) float32; ``table``, ``alpha`` and ``max_alpha``: see :class:`System`.
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
        """Fingerprints of the queries that its vectors were trained on."""
        return () if self.table is None else fingerprints_in(self.table.info)

    def fit(self, documents: Sequence[str]) -> Floats:
        """Vectors of the documents, (N, K)."""
        return self.queries(documents)


class Taught(Encoder):
    """Queries by an ``encoder`` that was taught to follow another model, which encodes the documents (``fit``)."""

    def __init__(self, fit: Callable[[Sequence[str]], Matrix], encoder: Encoder) -> None:
        super().__init__(encoder.queries, encoder.similarity, encoder.table, encoder.alpha, encoder.max_alpha)
        self._fit = fit

    def fit(self, documents: Sequence[str]) -> Matrix:
        """Vectors of the documents by the teacher, (N, K)."""
        return self._fit(documents)


def known_by(system: System, text: str) -> float:
    """:func:`resift.encoders.known_words.known_share` of a query and a fitted system; 1 if that has no table."""
    table = getattr(system, "table", None)
    if table is None:
        return 1.0
    alpha, max_alpha = weights_of(system)
    return known_share(table, text, adapted=max_alpha > alpha)


def weights_of(system: System) -> tuple[float, float]:
    """A fitted system's weights against BM25, without feedback and at most with it."""
    return getattr(system, "alpha", DEFAULT_ALPHA), getattr(system, "max_alpha", MAX_ALPHA)
