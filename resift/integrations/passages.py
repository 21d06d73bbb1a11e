"""What the retrievers of all frameworks do: hits as passages, and marks of whatever their frameworks made of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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


def mark(session: Session, id_name: str, marked: Mapping[str, Any], given: Mapping[str, Iterable[Any]]) -> Explanation:
    """Mark documents as :meth:`resift.library.Session.mark` does; ``given`` holds ids or a framework's documents.

    ``id_name`` is what these call their id, and ``marked`` is what else to hand on: ``query`` and ``scores``. What is
    no list or no id is handed on as it is, to be refused there.
    """
    ids: dict[str, Any] = {
        # a text would be taken apart into ids of one letter each
        name: [getattr(one, id_name, one) for one in listed] if _is_list(listed) else listed
        for name, listed in given.items()
    }
    return session.mark(**ids, **marked)


def _is_list(listed: Any) -> bool:
    return isinstance(listed, Iterable) and not isinstance(listed, str)
