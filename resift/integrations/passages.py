"""Code that the retrievers of several frameworks share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from resift.library import Explanation, Hits, Session
from resift.query.dsl import document_text


@dataclass(frozen=True)
class Passage:
    """A hit in a form that all integrations can convert to their own documents.

    Attributes:
        id: The document's id.
        text: The text of the index's text fields.
        metadata: The document's other fields.
        score: The hit's score, or None if hits are sorted by a field.
    """

    id: str
    text: str
    metadata: dict[str, Any]
    score: float | None


def passages(session: Session, hits: Hits) -> Iterator[Passage]:
    """Yield the hits of a session's search as passages, best first."""
    fields = session.index.fields
    for hit in hits:
        metadata = {name: value for name, value in hit.source.items() if name not in fields}
        yield Passage(hit.id, document_text(hit.source, fields), metadata, hit.score)


class SessionMarking:
    """A mixin with the method :meth:`mark`, for retrievers that have a session."""

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
        """Mark documents, nodes or ids as relevant or irrelevant for a query, by default the session's last query.

        For the arguments and errors see :meth:`resift.library.Session.mark`.
        """
        return self.session.mark(relevant, irrelevant, query=query, scores=scores, explain=explain, **further)
