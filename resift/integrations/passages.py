"""Code that the retrievers of several frameworks share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from resift.library import Explanation, Hits, Session


@dataclass(frozen=True)
class Passage:
    """A search hit, in a form that each integration converts to its framework's documents.

    Attributes:
        id: The id of the document.
        text: The text of the document, from the text fields of its index.
        metadata: The other fields of the document.
        score: The score of the hit, or None if hits are sorted by a field.
    """

    id: str
    text: str
    metadata: dict[str, Any]
    score: float | None


def passages(session: Session, hits: Hits) -> Iterator[Passage]:
    """Convert search hits to passages, which the retriever of a framework converts to its own documents.

    Args:
        session: The session in which the search ran.
        hits: The hits of the search, best first.
    """
    fields = session.index.fields
    for hit in hits:
        metadata = {name: value for name, value in hit.source.items() if name not in fields}
        yield Passage(hit.id, session.index.text_of(hit.source), metadata, hit.score)


class SessionMarking:
    """A mixin for retrievers with a search session. It adds the method :meth:`mark` for relevance feedback."""

    session: Session

    def mark(
        self,
        relevant: Iterable[Any] = (),
        irrelevant: Iterable[Any] = (),
        query: str | None = None,
        scores: Mapping[str, float] | None = None,
        explain: bool = False,
        **further: Iterable[Any],
    ) -> Explanation:
        """Mark documents as relevant or irrelevant for a query.

        Later searches of the session rank similar documents higher or lower.

        Args:
            relevant: The relevant documents, nodes or ids.
            irrelevant: The irrelevant documents, nodes or ids.
            query: The query for which the documents are marked. By default, the session's last query.
            scores: Relevance scores of a model by document id, from -1 (irrelevant) to 1 (relevant).
            explain: Whether the result should explain what was learned from the marks.
            **further: Documents with other kinds of marks, such as ``clicked``.

        Returns:
            The session's id, times and number of steps. With ``explain``, also its judgements and a summary of what was
            learned.
        """
        return self.session.mark(relevant, irrelevant, query=query, scores=scores, explain=explain, **further)
