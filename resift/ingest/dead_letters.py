"""Write documents that an engine refused to a file (a dead-letter file), with the reasons."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from resift.errors import BadInput
from resift.files import create_private
from resift.ingest.readers import BadLine, Record


class DeadLetters:
    """A dead-letter file: a file of documents that could not be indexed, with the reasons.

    Each line is a JSON object with the keys ``file``, ``line``, ``status``, ``reason`` and ``document``. After the
    documents have been corrected, the file can be passed to ``resift index`` again.

    The file is created when the first entry is written. Only its owner may read it. An existing file is never
    overwritten; a number is inserted into the name of the new file instead.

    If writing to the file fails, for example because the disk is full, this entry and all further entries are printed
    to standard error. The file never contains an incomplete entry.

    Args:
        path: The path of the file.

    Attributes:
        path: The path of the file. It contains a number if a file existed at the original path.
        failure: The reason why writing to the file failed, or None if no write has failed.

    Raises:
        BadInput: If no file can be created at ``path``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure: OSError | None = None
        self._file: TextIO | None = None
        self._check_writable()

    def add(self, record: Record | BadLine, status: int, reason: str, document: Any) -> None:
        """Write a refused document to the file, or to standard error if the file cannot be written.

        Args:
            record: The record or invalid line. It contains the name of the file and the line number.
            status: The HTTP status of the engine's response, or 400 for an invalid line.
            reason: The reason why the document was refused.
            document: The document as a dictionary with ``_id``, or the text of an invalid line.
        """
        entry = {"file": record.file, "line": record.line, "status": status, "reason": reason, "document": document}
        if self.failure is None:
            try:
                self._append(_encode_entry(entry))
                return
            except OSError as error:
                self.failure = error
        # Write ASCII, because the encoding of the terminal is unknown.
        sys.stderr.write(json.dumps(entry) + "\n")

    def _append(self, line: bytes) -> None:
        """Append a line to the file of refused documents. If the disk is full, no part of the line is written.

        Args:
            line: The encoded line.

        Raises:
            OSError: If the line cannot be written.
        """
        if self._file is None:
            self.path, self._file = _create_numbered_file(self.path)
        descriptor = self._file.fileno()
        end = os.fstat(descriptor).st_size
        try:
            remaining = memoryview(line)
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]
        except OSError:
            os.ftruncate(descriptor, end)  # an incomplete line would be unreadable
            os.lseek(descriptor, end, os.SEEK_SET)
            raise

    def _check_writable(self) -> None:
        """Check that the file can be created.

        A wrong path is thus reported at once, and not after hours of indexing.

        Raises:
            BadInput: If the file cannot be created.
        """
        try:
            path, file = _create_numbered_file(self.path)
            file.close()
            path.unlink()
        except OSError as error:
            raise BadInput(
                f"refused documents cannot be written to {self.path}: {error.strerror or error}",
                value=str(self.path),
                expected="a writable file (choose it with --dead-letters)",
            ) from error

    def close(self) -> None:
        """Close the dead-letter file, if it is open.

        Raises:
            BadInput: If writing to the file failed earlier. The refused documents since then were printed to standard
                error instead.
        """
        if self._file is not None:
            self._file.close()
            self._file = None
        if self.failure is not None:
            raise BadInput(
                f"{self.path} cannot be written: {self.failure.strerror}; further refused documents are on "
                "standard error",
                value=str(self.path),
                expected="a disk with free space",
            ) from self.failure


def _create_numbered_file(path: Path) -> tuple[Path, TextIO]:
    """Create a new file. If ``path`` already exists, insert a number into the file name.

    Args:
        path: The preferred path of the file.

    Returns:
        The actual path, and the open file.
    """
    first, number = path, 0
    while True:
        try:
            return path, create_private(path)
        except FileExistsError:
            number += 1
            path = first.with_suffix(f".{number}{first.suffix}")


def _encode_entry(entry: dict[str, Any]) -> bytes:
    """Encode an entry of the dead-letter file as a line of JSON."""
    try:
        return (json.dumps(entry, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:  # UTF-8 cannot encode half of a surrogate pair, but JSON can escape it
        return (json.dumps(entry) + "\n").encode()
