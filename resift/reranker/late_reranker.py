"""The trained reranker in service: it lies in a folder, and is put there and taken away without a restart."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from resift.contracts.documents import IndexInfo
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

    def get(self, info: IndexInfo | None = None) -> LateInteraction | None:
        """The reranker in service, or None; where ``info`` is given, None also if it is not for that index."""
        with self._lock:
            now = time.monotonic()
            if self._checked is None or now - self._checked > _CHECK_SECONDS:
                self._checked = now
                self._check()
            found = self._reranker
        return found if found is None or info is None or _is_for(found, info) else None

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


def _is_for(reranker: LateInteraction, info: IndexInfo) -> bool:
    """Whether a reranker may order hits of what is searched: all of its indices, or their common name, are its own."""
    own = set(reranker.indices)
    return not own or info.name in own or own.issuperset(info.indices)
