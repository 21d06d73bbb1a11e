"""Read documents from Parquet files in bounded memory.

A Parquet file of a kilobyte can contain terabytes: a text that is stored once may occur in any number of rows. Texts
therefore stay in Arrow's dictionary encoding until the size of the rows is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from resift.errors import BadInput
from resift.ingest.readers import BadLine
from resift.ingest.rows import MAX_LINE

_BATCH_ROWS = 500  # maximum number of rows that are decoded at a time
_BATCH_BYTES = 64 * 2**20  # maximum size of the rows that are decoded at a time, according to the file's metadata
_VALUE_BYTES = 50  # memory of a value as a Python object, in addition to its characters


def parquet_rows(path: PurePath, check_columns: Callable[[list[Any]], None]) -> Iterator[Any]:
    """Yield the rows of a Parquet file as dictionaries. A row of more than MAX_LINE bytes becomes a BadLine.

    Args:
        path: The path of the file.
        check_columns: A function that raises BadInput if the names of the columns are invalid.

    Raises:
        BadInput: If pyarrow is not installed, or the file cannot be read.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise BadInput(f"{path} needs pyarrow", value=str(path), expected="pip install pyarrow") from None
    line = 0
    try:
        with ParquetFile(path) as file:
            check_columns(file.schema_arrow.names)
            leaves = [file.schema.column(number) for number in range(len(file.schema))]
            texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
            size = _rows_per_batch(file.metadata)
        with ParquetFile(path, read_dictionary=texts) as file:
            for batch in file.iter_batches(size):
                parts = [batch]
                if _size_as_objects(batch.to_struct_array()) > MAX_LINE:
                    parts = [batch.slice(row, 1) for row in range(len(batch))]
                for part in parts:
                    if len(part) == 1 and _size_as_objects(part.to_struct_array()) > MAX_LINE:
                        yield BadLine(str(path), line + 1, "", f"the row has more than {MAX_LINE} bytes")
                    else:
                        yield from part.to_pylist()
                    line += len(part)
    except (OSError, ArrowException) as error:
        raise BadInput(f"{path} cannot be read: {error}", value=str(path), expected="a Parquet file") from error


def _rows_per_batch(metadata: Any) -> int:
    """Return how many rows of a Parquet file to decode at a time, so that they fit into memory.

    Args:
        metadata: The metadata of the file, from pyarrow. They contain the sizes of the row groups.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    largest = max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=0)
    return max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / max(1, largest))))


def _size_as_objects(array: Any) -> int:
    """Estimate the memory, in bytes, that the values of an Arrow array need as Python objects."""
    from pyarrow import compute, types

    kind, size = array.type, _VALUE_BYTES * len(array)
    if types.is_dictionary(kind):
        lengths = compute.binary_length(array.dictionary) if _is_text(kind.value_type) else None
        return size + (0 if lengths is None else compute.sum(lengths.take(array.indices)).as_py() or 0)
    if types.is_nested(kind):
        children = array.flatten()
        return size + (sum(map(_size_as_objects, children)) if types.is_struct(kind) else _size_as_objects(children))
    return size + (compute.sum(compute.binary_length(array)).as_py() or 0 if _is_text(kind) else 0)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary))
