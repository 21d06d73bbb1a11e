"""Distribute test files over the processes of ``pytest -n 3``, each of which has its own OpenSearch node.

This pytest plugin replaces the scheduler of pytest-xdist and limits what each process collects:

- All tests of a file run in the same process, since they share indices and servers.
- Files with a secured node or with long waits start first, so that no process is left with one of them at the end.
- The last of three or more processes runs the files that need no OpenSearch, and the files with Resift's plugin. All
  processes then take about as long.
- The unit tests run last, in any process.
- A process collects only files that it may run. Collecting all files takes half a minute of CPU time, since it imports
  the libraries that any test uses.

In the names of pytest-xdist, which this module overrides, a *node* is a test process, not an OpenSearch node.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

# These files share an OpenSearch node with the security plugin, which takes long to start.
SECURED = tuple(
    f"tests/cluster/test_{name}.py" for name in ("rights", "rights_in_any_request", "document_rights", "versions")
)

# These files share an OpenSearch node with Resift's plugin.
NATIVE = re.compile(r"tests/cluster/test_(native_(?!commands|rights)|attach_native|recipes)")

# These tests wait for time limits for longer than they compute. They start early, while all processes have work.
WAITING = ("tests/cluster/test_failover.py", "tests/cluster/test_frozen_service.py")

# Files without a test that needs the node without the plugin, which the other processes share. The last process runs
# them. If such a test is added to one of them, the last process also starts such a node.
NEEDS_NO_NODE = re.compile(
    r"resift(_lab)?/|tests/lab/test_(?!export|prove_replay|ubi_training)|tests/page/test_(?!page_states)"
    r"|tests/cluster/test_native_(commands|rights)\.py"
    r"|tests/engine/test_(command_lines|damage|demo|deploy|docs|docs_transcript|image|retrievers|review_fuzz|serving"
    r"|sqlite_file|sqlite_readers|stdin|tables|terminal|worker_memory)\.py"
)

# These files are quick to collect. All processes collect them, and run them last, so that all have work until the end.
BY_ANY = "tests/unit/"

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


SESSION = pytest.StashKey[pytest.Session]()
"""Key of the pytest session in ``config.stash``."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Store the session, because the scheduler sets its number of collected tests."""
    session.config.stash[SESSION] = session


class ByFile(LoadScopeScheduling):
    """A scheduler that gives a process one file at a time, in the order of collection.

    Files that share an OpenSearch node form one group, which a single process runs. Unlike the schedulers of
    pytest-xdist, this scheduler does not expect that all processes have collected the same tests.
    """

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Store the ids of the tests that a process has collected.

        Args:
            node: The process.
            collection: The ids of the tests.
        """
        self.registered_collections[node] = list(collection)

    def schedule(self) -> None:
        """Assign the first files to each process. The first call creates the queue of all files."""
        if self.collection is None:
            collected = dict.fromkeys(chain(*self.registered_collections.values()))
            self.collection = sorted(collected, key=lambda nodeid: nodeid.startswith(BY_ANY))
            self.config.stash[SESSION].testscollected = len(self.collection)
            for nodeid in self.collection:
                self.workqueue.setdefault(self._split_scope(nodeid), {})[nodeid] = False
        for _ in range(2):  # a process starts the last test of a file when it knows the first test of the next file
            for node in self.nodes:
                self._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        """Return the name of the group of a test, by default its file."""
        file = nodeid.partition("::")[0]
        if file in SECURED:
            return SECURED[0]
        return NATIVE.pattern if NATIVE.match(file) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Assign the next file that a process has collected, or shut the process down if there is none."""
        collected = set(self.registered_collections[node])
        file = next((file for file, tests in self.workqueue.items() if next(iter(tests)) in collected), None)
        if file is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Create the scheduler. pytest-xdist's own order by the number of tests is switched off."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Move files with a secured node or with long waits to the front. The order stays as it is without pytest-xdist."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: [not item.nodeid.startswith(files) for files in (SECURED, WAITING)])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that this process does not run.

    Args:
        collection_path: The file or folder.
        config: The configuration of pytest, which has the number of the process.

    Returns:
        True to leave the file out. None to collect it: if there are fewer than three processes, and if the process
        replaces a crashed process, all files are collected.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or collection_path.suffix != ".py":
        return None
    number, last = int(worker["workerid"].removeprefix("gw")), worker["workercount"] - 1
    if last < 2 or number > last:  # pytest-xdist gives a new number to a process that replaces a crashed process
        return None
    file = Path(os.path.relpath(collection_path, config.rootpath)).as_posix()
    is_for_last = any(files.match(file) for files in (NEEDS_NO_NODE, NATIVE))
    return True if is_for_last != (number == last) and not file.startswith(BY_ANY) else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect doctests only from modules that contain some, since collecting imports the modules."""
    collectors = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text("utf-8"):
        return [collector for collector in collectors if not isinstance(collector, DoctestModule)]
    return collectors
