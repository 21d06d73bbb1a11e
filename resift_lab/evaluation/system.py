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

MAX_ALPHA = ADAPTED_MAX_ALPHA  # for systems without an attribute max_alpha


class System(Protocol):
    """The interface of a retrieval system, which converts texts to vectors and compares the vectors by a similarity.

    A system learns from the documents only, never from the queries. It may have these optional attributes:

    - ``table``: its word vectors.
    - ``alpha`` and ``max_alpha``: the weights of its similarity relative to BM25, without feedback and with much
      feedback.
    - ``training_fingerprints``: fingerprints (short hashes) of the queries that it was trained on.
    - ``note``: a warning for the user, which ``fit`` sets.

    Attributes:
        similarity: Name of a similarity, or a function that compares two matrices of vectors.
    """

    similarity: Any

    def fit(self, documents: Sequence[str]) -> Matrix:
        """Learn from the documents, and return their vectors.

        Args:
            documents: The texts of the N documents.

        Returns:
            The vectors of the documents, shape (N, K) for K dimensions.
        """

    def encode_queries(self, texts: Sequence[str]) -> Matrix:
        """Return vectors of queries, which can be compared with those of the documents. Call :meth:`fit` first.

        Args:
            texts: The n queries.

        Returns:
            The vectors of the queries, shape (n, K) for K dimensions.
        """


class Encoder:
    """A retrieval system that encodes each text independently and learns nothing from the documents.

    Args:
        encode: A function that returns the vectors of n texts, shape (n, K) for K dimensions, float32.
        similarity: Name of the similarity, such as ``cosine``.
        table: The word vectors that the encoder uses, or None if it does not use word vectors.
        alpha: Weight of the similarity relative to BM25 in a search without feedback, 0 to 1.
        max_alpha: The largest weight, which is approached as a user judges more documents, 0 to 1.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[str]], Floats],
        similarity: str = "cosine",
        table: WordVectors | None = None,
        alpha: float = DEFAULT_ALPHA,
        max_alpha: float = MAX_ALPHA,
    ) -> None:
        self.encode_queries, self.similarity, self.table = encode, similarity, table
        self.alpha, self.max_alpha = alpha, max_alpha

    @property
    def training_fingerprints(self) -> Sequence[str]:
        """Fingerprints (short hashes) of the queries that the word vectors were trained on, if there are any."""
        return () if self.table is None else fingerprints_in(self.table.info)

    def fit(self, documents: Sequence[str]) -> Floats:
        """Return the vectors of the documents to search.

        The encoder is already trained, so nothing is fitted. The method exists because each system has a method
        ``fit``.

        Args:
            documents: The texts of the N documents.

        Returns:
            Vectors of shape (N, K) for K dimensions, float32.
        """
        return self.encode_queries(documents)


class TeacherAndStudent(Encoder):
    """A retrieval system of two models: a small student encodes the queries, and a large teacher the documents.

    Args:
        fit: A function that encodes documents with the teacher.
        encoder: The student, which was trained to encode queries like the teacher.
    """

    def __init__(self, fit: Callable[[Sequence[str]], Matrix], encoder: Encoder) -> None:
        super().__init__(encoder.encode_queries, encoder.similarity, encoder.table, encoder.alpha, encoder.max_alpha)
        self._fit = fit

    def fit(self, documents: Sequence[str]) -> Matrix:
        """Encode the documents to search with the teacher.

        Args:
            documents: The texts of the N documents.

        Returns:
            Vectors of shape (N, K) for K dimensions.
        """
        return self._fit(documents)


def known_word_share(system: System, text: str) -> float:
    """Return the share of a query's words for which a system has word vectors.

    Args:
        system: The system, after ``fit``.
        text: The text of the query.

    Returns:
        A number from 0 to 1. It is 1 if the system does not use word vectors.
    """
    table = getattr(system, "table", None)
    if table is None:
        return 1.0
    alpha, max_alpha = similarity_weights(system)
    return known_share(table, text, adapted=max_alpha > alpha)


def similarity_weights(system: System) -> tuple[float, float]:
    """Return how strongly the vector similarity of a system counts relative to BM25, as two weights from 0 to 1.

    With weight 0, only BM25 determines the ranking. With weight 1, the similarity dominates it.

    Args:
        system: The system, after ``fit``.

    Returns:
        The weight in a search without feedback, and the largest weight, which is approached as a user judges more
        documents.
    """
    return getattr(system, "alpha", DEFAULT_ALPHA), getattr(system, "max_alpha", MAX_ALPHA)
