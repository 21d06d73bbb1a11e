"""Tests of reviews without an engine: the stopping rule, the ranking, and the state after the events of a log."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resift.embedded.database import SqliteSessionStore
from resift.errors import BadInput, NotFound
from resift.reranker.access.keys import Caller
from resift.reviews import log as log_module
from resift.reviews.log import ReviewLog, list_reviews
from resift.reviews.ranking import DocumentSet
from resift.reviews.review import LEASE_SECONDS, MAX_LEASED, MODEL, Review
from resift.reviews.stopping import CONFIDENCE, p_value, progress, relevant_interval


@pytest.mark.parametrize(
    ("labels", "total", "target", "expected"),
    [  # results of buscarpy 0.0.2's calculate_h0; benchmarks/reviews.py compares many more
        ("1" * 5 + "0" * 60, 200, 0.95, 0.6923076923076923),
        ("110101001000" + "0" * 150, 300, 0.95, 0.4742268041237113),
        ("1" * 20 + "01" * 10 + "0" * 200, 400, 0.8, 0.0013782810465133605),
        ("0" * 30, 100, 0.95, 0.7),
        ("10" * 40 + "0" * 20, 1000, 0.9, 0.8908488111195807),
    ],
)
def test_the_stopping_rule_equals_the_published_rule(labels: str, total: int, target: float, expected: float) -> None:
    read = [label == "1" for label in labels]
    assert p_value(read, total, target) == pytest.approx(expected, abs=1e-12)
    assert progress(read, total, target).may_stop == (expected <= 0.05)


@given(
    st.lists(st.sampled_from([True, False, False, False, False, False]), min_size=1, max_size=60), st.integers(0, 80)
)
def test_p_values_equal_the_minimum_over_all_runs(read: list[bool], unread: int) -> None:
    from scipy.stats import (
        hypergeom,
    )  # imported here, because it takes a second, which each process would spend while collecting tests

    total, sizes, counts = len(read) + unread, np.arange(1, len(read) + 1), np.cumsum(read[::-1])

    def smallest(missed: int) -> float:
        """Return the smallest probability over all runs of the latest documents, by brute force."""
        return float(hypergeom.cdf(counts, unread + sizes, missed + counts, sizes).min())

    relevant = sum(read)
    missed = math.floor(relevant / 0.9 - relevant + 1)
    least = 0.0 if missed > unread else smallest(missed)
    assert p_value(read, total, 0.9) == pytest.approx(least, abs=1e-12)
    most = max(missed for missed in range(unread + 1) if missed == 0 or smallest(missed) > 1 - CONFIDENCE)
    assert progress(read, total).recall[0] == (relevant / (relevant + most) if relevant + most else 0.0)


def test_a_review_may_stop_when_all_documents_are_read() -> None:
    assert (progress([], 10).p, progress([], 10).cost, progress([], 10).may_stop) == (1.0, None, False)
    everything = progress([True, False], 2)
    assert everything.may_stop
    assert everything.recall == (1.0, 1.0)
    for target in (0.0, 1.0, float("nan")):
        with pytest.raises(BadInput, match="target is"):
            progress([True], 10, target)
    with pytest.raises(BadInput, match="3 judgements of 2 documents"):
        progress([True] * 3, 2)


@pytest.mark.parametrize(("relevant", "read"), [(0, 20), (3, 20), (20, 20), (5, 100)])
def test_a_control_sample_bounds_what_is_missed(relevant: int, read: int) -> None:
    least, most = relevant_interval(read, relevant, 100)
    assert relevant <= least <= most <= 100 - read + relevant
    if read == 100:
        assert least == most == relevant


TEXTS = {f"f{n}": f"forest fire smoke number {n}" for n in range(12)} | {
    f"w{n}": f"war army peace talks day {n}" for n in range(12)
}


def documents(**more: Any) -> DocumentSet:
    """Return twelve documents about fires and twelve about a war."""
    return DocumentSet(list(TEXTS), list(TEXTS.values()), **more)


def test_documents_like_relevant_ones_come_first() -> None:
    ranked = documents().ranked({"w3": True, "f2": False})
    assert {id[0] for id in ranked[:12]} == {"w"}
    assert (
        documents().ranked({"w3": True})[0][0] == "w"
    )  # without irrelevant judgements, unjudged documents serve as such
    assert documents().reasons("w5", {"w3": True, "f2": False}, 3)
    assert set(documents().reasons("w5", {"w3": True, "f2": False}, 3)) <= set(TEXTS["w5"].split()) | {
        "war army",
        "army peace",
        "peace talks",
        "talks day",
        "day 5",
    }
    assert documents().reasons("w5", {}, 3) == []


def test_all_documents_are_ranked_if_nothing_can_be_learned() -> None:
    everything = dict.fromkeys(TEXTS, True)
    assert documents().ranked(everything) == list(TEXTS)
    assert documents().reasons("f1", everything, 3) == []
    assert len(documents().ranked({**everything, "w1": False, "w2": False})) == len(TEXTS)


def test_the_topic_ranks_documents_before_the_first_relevant_judgement() -> None:
    first = documents(first=["w1", "gone", "f9"])
    assert first.ranked({})[:3] == ["w1", "f9", "f0"]
    assert first.ranked({"w1": False})[:2] == ["w1", "f9"]


class Clock:
    """A clock that tests set."""

    now = 1e9

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock."""
    return Clock()


