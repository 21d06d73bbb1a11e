"""Files that only their owner may read: sessions, documents and keys are not everybody's business."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from resift.errors import BadInput

_PRIVATE = 0o600


def create_private(path: str | Path) -> TextIO:
    """A new text file, open for writing, that only its owner may read and write.

    Raises FileExistsError if there is a file of that name, and OSError if it cannot be written.
    """
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w", encoding="utf-8")


def replace_private(path: Path, text: str) -> None:
    """Write a file, all or nothing, that only its owner may read and write; one that is there keeps owner and mode.

    Raises BadInput if it cannot be written.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                _keep_owner(path, descriptor)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error}", value=str(path), expected="a file") from error


def _keep_owner(path: Path, descriptor: int) -> None:
    """Give the open file the mode and, as far as this user may, the owner of the one at ``path``, if there is one."""
    # root may write what another user's server reads
    with suppress(FileNotFoundError, PermissionError):
        status = path.stat()
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        os.fchown(descriptor, status.st_uid, status.st_gid)
