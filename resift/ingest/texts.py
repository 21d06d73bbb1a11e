"""What trainings and encoders take from files: the documents' texts alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from resift.contracts.query_dsl import document_text
from resift.ingest.readers import BadLine, Record

_NOT_TEXT = ("id", "_id", "label")


def texts_of(records: Iterable[Record | BadLine], fields: Sequence[str]) -> Iterator[str]:
    """The text of each document, its ``fields`` joined as for indexing; lines that hold no document are left out."""
    return (document_text(record.source, fields) for record in records if isinstance(record, Record))


@dataclass(frozen=True)
class TitledTexts:
    """Documents as three lists of one length; a document without a title or a body has an empty one."""

    ids: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)


def titled_texts(records: Iterable[Record | BadLine], title: str = "title") -> TitledTexts:
    """Documents with their title apart from the rest.

    Args:
        records: documents as the readers give them; lines that hold no document are left out.
        title: the field of the title. A body is all other fields that are texts, a line each, but for ids and labels.
    """
    found = TitledTexts()
    for document in (record for record in records if isinstance(record, Record)):
        texts = {name: value for name, value in document.source.items() if isinstance(value, str)}
        found.ids.append(document.id)
        found.titles.append(texts.pop(title, ""))
        found.bodies.append("\n".join(value for name, value in texts.items() if name not in _NOT_TEXT))
    return found
