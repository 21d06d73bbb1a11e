"""``pytest -n 2``: two processes share the test files out between them, each with an OpenSearch of its own.

A file stays whole, as its tests share indices and servers. What takes longest begins first, so that no process is left
with it at the end. What takes long to import is for the first process alone.
"""

from __future__ import annotations

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
# They need torch, frameworks of retrieval, and readers of tables.
LARGE = ("tests/lab/", *(f"tests/engine/test_{name}.py" for name in ("retrievers", "mcp", "tables")))


class ByFile(LoadScopeScheduling):
    """Whole files, in the order in which they were collected; those of SECURED as if they were one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return SECURED[0] if file in SECURED else file

    def _check_nodes_have_same_collection(self) -> bool:
        """Whether each process has all tests, or all but those of LARGE; one that has all comes first."""
        found = sorted(self.registered_collections.items(), key=lambda one: -len(one[1]))
        self.registered_collections.clear()
        self.registered_collections.update(found)
        whole = found[0][1]
        others = [test for test in whole if not test.startswith(LARGE)]
        return all(tests in (whole, others) for _, tests in found) or super()._check_nodes_have_same_collection()

    def _assign_work_unit(self, node: Any) -> None:
        """Give a process the first file that it has, or let it end."""
        has = {self._split_scope(test) for test in self.registered_collections[node]}
        scope = next((one for one in self.workqueue if one in has), None)
        if scope is None:
            node.shutdown()
        else:
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Share the tests out by file."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files of LARGE to the first process; one that takes the place of a process that crashed has them, too."""
    ours = getattr(config, "workerinput", None)
    if ours is None or not 0 < int(ours["workerid"].removeprefix("gw")) < ours["workercount"]:
        return None
    return collection_path.relative_to(config.rootpath).as_posix().startswith(LARGE) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have the first process of several begin with what it alone has, and another one with what takes longest."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (not item.nodeid.startswith(LARGE), not item.nodeid.startswith(SECURED)))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples only in modules that have some: to look means to import them, and all that they need."""
    found = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text("utf-8"):
        return [one for one in found if not isinstance(one, DoctestModule)]
    return found
