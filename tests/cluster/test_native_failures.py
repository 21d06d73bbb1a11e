"""Searches on a node with Resift's own plugin while the service is dead, frozen, slow or confused."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from native_node import NativeNode, Searches, faulty_service, ids
from ports import free_port
from served import serving
from waiting import until

from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.native_plugin import NativePlugin, rewriting_error

FIRE = {"match": {"text": "fire"}}
CLIENTS = 200
UNHEARD_OF = b'{"body": {"query": {"unheard_of": {}}}, "resift": {"rewritten": true}}'


def only(id: str) -> Callable[[dict[str, Any]], tuple[int, bytes]]:
    """Return a response that rewrites every search to find a single document."""

    def respond(request: dict[str, Any]) -> tuple[int, bytes]:
        body = {"body": {"query": {"ids": {"values": [id]}}}, "resift": {"rewritten": True}}
        return 200, json.dumps(body).encode()

    return respond


def of_its_session(request: dict[str, Any]) -> tuple[int, bytes]:
    """Rewrite a search to find the document that is named like its session, before the comma."""
    return only(request["body"]["ext"]["resift"]["session"].partition(".")[0])(request)


@contextmanager
def frozen_server() -> Iterator[str]:
    """Yield the address of a server that accepts connections and does not answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_search_runs_unchanged_if_nothing_listens(searches: Searches, nowhere: str) -> None:
    pipeline = searches.pipeline(f"{nowhere}/alone")  # an earlier test may have used the same port
    with searches.counting() as counts:
        assert searches.hits(pipeline, "anna") == searches.hits()
    assert counts() == {"unreachable": 1}


def test_the_node_whose_call_fails_is_named(searches: Searches, nowhere: str) -> None:
    ((id, node),) = searches.ask("GET", "/_nodes/plugins")["nodes"].items()
    cluster = Cluster(searches.engine)
    with faulty_service(lambda request: (401, b"{}")) as url:  # an earlier failure of another service
        searches.hits(searches.pipeline(url), "anna")
    error = rewriting_error(cluster, searches.index, searches.pipeline(f"{nowhere}/named"))
    name, _, reason = error.partition(": ")
    unreachable = "the service cannot be reached"
    assert name == (node["name"] or f"node {id}")
    assert reason in (unreachable, f"{unreachable}; the service failed several times in a row")
    assert list(NativePlugin.read(cluster).versions) == [node["name"] or id]


def test_misspelt_keys_without_a_session_are_logged(searches: Searches, nowhere: str) -> None:
    with searches.counting() as counts:
        assert searches.hits(searches.pipeline(nowhere), ext={"resift": {"sesion": "anna"}}) == searches.hits()
    assert counts() == {}  # the service is not called
    ((_, node),) = searches.ask("GET", "/_nodes/settings")["nodes"].items()
    folder = Path(node["settings"]["path"]["logs"])
    # An earlier test may have sent another key. A node logs this at most once a minute.
    message = "a search ran unchanged, because ext.resift names no session: its keys are ["
    assert until(lambda: any(message in path.read_text("utf-8", "replace") for path in folder.glob("*.log")))


def test_a_search_runs_unchanged_if_the_service_is_frozen(searches: Searches) -> None:
    with frozen_server() as url, searches.counting() as counts:
        # the client of the tests would wait for a minute
        assert searches.hits(searches.pipeline(url, timeout="50ms"), "anna") == searches.hits()
        assert counts() == {"timeout": 1}


