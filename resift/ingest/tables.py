"""Documents of whatever holds rows in Python: data frames, Arrow tables, Parquet and other files, data sets, objects;
and back to the program where they were refused.

None of those libraries is imported unless it is already the caller's or, for Parquet, needed to read the file.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

import numpy as np

from resift.errors import BadInput
from resift.ingest.dead_letters import DeadLetters
from resift.ingest.readers import BadLine, Files, Record, record_of
from resift.notebook import Shown

_EXPECTED = "dictionaries, dataclasses, a pandas or polars frame, an Arrow table, a data set or a file's path"
_ROWS = 1000  # of a table that are Python objects at a time
_METHODS = ("_asdict", "model_dump", "to_dict")  # of named tuples, Pydantic's models and pandas' rows
_MISSING = ("NAType", "NaTType")  # pandas' values for nothing, told by name so that pandas need not be imported
_CONVERTED: list[tuple[Any, Any]] = [
    ((date, time), lambda value: value.isoformat()),
    ((UUID, PurePath, str), str),
    (int, int),
    ((Decimal, float), float),
]
_ADVICE_ON = {"a bytes": "decode it to a text"} | dict.fromkeys(("nan", "inf", "-inf"), "leave it out, or give None")
_ADVICE = {
    "LazyFrame": "documents.collect()",
    "Series": "a frame or a list of dictionaries, such as documents.to_frame()",
    "DatasetDict": "one split, such as documents['train']",
    "IterableDatasetDict": "one split, such as documents['train']",
}


def rows_in(documents: Any) -> Iterable[Any]:
    """The rows of ``documents``, one after another, each a mapping wherever it is one of a table.

    A pandas frame's cells that are missing are left out, as empty cells of CSV files are, and its index, where it has a
    name, is the id unless there is a column ``_id``. Raises BadInput, which says what to do, for what holds no rows.
    """
    kind = type(documents).__name__
    if kind in _ADVICE:
        raise BadInput(f"documents is a {kind}", value=kind, expected=_ADVICE[kind])
    if isinstance(documents, PurePath):
        return _parquet(documents) if documents.suffix in (".parquet", ".pq") else Files([str(documents)])
    if hasattr(documents, "iterrows") and hasattr(documents, "reset_index"):
        return _pandas(documents)
    if hasattr(documents, "iter_rows") and hasattr(documents, "columns"):
        rows: Iterable[Any] = documents.iter_rows(named=True)
        return rows
    if hasattr(documents, "to_batches") or hasattr(documents, "__arrow_c_stream__"):
        return _arrow(documents)
    if hasattr(documents, "to_pylist"):  # a record batch
        return list(documents.to_pylist())
    if isinstance(documents, (str, bytes, Mapping, type)) or not isinstance(documents, Iterable):
        hint = "pathlib.Path(documents) if it names a file" if isinstance(documents, str) else _EXPECTED
        expected = "[documents]" if isinstance(documents, Mapping) else hint
        raise BadInput(f"documents is a {kind}", value=documents, expected=expected)
    return documents


def _parquet(path: PurePath) -> Iterator[Any]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise BadInput(f"{path} needs pyarrow", value=str(path), expected="pip install pyarrow") from None
    try:
        with ParquetFile(path) as file:
            yield from _distinct(file.schema_arrow.names)
            for batch in file.iter_batches(_ROWS):
                yield from batch.to_pylist()
    except (OSError, ArrowException) as error:
        raise BadInput(f"{path} cannot be read: {error}", value=str(path), expected="a Parquet file") from error


def _arrow(table: Any) -> Iterator[Any]:
    if hasattr(table, "to_batches"):
        batches = table.to_batches()
    else:
        try:
            from pyarrow import RecordBatchReader
        except ImportError:
            raise BadInput("an Arrow stream needs pyarrow", value=table, expected="pip install pyarrow") from None
        batches = RecordBatchReader.from_stream(table)
    for batch in batches:
        yield from _distinct(batch.schema.names)
        for start in range(0, batch.num_rows, _ROWS):
            yield from batch.slice(start, _ROWS).to_pylist()


def _pandas(frame: Any) -> Iterator[dict[str, Any]]:
    index = frame.index
    named = [name for name in index.names if name is not None]
    if named and index.nlevels > 1:
        message = f"the frame's index has the levels {list(index.names)}, and an id is one value"
        raise BadInput(message, value=list(index.names), expected="documents.reset_index(), or an index of one level")
    if named and not index.is_unique:
        twice = index[index.duplicated()][0]
        message = f"the frame's index {named[0]!r} is the documents' id and holds {twice!r} more than once"
        raise BadInput(message, value=twice, expected="documents.reset_index(), or an index whose values differ")
    columns = [*frame.columns]
    _distinct(columns)
    for start in range(0, len(frame), _ROWS):
        part = frame.iloc[start : start + _ROWS]
        for key, row in zip(part.index, part.to_dict("records"), strict=True):
            present = {name: value for name, value in row.items() if not _is_missing(value)}
            yield {**({"_id": key, named[0]: key} if named else {}), **present}


def _distinct(names: list[Any]) -> tuple[()]:
    """Nothing; raises BadInput unless a table's columns have names, and each its own."""
    for name in names:
        if not isinstance(name, str):
            raise BadInput(f"a column is called {name!r}", value=name, expected="texts as the names of columns")
        if names.count(name) > 1:
            raise BadInput(f"two columns are called {name!r}", value=name, expected="another name for each column")
    return ()


