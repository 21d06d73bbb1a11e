"""``pytest -n 2``: two processes share the test files out between them, each with an OpenSearch of its own.

A file stays whole, as its tests share indices and servers. What takes longest begins first, so that no process is left
with it at the end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from xdist.scheduler.loadscope import LoadScopeScheduling

# Their tests share a node with the security plugin, which takes long to start.
SECURED = tuple(
    f"tests/cluster/test_{name}.py" for name in ("rights", "rights_in_any_request", "document_rights", "versions")
)

MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30  # free bytes that it must have for the files of tests


def pytest_configure() -> None:
    """Have the files of tests in memory where there is room: databases wait for a disk at each commit."""
    if (
        os.access(MEMORY, os.W_OK)
        and shutil.disk_usage(MEMORY).free > ROOM
        and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC  # tests run programs that they have written
    ):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


class ByFile(LoadScopeScheduling):
    """Whole files, in the order in which they were collected; those of SECURED as if they were one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return SECURED[0] if file in SECURED else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Share the tests out by file."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have a process of several begin with what takes longest."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(SECURED))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples only in modules that have some: to look means to import them, and all that they need."""
    found = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text("utf-8"):
        return [one for one in found if not isinstance(one, DoctestModule)]
    return found
