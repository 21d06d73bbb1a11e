"""Read documents from Python objects that contain rows, such as data frames and Arrow tables, and from Parquet files.

The libraries of these objects are not imported, because the caller has already imported them. Only reading Parquet
files imports pyarrow (see :mod:`resift.ingest.parquet`).
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
from resift.ingest.parquet import parquet_rows
from resift.ingest.readers import BadLine, Files, Record, record_of
from resift.notebook import NotebookText

_EXPECTED = "dictionaries, dataclasses, a pandas or polars frame, an Arrow table, a data set or a file's path"
_BATCH_ROWS = 1000  # number of table rows that are converted to Python objects at a time
_METHODS = ("_asdict", "model_dump", "to_dict")  # of named tuples, Pydantic models and pandas rows
_MISSING = ("NAType", "NaTType")  # type names of pandas' missing values, so that pandas is not imported
_CONVERTED: list[tuple[Any, Any]] = [
    ((date, time), lambda value: value.isoformat()),
    ((UUID, PurePath, str), str),
    (int, int),
    ((Decimal, float), float),
]
# Advice for values of documents that JSON cannot represent, by their kind.
_VALUE_ADVICE = {"a bytes": "decode it to a text"} | dict.fromkeys(("nan", "inf", "-inf"), "omit it or use None")
# Advice for objects that are not documents, by their type.
_TYPE_ADVICE = {
    "LazyFrame": "documents.collect()",
    "Series": "a frame or a list of dictionaries, such as documents.to_frame()",
    "DatasetDict": "one split, such as documents['train']",
    "IterableDatasetDict": "one split, such as documents['train']",
}


def rows_in(documents: Any) -> Iterable[Any]:
    """Return the rows of a table or another collection of documents. Each row of a table becomes a mapping.

    Missing cells of a pandas DataFrame are left out, like empty cells of a CSV file. If the index of a DataFrame has a
    name, and there is no column ``_id``, the index contains the document ids.

    Args:
        documents: A data frame, Arrow table, data set, path of a Parquet file, or any iterable of documents.

    Raises:
        BadInput: If ``documents`` is not a collection of rows. The message lists the supported types.
    """
    kind = type(documents).__name__
    if kind in _TYPE_ADVICE:
        raise BadInput(f"documents is a {kind}", value=kind, expected=_TYPE_ADVICE[kind])
    if isinstance(documents, PurePath):
        return (
            parquet_rows(documents, _check_columns)
            if documents.suffix in (".parquet", ".pq")
            else Files([str(documents)])
        )
    if hasattr(documents, "iterrows") and hasattr(documents, "reset_index"):
        return _pandas_rows(documents)
    if hasattr(documents, "iter_rows") and hasattr(documents, "columns"):
        rows: Iterable[Any] = documents.iter_rows(named=True)
        return rows
    if hasattr(documents, "to_batches") or hasattr(documents, "__arrow_c_stream__"):
        return _arrow_rows(documents)
    if hasattr(documents, "to_pylist"):  # a record batch
        return list(documents.to_pylist())
    if isinstance(documents, (str, bytes, Mapping, type)) or not isinstance(documents, Iterable):
        hint = "pathlib.Path(documents) if it names a file" if isinstance(documents, str) else _EXPECTED
        expected = "[documents]" if isinstance(documents, Mapping) else hint
        raise BadInput(f"documents is a {kind}", value=documents, expected=expected)
    return documents


def _arrow_rows(table: Any) -> Iterator[Any]:
    """Yield the rows of an Arrow table or an Arrow stream as dictionaries, by column name.

    Raises:
        BadInput: If a column name is invalid, or if pyarrow, which a stream needs, is not installed.
    """
    if hasattr(table, "to_batches"):
        batches = table.to_batches()
    else:
        try:
            from pyarrow import RecordBatchReader
        except ImportError:
            raise BadInput("an Arrow stream needs pyarrow", value=table, expected="pip install pyarrow") from None
        batches = RecordBatchReader.from_stream(table)
    for batch in batches:
        _check_columns(batch.schema.names)
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield from batch.slice(start, _BATCH_ROWS).to_pylist()


def _pandas_rows(frame: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a pandas DataFrame as dictionaries, as described at :func:`rows_in`.

    Raises:
        BadInput: If a column name or the index is invalid.
    """
    index = frame.index
    named = [name for name in index.names if name is not None]
    if named and index.nlevels > 1:
        message = f"the frame's index has the levels {list(index.names)}, but an id is a single value"
        raise BadInput(message, value=list(index.names), expected="documents.reset_index(), or a single-level index")
    if named and not index.is_unique:
        repeated = index[index.duplicated()][0]
        message = f"the frame's index {named[0]!r} contains the document id {repeated!r} more than once"
        raise BadInput(message, value=repeated, expected="documents.reset_index(), or an index with unique values")
    _check_columns([*frame.columns])
    for start in range(0, len(frame), _BATCH_ROWS):
        chunk = frame.iloc[start : start + _BATCH_ROWS]
        for key, row in zip(chunk.index, chunk.to_dict("records"), strict=True):
            present = {name: value for name, value in row.items() if not _is_missing(value)}
            yield {**({"_id": key, named[0]: key} if named else {}), **present}


