"""Tests of sessions in both stores: they survive restarts, expire, can be undone and deleted, and never mix."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from itertools import pairwise

import pytest
from clock import Clock

from resift.contracts.session_store import SessionRecord, SessionStore
from resift.errors import BadInput, SessionBusy, SessionNotFound, SessionsUnavailable
from resift.feedback.judgements import Judgement
from resift.reranker.access.keys import Caller
from resift.sessions import sessions as module
from resift.sessions.sessions import MAX_JUDGEMENTS, Sessions, StoredSession


@pytest.fixture
def sessions(open_stores: Callable[[], SessionStore], clock: Clock) -> Sessions:
    """Return sessions that expire after an hour."""
    return Sessions(open_stores(), 1, clock)


def add(sessions: Sessions, session: str, *marks: tuple[str, float], query: str = "q") -> StoredSession:
    """Add judgements: marks, or clicks and skips if the grade is that of a click or a skip."""
    sources = {0.5: "click", -0.25: "skip"}
    made = [Judgement("docs", name, grade, source=sources.get(grade, "mark")) for name, grade in marks]
    return sessions.add(session, query, made)


def marks(session: StoredSession) -> list[tuple[str, float, int]]:
    """Return the documents, grades and steps of a session."""
    return [(one.document, one.grade, one.step) for one in session.judgements]


def test_judgements_are_stored_exactly(sessions: Sessions, clock: Clock) -> None:
    clock.now = 1_795_270_631.684_4  # milliseconds are preserved
    add(sessions, "s", ("d0", 1), ("d1", -1), query="fire é")
    clock.now += 10
    added = sessions.add(
        "s", "other", [Judgement("docs", "d2", 0.5, source="model"), Judgement("else", "d0", -0.25, source="skip")]
    )
    found = sessions.get("s")
    assert found.judgements == (
        Judgement("docs", "d0", 1, "fire é", 1_795_270_631.684, 1),
        Judgement("docs", "d1", -1, "fire é", 1_795_270_631.684, 1),
        Judgement("docs", "d2", 0.5, "other", 1_795_270_641.684, 2, "model"),
        Judgement("else", "d0", -0.25, "other", 1_795_270_641.684, 2, "skip"),
    )
    assert (added.judgements, added.created) == (found.judgements, found.created)
    assert (found.created, found.steps) == (1_795_270_631.684, 2)
    assert found.expires == pytest.approx(clock.now + 3600, abs=0.001)


def test_the_latest_judgement_counts_but_a_click_is_no_mark(sessions: Sessions) -> None:
    def standing(*step: tuple[str, float]) -> dict[str, float]:
        return {one.document: one.grade for one in add(sessions, "s", *step).effective_judgements}

    assert standing(("a", 1), ("b", 0.5), ("c", -0.25)) == {"a": 1, "b": 0.5, "c": -0.25}
    assert standing(("a", 0.5), ("b", -0.25), ("c", 0.5)) == {"a": 1, "b": 0.5, "c": 0.5}
    assert standing(("a", -1), ("b", 0)) == {"a": -1, "c": 0.5}
    assert standing(("a", 0), ("b", 0.5)) == {"b": 0.5, "c": 0.5}
    assert standing(("a", -0.25)) == {"a": -0.25, "b": 0.5, "c": 0.5}


def test_sessions_survive_a_restart_and_do_not_mix(
    sessions: Sessions, open_stores: Callable[[], SessionStore], clock: Clock
) -> None:
    add(sessions, "s", ("d0", 1))
    add(sessions, "other", ("d1", 1))
    again = Sessions(open_stores(), 1, clock)
    assert marks(again.get("s")) == [("d0", 1, 1)]
    again.delete("other")
    assert again.find("other") is None
    assert marks(sessions.get("s")) == [("d0", 1, 1)]
    assert sessions.find("new") is None


def test_undo_goes_back_step_by_step(sessions: Sessions) -> None:
    first = add(sessions, "s", ("d0", 1))
    add(sessions, "s", ("d1", -1), ("d2", 1))
    assert sessions.undo("s").judgements == first.judgements
    add(sessions, "s", ("d0", 0))
    assert sessions.get("s").effective_judgements == []
    assert [one.grade for one in sessions.undo("s").effective_judgements] == [1]
    assert sessions.undo("s").judgements == ()
    with pytest.raises(BadInput, match="no step"):
        sessions.undo("s")
    assert marks(add(sessions, "s", ("d3", 1))) == [("d3", 1, 1)]


def test_forgotten_sessions_are_gone(sessions: Sessions) -> None:
    add(sessions, "s", ("d0", 1))
    sessions.delete("s")
    assert sessions.find("s") is None
    calls: list[Callable[[str], object]] = [sessions.get, sessions.undo, sessions.delete]
    for call in calls:
        with pytest.raises(SessionNotFound):
            call("s")


def test_sessions_expire_when_not_used(sessions: Sessions, clock: Clock) -> None:
    add(sessions, "used", ("d0", 1))
    add(sessions, "idle", ("d0", 1))
    clock.now = 3000
    assert sessions.find("used") is not None
    clock.now = 5000
    assert sessions.find("used") is not None
    assert sessions.find("idle") is None
    for call in (sessions.get, sessions.undo):
        with pytest.raises(SessionNotFound):
            call("idle")
    assert marks(add(sessions, "idle", ("d1", 1))) == [("d1", 1, 1)]
    assert sessions.get("idle").created == 5000


def test_expired_sessions_are_purged(sessions: Sessions, clock: Clock) -> None:
    for i in range(5):
        add(sessions, f"s{i}", ("d0", 1))
    clock.now = 2000
    sessions.get("s4")
    clock.now = 4000
    assert sessions.store.purge(clock.now) == 4
    assert sessions.store.purge(clock.now) == 0
    assert len([*sessions.store.scan()]) == 1
    assert sessions.get("s4").steps == 1


def test_sessions_are_listed_to_whom_they_belong_until_they_expire(
    open_stores: Callable[[], SessionStore], clock: Clock
) -> None:
    callers = {name: Caller(name, frozenset({"search", "feedback"})) for name in ("a", "b")}
    callers["admin"] = Caller("admin")
    who = ["a"]
    sessions = Sessions(open_stores(), 1, clock, lambda: callers[who[0]])

    def listed() -> dict[str, set[str]]:
        found = {}
        for who[0] in callers:
            found[who[0]] = {session.id for session in sessions.all_of_caller()}
        return found

    for who[0] in ("a", "b"):
        add(sessions, f"of-{who[0]}", ("d0", 1))
        assert sessions.get(f"of-{who[0]}").owner == who[0]
    assert listed() == {"a": {"of-a"}, "b": {"of-b"}, "admin": {"of-a", "of-b"}}
    who[0] = "a"
    for use in (sessions.get, sessions.undo, sessions.delete):
        with pytest.raises(SessionNotFound):
            use("of-b")
    assert sessions.find("of-b") is None
    with pytest.raises(SessionNotFound, match="you have no session"):
        add(sessions, "of-b", ("d1", 1))
    clock.now = 3600
    assert listed()["admin"] == {"of-a", "of-b"}
    assert len(list(sessions.judgements("docs"))) == 2
    who[0] = "a"
    add(sessions, "of-a", ("d1", 0))
    assert sessions.undo("of-a").steps == 1
    clock.now = 7200
    assert sessions.get("of-a").expires == 10_800
    clock.now = 10_800.5
    assert listed() == {"a": set(), "b": set(), "admin": set()}


def test_expired_sessions_go_by_themselves(sessions: Sessions, clock: Clock) -> None:
    add(sessions, "old", ("d0", 1))
    assert len([*sessions.store.scan()]) == 1  # a scan makes it visible to searches
    clock.now = 4000
    add(sessions, "new", ("d0", 1))
    assert len([*sessions.store.scan()]) == 1
    assert sessions.store.read("old") is None


def test_a_session_expires_after_a_day_by_default(open_stores: Callable[[], SessionStore], clock: Clock) -> None:
    sessions = Sessions(open_stores(), clock=clock)
    add(sessions, "s", ("d0", 1))
    clock.now = 24 * 3600
    assert sessions.find("s") is not None
    clock.now = 48 * 3600 + 1
    assert sessions.find("s") is None


def test_expired_sessions_are_looked_for_once_a_minute(open_stores: Callable[[], SessionStore], clock: Clock) -> None:
    sessions, left = Sessions(open_stores(), 0.001, clock), []
    for clock.now in (1000, 1010, 1020, 1065, 1075):  # sessions expire after 3.6 seconds
        add(sessions, f"s{clock.now}", ("d0", 1))
        left.append(len([*sessions.store.scan()]))
    assert left == [1, 2, 3, 1, 2]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_mark_waits_for_no_more_than_some_to_be_purged(
    sessions: Sessions, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resift.embedded.database.PURGE_BATCH", 2)
    clock.now = 100
    for i in range(5):
        add(sessions, f"s{i}", ("d0", 1))
    clock.now = 4000
    add(sessions, "new", ("d0", 1))
    assert len([*sessions.store.scan()]) == 1 + 3


def test_a_search_writes_only_where_a_hundredth_of_the_time_has_gone(sessions: Sessions, clock: Clock) -> None:
    add(sessions, "s", ("d0", 1))
    versions = []
    for clock.now in (0, 1, 30, 100, 101, 200):
        assert sessions.find("s") is not None
        stored = sessions.store.read("s")
        assert stored is not None
        versions.append(stored.version)
    assert [a != b for a, b in pairwise(versions)] == [False, False, True, False, True]


def test_a_purge_or_a_delay_that_fails_is_no_failure(
    sessions: Sessions, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object, **__: object) -> int:
        raise SessionsUnavailable("the disk is full")

    clock.now = 100
    monkeypatch.setattr(sessions.store, "purge", away)
    assert add(sessions, "s", ("d0", 1)).steps == 1
    assert "the disk is full" in caplog.text
    monkeypatch.setattr(sessions.store, "write", away)
    clock.now = 2000
    assert sessions.get("s").steps == 1
    with pytest.raises(SessionsUnavailable):
        add(sessions, "s", ("d1", 1))


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 129, "a/b"])
def test_bad_names(sessions: Sessions, name: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: add(sessions, name, ("d0", 1)),
        lambda: sessions.find(name),
        lambda: sessions.undo(name),
        lambda: sessions.delete(name),
    ]
    for call in calls:
        with pytest.raises(BadInput, match="session id"):
            call()


def test_a_full_session_forgets_its_oldest_steps(sessions: Sessions) -> None:
    add(sessions, "s", ("a", 1), ("b", 1))
    full = add(sessions, "s", *((f"d{i}", 1) for i in range(MAX_JUDGEMENTS - 2)))
    assert len(full.judgements) == MAX_JUDGEMENTS
    assert marks(add(sessions, "s", ("c", 1)))[0] == ("d0", 1, 2)
    assert len(sessions.get("s").judgements) == MAX_JUDGEMENTS - 1
    add(sessions, "one", *((f"d{i}", 1) for i in range(MAX_JUDGEMENTS)))
    assert len(sessions.get("one").judgements) == MAX_JUDGEMENTS == 100
    for i in range(MAX_JUDGEMENTS):
        add(sessions, "steps", (f"d{i}", 1))
    assert marks(add(sessions, "steps", ("c", 1)))[0] == ("d1", 1, 2)
    with pytest.raises(BadInput, match="101 documents"):
        add(sessions, "s", *((f"d{i}", 1) for i in range(MAX_JUDGEMENTS + 1)))
    assert len(sessions.get("s").judgements) == MAX_JUDGEMENTS - 1


def test_a_session_of_ten_judgements_is_small(sessions: Sessions) -> None:
    for i in range(10):
        session = add(sessions, "s", (f"comp.sys.mac.hardware/{51000 + i}", 1 - 2 * (i % 2)), query="x" * 10_000)
    assert {len(one.query) for one in session.judgements} == {200}
    kept = sessions.store.read("s")
    assert kept is not None
    assert len(json.dumps(kept.body).encode()) <= 1024


def test_parallel_marks_lose_nothing(open_stores: Callable[[], SessionStore], clock: Clock) -> None:
    failed: list[Exception] = []

    def mark(store: SessionStore, thread: int) -> None:
        try:
            for i in range(5):
                add(Sessions(store, 1, clock), "s", (f"{thread}-{i}", 1))
        except Exception as error:
            failed.append(error)

    replicas = [open_stores(), open_stores()]
    threads = [threading.Thread(target=mark, args=(replicas[i % 2], i)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    session = Sessions(open_stores(), 1, clock).get("s")
    assert {one.document for one in session.judgements} == {f"{t}-{i}" for t in range(8) for i in range(5)}
    assert sorted(one.step for one in session.judgements) == list(range(1, 41))


def test_marks_and_undo_in_parallel_leave_whole_steps(open_stores: Callable[[], SessionStore], clock: Clock) -> None:
    replicas = [Sessions(open_stores(), 1, clock) for _ in range(2)]
    for i in range(8):
        add(replicas[0], "s", (f"a{i}", 1), (f"b{i}", -1))

    def undo() -> None:
        for _ in range(8):
            replicas[1].undo("s")

    thread = threading.Thread(target=undo)
    thread.start()
    for i in range(8, 16):
        add(replicas[0], "s", (f"a{i}", 1), (f"b{i}", -1))
    thread.join()
    left = replicas[0].get("s").judgements
    assert len(left) == 16
    for first, second in zip(left[::2], left[1::2], strict=True):
        assert (first.document[0], second.document[0]) == ("a", "b")
        assert (first.step, first.document[1:]) == (second.step, second.document[1:])


def test_giving_up_is_told(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    add(sessions, "s", ("d0", 1))
    original = sessions.store.write

    def always_later(id: str, kept: SessionRecord, wait: bool = True) -> bool:
        """Somebody else writes between our reading and writing."""
        before = sessions.store.read(id)
        assert before is not None
        assert original(id, before)
        return original(id, kept)

    monkeypatch.setattr(sessions.store, "write", always_later)
    waits: list[float] = []
    monkeypatch.setattr(module.time, "sleep", waits.append)
    monkeypatch.setattr(module.random, "uniform", lambda shortest, longest: shortest + longest)
    with pytest.raises(SessionBusy, match="40 times"):
        add(sessions, "s", ("d1", 1))
    monkeypatch.undo()
    assert waits == [0.004, 0.008, 0.016, 0.032, 0.064, 0.128, *[0.25] * 34]
    assert marks(sessions.get("s")) == [("d0", 1, 1)]


def test_judgements_of_an_index_over_all_sessions(sessions: Sessions, clock: Clock) -> None:
    add(sessions, "old", ("gone", 1))
    clock.now = 3000
    add(sessions, "a", ("d1", 1), ("d2", -1), query="fire")
    add(sessions, "a", ("d2", 1), query="fire")
    add(sessions, "b", ("d1", 1), query="rain")
    clock.now = 3700
    (index,) = {one.index for one in sessions.get("a").judgements}
    found = sorted((one.query, one.document, one.grade) for _, one in sessions.judgements(index))
    assert found == [("fire", "d1", 1), ("fire", "d2", 1), ("rain", "d1", 1)]
    assert list(sessions.judgements("other")) == []
