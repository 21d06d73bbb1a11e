"""Dead letters: documents that an engine refused, kept in a file with the reason."""

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
    """The file of refused documents, a JSON object a line: ``file``, ``line``, ``status``, ``reason``, ``document``.

    The file is made with its first entry, for its owner alone to read. An earlier file is never overwritten: ``path``
    gets a number instead. Once its documents are corrected, such a file can be indexed as it is.

    ``failure`` is why no more can be written, such as a full disk, or None: entries go to standard error from then on,
    and the file holds those before it, each whole. Raises BadInput if no file can be made at ``path``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure: OSError | None = None
        self._file: TextIO | None = None
        self._check()

    def add(self, record: Record | BadLine, status: int, reason: str, document: Any) -> None:
        """Write one entry; it is in the file, or on standard error, when this returns.

        Args:
            record: where the document was read.
            status: the HTTP status that the engine gave, 400 for a line that is no document.
            reason: why it was refused.
            document: the document as a dictionary with ``_id``, or the text of a line that is no document.
        """
        entry = {"file": record.file, "line": record.line, "status": status, "reason": reason, "document": document}
        if self.failure is None:
            try:
                self._write(_line(entry))
                return
            except OSError as error:
                self.failure = error
        # ASCII, because nobody knows what the terminal's encoding can hold
        sys.stderr.write(json.dumps(entry) + "\n")

    def _write(self, line: bytes) -> None:
        """Append a line, all or nothing. Raises OSError."""
        if self._file is None:
            self.path, self._file = _create(self.path)
        descriptor = self._file.fileno()
        end = os.fstat(descriptor).st_size
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(descriptor, left) :]
        except OSError:
            os.ftruncate(descriptor, end)  # half a line could not be read again
            os.lseek(descriptor, end, os.SEEK_SET)
            raise

    def _check(self) -> None:
        """Make the file and delete it again, because it is needed only after hours, and then must not fail."""
        try:
            made, file = _create(self.path)
            file.close()
            made.unlink()
        except OSError as error:
            raise BadInput(
                f"refused documents cannot be written to {self.path}: {error.strerror or error}",
                value=str(self.path),
                expected="a file that can be made, by --dead-letters",
            ) from error

    def close(self) -> None:
        """Close the file, if there is one. Raises BadInput if not all entries could be written to it."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self.failure is not None:
            raise BadInput(
                f"{self.path} cannot be written: {self.failure.strerror}; what was refused since is on standard error",
                value=str(self.path),
                expected="a disk with space left",
            ) from self.failure


def _create(path: Path) -> tuple[Path, TextIO]:
    """A new file, and its path: with a number where there is a file already."""
    first, number = path, 0
    while True:
        try:
            return path, create_private(path)
        except FileExistsError:
            number += 1
            path = first.with_suffix(f".{number}{first.suffix}")


def _line(entry: dict[str, Any]) -> bytes:
    try:
        return (json.dumps(entry, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:  # half of a surrogate pair, for which JSON has an escape and UTF-8 has nothing
        return (json.dumps(entry) + "\n").encode()
