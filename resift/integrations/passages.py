"""What the retrievers of all frameworks do: hits as passages, and marks of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from resift.library import Explanation, Hits, Session
from resift.query.dsl import document_text


@dataclass(frozen=True)
class Passage:
    """A hit: its id, the text of the fields that are searched, its other fields, and its score."""

    id: str
    text: str
    metadata: dict[str, Any]
    score: float | None


def passages(session: Session, hits: Hits) -> Iterator[Passage]:
    """The hits of a session's search as passages, best first."""
    fields = session.index.fields
    for hit in hits:
        metadata = {name: value for name, value in hit.source.items() if name not in fields}
        yield Passage(hit.id, document_text(hit.source, fields), metadata, hit.score)


class SessionMarking:
    """Marks by a retriever that has a ``session``."""

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
        """Mark documents, nodes or ids for a query, by default the last one.

        All arguments are those of :meth:`resift.library.Session.mark`, which also documents the errors.
        """
        return self.session.mark(relevant, irrelevant, query=query, scores=scores, explain=explain, **further)