def _check_columns(names: list[Any]) -> None:
    """Raise BadInput if a column name of a table is not a string, or if two columns have the same name."""
    for name in names:
        if not isinstance(name, str):
            raise BadInput(f"a column has the name {name!r}", value=name, expected="strings as column names")
        if names.count(name) > 1:
            raise BadInput(f"two columns have the name {name!r}", value=name, expected="different column names")


def _is_missing(value: Any) -> bool:
    """Return whether a cell of a pandas DataFrame is empty: None, NaN, or a missing value of pandas or NumPy."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return value is None or type(value).__name__ in _MISSING or (isinstance(value, float) and value != value)


def to_mapping(document: Any) -> dict[str, Any] | None:
    """Convert a document to a dictionary of JSON values. Return None if the object is not a document.

    Args:
        document: A dictionary, dataclass, named tuple, Pydantic model or row of a table.

    Raises:
        TypeError: If JSON cannot represent a value. The message names the field.
    """
    if isinstance(document, Mapping):
        mapping: Any = document
    elif is_dataclass(document) and not isinstance(document, type):
        mapping = {field.name: getattr(document, field.name) for field in fields(document)}
    elif method := next((name for name in _METHODS if hasattr(document, name)), None):
        mapping = getattr(document, method)()
    else:
        return None
    return {name: _to_json(value, str(name)) for name, value in mapping.items()}


def _to_json(value: Any, name: str) -> Any:
    """Convert the value of a field to a JSON value.

    Dates become strings in ISO 8601 format, decimals become floats, arrays become lists, and missing values become
    None.

    Args:
        value: The value of a field, as the caller's library represents it.
        name: The name of the field, for error messages.

    Raises:
        TypeError: If JSON cannot represent the value.
    """
    if value is None or type(value) in (str, int, bool) or (type(value) is float and isfinite(value)):
        return value
    if isinstance(value, (list, tuple)) and not hasattr(value, "_asdict"):
        return [_to_json(item, name) for item in value]
    if isinstance(value, Mapping):
        return {key: _to_json(item, f"{name}.{key}") for key, item in value.items()}
    if type(value).__name__ in _MISSING:
        return None
    if (unwrapped := _unwrap(value)) is not value:
        return _to_json(unwrapped, name)
    if (inner := to_mapping(value)) is not None:
        return inner
    kind = str(value) if type(value) is float else f"a {type(value).__name__}"
    advice = _VALUE_ADVICE.get(kind, "expected a text, number, date, list or object")
    raise TypeError(f"field {name!r} contains {kind}, which JSON cannot represent: {advice}")


def _unwrap(value: Any) -> Any:
    """Convert an enumeration member, NumPy or torch object, date, UUID or decimal to a plain Python value.

    Any other value is returned unchanged.
    """
    if isinstance(value, Enum):
        return value.value
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind != "m" and hasattr(value, "tolist"):
        # tolist() would convert nanoseconds to integers, because datetime only supports microseconds.
        return (value.astype("M8[us]") if kind == "M" else value).tolist()
    for types, convert in _CONVERTED:
        if isinstance(value, types) and type(value) is not float:
            return convert(value)
    return value


def records_of(documents: Iterable[Any]) -> Iterator[Record | BadLine]:
    """Convert Python objects to records, with line numbers from 1, as if they were lines of a file.

    Args:
        documents: Dictionaries, dataclasses or other documents. An object that is not a valid document yields a
            BadLine.
    """
    for line, document in enumerate(documents, 1):
        if isinstance(document, (Record, BadLine)):  # read from a file
            yield document
            continue
        reason, shown = f"{type(document).__name__}, expected a dictionary", repr
        try:
            if (row := to_mapping(document)) is not None:
                yield record_of("documents", line, row)
                continue
        except TypeError as error:
            reason = str(error)
        except RecursionError:
            reason, shown = "not JSON: nested too deeply, or within itself", reprlib.repr
        except ValueError as error:  # the document's hash, which serves as its id, requires valid JSON
            reason = f"not JSON: {error}"
        yield BadLine("documents", line, shown(document), reason)


@dataclass(frozen=True)
class Refused:
    """A document that could not be indexed.

    Attributes:
        position: The position of the document in the input, counted from 0.
        status: The HTTP status of the engine's response, or 400 if the document is invalid.
        reason: The reason why the document was refused.
        document: The document as a dictionary, or its text if it is not a valid document.
    """

    position: int
    status: int
    reason: str
    document: Any


@dataclass
class Added(NotebookText):
    """The result of adding documents to an index.

    Attributes:
        indexed: The number of documents that were indexed.
        refused: The documents that could not be indexed, with the reasons.
    """

    indexed: int = 0
    refused: list[Refused] = field(default_factory=list)


class Refusals(DeadLetters):
    """A list in memory of the documents that could not be indexed. It replaces a dead-letter file."""

    def __init__(self) -> None:
        self.path, self.failure = Path(), None
        self.refused: list[Refused] = []

    def close(self) -> None:
        """Do nothing."""

    def add(self, record: Record | BadLine, status: int, reason: str, document: Any) -> None:
        """Add a refused document to the list.

        Args:
            record: The record or invalid line that contains the document.
            status: The HTTP status of the engine's response, or 400 for an invalid line.
            reason: The reason why the document was refused.
            document: The document as a dictionary with ``_id``, or the text of an invalid line.
        """
        self.refused.append(Refused(record.line - 1, status, reason, document))
