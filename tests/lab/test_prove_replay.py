"""Tests of log replay: sampling, replaying, confidence intervals, and the commands."""

from __future__ import annotations

import csv
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from ubi_events import NOW, event, query

import resift_lab
from resift import Model
from resift.cli.main import main
from resift.contracts.engine import Engine
from resift.contracts.tuning import DEFAULT_TUNING, Tuning
from resift.contracts.ubi import EVENTS, QUERIES, UbiEvent, UbiLog, UbiQuery
from resift.errors import BadInput, MissingExtra
from resift.feedback.judgements import Judgement
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.sessions.clicks import ACTIONS
from resift_lab.log_replay import report, traffic
from resift_lab.log_replay.replay import Observation, ReplayLog, SkippedClicks, replay
from resift_lab.log_replay.report import false_alarms, metrics_by_group
from resift_lab.log_replay.traffic import read_searches, sample_clients
from resift_lab.log_replay.tuning import choose_constants

TOPICS = {"fire": "bush flame smoke forest", "war": "army gun soldier ceasefire"}
DOCUMENTS = [f"{topic}-{n}" for n in range(20) for topic in TOPICS]


def done(action: str, client: str, search: str, document: str, at: float, ordinal: int | None = None) -> UbiEvent:
    """Return an event of a client."""
    return UbiEvent(action, client, "", search, document, "", ordinal, at, f"text of {search}")


def test_a_client_is_sampled_with_all_of_its_events() -> None:
    events = [done("click", f"c{n % 50}", f"q{n}", "d", n) for n in range(500)]
    events += [done("impression", f"c{n % 50}", f"q{n}", "e", n) for n in range(500)]
    sample = sample_clients(events, ACTIONS, searches=100)
    assert {len(found) for found in sample.events_by_client.values()} == {20}
    assert 5 <= len(sample.events_by_client) <= 10
    assert 0 < sample.share < 1
    assert sample.events == 1000
    # the order of events in the log does not matter
    random.Random(1).shuffle(events)
    assert sample_clients(events, ACTIONS, searches=100).events_by_client.keys() == sample.events_by_client.keys()
    assert (
        sample_clients(events, ACTIONS, searches=100, seed=1).events_by_client.keys() != sample.events_by_client.keys()
    )
    assert len(sample_clients(events, ACTIONS, searches=1000).events_by_client) == 50