@pytest.fixture
def review(clock: Clock, tmp_path: Path) -> Review:
    """Return a review of the 24 documents."""
    log = ReviewLog(SqliteSessionStore(str(tmp_path / "reviews.db")), "r")
    begun = {"kind": "begin", "by": "", "at": 0.0, "index": "docs", "topic": "", "query": None}
    log.append(lambda: [begun], "docs")
    return Review(log, documents(), begun, clock)


def test_a_document_is_given_again_only_after_its_lease_expired(review: Review, clock: Clock) -> None:
    anna, ben = review.next(10, "anna"), review.next(10, "ben")
    assert not {*anna} & {*ben}
    assert review.next(10, "anna") == anna
    review.judge(anna[:1], anna[1:3], by="anna")
    assert set(anna[3:]) < set(review.next(10, "anna"))
    assert not {*review.next(10, "anna")} & {*anna[:3]}
    assert len(review.next(10, "carl")) == 1
    clock.now += LEASE_SECONDS
    assert len(review.next(100, "carl")) == 21


def many_documents(count: int, clock: Clock, folder: Path, **more: Any) -> Review:
    """Return a review of generated documents."""
    ids = [str(n) for n in range(count)]
    log = ReviewLog(SqliteSessionStore(str(folder / "many.db")), "r")
    begun = {"kind": "begin", "by": "", "at": 0.0, "index": "docs", "topic": "", "query": None}
    log.append(lambda: [begun], "docs")
    return Review(log, DocumentSet(ids, [f"smoke {id}" for id in ids]), begun, clock, **more)


def test_a_person_gets_more_documents_than_are_assigned_to_them(clock: Clock, tmp_path: Path) -> None:
    review = many_documents(400, clock, tmp_path)
    everything = review.next(1000, "anna")
    assert len(everything) == 400
    assert review.next(1000, "ben") == everything[MAX_LEASED:]  # ben's share of the key is all that is left
    assert len(review.next(1000, "carl")) == 200


def test_people_with_one_key_get_at_most_half_of_the_unread_documents(clock: Clock, tmp_path: Path) -> None:
    keys = {"one": Caller("one"), "two": Caller("two")}
    caller = keys["one"]
    review = many_documents(600, clock, tmp_path, caller=lambda: caller)
    for person in range(20):
        review.next(1000, f"person {person}")
    caller = keys["two"]
    assert len(review.next(1000, "anna")) == 300


def test_documents_go_to_others_after_half_an_hour_without_a_judgement(review: Review, clock: Clock) -> None:
    mine = review.next(10, "anna")
    clock.now += LEASE_SECONDS - 60
    review.judge(mine[:1], by="anna")
    clock.now += LEASE_SECONDS - 60
    assert not {*mine} & {*review.next(24, "ben")}
    clock.now += LEASE_SECONDS
    assert {*mine[1:]} < {*review.next(24, "carl")}


