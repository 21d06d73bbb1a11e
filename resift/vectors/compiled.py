"""Compiled loops (numba, extra ``fast``) that nobody waits for.

numba takes up to ten seconds to compile a module of loops, and keeps the machine code on disk; to load it from there
takes a third of a second. So a :class:`CompiledModule` is loaded only for jobs that are large enough to be worth it,
and only once its code is on disk. Until then the caller goes on with numpy, whose results agree, while another
process, of low priority, compiles: a thread would hold the interpreter's lock for most of the time.

An empty file beside numba's cache, the stamp, says that everything is compiled. Its name holds what numba's cache
depends on: the versions of numba and Python, the processor, and the source file's size and time. ``python -m
resift.encoders`` compiles everything now, as an installation does. numba keeps its cache beside the source, or in the
user's cache folder, or in ``NUMBA_CACHE_DIR``; where none of them can be written to, numpy does all the work.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread
from types import ModuleType
from typing import Any

MIN_CHARACTERS = 32_768
_BUILD = "import os, sys; from resift.vectors.compiled import build; getattr(os, 'nice', int)(10); build(sys.argv[1])"

log = logging.getLogger(__name__)


def compiled(function: Any) -> Any:
    """``function`` compiled at its first call, kept on disk, run without the interpreter's lock."""
    from numba import njit

    options = {"nogil": True, "fastmath": {"contract"}}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # there is no folder to keep the code in
        return njit(**options)(function)


class CompiledModule:
    """A module whose functions are :func:`compiled`, and which has a function ``compile_all`` that compiles them all.

    ``name``: the module's full name. It is not imported before it is needed.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._module: ModuleType | None = None
        self._stamp: Path | None = None
        self._imported = self._ready = self._building = False
        self._lock = Lock()

    def for_texts(self, texts: Sequence[str]) -> Any:
        """The module if ``texts`` have MIN_CHARACTERS together and its code is on disk, else None: numpy's turn."""
        return self.load() if sum(map(len, texts)) >= MIN_CHARACTERS else None

    def load(self) -> Any:
        """The module, or None without numba and as long as its code is not on disk; then the compiling is begun."""
        with self._lock:
            if not self._imported:
                self._imported = True
                with suppress(ImportError):  # no numba
                    self._module = importlib.import_module(self.name)
                    self._stamp = stamp_of(self._module)
            self._ready = self._ready or (self._stamp is not None and self._stamp.exists())
            if self._stamp is not None and not (self._ready or self._building):
                self._building = True  # once, so that a failure is not repeated with every batch
                # the thread waits for the process, so that it leaves no zombie
                Thread(target=_build_elsewhere, args=(self.name,), name=f"compiling {self.name}", daemon=True).start()
            return self._module if self._ready else None


def stamp_of(module: ModuleType) -> Path | None:
    """The file that says that ``module`` is compiled, whether it exists or not; None if numba has no cache folder."""
    import numba
    from llvmlite import binding

    folders = {value.stats.cache_path for value in vars(module).values() if hasattr(value, "stats")} - {None}
    if not folders or module.__file__ is None:
        return None
    source = Path(module.__file__)
    details = source.stat()
    key = (
        numba.__version__,
        sys.implementation.cache_tag,
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        details.st_mtime_ns,
        details.st_size,
    )
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    return Path(folders.pop()) / f"{source.stem}-{digest}.compiled"


def build(name: str) -> bool:
    """Compile the module of this name, here and now, unless its code is on disk; whether it is there afterwards.

    Raises ImportError without numba.
    """
    module = importlib.import_module(name)
    stamp = stamp_of(module)
    if stamp is None:
        return False
    with _locked(stamp.with_suffix(".lock")):
        if not stamp.exists():
            module.compile_all()
            stamp.touch()
    return True


def _build_elsewhere(name: str) -> None:
    command = [sys.executable, "-c", _BUILD, name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    try:
        # in a session of its own: it may outlive a short command, and an interrupt from the keyboard
        subprocess.run(command, env=environment, start_new_session=True, check=True, **quiet)
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("%s was not compiled, numpy goes on: %s (python -m resift.encoders shows why)", name, error)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process compile at a time: numba loses code that several add to its cache at once."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
