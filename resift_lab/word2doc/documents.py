"""Documents with titles, which word2doc is trained on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from resift.ingest.readers import BadLine, Record

# Fields that are not part of a document's text.
_NOT_TEXT = ("id", "_id", "label")


@dataclass(frozen=True)
class TitledTexts:
    """Documents with titles: their ids, titles and bodies, in three lists of the same length.

    Attributes:
        ids: The ids of the documents.
        titles: The titles; an empty string for a document without a title.
        bodies: The bodies; an empty string for a document without any other text.
    """

    ids: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)


def read_titled_texts(records: Iterable[Record | BadLine], title: str = "title") -> TitledTexts:
    """Read documents, and separate the title of each document from its other texts.

    The body of a document consists of all its text fields except the title, ids and labels, joined by line breaks.

    Args:
        records: The documents that a reader of :mod:`resift.ingest.readers` returns. Invalid lines are skipped.
        title: The name of the field with the title.
    """
    documents = TitledTexts()
    for record in records:
        if not isinstance(record, Record):
            continue
        texts = {name: value for name, value in record.source.items() if isinstance(value, str)}
        documents.ids.append(record.id)
        documents.titles.append(texts.pop(title, ""))
        documents.bodies.append("\n".join(value for name, value in texts.items() if name not in _NOT_TEXT))
    return documents
