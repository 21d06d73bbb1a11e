"""What is measured: the System protocol, and any encoder as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from resift.arrays import Floats
from resift.vectors.table import WordVectors

if TYPE_CHECKING:
    from resift.evaluation.pairwise import Matrix

ALPHA = 0.3  # of a system's similarity in a mix with BM25, both z-scored, unless the system has its own
MAX_ALPHA = 0.6  # what that weight comes near to with feedback, unless the system has its own


class System(Protocol):
    """Turns texts into rows that ``similarity``, a name or a function of two sets of rows, compares.

    What has to be learnt is learnt from the documents, never from the queries. A system may also have ``table``, the
    word vectors behind it; ``alpha`` and ``max_alpha``, its weights against BM25 without and with much feedback;
    ``seen``, fingerprints of the queries that it was trained on; and ``note``, a warning once it is fitted.
    """

    similarity: Any

    def fit(self, documents: Sequence[str]) -> Matrix:
        """Learn what has to be learnt from the documents, and return their rows, (N, K)."""

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Rows of other texts, (n, K), after ``fit``."""


class Encoder:
    """A model, or anything else that encodes each text by itself and learns nothing from the documents.

    ``encode`` gives n texts' vectors, (n, K) float32; ``table`` and ``max_alpha``: see :class:`System`.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[str]], Floats],
        similarity: str = "cosine",
        table: WordVectors | None = None,
        max_alpha: float = MAX_ALPHA,
    ) -> None:
        self.queries, self.similarity, self.table, self.max_alpha = encode, similarity, table, max_alpha

    def fit(self, documents: Sequence[str]) -> Floats:
        """Vectors of the documents, (N, K)."""
        return self.queries(documents)