def test_the_sample_of_a_log_has_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "_MAX_EVENTS_IN_MEMORY", 300)
    monkeypatch.setattr(traffic, "MAX_EVENTS", 100)
    events = (done("impression", f"c{n % 50}", f"q{n}", "d", n) for n in range(5000))
    sample = sample_clients(events, ACTIONS, searches=1000)
    assert sum(map(len, sample.events_by_client.values())) <= 300
    robot = [done("click", "robot", f"q{n}", "d", n) for n in range(101)]
    sample = sample_clients([*robot, done("click", "c", "q", "d", 1)], ACTIONS, searches=1000)
    assert (list(sample.events_by_client), sample.robots) == (["c"], 1)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_searches_of_a_csv_file_are_read(tmp_path: Path, delimiter: str) -> None:
    file = tmp_path / "log.csv"
    lines = "client,time,query,shown,clicked\nanna,2024-12-10T00:01:29Z,bush fire,a b c,c\n"
    file.write_text(lines.replace(",", delimiter))
    assert [(one.action, one.object, one.ordinal, one.text, one.client) for one in read_searches(file)] == [
        ("impression", "a", 1, "bush fire", "anna"),
        ("impression", "b", 2, "bush fire", "anna"),
        ("impression", "c", 3, "bush fire", "anna"),
        ("click", "c", 3, "bush fire", "anna"),
    ]
    assert {one.object_field for one in read_searches(file, "sku")} == {"sku"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query,shown,clicked,client\n", "no column 'time'"),
        ("query,shown,clicked,client,time\nfire,a,a,anna,today\n", "row 1: the time is 'today'"),
        ("query,shown,clicked,client,time\n\xff", "utf-8"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_not_a_log_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "log.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput, match=message):
        list(read_searches(tmp_path / "log.csv"))


def log_of(*texts: str) -> ReplayLog:
    """Return a log with documents a to z, and queries q0, q1, … with these texts."""
    queries = {f"q{n}": UbiQuery(text) for n, text in enumerate(texts)}
    return ReplayLog("news", queries, {(id, ""): id for id in "abcdefghijklmnopqrstuvwxyz"}, ACTIONS, 3600.0)


def test_a_click_is_replayed_with_earlier_clicks_of_its_client() -> None:
    asked: list[tuple[str, list[tuple[str, float]]]] = []

    def rank(text: str, judged: Sequence[Judgement]) -> tuple[str, str]:
        asked.append((text, [(one.document, one.grade) for one in judged]))
        return "abc", "cab"

    events = [
        done("impression", "anna", "q0", "a", 10, 0),
        done("click", "anna", "q0", "b", 11, 1),
        done("click", "anna", "q1", "b", 20, 1),
        done("click", "anna", "q1", "c", 21, 2),
        done("click", "anna", "q1", "z", 22, 26),
        done("click", "anna", "q2", "a", 4000, 1),
        done("click", "anna", "q3", "lost", 4001, 1),
    ]
    skipped = SkippedClicks()
    found = list(replay("anna", events, log_of("fire", "war"), rank, skipped))
    # ordinals of q1 start at 1; q0 has no session; b was clicked before, and takes no rank; an hour later, earlier
    # clicks do not count
    assert found == [Observation("anna", 2, 1, 2, 1), Observation("anna", 26, 1, None, None)]
    ((text, judged),) = asked
    assert text == "war"
    assert dict(judged)["b"] > 0 > dict(judged)["a"]
    assert skipped == SkippedClicks(first=2, again=1, unknown=1)


def test_a_document_that_was_clicked_before_takes_no_rank() -> None:
    # The session only moves b, the document that the client clicked in the search before.
    events = [done("click", "anna", "q0", "b", 10, 1), done("click", "anna", "q1", "d", 20, 1)]
    (found,) = replay("anna", events, log_of("fire", "war"), lambda *_: ("acdb", "bacd"), SkippedClicks())
    assert (found.without, found.with_session) == (3, 3)


@pytest.mark.parametrize("repeated", ["the next day", "shown again"])
def test_a_repeated_search_without_query_ids_is_another_search(repeated: str) -> None:
    later = 86_400 if repeated == "the next day" else 60
    events = [
        UbiEvent("impression", "anna", "", "", "a", "", 1, 0, "fire"),
        UbiEvent("click", "anna", "", "", "a", "", 1, 5, "fire"),
        UbiEvent("impression", "anna", "", "", "a", "", 1, later, "fire"),
        UbiEvent("impression", "anna", "", "", "b", "", 2, later + 1, "fire"),
        UbiEvent("click", "anna", "", "", "b", "", 2, later + 5, "fire"),
    ]
    log, skipped = replace(log_of(), seconds=1e6), SkippedClicks()
    found = list(replay("anna", events, log, lambda text, judged: ("acb", "bac"), skipped))
    assert found == [Observation("anna", 2, 1, 2, 1)]
    assert skipped.first == 1


def test_the_later_clicks_of_a_search_without_query_ids_belong_to_it() -> None:
    events = [
        UbiEvent("impression", "anna", "", "", "a", "", 1, 0, "fire"),
        UbiEvent("click", "anna", "", "", "a", "", 1, 5, "fire"),
        UbiEvent("impression", "anna", "", "", "b", "", 2, 600, "fire"),  # scrolled down
        UbiEvent("click", "anna", "", "", "b", "", 2, 700, "fire"),
    ]
    skipped = SkippedClicks()
    assert not list(replay("anna", events, log_of(), lambda text, judged: ("ab", "ba"), skipped))
    assert skipped.first == 2


def simulated(rng: np.random.Generator, clients: int, gain: float) -> list[Observation]:
    """Return simulated clicks. A session changes a third of the ranks, by a different amount for each client."""
    found = []
    for client in range(clients):
        own = gain + 0.3 * rng.normal()
        for _ in range(rng.integers(1, 6)):
            rank = int(rng.integers(1, 20))
            moved = rank if rng.random() < 0.67 else max(1, round(rank * float(np.exp(-own + rng.normal()))))
            pair = (rank, moved) if gain or rng.random() < 0.5 else (moved, rank)
            found.append(Observation(f"c{client}", rank, 1, *pair))
    return found


def test_intervals_show_a_difference_only_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_GROUPS", {"all": report._GROUPS["all"]})  # only in the first row
    differences = [metrics_by_group(simulated(np.random.default_rng([7, n]), 200, 0.8))["all"] for n in range(20)]
    assert sum(row.interval[0] > 0 for row in differences) >= 18
    nothing = [metrics_by_group(simulated(np.random.default_rng([7, n]), 200, 0.0))["all"] for n in range(100)]
    assert sum(not row.interval[0] <= 0 <= row.interval[1] for row in nothing) <= 5


def test_swapped_rankings_measure_false_alarms() -> None:
    assert false_alarms(simulated(np.random.default_rng(0), 200, 0.8)) <= 10
    single = metrics_by_group([Observation("a", 2, 1, 2, 1)])["all"]
    assert single.interval == (-1, 1)  # a single client gives no interval


@pytest.mark.parametrize(
    ("clients", "changed", "interval"),
    [
        # A resample of three clients is a single client with a probability of 3 in 27.
        (3, 3, (-1, 1)),
        # A resample of 60 clients has none of the two that changed with a probability of 13 %.
        (60, 2, (-1, 1)),
        (60, 0, (0, 0)),
    ],
)
def test_resamples_without_a_standard_error_widen_the_interval(
    clients: int, changed: int, interval: tuple[float, float]
) -> None:
    clicks = [Observation(f"c{n}", 2, 1, 4, 2 + n if n < changed else 4) for n in range(clients)]
    assert metrics_by_group(clicks)["all"].interval == interval


def test_clients_with_the_same_change_give_an_interval_without_width() -> None:
    row = metrics_by_group([Observation(f"c{n}", 2, 1, 7, 3) for n in range(40)])["all"]
    assert row.interval == pytest.approx((row.difference, row.difference))


def test_tuning_says_that_scipy_is_missing_before_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(MissingExtra, match="needs scipy"):
        choose_constants(lambda _: pytest.fail("measured"), DEFAULT_TUNING)


@pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)
def test_tuning_the_weight_of_vectors_says_that_scipy_is_missing(
    engine_url: str, news: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(MissingExtra, match=r"the vectors needs scipy: pip install 'resift\[adapt\]'"):
        resift_lab.tune(news, "documents", engine_url, model=model)


def test_lower_clicks_have_larger_weights() -> None:
    rows = metrics_by_group(
        [Observation("a", 1, 1, 1, 2), Observation("b", 10, 1, 10, 5), Observation("c", 90, 1, None, 50)]
    )
    assert rows["all"].difference == pytest.approx((-0.5 + 0.1 + 0.02) / 3)
    assert rows["all, weighted by place"].difference == pytest.approx((-0.5 + 10 * 0.1 + 10 * 0.02) / 21)
    assert list(rows) == [
        "all",
        "all, weighted by place",
        "clicked at 1",
        "clicked at 4-10",
        "clicked below 10",
        "after 1 click",
    ]


@pytest.fixture
def news(engine: Engine, index: str, model: Model, tmp_path: Path) -> str:
    """Index forty documents on two topics, which all contain the word "tree"."""
    texts = {id: f"tree {TOPICS[id.split('-')[0]]}" for id in DOCUMENTS}
    records = [Record("f", n, id, {"text": text, "sku": f"s-{id}"}) for n, (id, text) in enumerate(texts.items())]
    assert Indexer(engine, model, index, DeadLetters(tmp_path / "dead")).run(records, ["text"]).refused == 0
    return index


def searches(rng: random.Random, clients: int, loyal: bool) -> Iterator[tuple[str, float, list[str], str]]:
    """Yield two searches with a click for each client. ``loyal`` clients click only documents on their topic."""
    for client in range(clients):
        topic, clicked = rng.choice(list(TOPICS)), set[str]()
        for n in range(2):
            shown = rng.sample(DOCUMENTS, 20)
            liked = [id for id in shown if id not in clicked and (not loyal or id.startswith(topic))]
            clicked.add(id := rng.choice(liked))
            yield f"c{client}", NOW - 1000 + 10 * n, shown, id


@pytest.mark.parametrize(
    ("engine_url", "loyal"), [("sqlite", True), ("opensearch", True), ("sqlite", False)], indirect=["engine_url"]
)
def test_sessions_help_clients_with_a_constant_interest(
    engine_url: str, engine: Engine, news: str, model: Model, tmp_path: Path, loyal: bool
) -> None:
    with open(tmp_path / "log.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["query", "shown", "clicked", "client", "time"])
        for client, at, shown, clicked in searches(random.Random(3), 60, loyal):
            rows.writerow(["tree", " ".join(shown), clicked, client, at])
    report = resift_lab.prove(news, tmp_path / "log.csv", engine_url, model=model)
    row = report.rows["all"]
    assert (row.clicks, row.clients) == (60, 60)
    assert (report.skipped.first, report.unstable, report.share) == (60, 0, 1)
    assert (row.interval[0] > 0) == loyal
    assert (row.interval[1] < 0) is False
    own = {"query": {"bool": {"must": {"match": {"text": "%SearchText%"}}}}, "aggs": {"n": {"terms": {"field": "sku"}}}}
    assert resift_lab.prove(news, tmp_path / "log.csv", engine_url, model=model, body=own).rows["all"].clicks == 60
    engine.tune(news, Tuning(words=0, strength=0))  # searches in which sessions make no difference
    tuned = resift_lab.tune(news, tmp_path / "log.csv", engine_url, model=model)
    assert tuned.changed == (tuned.tuning.words > 0 or tuned.tuning.strength > 0) == loyal
    assert resift_lab.tune(news, None, engine_url, model=model).tuning == tuned.tuning
    assert (
        resift_lab.tune(news, None, engine_url, model=model, undo=True).tuning
        == DEFAULT_TUNING
        == engine.info(news).tuning
    )


def test_the_command_replays_the_ubi_log(
    engine_url: str,
    engine: Engine,
    news: str,
    ubi_log: UbiLog,
    ubi_names: tuple[str, str],
    model: Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number, (client, at, shown, clicked) in enumerate(searches(random.Random(3), 20, loyal=True)):
        one = {"client_id": client, "query_id": f"q{number}", "session_id": f"v{number}"}
        ubi_log.add(QUERIES, [query("tree", f"q{number}", client_id=client)])
        impressions = [event("impression", f"s-{id}", n, at, **one) for n, id in enumerate(shown)]
        ubi_log.add(EVENTS, [*impressions, event("click", f"s-{clicked}", shown.index(clicked), at + 1, **one)])
    if isinstance(engine, OpenSearchEngine):
        engine.client.indices.refresh(index=",".join(ubi_names))
    monkeypatch.setenv("RESIFT_UBI_EVENTS", ubi_names[0])
    monkeypatch.setenv("RESIFT_UBI_QUERIES", ubi_names[1])
    model.save(tmp_path / "model")
    asked = ["prove", news, "--engine", engine_url, "--model", str(tmp_path / "model")]
    ran = CliRunner().invoke(main, [*asked, "--json"])
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout)
    assert report["rows"]["all"]["clicks"] == 20
    assert report["rows"]["all"]["difference"] > 0
    assert report["events"] == 40 * 21
    shown = CliRunner().invoke(main, asked).stdout
    assert "weighted by place" in shown
    assert "some" not in shown.splitlines()[0]


def test_an_empty_ubi_log_is_named(
    engine_url: str,
    news: str,
    ubi_log: UbiLog,
    ubi_names: tuple[str, str],
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RESIFT_UBI_EVENTS", ubi_names[0])
    monkeypatch.setenv("RESIFT_UBI_QUERIES", ubi_names[1])
    place = f"the indices {ubi_names[0]} and {ubi_names[1]} of {engine_url}" if "://" in engine_url else engine_url
    message = f"there is nothing to replay for index {news!r} in {place}"
    for command in (resift_lab.prove, resift_lab.tune):
        with pytest.raises(BadInput) as error:
            command(news, "ubi", engine_url, model=model)
        assert error.value.message == message


def test_a_log_without_later_clicks_is_refused(engine_url: str, news: str, model: Model, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("query,shown,clicked,client,time\ntree,fire-1,fire-1,anna,1700000000\n")
    with pytest.raises(
        BadInput, match=f"nothing to replay for index '{news}' in {re.escape(str(tmp_path / 'log.csv'))}"
    ):
        resift_lab.prove(news, tmp_path / "log.csv", engine_url, model=model)
    with (tmp_path / "log.csv").open("a") as file:
        file.write("tree,fire-2,fire-2,anna,1700000001\n")
    with pytest.raises(BadInput, match="%SearchText%"):
        resift_lab.prove(news, tmp_path / "log.csv", engine_url, model=model, body={"query": {"match_all": {}}})