def _is_missing(value: Any) -> bool:
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return value is None or type(value).__name__ in _MISSING or (isinstance(value, float) and value != value)


def mapping_of(document: Any) -> dict[str, Any] | None:
    """The fields of a dictionary, a dataclass, a named tuple, a Pydantic model or a row, as JSON has them; or None.

    Raises TypeError, which names the field, for a value that JSON has nothing for.
    """
    if isinstance(document, Mapping):
        found: Any = document
    elif is_dataclass(document) and not isinstance(document, type):
        found = {one.name: getattr(document, one.name) for one in fields(document)}
    elif method := next((name for name in _METHODS if hasattr(document, name)), None):
        found = getattr(document, method)()
    else:
        return None
    return {name: _plain(value, str(name)) for name, value in found.items()}


def _plain(value: Any, name: str) -> Any:
    """A field's value as JSON has it: dates in ISO 8601, decimals as floats, arrays as lists, missing ones as null."""
    if value is None or type(value) in (str, int, bool) or (type(value) is float and isfinite(value)):
        return value
    if isinstance(value, (list, tuple)) and not hasattr(value, "_asdict"):
        return [_plain(one, name) for one in value]
    if isinstance(value, Mapping):
        return {key: _plain(one, f"{name}.{key}") for key, one in value.items()}
    if type(value).__name__ in _MISSING:
        return None
    if (held := _held(value)) is not value:
        return _plain(held, name)
    if (inner := mapping_of(value)) is not None:
        return inner
    kind = str(value) if type(value) is float else f"a {type(value).__name__}"
    told = _ADVICE_ON.get(kind, "expected a text, number, date, list or object")
    raise TypeError(f"field {name!r} holds {kind}, which is not JSON: {told}")


def _held(value: Any) -> Any:
    """What an enumeration's member, a scalar or an array of numpy or torch, a date, an id or a decimal number holds;
    any other value itself."""
    if isinstance(value, Enum):
        return value.value
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind != "m" and hasattr(value, "tolist"):
        # nanoseconds, which datetime does not have, would come as numbers
        return (value.astype("M8[us]") if kind == "M" else value).tolist()
    for types, convert in _CONVERTED:
        if isinstance(value, types) and type(value) is not float:
            return convert(value)
    return value


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


@dataclass
class Added(Shown):
    """What became of added documents: how many are in the index, and those that were refused, each with its reason."""

    indexed: int = 0
    refused: list[Refused] = field(default_factory=list)


class Refusals(DeadLetters):
    """Refused documents in memory, in place of a file: the program still has them and decides."""

    def __init__(self) -> None:
        self.path, self.failure = Path(), None
        self.refused: list[Refused] = []

    def close(self) -> None:
        """Nothing is open."""

    def add(self, record: Record | BadLine, status: int, reason: str, document: Any) -> None:
        self.refused.append(Refused(record.line - 1, status, reason, document))
