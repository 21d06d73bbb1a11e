"""`resift sessions`, in both stores."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from resift.cli.main import main
from resift.contracts.session_store import StoredSession
from resift.plugin.connect import open_session_store


def resift(*arguments: str, status: int = 0) -> Result:
    """Run a command, which must end with this status."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == status, result.output
    return result


def test_sessions_are_purged_and_forgotten(store_url: str, session_index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = ["--store", store_url]
    monkeypatch.setenv("RESIFT_SESSION_INDEX", session_index)
    assert resift("sessions", "purge", *where).output == "0 expired sessions deleted, 0 kept\n"
    store = open_session_store(store_url, session_index)
    for name, expires, index in (("a", 1.0, "x"), ("b", 2e9, "x"), ("c", 2e9, "y"), ("d", 2e9, "y"), ("e", 2e9, "y")):
        assert store.write(name, StoredSession({}, expires, [index]))
    assert resift("sessions", "purge", *where).output == "1 expired sessions deleted, 4 kept\n"
    assert resift("sessions", "delete", "--index", "y", *where).output == "3 sessions deleted\n"
    assert store.read("b") is not None
    assert resift("sessions", "delete", "b", *where).output == "1 sessions deleted\n"
    assert "no session 'b'" in resift("sessions", "delete", "b", *where, status=2).output
    assert "name a session, or an index with --index" in resift("sessions", "delete", *where, status=2).output
    assert store.count() == 0
    store.close()
