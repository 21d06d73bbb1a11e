"""Sessions can be deleted where the disk is full: a person's right to that does not wait for space."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from resift.contracts.session_store import SessionStore, StoredSession
from resift.errors import SessionsUnavailable
from resift.plugin.opensearch.sessions import OpenSearchSessionStore

ROOT = Path(__file__).parents[2]
FOREVER = 4e9
SMALL_DISK = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs -o size=16m tmpfs "$0" && exec "$@"']
FILLED = """
import sys
from contextlib import suppress
from pathlib import Path
from resift.errors import SessionsUnavailable
from resift.contracts.session_store import StoredSession
from resift.plugin.sqlite.sessions import SqliteSessionStore

folder, filler = Path(sys.argv[1]), sys.argv[2]
store, other = (SqliteSessionStore(str(folder / "sessions.db")) for _ in range(2))
session = StoredSession({"at": 1.5, "q": ["x" * 3000], "j": []}, 4e9, ["docs"])
large = StoredSession({"at": 1.5, "q": ["x" * 150_000], "j": []}, 4e9, ["docs"])
assert store.write("large", large)
assert all(store.write(f"s{number}", session) for number in range(100))
assert other.read("s0") is not None
if filler == "others":
    with suppress(OSError), open(folder / "log", "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
written = 100
try:
    while store.write(f"s{written}", session):
        written += 1
except SessionsUnavailable as error:
    assert "full" in error.message, error
else:
    raise AssertionError("the disk is not full")
for number in range(20):
    assert other.delete(f"s{number}"), number
    assert store.read(f"s{number}") is None
assert store.delete("large")
assert not other.delete("large")
if filler == "others":
    (folder / "log").unlink()
    assert store.delete_index("docs") == written - 20
    assert store.write("s0", session)
"""


@pytest.mark.parametrize("filler", ["sessions", "others"])
def test_a_session_is_deleted_from_a_full_disk(tmp_path: Path, filler: str) -> None:
    command = [*SMALL_DISK, str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    ran = subprocess.run([*command, sys.executable, "-c", FILLED, str(tmp_path), filler], cwd=ROOT, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()


@pytest.fixture
def blocked(open_stores: Callable[[], SessionStore]) -> Iterator[OpenSearchSessionStore]:
    """A store in OpenSearch with ten sessions, whose index is blocked as by a disk at the flood stage."""
    store = open_stores()
    assert isinstance(store, OpenSearchSessionStore)
    for number in range(10):
        assert store.write(f"s{number}", StoredSession({}, FOREVER + number, ["docs"]))
    block(store, True)
    yield store
    block(store, None)


def block(store: OpenSearchSessionStore, value: bool | None) -> None:
    """Set or lift the block."""
    store.client.indices.put_settings(index=store.index, body={"index.blocks.read_only_allow_delete": value})


def is_blocked(store: OpenSearchSessionStore) -> bool:
    """Whether the index is blocked, and a mark refused."""
    found = store.client.indices.get_settings(index=store.index)[store.index]["settings"]["index"]
    with pytest.raises(SessionsUnavailable, match="cluster_block_exception"):
        store.write("new", StoredSession({}, FOREVER, ["docs"]))
    return found["blocks"]["read_only_allow_delete"] == "true"


@pytest.mark.parametrize("store_url", ["opensearch"], indirect=True)
def test_a_block_of_a_full_disk_is_lifted_for_a_deletion(blocked: OpenSearchSessionStore) -> None:
    assert blocked.delete("s0")
    assert not blocked.delete("s0")
    assert is_blocked(blocked)
    assert blocked.purge(FOREVER + 3) == 2
    assert is_blocked(blocked)
    assert blocked.delete_index("docs") == 7
    assert blocked.delete_index("docs") == 0
    assert is_blocked(blocked)


@pytest.mark.parametrize("store_url", ["opensearch"], indirect=True)
def test_deletions_at_the_same_time_put_the_block_back(blocked: OpenSearchSessionStore) -> None:
    deleted = []
    threads = [
        threading.Thread(target=lambda id=f"s{number}": deleted.append(blocked.delete(id)))  # type: ignore[misc]
        for number in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert deleted == [True] * 10
    assert is_blocked(blocked)


@pytest.mark.parametrize("store_url", ["opensearch"], indirect=True)
def test_a_block_that_somebody_set_for_other_reasons_stays(blocked: OpenSearchSessionStore) -> None:
    block(blocked, None)
    blocked.client.indices.put_settings(index=blocked.index, body={"index.blocks.write": True})
    with pytest.raises(SessionsUnavailable, match="cluster_block_exception"):
        blocked.delete("s0")
    blocked.client.indices.put_settings(index=blocked.index, body={"index.blocks.write": None})
