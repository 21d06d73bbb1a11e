"""The trained reranker in service: it lies in a folder, and is put there and taken away without a restart."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from pathlib import Path

from resift.errors import ModelNotFound, ResiftError
from resift.ranking.late_interaction import FILE, LateInteraction

log = logging.getLogger(__name__)
_CHECK_SECONDS = 2.0
Version = tuple[int, int]
_NO_VERSION = (0, 0)


class ServedReranker:
    """The reranker in ``folder``, which is checked at most every two seconds. May be used from several threads.

    It is read into memory, so that whatever becomes of the files does no harm to the one in service. If what is new in
    the folder cannot be read, that is logged once, and the reranker before it stays in service.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._checked: float | None = None
        self._reranker: LateInteraction | None = None
        self._version: Version = _NO_VERSION
        self._unreadable: Version | None = None
        self._lock = threading.Lock()
        self.get()  # before a server's workers are forked, which share what is in memory then

    def get(self) -> LateInteraction | None:
        """The reranker in service, or None."""
        with self._lock:
            now = time.monotonic()
            if self._checked is None or now - self._checked > _CHECK_SECONDS:
                self._checked = now
                self._check()
            return self._reranker

    def require(self) -> LateInteraction:
        """The reranker in service. Raises ModelNotFound if there is none."""
        reranker = self.get()
        if reranker is None:
            raise ModelNotFound(
                f"no trained reranker in {self.folder}",
                value="late",
                expected="resift reranker use DIR, or another method",
            )
        return reranker

    def _check(self) -> None:
        version = _NO_VERSION
        try:
            status = (self.folder / FILE).stat()
            # the file's number too: a copy of an older reranker may have the time of the one it replaces
            version = (status.st_mtime_ns, status.st_ino)
            if version != self._version:
                self._reranker, self._version = LateInteraction.load(self.folder), version
        except FileNotFoundError:
            self._reranker, self._version = None, _NO_VERSION
        except (OSError, ResiftError) as error:
            # it is tried again, since somebody may be copying it just now, but said only once
            if version != self._unreadable:
                log.error("the trained reranker in %s is not taken into service: %s", self.folder, error)
            self._unreadable = version


def put_into_service(source: str, folder: str) -> LateInteraction:
    """Copy the trained reranker in the folder ``source`` to ``folder``, and return it.

    Raises ModelNotFound if there is none, CorruptModel if it is damaged; then ``folder`` stays as it is.
    """
    reranker = LateInteraction.load(source)
    reranker.save(folder)
    return reranker


def take_out_of_service(folder: str) -> None:
    """Delete ``folder``, where a trained reranker is in service. Raises ModelNotFound if none is."""
    if not (Path(folder) / FILE).is_file():
        raise ModelNotFound(f"no trained reranker in {folder}", value=folder, expected="one that is in service")
    shutil.rmtree(folder)
