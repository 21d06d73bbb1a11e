"""Files that are written whole or not at all, and files that only their owner may read.

Sessions, documents and keys are not everybody's business.
"""

from __future__ import annotations

import os
import secrets
import stat
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
    with replaced(path, _PRIVATE) as file:
        file.write(text.encode())


@contextmanager
def replaced(path: str | Path, mode: int = 0o666) -> Iterator[BinaryIO]:
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