def test_released_documents_go_to_others(review: Review) -> None:
    mine = review.next(10, "anna")
    review.judge(mine[:1], by="anna")
    assert sorted(review.release("anna")) == sorted(mine[1:])
    assert review.release("anna") == []
    assert {*mine[1:]} < {*review.next(24, "ben")}


def test_samples_take_nothing_that_is_assigned(review: Review) -> None:
    assigned = review.next(10, "anna")
    drawn = review.sample(24, "ben")
    assert sorted([*drawn, *assigned]) == sorted(TEXTS)
    assert review.controls()[0]["unread"] == 14


def test_a_key_undoes_and_releases_only_what_it_sent(clock: Clock, tmp_path: Path) -> None:
    caller = Caller("one", frozenset({"review"}))
    review = many_documents(20, clock, tmp_path, caller=lambda: caller)
    review.judge(["1"], by="anna")
    mine = review.next(2, "anna")
    caller = Caller("two", frozenset({"review"}))
    with pytest.raises(BadInput, match="'anna' has no judgement to undo"):
        review.undo("anna")
    assert review.release("anna") == []
    assert not {*mine} & {*review.next(20, "anna")}
    review.judge([], ["1"], by="anna")
    assert review.conflicts() == {"1": {"anna (one)": True, "anna (two)": False}}
    assert review.undo("anna").relevant == 1  # the judgement of the other key counts again
    caller = Caller("root", frozenset({"review", "admin"}))
    assert review.undo("anna").read == 0
    assert {*mine} <= {*review.release("anna")}
    assert [event["key"] for event in review.audit()[1:]] == ["one", "one", "two", "two", "two", "root", "root"]
    again = Review(ReviewLog(review._log._store, "r"), review.documents, review.first_event, clock)
    assert (again.progress().read, again.conflicts()) == (0, {})


def test_events_without_a_key_are_read(clock: Clock, tmp_path: Path) -> None:
    review = many_documents(20, clock, tmp_path)
    old = {"by": "anna", "at": clock()}
    judged = {**old, "kind": "judge", "document": "1", "relevant": True, "source": "mark"}
    review._log.append(lambda: [{**old, "kind": "give", "documents": ["1", "2"]}, judged])
    assert review.progress().relevant == 1
    assert "2" not in review.next(20, "ben")
    assert review.undo("anna").read == 0


def test_batches_grow_with_what_was_read(clock: Clock, tmp_path: Path) -> None:
    review = many_documents(400, clock, tmp_path)
    assert len(review.next(by="anna")) == 10
    review.judge([], [str(n) for n in range(150)], by="anna")
    assert len(review.next(by="ben")) == 15


def test_undo_restores_the_earlier_judgement(review: Review) -> None:
    review.judge(["f1"], by="anna")
    review.judge([], ["f1"], by="anna")
    assert review.progress().relevant == 0
    assert review.undo("anna").relevant == 1
    review.judge(["f2"], by="ben")
    assert review.undo("anna").read == 1
    with pytest.raises(BadInput, match="'anna' has no judgement to undo"):
        review.undo("anna")
    assert [event["kind"] for event in review.audit()] == ["begin", *["judge"] * 2, "undo", "judge", "undo"]


def test_conflicts_are_listed_and_the_last_judgement_counts(review: Review) -> None:
    review.judge(["f1", "f2"], by="anna")
    review.judge(["f2"], ["f1"], by="ben")
    assert review.conflicts() == {"f1": {"anna": True, "ben": False}}
    assert review.progress().relevant == 1


def test_judgements_of_models_rank_documents_but_do_not_count(review: Review) -> None:
    review.judge(["w1", "w2"], ["f1", "f2"], by="agent", source=MODEL)
    assert (review.progress().read, review.judged_by_models()) == (0, 4)
    assert {id[0] for id in review.next(10, "anna")} == {"w"}
    assert {"w1", "w2"} < set(review.next(10, "anna"))
    assert not {"w1", "w2", "f1", "f2"} & set(review.next(24, "agent", MODEL))
    review.judge([], ["w1"], by="anna")
    assert (review.progress().read, review.progress().relevant, review.judged_by_models()) == (1, 0, 3)


