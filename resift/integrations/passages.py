"""What the retrievers of all frameworks do: hits as passages, and marks of whatever their frameworks made of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from resift.contracts.query_dsl import document_text
from resift.library import Explanation, Hits, Session


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


class Marking:
    """What a retriever of a framework marks: its documents, or ids."""

    _id_name: ClassVar[str] = "id"  # what the framework's documents call their id

    def _mark(self, asker: Session, query: str | None, scores: Mapping[str, float] | None, **given: Any) -> Explanation:
        """Mark documents as :meth:`resift.library.Session.mark` does, which refuses what is no list or no id."""
        ids: dict[str, Any] = {
            # a text would be taken apart into ids of one letter each
            name: [getattr(one, self._id_name, one) for one in listed] if _is_list(listed) else listed
            for name, listed in given.items()
        }
        return asker.mark(**ids, query=query, scores=scores)


class SessionMarking(Marking):
    """The same for a retriever that has a ``session``."""

    session: Session

    def mark(
        self,
        relevant: Iterable[Any] = (),
        irrelevant: Iterable[Any] = (),
        query: str | None = None,
        scores: Mapping[str, float] | None = None,
        **further: Iterable[Any],
    ) -> Explanation:
        """Mark documents or nodes, or their ids, for the query that was asked last or for ``query``; later searches
        follow.

        ``scores`` and ``further`` (``clicked``, ``skipped``, ``neutral``) are those of
        :meth:`resift.library.Session.mark`, and so are the errors.
        """
        return self._mark(self.session, query, scores, relevant=relevant, irrelevant=irrelevant, **further)


def _is_list(listed: Any) -> bool:
    return isinstance(listed, Iterable) and not isinstance(listed, str)
