"""Distribute test files over the processes of ``pytest -n 3``, two of which have an OpenSearch node of their own.

All tests of a file run in the same process, since they share indices and servers. The longest files start first, so
that no process is left with one at the end. The last of three or more processes only runs files that need no
OpenSearch. It uses the CPU while the tests of the other processes wait for frozen nodes and time limits.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

# These tests share a node with the security plugin, which takes long to start.
SECURED = tuple(
    f"tests/cluster/test_{name}.py" for name in ("rights", "rights_in_any_request", "document_rights", "versions")
)

# The files with these names share a node with Resift's plugin.
NATIVE = "tests/cluster/test_native_"

# These tests wait for time limits for longer than they compute. They start early, while all processes have work.
WAITING = ("tests/cluster/test_failover.py", "tests/cluster/test_frozen_service.py")

# This file runs all commands of docs/papers.md one after another, which takes minutes.
LONGEST = "tests/cluster/test_papers.py"

# Files without a test that needs OpenSearch. If one of them gets such a test, one more process starts a node.
NEEDS_NO_NODE = re.compile(
    r"resift(_lab)?/|tests/unit/|tests/lab/test_(?!export|prove_replay|ubi_training)|tests/page/test_(?!page_states)"
    r"|tests/engine/test_(command_lines|damage|demo|deploy|docs|docs_transcript|image|retrievers|review_fuzz|serving"
    r"|sqlite_file|sqlite_readers|stdin|tables|terminal|worker_memory)\.py"
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
    """Group tests by file, in the order of their collection. Files that share a node form one group."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file in SECURED:
            return SECURED[0]
        return NATIVE if file.startswith(NATIVE) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Assign the next file to a process: the other processes first run the files that need a node."""
        is_last = self.numnodes > 2 and node.gateway.id == f"gw{self.numnodes - 1}"
        files = [file for file in self.workqueue if bool(NEEDS_NO_NODE.match(file)) == is_last]
        if files:
            self.workqueue.move_to_end(files[0], last=False)
        elif is_last:
            node.shutdown()
            return
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Distribute the tests by file."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the processes start with the longest files."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: [not item.nodeid.startswith(files) for files in (SECURED, WAITING, LONGEST)])


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect doctests only from modules that contain some, since collecting imports the modules."""
    collectors = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text("utf-8"):
        return [collector for collector in collectors if not isinstance(collector, DoctestModule)]
    return collectors