@pytest.mark.parametrize(
    ("relevant", "irrelevant", "error"),
    [([], [], "no document is judged"), (["f1"], ["f1"], "'f1' is judged twice"), (["f1", "x"], [], "no document 'x'")],
)
def test_an_invalid_judgement_changes_nothing(
    review: Review, relevant: list[str], irrelevant: list[str], error: str
) -> None:
    with pytest.raises((BadInput, NotFound), match=error):
        review.judge(relevant, irrelevant)
    assert review.progress().read == 0


@pytest.mark.parametrize("count", [0, -1, 1001])
def test_batches_of_invalid_size_are_refused(review: Review, count: int) -> None:
    with pytest.raises(BadInput, match="1 to 1000"):
        review.next(count)
    with pytest.raises(BadInput, match="1 to 1000"):
        review.sample(count)


def test_samples_contain_unread_documents_only(review: Review) -> None:
    review.judge(["f1"], ["f2"])
    drawn = review.sample(30, "anna")
    assert sorted(drawn) == sorted(set(TEXTS) - {"f1", "f2"})
    assert review.controls() == [{"drawn": 22, "read": 0, "relevant": 0, "unread": 22}]
    review.judge([], drawn, by="anna")
    assert review.controls()[0] == {"drawn": 22, "read": 22, "relevant": 0, "unread": 22, "least": 0, "most": 0}


def test_judgements_are_exported_in_each_format(review: Review) -> None:
    review.judge(["f1"], ["w1"], by="=cmd()")
    rows = list(csv.DictReader(io.StringIO(review.export("csv"))))
    assert [(row["document"], row["relevant"], row["by"]) for row in rows] == [
        ("f1", "1", "'=cmd()"),
        ("w1", "0", "'=cmd()"),
    ]
    assert review.export("qrels") == "r 0 f1 1\nr 0 w1 0\n"
    assert review.export("ris").splitlines()[:3] == ["TY  - GEN", "ID  - f1", f"TI  - {TEXTS['f1']}"]
    with pytest.raises(BadInput, match="'bib' is not a format"):
        review.export("bib")


HOSTILE = ["=1+1", "@cmd", " =1", "\uff1d1", "a\nTY  - GEN\nER  - ", "b 0 c 1\nr 0 d 1", "e\u2028f", "50%", "x\ty"]


def test_ids_add_no_records_and_no_formulas_to_exports(clock: Clock, tmp_path: Path) -> None:
    log = ReviewLog(SqliteSessionStore(str(tmp_path / "reviews.db")), "r")
    begun = {"kind": "begin", "by": "", "at": 0.0, "index": "docs", "topic": "", "query": None}
    log.append(lambda: [begun], "docs")
    review = Review(log, DocumentSet(HOSTILE, [f"=title of {id}" for id in HOSTILE]), begun, clock)
    review.judge(HOSTILE, by="\n=1+1")
    lines = [line.split() for line in review.export("qrels").splitlines()]
    assert [line[::3] for line in lines] == [["r", "1"]] * len(HOSTILE)
    assert [unquote(line[2]) for line in lines] == HOSTILE
    tags = [line[:2] for line in review.export("ris").splitlines() if line]
    assert tags == ["TY", "ID", "TI", "AB", "ER"] * len(HOSTILE)
    rows = list(csv.reader(io.StringIO(review.export("csv"), newline="")))
    assert len(rows) == 1 + len(HOSTILE)
    assert not [cell for row in rows for cell in row if cell.strip().startswith(("=", "@", "\uff1d"))]


def test_a_long_log_is_read_as_it_was_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(log_module, "_CHUNK", 3)
    store = SqliteSessionStore(str(tmp_path / "reviews.db"))
    first, second = ReviewLog(store, "r"), ReviewLog(store, "r")
    for start in range(0, 20, 4):
        writer = (first, second)[start % 8 == 0]
        writer.append(lambda start=start: [{"n": start + more} for more in range(4)], "docs")  # type: ignore[misc]
    assert [event["n"] for event in first.refresh()] == list(range(20))
    assert second.refresh() == first.events == ReviewLog(store, "r").refresh()
    first.delete()
    assert len([*store.scan()]) == 0
    with pytest.raises(NotFound):
        second.refresh()