def test_the_timeout_includes_a_body_that_does_not_end(searches: Searches) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, searches.counting() as counts:

        def begin() -> None:
            connection, _ = server.accept()
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"body": {')
            connections.append(connection)

        connections = list[socket.socket]()
        thread = threading.Thread(target=begin)
        thread.start()
        pipeline = searches.pipeline(f"http://127.0.0.1:{server.getsockname()[1]}", timeout="300ms")
        assert searches.hits(pipeline, "anna") == searches.hits()
        assert counts() == {"timeout": 1}
        thread.join()
        connections[0].close()


def test_no_thread_waits_for_a_response_after_the_timeout(searches: Searches) -> None:
    def active() -> int:
        (node,) = searches.ask("GET", "/_nodes/stats/thread_pool")["nodes"].values()
        return int(node["thread_pool"]["resift"]["active"])

    assert until(lambda: active() == 0)  # since earlier tests
    with socket.create_server(("127.0.0.1", 0)) as server, searches.counting() as counts:

        def send_header_slowly() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while True:  # until the node closes the connection
                    connection.sendall(b"x")
                    time.sleep(0.02)

        thread = threading.Thread(target=send_header_slowly, daemon=True)
        thread.start()
        pipeline = searches.pipeline(f"http://127.0.0.1:{server.getsockname()[1]}", timeout="300ms")
        assert searches.hits(pipeline, "anna") == searches.hits()
        assert counts() == {"timeout": 1}
        assert until(lambda: active() == 0)
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"", "unreadable"),
        (200, b"<html>Welcome</html>", "unreadable"),
        (200, b"[]", "unreadable"),
        (200, b"{}", "unreadable"),
        (200, b'{"body": {"query": {"match_all": {}}}}', "unreadable"),
        (200, b'{"body": 3, "resift": {"rewritten": true}}', "unreadable"),
        (200, UNHEARD_OF, "unsupported"),
        (200, b'{"body": {"query": {"match_all": {}}}, "resift": {"rewritten": "yes"}}', "unreadable"),
        (200, b'{"body": {"query": ' + b'{"bool": {"must": ' * 5000, "unreadable"),
        (204, b"", "rejected"),
        (302, b"", "rejected"),
        (400, b"{}", "rejected"),
        (401, b"{}", "unauthorized"),
        (403, b"{}", "unauthorized"),
        (413, b"{}", "rejected"),
        (429, b"{}", "service_error"),
        (500, b"oops", "service_error"),
        (503, b"", "service_error"),
    ],
)
def test_a_search_runs_unchanged_if_the_answer_is_useless(
    searches: Searches, status: int, body: bytes, reason: str
) -> None:
    with faulty_service(lambda request: (status, body)) as url, searches.counting() as counts:
        assert searches.hits(searches.pipeline(url), "anna") == searches.hits()
        assert counts() == {reason: 1}


def test_the_breaker_opens_after_three_failures_and_closes_when_the_service_answers(searches: Searches) -> None:
    works, received = threading.Event(), list[int]()

    def respond(request: dict[str, Any]) -> tuple[int, bytes]:
        received.append(1)
        return only("rain")(request) if works.is_set() else (500, b"")

    with faulty_service(respond) as url:
        pipeline, plain = searches.pipeline(url), searches.hits()
        with searches.counting() as counts:
            assert [searches.hits(pipeline, "anna") for _ in range(20)] == [plain] * 20
            assert counts() == {"service_error": 3, "breaker_open": 17}
        assert searches.counts(url)[1]["breaker"] == "open"
        works.set()
        # A search with an open breaker does not wait for the trial call, so the first ones still run unchanged.
        assert until(lambda: searches.hits(pipeline, "anna") == ["rain"])
        assert searches.counts(url)[1] == {"breaker": "closed", "consecutive_failures": 0}


@pytest.mark.parametrize(("status", "body", "reason"), [(400, b"{}", "rejected"), (200, UNHEARD_OF, "unsupported")])
def test_errors_of_one_request_do_not_open_the_breaker(
    searches: Searches, status: int, body: bytes, reason: str
) -> None:
    with faulty_service(lambda request: (status, body)) as url, searches.counting() as counts:
        pipeline = searches.pipeline(url)
        for _ in range(5):
            searches.hits(pipeline, "anna")
        assert counts() == {reason: 5}


def test_an_empty_point_in_time_is_not_counted_as_a_failure_of_the_service(searches: Searches) -> None:
    received = list[dict[str, Any]]()
    with faulty_service(lambda request: received.append(request) or (500, b"")) as url, searches.counting() as counts:
        # OpenSearch accepts this id of a point in time without shards.
        body = {"query": FIRE, "pit": {"id": "AAAA"}, "ext": {"resift": {"session": "anna"}}}
        assert ids(searches.ask("POST", "/_search", body, search_pipeline=searches.pipeline(url))) == []
        assert counts() == {"rejected": 1}
        assert searches.counts(url)[1]["consecutive_failures"] == 0
    assert received == []


def test_the_aggregations_of_an_answer_do_not_replace_those_of_the_search(searches: Searches) -> None:
    answer = {"body": {"aggs": {"tags": {"cardinality": {"field": "tag"}}}}, "resift": {"rewritten": True}}
    with faulty_service(lambda request: (200, json.dumps(answer).encode())) as url, searches.counting() as counts:
        body = {"query": FIRE, "aggs": {"tags": {"terms": {"field": "tag"}}}, "ext": {"resift": {"session": "anna"}}}
        found = searches.ask("POST", f"/{searches.index}/_search", body, search_pipeline=searches.pipeline(url))
        assert ids(found) == searches.hits()
        assert found["aggregations"]["tags"]["buckets"]
        assert counts() == {"unsupported": 1}


