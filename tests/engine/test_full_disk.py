"""Sessions can be deleted where the disk is full: a person's right to that does not wait for space."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
