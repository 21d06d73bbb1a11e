"""Distribute test files over the processes of ``pytest -n 2``, each of which has its own OpenSearch node.

All tests of a file run in the same process, since they share indices and servers. The longest files start first, so
that no process is left with one at the end.
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

# These tests share a node with the security plugin, which takes long to start.
SECURED = tuple(
    f"tests/cluster/test_{name}.py" for name in ("rights", "rights_in_any_request", "document_rights", "versions")
)

MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30  # free bytes that the memory file system must have


def pytest_configure() -> None:
    """Store the files of tests in memory if there is space, since databases wait for the disk at each commit."""
    if (
        os.access(MEMORY, os.W_OK)
        and shutil.disk_usage(MEMORY).free > ROOM
        and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC  # tests run programs that they have written
    ):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


class ByFile(LoadScopeScheduling):
    """Group tests by file, in the order of their collection. The files in SECURED form one group."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return SECURED[0] if file in SECURED else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Distribute the tests by file."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each process start with the longest files."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(SECURED))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect doctests only from modules that contain some, since collecting imports the modules."""
    found = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text("utf-8"):
        return [one for one in found if not isinstance(one, DoctestModule)]
    return found
