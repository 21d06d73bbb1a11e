"""Tests of the UBI log: two indices of OpenSearch and an SQLite file fulfil the same contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opensearchpy import OpenSearch
from ubi_events import LOST_EVENTS, NOW, ODD_EVENTS, event, query

from resift.contracts.ubi import (
    EVENTS,
    MAX_CLIENT_EVENTS,
    QUERIES,
    UbiEvent,
    UbiLog,
    UbiQuery,
    iso_timestamp,
    unix_seconds,
)
from resift.embedded import database as sqlite_ubi
from resift.errors import BadInput, EngineError, EngineUnavailable
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.ubi import OpenSearchUbiLog
from resift.service.connect import open_engine, open_ubi_log

LONG = (0.0, NOW + 1000)
Refresh = Callable[[], None]


@pytest.fixture
def refresh(engine_url: str, ubi_names: tuple[str, str]) -> Iterator[Refresh]:
    """Return a function that makes writes visible at once."""
    engine = open_engine(engine_url)

    def run() -> None:
        if isinstance(engine, OpenSearchEngine):
            engine.client.indices.refresh(index=",".join(ubi_names), params={"ignore_unavailable": "true"})

    yield run
    engine.close()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2024-12-10T00:01:29.378Z", 1733788889.378),
        ("2024-12-10T01:01:29.378+0100", 1733788889.378),
        ("2024-12-10T00:01:29.378123456Z", 1733788889.378123),
        ("2024-12-10T00:01:29.3", 1733788889.3),
        ("2024-12-10T00:01:29", 1733788889),
        (1733788889378, 1733788889.378),
        (1733788889, 1733788889),
        (1733788889.5, 1733788889.5),
        (1733788889378000, 1733788889.378),
        ("1733788889378", 1733788889.378),
        (" 1733788889 ", 1733788889),
        ("1733788889.378", 1733788889.378),
        ("1900-01-01T00:00:00Z", 0),
        ("10 December", None),
        ("", None),
        (None, None),
        (True, None),
        (-1, None),
        (1e300, None),
        (0, None),
        (5312.5, None),
        ({}, None),
    ],
)
def test_times_are_read_in_all_common_formats(value: Any, seconds: float | None) -> None:
    assert unix_seconds(value) == seconds


def test_a_time_is_written_as_ubi_wants_it() -> None:
    assert iso_timestamp(1733788889.378) == "2024-12-10T00:01:29.378Z"


def test_an_event_is_read() -> None:
    assert UbiEvent.read(event("click", "A1", 2, user_query="fire")) == UbiEvent(
        "click", "anna", "visit-1", "q1", "A1", "sku", 2, NOW, "fire"
    )


def test_odd_events_are_read_and_internal_ids_are_no_objects() -> None:
    read = [UbiEvent.read(odd) for odd in ODD_EVENTS]
    assert None not in read
    assert [one.object for one in read if one] == ["", "B2", "", "", "4711", "", "", "A1", ""]
    assert [one.ordinal for one in read if one] == [None, 3, None, None, None, None, None, 1, None]
    assert [UbiEvent.read(lost) for lost in LOST_EVENTS] == [None] * len(LOST_EVENTS)


def test_an_ordinal_that_is_no_position_is_ignored() -> None:
    ordinals = [2, 0, -1, True, 1.5, "2", 10**400]
    events = [UbiEvent.read(event("click", "A1", ordinal)) for ordinal in ordinals]
    assert [read.ordinal for read in events if read] == [2, 0, None, None, None, None, None]


def test_the_id_field_of_documents_is_no_field() -> None:
    found = UbiEvent.read(event("click", event_attributes={"object": {"object_id": "1", "object_id_field": "_id"}}))
    assert found is not None
    assert (found.object, found.object_field) == ("1", "")


def test_events_come_back_to_their_client_and_their_session_and_to_nobody_else(
    ubi_log: UbiLog, refresh: Refresh
) -> None:
    others = [event("click", "C3", 3, client_id="bob", session_id="visit-1 b"), event("click", "D4", 1, client_id="an")]
    ubi_log.add(EVENTS, [event("click", "A1", 1, NOW - 5), *others[:1], event("view", "B2", 2), *others[1:]])
    refresh()
    assert [one.object for one in ubi_log.events("anna", *LONG)] == ["A1", "B2"]
    assert {one.object for one in ubi_log.events("visit-1", *LONG)} == {"A1", "B2", "D4"}
    assert ubi_log.events("visit", *LONG) == ubi_log.events("", *LONG) == ubi_log.events("Anna", *LONG) == []


def test_events_come_from_between_two_times(ubi_log: UbiLog, refresh: Refresh) -> None:
    ubi_log.add(
        EVENTS, [event("click", name, 1, NOW + seconds) for name, seconds in (("old", -9), ("new", 0), ("ahead", 9))]
    )
    refresh()
    assert [one.object for one in ubi_log.events("anna", NOW - 5, NOW + 5)] == ["new"]


def test_the_latest_events_are_returned(ubi_log: UbiLog, refresh: Refresh) -> None:
    ubi_log.add(EVENTS, [event("click", str(n), 1, NOW + n) for n in range(MAX_CLIENT_EVENTS + 3)])
    refresh()
    found = ubi_log.events("anna", *LONG)
    assert [one.object for one in found] == [str(n) for n in range(3, MAX_CLIENT_EVENTS + 3)]


def test_queries_are_looked_up_by_id(ubi_log: UbiLog, refresh: Refresh) -> None:
    ubi_log.add(QUERIES, [query(), query("war", "q2", query_response_hit_ids=["B2", "A1"]), query("", "q3")])
    refresh()
    assert ubi_log.queries(["q1", "q2", "nothing"]) == {"q1": UbiQuery("fire"), "q2": UbiQuery("war", ("B2", "A1"))}


def test_the_first_query_with_an_id_counts(ubi_log: UbiLog, refresh: Refresh) -> None:
    for place in range(3):
        ubi_log.add(QUERIES, [query(f"fire {place}", timestamp=iso_timestamp(NOW + place))])
    refresh()
    assert ubi_log.queries(["q1"]) == {"q1": UbiQuery("fire 0")}


def test_a_missing_log_is_empty(ubi_log: UbiLog) -> None:
    assert (ubi_log.events("anna", *LONG), ubi_log.queries(["q1"]), list(ubi_log.scan())) == ([], {}, [])


def test_events_are_returned_completely_or_for_an_interval(ubi_log: UbiLog, refresh: Refresh) -> None:
    ubi_log.add(EVENTS, [event("click", "A1", 1, NOW - 9), event("click", "B2", 1, query_id="unknown")])
    assert {one.object for one in ubi_log.scan()} == {"A1", "B2"}
    assert {one.object for one in ubi_log.scan(NOW - 5, NOW)} == {"B2"}


def test_the_queries_of_an_application_come_as_they_were_added(ubi_log: UbiLog, refresh: Refresh) -> None:
    ours = query("war", "q2", application="trial", query_attributes={"teams": "ab"})
    ubi_log.add(QUERIES, [query(), ours, {**ours, "timestamp": iso_timestamp(NOW - 9)}])
    refresh()
    assert ubi_log.application_queries("trial", NOW - 5, NOW + 5) == [ours]
    assert ubi_log.application_queries("tria", NOW - 5, NOW + 5) == []


def test_a_client_is_shown_and_forgotten_and_nobody_else(ubi_log: UbiLog, refresh: Refresh) -> None:
    mine = [event("click", "A1"), event("view", "B2", client_id="", user_id="anna"), event("view", client_id=17)]
    others = [event("click", "C3", client_id="anna 2", session_id="anna-2"), event("click", "D4", client_id="an")]
    ubi_log.add(EVENTS, [*mine, *others])
    ubi_log.add(QUERIES, [query(), query(id="q2", client_id="bob")])
    refresh()
    assert ubi_log.client_documents("anna") == {EVENTS: mine[:2], QUERIES: [query()]}
    assert ubi_log.client_documents("17") == {EVENTS: [mine[2]], QUERIES: []}
    assert ubi_log.delete_client("anna") == 3
    assert ubi_log.delete_client("anna") == ubi_log.delete_client("nobody") == 0
    assert {one.object for one in ubi_log.scan()} == {"", "C3", "D4"}
    assert set(ubi_log.queries(["q1", "q2"])) == {"q2"}


def test_in_an_index_that_nobody_mapped_only_the_very_client_is_forgotten(
    cluster: OpenSearchEngine, opensearch_url: str, cluster_names: tuple[str, str]
) -> None:
    """In an index with a dynamic mapping, ids are analyzed text."""
    for client in ("anna", "anna-2"):
        cluster.client.index(index=cluster_names[0], body=event("click", "A1", client_id=client), refresh=True)
    log = OpenSearchUbiLog(opensearch_url, *cluster_names)
    assert log.delete_client("anna") == 1
    assert [one.client for one in log.scan()] == ["anna-2"]
    log.close()


def test_odd_events_are_stored_and_read_back(ubi_log: UbiLog, refresh: Refresh) -> None:
    assert ubi_log.add(EVENTS, ODD_EVENTS) == 0
    assert len(list(ubi_log.scan())) == len(ODD_EVENTS)
    refresh()
    assert "A1" not in [one.object for one in ubi_log.events("anna", NOW - 5, NOW + 5)]


def test_adding_no_events_does_nothing(ubi_log: UbiLog) -> None:
    assert ubi_log.add(EVENTS, []) == 0


def test_the_file_keeps_no_more_than_so_many_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_ubi, "MAX_ROWS", 5)
    log = open_ubi_log(str(tmp_path / "log.db"), "", "")
    for n in range(12):
        log.add(EVENTS, [event("click", str(n), 1, NOW + n)])
    assert [one.object for one in log.events("anna", *LONG)] == ["7", "8", "9", "10", "11"]
    log.close()


def test_indices_as_the_ubi_plugin_makes_them_and_as_a_cluster_does_by_itself_are_read(
    cluster: OpenSearchEngine, opensearch_url: str, cluster_names: tuple[str, str]
) -> None:
    client = cluster.client
    # With a dynamic mapping, client_id is analyzed text.
    client.index(index=cluster_names[0], body=event("click", "A1", 1, client_id="anna-2"), refresh=True)
    client.index(index=cluster_names[0], body=event("click", "B2", 1, client_id="bob-2"), refresh=True)
    client.index(index=cluster_names[1], body=query(), refresh=True)
    log = OpenSearchUbiLog(opensearch_url, *cluster_names)
    assert [one.object for one in log.events("anna-2", *LONG)] == ["A1"]
    assert log.events("anna", *LONG) == []
    assert log.queries(["q1"]) == {"q1": UbiQuery("fire")}
    assert log.add(EVENTS, [event("click", "C3", 2)]) == 0
    log.close()


@pytest.mark.parametrize("mapped", [True, False])
def test_units_of_numeric_times_are_guessed_from_their_size(
    cluster: OpenSearchEngine, opensearch_url: str, cluster_names: tuple[str, str], mapped: bool
) -> None:
    """In an index with a dynamic mapping, a numeric time is mapped as a number and not as a date."""
    log = OpenSearchUbiLog(opensearch_url, *cluster_names)
    if mapped:
        log.add(EVENTS, [event("click", "D4", 1, NOW - 500)])
    times = {"C3": int((NOW + 2) * 1e6), "B2": int((NOW + 1) * 1000), "A1": int(NOW), "E5": int(NOW - 500)}
    for name, at in times.items():
        cluster.client.index(index=cluster_names[0], body=event("click", name, 1, timestamp=at), refresh=True)
    assert [one.object for one in log.events("anna", NOW - 5, NOW + 5)] == ["A1", "B2", "C3"]
    log.close()


def test_no_event_adds_a_field_to_the_index(
    cluster: OpenSearchEngine, opensearch_url: str, cluster_names: tuple[str, str]
) -> None:
    log = OpenSearchUbiLog(opensearch_url, *cluster_names)
    log.add(EVENTS, [event("click", "A1", 1)])
    before = mapping(cluster.client, cluster_names[0])
    odd = {"object": {"object_id": "A1", "x1": 1, "x2": {"x3": 1}}, "x4": 1}
    assert log.add(EVENTS, [event("click", event_attributes=odd, x5={"x6": 1})]) == 0
    assert mapping(cluster.client, cluster_names[0]) == before
    log.close()


def mapping(client: OpenSearch, index: str) -> Any:
    """Return the mapping of an index."""
    return client.indices.get_mapping(index=index)[index]["mappings"]


def test_a_refused_event_is_counted_and_other_events_are_stored(
    cluster: OpenSearchEngine, opensearch_url: str, cluster_names: tuple[str, str]
) -> None:
    log = OpenSearchUbiLog(opensearch_url, *cluster_names)
    wrong = event("click", event_attributes={"position": {"ordinal": "first"}})
    assert log.add(EVENTS, [wrong, event("click", "A1", 1)]) == 1
    assert [one.object for one in log.scan()] == ["A1"]
    log.close()


def test_an_unreachable_log_raises_an_error(nowhere: str, tmp_path: Path) -> None:
    log = open_ubi_log(nowhere, "ubi_events", "ubi_queries")
    for ask in (
        lambda: log.events("anna", *LONG),
        lambda: log.queries(["q1"]),
        lambda: log.add(EVENTS, [event("click")]),
    ):
        with pytest.raises((EngineUnavailable, EngineError)):
            ask()
    with pytest.raises(EngineUnavailable):
        open_ubi_log(str(tmp_path), "", "")


def test_names_are_those_of_single_indices(nowhere: str) -> None:
    with pytest.raises(BadInput):
        open_ubi_log(nowhere, "ubi_*", "ubi_queries")
