"""Files that are written whole or not at all, and files that only their owner may read.

Sessions, documents and keys are not everybody's business.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from resift.errors import BadInput

_PRIVATE = 0o600
_NAME = 50  # characters of a file's name that one beside it has: names end at 255 bytes


def create_private(path: str | Path) -> TextIO:
    """A new text file, open for writing, that only its owner may read and write.

    Raises FileExistsError if there is a file of that name, and OSError if it cannot be written.
    """
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w", encoding="utf-8")


def replace_private(path: Path, text: str) -> None:
    """Write a file, all or nothing, that only its owner may read and write; one that is there keeps owner and mode.

    Raises BadInput if it cannot be written.
    """
    with atomic_write(path, _PRIVATE) as file:
        file.write(text.encode())


@contextmanager
def atomic_write(path: str | Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file, open for writing, that takes the place of the one at ``path`` once the block has written it.

    Where the block raises, nothing is left of it, and what was there stays. ``mode`` is a new file's, less the umask;
    one that is there keeps owner and mode. Raises BadInput if it cannot be written.
    """
    target = Path(path)
    try:
        if target.exists() and not target.is_file():  # /dev/null and pipes are written into, and not replaced
            with target.open("wb") as stream:
                yield stream
            return
        target = target.resolve()  # so that a link goes on to be one
        fresh = target.with_name(f".{target.name[:_NAME]}-{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                _keep_owner(target, file.fileno())
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, target)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        expected = "a file that can be written, on a disk with space left"
        raise BadInput(f"{path} cannot be written: {error}", value=str(path), expected=expected) from error


def _keep_owner(path: Path, descriptor: int) -> None:
    """Give the open file the mode and, as far as this user may, the owner of the one at ``path``, if there is one."""
    # root may write what another user's server reads
    with suppress(FileNotFoundError, PermissionError):
        status = path.stat()
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        os.fchown(descriptor, status.st_uid, status.st_gid)


def folder_write_error(path: Path) -> str | None:
    """Why a folder cannot be written, with those around it, or over one that Resift wrote; None if it can."""
    shown = repr(str(path))
    if path.exists() and not path.is_dir():
        return f"{shown} is a file, expected a folder"
    if path.is_dir() and any(path.iterdir()) and not any(path.glob("*.json")):
        return f"{shown} holds other files, expected a new folder, or one that Resift wrote"
    around = next(folder for folder in path.absolute().parents if folder.exists())
    if not around.is_dir():
        return f"{shown} cannot be written: {str(around)!r} is a file"
    reason = file_write_error(around)
    return f"{shown} cannot be written: {reason}" if reason else None


def file_write_error(folder: Path) -> str | None:
    """Why no file can be made in a folder; None if one can."""
    # One is made and deleted: what os.access says of permissions is not all that may be in the way.
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return error.strerror or str(error)
    return None
