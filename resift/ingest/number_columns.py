"""Columns of tables that hold numbers, so that ranges, sorting and averages go by their size.

A table says of no cell what it is, and a search engine takes a field for what its first value is. So a column is one of
numbers only if each of its cells is one, for which all of it is read beforehand, and if no two cells that differ would
become one number: codes with leading zeros, and versions such as 1.1 and 1.10, stay texts.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from math import isfinite

from resift.errors import BadInput
from resift.ingest.encodings import plain_text
from resift.ingest.readers import TABLES, Columns, Files, Record, is_stream
from resift.ingest.rows import BadRow, delimiter_of, table_rows
from resift.contracts.engine import Engine
from resift.contracts.query_dsl import values_of

_LOOKED_AT = 200  # documents of an index
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})")  # of more digits not every program holds it exactly
_DECIMAL = re.compile(rf"{_WHOLE.pattern}\.(?P<places>[0-9]{{1,15}})")
_SCIENTIFIC = re.compile(r"-?[0-9](\.[0-9]+)?e[+-][0-9]{2,3}")  # as programs write it, unlike a code such as 1E5
_THOUSANDS = 3


class NumberColumns:
    """The columns of the tables among ``files`` that hold numbers alone; none where a table is a stream.

    Columns of the ids, and those in ``texts``, which are searched by their words, are left out. What is read here is
    read again by whoever iterates over the files, and what is wrong with them is for him to find. ``is_whole`` says
    whether all was read: if a stop was requested meanwhile, nobody knows what the rest holds.
    """

    def __init__(self, files: Files, texts: Collection[str]) -> None:
        tables = {path: format for path, format in zip(files.paths, files.formats, strict=True) if format in TABLES}
        self._files = {} if any(map(is_stream, tables)) else tables
        found: dict[str, _Column] = {}
        for path, format in self._files.items():
            for name, cell, delimiter in _cells(path, format, files):
                found.setdefault(name, _Column()).add(cell, delimiter)
        self.is_whole = not (self._files and files.stop.requested)
        left_out = {*texts, *_id_names(files.columns)}
        self._kinds: dict[str, type[int] | type[float]] = {
            name: float if column.places else int
            for name, column in found.items()
            if column.is_of_numbers() and name not in left_out
        }

    @property
    def names(self) -> list[str]:
        """The names of the columns, as documents have them."""
        return list(self._kinds)

    def fit_to(self, engine: Engine, index: str) -> list[str]:
        """Leave those columns as texts that are texts in an index: in one field all values should be of one kind.

        Returns the names of those with decimals whose values in the index are whole numbers.
        """
        if not self._kinds:
            return []
        hits = engine.sample(index, _LOOKED_AT, source=self.names).hits
        whole = []
        for name in self.names:
            kinds = {type(value) for hit in hits for value in values_of(hit.get("_source", {}), name)}
            if str in kinds:
                del self._kinds[name]
            elif kinds == {int} and self._kinds[name] is float:
                whole.append(name)
        return whole

    def convert(self, record: Record) -> None:
        """Make numbers of a record's cells in these columns, in its source."""
        if record.file not in self._files:
            return
        for name, kind in self._kinds.items():
            cell = record.source.get(name)
            # the file may have been changed since it was read for the first time
            if isinstance(cell, str) and _is_number(cell.strip()) and (kind is float or _WHOLE.fullmatch(cell.strip())):
                record.source[name] = kind(cell)


@dataclass
class _Column:
    """What the cells of a column are like; ``places`` are the numbers of digits behind a point that were seen."""

    are_numbers: bool = True
    is_padded: bool = False
    may_be_thousands: bool = False
    places: set[int] = field(default_factory=set)

    def add(self, cell: str, delimiter: str) -> None:
        """Count a cell in, of a table with this delimiter."""
        if not self.are_numbers or _WHOLE.fullmatch(cell):
            return
        if not _is_number(cell):
            self.are_numbers = False
            return
        decimal = _DECIMAL.fullmatch(cell)
        self.places.add(len(decimal["places"]) if decimal else 0)
        self.is_padded |= bool(decimal) and repr(float(cell)) != cell
        # where cells are separated by semicolons, as in countries with decimal commas, 1.234 may be a thousand and more
        self.may_be_thousands |= delimiter == ";"

    def is_of_numbers(self) -> bool:
        """Whether all cells are numbers, and as such as different as they are as texts.

        Those that are filled up with zeros are, if all have the same number of digits behind the point, as prices do.
        """
        if not self.are_numbers or (self.is_padded and len(self.places) > 1):
            return False
        return not (self.may_be_thousands and self.places == {_THOUSANDS})


def _is_number(cell: str) -> bool:
    written = _WHOLE.fullmatch(cell) or _DECIMAL.fullmatch(cell) or _SCIENTIFIC.fullmatch(cell)
    return bool(written) and isfinite(float(cell))


def _cells(path: str, format: str, files: Files) -> Iterator[tuple[str, str, str]]:
    """The name, the content and the table's delimiter of each cell that is not empty, as far as they can be read."""
    name_of = files.columns.name_of
    try:
        with open(path, "rb") as file:
            stream = plain_text(file, path)
            delimiter = delimiter_of(stream, TABLES[format])
            for _, row in table_rows(stream, delimiter):
                if files.stop.requested:
                    return
                if not isinstance(row, BadRow):
                    yield from ((name_of(name), cell.strip(), delimiter) for name, cell in row.items())
    except (BadInput, OSError, EOFError, zlib.error):
        return


def _id_names(columns: Columns) -> list[str]:
    return [columns.name_of(name) for name in ([columns.id] if columns.id else ["_id", "id"])]