def test_reviews_are_listed_without_their_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteSessionStore(str(tmp_path / "reviews.db"))
    for id in ("b", "a"):
        ReviewLog(store, id).append(lambda: [{"topic": "fire " * 2000}], "docs")

    def fail(*args: object) -> None:
        raise AssertionError("the content of a review is read")

    monkeypatch.setattr(store, "scan", fail)
    monkeypatch.setattr(store, "read", fail)
    assert list_reviews(store) == [("a", "docs"), ("b", "docs")]


def test_remains_of_a_deleted_review_are_no_part_of_a_new_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(log_module, "_CHUNK", 2)
    store = SqliteSessionStore(str(tmp_path / "reviews.db"))
    ReviewLog(store, "r").append(lambda: [{"at": 1.0, "n": n} for n in range(7)], "docs")
    assert store.delete("r.0")  # the process is killed before the next chunk is deleted
    log = ReviewLog(store, "r")
    for number in range(7):
        log.append(lambda number=number: [{"at": 2.0, "n": 10 + number}], "docs")  # type: ignore[misc]
        assert [event["n"] for event in ReviewLog(store, "r").refresh()] == [*range(10, 11 + number)]
    log.delete()
    assert [*store.scan()] == []


def test_documents_without_a_word_are_ranked_too() -> None:
    numbers = DocumentSet(["a", "b", "c"], ["1", "", "x"])
    assert sorted(numbers.ranked({"a": True, "b": False}, ["a", "b"])) == ["c"]
    assert numbers.reasons("c", {"a": True, "b": False}, 3) == []


def test_judgements_of_models_never_replace_judgements_of_people(review: Review) -> None:
    given = review.next(3, "anna")
    review.judge(given[:1], by="anna", source=MODEL)
    assert not {*given} & {*review.next(10, "ben")}
    review.judge([], given[:1], by="anna")
    review.judge(given[:1], by="anna", source=MODEL)  # a model with the same name
    assert (review.progress().read, review.progress().relevant) == (1, 0)
    assert review.undo("anna").read == 0


def test_a_models_judgement_can_be_undone(review: Review) -> None:
    review.judge(["f1"], by="screener", source=MODEL)
    review.judge(["f2"], by="screener")  # a person with the same name
    assert review.judged_by_models() == 1
    review.undo("screener", MODEL)
    assert (review.judged_by_models(), review.progress().relevant) == (0, 1)
    assert review.next(3, "anna")  # the document is not assigned to the model
    with pytest.raises(BadInput, match="'screener' has no judgement to undo"):
        review.undo("screener", MODEL)


def test_undo_restores_the_previous_state(review: Review) -> None:
    review.judge(["f1"], by="anna")
    review.judge([], ["f1"], by="ben")
    review.judge([], ["f1"], by="anna")
    assert review.undo("anna").relevant == 0  # ben's judgement is the latest
    unlikely = review.next(24, "carl")[-2:]
    review.judge(unlikely, by="carl")
    review.undo("carl")
    review.undo("carl")
    assert review.next(2, "carl") == unlikely
    assert not {*unlikely} & {*review.next(24, "ben")}


def test_a_clock_that_jumps_changes_no_order_and_reserves_nothing_for_days(review: Review, clock: Clock) -> None:
    clock.now += 86_400
    review.judge(["f1"], by="anna")
    mine = review.next(10, "anna")
    clock.now -= 86_400
    review.judge([], ["f1"], by="ben")
    review.judge(["f1"], by="carl")
    assert review.undo("carl").relevant == 0  # ben's judgement is the latest, although its time is earlier
    assert {*mine} <= {*review.next(24, "ben")}


def test_deleted_documents_stay_counted(review: Review, clock: Clock) -> None:
    review.judge(["f1"], [id for id in TEXTS if id != "f1"][:20], by="anna")
    ids = [*TEXTS][-5:]
    fewer = Review(review._log, DocumentSet(ids, [TEXTS[id] for id in ids]), review.first_event, clock)
    unread = sum(id not in review.state().read for id in ids)
    assert (fewer.progress().total, fewer.progress().read) == (21 + unread, 21)
    assert fewer.undo("anna").read == 20
