"""Write files atomically, and create files that only their owner may read.

Sessions, documents and API keys are private data, so their files get mode 0600.
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
_MAX_STEM = 50  # characters of the target's name in the temporary file's name, since names are limited to 255 bytes


def create_private(path: str | Path) -> TextIO:
    """Create a text file that only its owner may read and write, and open it for writing.

    Args:
        path: The path of the file.

    Raises:
        FileExistsError: If the file already exists.
        OSError: If the file cannot be written.
    """
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w", encoding="utf-8")


def replace_private(path: Path, text: str) -> None:
    """Write a text file atomically. If the file is new, only its owner may read and write it.

    An existing file keeps its owner and permissions.

    Args:
        path: The path of the file.
        text: The new content of the file.

    Raises:
        BadInput: If the file cannot be written.
    """
    with atomic_write(path, _PRIVATE) as file:
        file.write(text.encode())


@contextmanager
def atomic_write(path: str | Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Return a context manager that opens a file for an atomic write: it appears at ``path`` when the block ends.

    If the block raises an exception, an existing file at ``path`` stays unchanged. Devices and pipes, such as
    /dev/null, are written directly.

    Args:
        path: The file to write. If it is a symbolic link, the target of the link is replaced.
        mode: The permission bits of a new file, before the umask. An existing file keeps its owner and permissions.

    Yields:
        The open binary file.

    Raises:
        BadInput: If the file cannot be written.
    """
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as stream:
                yield stream
            return
        target = target.resolve()
        temporary = target.with_name(f".{target.name[:_MAX_STEM]}-{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                _copy_owner_and_mode(target, file.fileno())
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        expected = "a file that can be written, on a disk with space left"
        raise BadInput(f"{path} cannot be written: {error}", value=str(path), expected=expected) from error


def _copy_owner_and_mode(path: Path, descriptor: int) -> None:
    """Copy the permissions and the owner of an existing file to an open file, as far as the process may do so.

    Args:
        path: The existing file. If it does not exist, nothing is copied.
        descriptor: The file descriptor of the open file.
    """
    # Root may replace a file that a service reads under a different user.
    with suppress(FileNotFoundError, PermissionError):
        status = path.stat()
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        os.fchown(descriptor, status.st_uid, status.st_gid)


def folder_write_error(path: Path) -> str | None:
    """Return the reason why a folder cannot be created or replaced, or None if there is no obstacle.

    A folder can be replaced if it is empty or contains a JSON file. All folders that Resift writes contain a JSON file;
    other folders are protected from being overwritten by mistake.

    Args:
        path: The path of the folder.
    """
    shown = repr(str(path))
    if path.exists() and not path.is_dir():
        return f"{shown} is a file, expected a folder"
    if path.is_dir() and any(path.iterdir()) and not any(path.glob("*.json")):
        return f"{shown} contains other files, expected a new folder or a folder that Resift wrote"
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir():
        return f"{shown} cannot be written: {str(parent)!r} is a file"
    reason = file_write_error(parent)
    return f"{shown} cannot be written: {reason}" if reason else None


def file_write_error(folder: Path) -> str | None:
    """Return the reason why files cannot be created in a folder, or None if they can be.

    Args:
        folder: The path of the folder.
    """
    # Create a temporary file: os.access checks permissions only, and does not notice a full disk, for example.
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return error.strerror or str(error)
    return None
