"""The trained reranker in service: the one that lies in a folder, taken up and let go of without a restart."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from pathlib import Path

from resift.errors import ModelNotFound, ResiftError
from resift.ranking.late_interaction import FILE, LateInteraction

log = logging.getLogger(__name__)
_SECONDS = 2.0


class ServedReranker:
    """The reranker in ``folder``, looked for every two seconds; None while there is none.

    A folder that cannot be read is logged, and the one before stays in service.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._looked, self._mark, self._held = 0.0, (0, 0), None  # type: float, tuple[int, int], LateInteraction | None
        self._lock = threading.Lock()

    def get(self) -> LateInteraction | None:
        """The reranker in service."""
        with self._lock:
            if (now := time.monotonic()) - self._looked > _SECONDS or not self._looked:
                self._looked = now
                self._look()
            return self._held

    def require(self) -> LateInteraction:
        """The same. Raises ModelNotFound where there is none."""
        if (found := self.get()) is None:
            raise ModelNotFound(
                f"no trained reranker in {self.folder}",
                value="late",
                expected="resift reranker use DIR, or another method",
            )
        return found

    def _look(self) -> None:
        try:
            status = (self.folder / FILE).stat()
            mark = (status.st_mtime_ns, status.st_ino)
            if mark != self._mark:
                self._held, self._mark = LateInteraction.load(self.folder), mark
        except FileNotFoundError:
            self._held, self._mark = None, (0, 0)
        except (OSError, ResiftError):
            log.exception("the trained reranker in %s cannot be read", self.folder)


def use(source: str, folder: str) -> LateInteraction:
    """Put a trained reranker into service: copy it to ``folder``, whole. Raises ModelNotFound or CorruptModel."""
    found = LateInteraction.load(source)
    found.save(folder)
    return found


def drop(folder: str) -> None:
    """Take the reranker in ``folder`` out of service. Raises ModelNotFound where there is none."""
    if not (Path(folder) / FILE).is_file():
        raise ModelNotFound(f"no trained reranker in {folder}", value=folder, expected="one that is in service")
    shutil.rmtree(folder)
