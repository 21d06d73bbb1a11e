"""The interface of the documents of a review."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

from resift.contracts.engine import Headers


class ReviewDocuments(ABC):
    """The documents of a review, ranked by how likely they are relevant.

    The texts can be in memory, or be loaded from the engine when they are needed.
    """

    @property
    @abstractmethod
    def total(self) -> int:
        """The number of documents, including documents that are not loaded."""

    @property
    @abstractmethod
    def memory_in_bytes(self) -> int:
        """The estimated number of bytes of memory that the loaded texts and the classifiers occupy."""

    @abstractmethod
    def existing_ids(self, ids: Collection[str]) -> set[str]:
        """Return the ids in ``ids`` that belong to documents of this set. Other ids are left out."""

    @abstractmethod
    def draw(self, count: int, excluded: Collection[str]) -> tuple[list[str], int]:
        """Draw random documents without replacement, including documents that are not loaded.

        Args:
            count: The number of documents to draw. Fewer are drawn if fewer are available.
            excluded: The ids of the documents that must not be drawn.

        Returns:
            The ids of the drawn documents, and the number of documents that could be drawn.
        """

    @abstractmethod
    def text(self, id: str) -> str:
        """Return the text of a document, one field per line, or "" if the document is not in this set.

        Args:
            id: The id of the document.
        """

    @abstractmethod
    def texts(self, ids: Sequence[str], headers: Headers = None) -> dict[str, str]:
        """Return the texts of documents, by id. Documents that do not belong to this set are left out.

        Args:
            ids: The ids of the documents.
            headers: The caller's HTTP headers. If the texts are read from the engine, documents that the caller may not
                read are left out.
        """

    @abstractmethod
    def ranked(self, labels: Mapping[str, bool], read: Collection[str] = ()) -> list[str]:
        """Return the ids of the documents that nobody has read yet, most likely relevant first.

        Until a document has been judged relevant, the hits of a search for the topic of the review come first.

        Args:
            labels: The judgements to learn from, with True for relevant documents.
            read: The ids of the documents to leave out because they have been read. ``labels`` can contain further
                documents, such as documents that only a model has judged.
        """

    @abstractmethod
    def reasons(self, id: str, labels: Mapping[str, bool], count: int) -> list[str]:
        """Return the words and pairs of words that contribute most to the score of a document.

        Args:
            id: The id of the document.
            labels: The judged documents, with True for relevant documents.
            count: The maximum number of words and pairs of words.

        Returns:
            The words and pairs of words, largest contribution first. Empty if no document has been judged relevant, or
            if the document is not in this set.
        """
