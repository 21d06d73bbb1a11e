"""Documents that a Python program holds: as records to index, and back to it where they were refused."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resift.ingest.dead_letters import DeadLetters
from resift.ingest.readers import BadLine, Record, record_of
from resift.ingest.tables import mapping_of


@dataclass(frozen=True)
class Refused:
    """A document that was not indexed, and why.

    ``position`` is its place among the documents that were given, from 0, ``status`` an HTTP status, and ``document``
    what was refused: as text, where it is no dictionary or its id could not be told.
    """

    position: int
    status: int
    reason: str
    document: Any


class Refusals(DeadLetters):
    """Refused documents in memory, in place of a file: the program still has them and decides."""

    def __init__(self) -> None:
        self.path, self.failure = Path(), None
        self.refused: list[Refused] = []

    def close(self) -> None:
        """Nothing is open."""

    def add(self, record: Record | BadLine, status: int, reason: str, document: Any) -> None:
        self.refused.append(Refused(record.line - 1, status, reason, document))


def records_of(documents: Iterable[Any]) -> Iterator[Record | BadLine]:
    """The records of rows, as ``resift index`` reads them from the lines of a file, numbered from 1."""
    for line, document in enumerate(documents, 1):
        if isinstance(document, (Record, BadLine)):  # of a file
            yield document
            continue
        reason, shown = f"{type(document).__name__}, expected a dictionary", repr
        try:
            if (row := mapping_of(document)) is not None:
                yield record_of("documents", line, row)
                continue
        except TypeError as error:
            reason = str(error)
        except RecursionError:
            reason, shown = "not JSON: nested too deeply, or within itself", reprlib.repr
        except ValueError as error:  # the hash that names it needs what JSON can hold
            reason = f"not JSON: {error}"
        yield BadLine("documents", line, shown(document), reason)