def test_long_bodies_do_not_open_the_breaker_for_other_searches(searches: Searches) -> None:
    long = {"bool": {"must": [FIRE], "filter": [{"terms": {"tag": ["bush", *(f"{n:0100}" for n in range(6_000))]}}]}}
    with faulty_service(only("rain")) as url, searches.counting() as counts:
        pipeline = searches.pipeline(url)
        assert [searches.hits(pipeline, "anna", query=long) for _ in range(4)] == [["bush"]] * 4
        assert searches.hits(pipeline, "anna") == ["rain"]
        assert counts() == {"rejected": 4, "rewritten": 1}


def test_a_search_with_a_time_limit_waits_for_half_of_it_and_is_not_cancelled(searches: Searches) -> None:
    with frozen_server() as url, searches.counting() as counts:
        pipeline, body = searches.pipeline(url), {"query": FIRE, "ext": {"resift": {"session": "anna"}}}
        params = {"search_pipeline": pipeline, "cancel_after_time_interval": "5s"}
        assert ids(searches.ask("POST", f"/{searches.index}/_search", body, **params)) == searches.hits()
        assert counts() == {"timeout": 1}
        # an impatient search says nothing about the service
        assert searches.counts(url)[1]["consecutive_failures"] == 0


def test_pipelines_with_the_same_service_share_a_breaker(searches: Searches, nowhere: str) -> None:
    with faulty_service(lambda request: (500, b"")) as url, searches.counting() as counts:
        for _ in range(5):
            searches.hits(searches.pipeline(url), "anna")
        assert counts() == {"service_error": 3, "breaker_open": 2}


def test_the_next_address_answers_if_the_first_does_not(searches: Searches, nowhere: str) -> None:
    with faulty_service(only("rain")) as good, faulty_service(lambda request: (500, b"")) as bad:
        for first in (f"{nowhere}/a", bad):
            with searches.counting() as counts:
                pipeline = searches.pipeline([first, good])
                assert [searches.hits(pipeline, "anna") for _ in range(5)] == [["rain"]] * 5
                assert counts() == {"rewritten": 5}
            assert searches.counts(first)[1]["breaker"] == "open"


def test_a_frozen_address_leaves_time_for_the_next(searches: Searches) -> None:
    with frozen_server() as frozen, faulty_service(only("rain")) as good:
        pipeline = searches.pipeline([frozen, good], timeout="10s")
        assert searches.hits(pipeline, "anna") == ["rain"]


def test_sessions_do_not_mix_among_many_clients(native_node: NativeNode, searches: Searches) -> None:
    documents = sorted(searches.hits(query={"match_all": {}}))
    with faulty_service(of_its_session) as url, searches.counting() as counts:
        pipeline = searches.pipeline(url)

        def client(number: int) -> bool:
            own = documents[number % len(documents)]
            return all(searches.hits(pipeline, f"{own}.{number}") == [own] for _ in range(3))

        with ThreadPoolExecutor(CLIENTS) as threads:
            assert all(threads.map(client, range(CLIENTS)))
        assert counts() == {"rewritten": 3 * CLIENTS}


def test_no_client_gets_an_error_from_a_frozen_service(searches: Searches) -> None:
    plain = searches.hits()
    with frozen_server() as url, searches.counting() as counts:
        pipeline = searches.pipeline(url, timeout="300ms")

        def client(number: int) -> bool:
            return all(searches.hits(pipeline, f"s{number}") == plain for _ in range(3))

        with ThreadPoolExecutor(CLIENTS) as threads:
            assert all(threads.map(client, range(CLIENTS)))
        assert set(counts()) == {"timeout", "breaker_open"}
        assert sum(counts().values()) == 3 * CLIENTS


def test_a_killed_service_costs_no_search_and_is_used_again_when_it_is_back(
    native_node: NativeNode, searches: Searches, tmp_path: Path
) -> None:
    port, plain = free_port(), searches.hits()
    pipeline = searches.pipeline(f"http://127.0.0.1:{port}")
    options = ("--engine", native_node.url, "--workers", "2")
    settings = {"RESIFT_STORE": str(tmp_path / "sessions.db")}

    def is_rewritten() -> bool:
        hits = searches.hits(pipeline, "anna")
        assert set(hits) == set(plain)
        return hits[0] == "war"

    for _ in range(2):
        with serving(tmp_path, *options, port=port, **settings) as server:
            marks = {"session": "anna", "index": searches.index, "query": "fire", "relevant": ["war"]}
            assert server.request("POST /v1/feedback", marks).status == 200
            assert until(is_rewritten)
            parent = server.process.pid
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            for process in (parent, *map(int, children)):
                os.kill(process, signal.SIGKILL)
            for _ in range(10):
                assert searches.hits(pipeline, "anna") == plain
