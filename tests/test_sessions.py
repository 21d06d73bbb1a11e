"""Sessions: they keep marks, survive a restart, expire, can be undone and forgotten, and never mix."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from resift import Feedback
from resift.errors import BadInput, SessionNotFound
from resift.reranker.sessions import MAX_JUDGEMENTS, Judgement, SessionStore

EYE = np.eye(4, dtype=np.float32)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The store's file."""
    return str(tmp_path / "sessions.db")


@pytest.fixture
def store(path: str) -> SessionStore:
    """A store of one-hour sessions at the time 0."""
    return SessionStore(path, hours=1, clock=lambda: 0.0)


def add(store: SessionStore, session: str, *marks: tuple[str, int], model: str = "m") -> Feedback:
    """Mark documents d0 … d3, whose vectors are the axes."""
    return store.add(session, model, "docs", "q", [Judgement(name, label, EYE[int(name[1])]) for name, label in marks])


def test_marks_are_kept_and_learned(store: SessionStore) -> None:
    feedback = add(store, "s", ("d0", 1), ("d1", -1))
    expected = Feedback.learn(EYE[[0]], EYE[[1]])
    np.testing.assert_array_equal(feedback.mask, expected.mask)
    np.testing.assert_array_equal(feedback.shift, expected.shift)
    session = store.get("s")
    assert [(mark["document"], mark["label"], mark["step"], mark["query"]) for mark in session.judgements] == [
        ("d0", 1, 1, "q"),
        ("d1", -1, 1, "q"),
    ]
    assert (session.created, session.expires) == (0, 3600)


def test_the_latest_mark_of_a_document_counts(store: SessionStore) -> None:
    add(store, "s", ("d0", 1), ("d1", 1))
    feedback = add(store, "s", ("d0", -1), ("d1", 0))
    np.testing.assert_array_equal(feedback.shift, Feedback.learn(np.zeros((0, 4)), EYE[[0]]).shift)


def test_sessions_survive_a_restart(store: SessionStore, path: str) -> None:
    before = add(store, "s", ("d0", 1))
    after = SessionStore(path, hours=1, clock=lambda: 1.0).learned("s", "m")
    assert after is not None
    np.testing.assert_array_equal(after.shift, before.shift)


def test_sessions_and_models_do_not_mix(store: SessionStore) -> None:
    add(store, "s", ("d0", 1))
    add(store, "other", ("d1", 1))
    add(store, "s", ("d2", 1), model="m2")
    for session, model, axis in (("s", "m", 0), ("other", "m", 1), ("s", "m2", 2)):
        found = store.learned(session, model)
        assert found is not None
        assert np.flatnonzero(found.shift).tolist() == [axis]
    assert store.learned("new", "m") is None
    store.delete("other")
    assert store.learned("s", "m") is not None


def test_undo_goes_back_step_by_step(store: SessionStore) -> None:
    first = add(store, "s", ("d0", 1))
    add(store, "s", ("d1", -1), ("d2", 1))
    assert len(store.undo("s").judgements) == 1
    back = store.learned("s", "m")
    assert back is not None
    np.testing.assert_array_equal(back.mask, first.mask)
    np.testing.assert_array_equal(back.shift, first.shift)
    assert store.undo("s").judgements == []
    empty = store.learned("s", "m")
    assert empty is not None
    assert not empty.shift.any()
    with pytest.raises(BadInput, match="no step"):
        store.undo("s")


def test_forgotten_sessions_are_gone(store: SessionStore) -> None:
    add(store, "s", ("d0", 1))
    store.delete("s")
    assert store.learned("s", "m") is None
    for call in (store.get, store.undo, store.delete):
        with pytest.raises(SessionNotFound):
            call("s")


def test_sessions_expire_when_not_used(path: str) -> None:
    now = [0.0]
    store = SessionStore(path, hours=1, clock=lambda: now[0])
    add(store, "used", ("d0", 1))
    add(store, "idle", ("d0", 1))
    now[0] = 3000
    assert store.learned("used", "m") is not None
    now[0] = 5000
    assert store.learned("used", "m") is not None
    assert store.learned("idle", "m") is None
    with pytest.raises(SessionNotFound):
        store.get("idle")
    add(store, "idle", ("d1", 1))
    assert [mark["document"] for mark in store.get("idle").judgements] == ["d1"]


@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 129, "a/b"])
def test_bad_names(store: SessionStore, name: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: add(store, name, ("d0", 1)),
        lambda: store.learned(name, "m"),
        lambda: store.get(name),
    ]
    for call in calls:
        with pytest.raises(BadInput, match="session id"):
            call()


def test_a_session_has_room_for_so_many_marks(store: SessionStore) -> None:
    marks = [Judgement(f"d{i}", 1, EYE[0]) for i in range(MAX_JUDGEMENTS)]
    store.add("s", "m", "docs", "q", marks)
    with pytest.raises(BadInput, match="1001 marks"):
        add(store, "s", ("d0", 1))
    assert len(store.get("s").judgements) == MAX_JUDGEMENTS


def test_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be opened"):
        SessionStore(str(tmp_path / "missing" / "sessions.db"))


def test_parallel_marks_lose_nothing(store: SessionStore, path: str) -> None:
    def mark(number: int) -> None:
        SessionStore(path, hours=1, clock=lambda: 0.0).add("s", "m", "docs", "q", [Judgement(f"p{number}", 1, EYE[0])])

    threads = [threading.Thread(target=mark, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session = store.get("s")
    assert {mark["document"] for mark in session.judgements} == {f"p{i}" for i in range(12)}
    assert sorted(mark["step"] for mark in session.judgements) == list(range(1, 13))
