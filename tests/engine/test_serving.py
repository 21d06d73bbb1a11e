"""Tests of ``resift serve`` with slow, silent and hostile clients, of its ports, and of its shutdown."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from ports import free_port
from served import JSON, Client, Server, serving

from resift import Model
from resift.cli.http_server import engine_warning
from resift.cli.lanes import COMPUTING_THREADS, SESSION_THREADS
from resift.cli.main import main
from resift.contracts.documents import Document
from resift.embedded.engine import SqliteEngine
from resift.service.config import Config

DEADLINE = 3.0
SEARCH = {"index": "docs", "query": "fire"}
MANY = 200  # number of clients
MOST = 9900  # number of documents to compare
TEXTS = ["fire in the bush", "fire of the army", "rain in the forest"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, packaged: Model) -> Path:
    """Return a folder with an index of three documents."""
    folder = tmp_path_factory.mktemp("served")
    engine = SqliteEngine(str(folder / "resift.db"))
    engine.create("docs", ["text"], packaged)
    vectors = packaged.encode(TEXTS)
    assert engine.bulk("docs", [Document(str(i), {"text": text}, vectors[i]) for i, text in enumerate(TEXTS)]) == []
    engine.close()
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """Start a service with one process."""
    with serving(folder, "--workers", "1", RESIFT_DEADLINE=str(DEADLINE), RESIFT_MAX_BODY="300000") as server:
        yield server


def found(server: Server, address: str = "127.0.0.1") -> int:
    """Return the number of a search's hits."""
    answer = server.request("POST /v1/search", SEARCH, address)
    assert answer.status == 200, answer
    return len(answer.json()["hits"]["hits"])


POST = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\n" + JSON
HALF_A_BODY = (POST, b"Content-Length: 1000\r\n\r\n{")
HALVES = [(POST, b"X-"), HALF_A_BODY, (POST, b"Transfer-Encoding: chunked\r\n\r\nff\r\n{")]


def test_many_who_send_half_a_request_keep_nobody_waiting_and_are_told(server: Server) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(Client(server.port)).send(*half) for _ in range(MANY // 3) for half in HALVES]
        assert [found(server) for _ in range(5)] == [2] * 5
        for client in slow:
            answer = client.answer()
            assert answer is not None
            assert (answer.status, answer.json()["error"]["code"]) == (408, "request_timeout")
            assert client.answer() is None
    assert found(server) == 2


def assert_answered_first(server: Server, address: str, others: Sequence[Client]) -> None:
    """Assert that a health check and a search from an address are answered before requests that were sent earlier."""
    assert server.request("GET /healthz", address=address).status == 200
    assert found(server, address) == 2
    poll = select.poll()  # unlike select.select, for any number of sockets
    for client in others:
        poll.register(client.socket, select.POLLIN)
    answered_or_closed = poll.poll(0)
    assert len(answered_or_closed) < len(others)


@pytest.mark.parametrize(("count", "addresses"), [(2500, 1), (1500, 100)])
def test_thousands_of_connections_keep_no_other_waiting(folder: Path, count: int, addresses: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    try:
        with serving(folder, "--workers", "1", RESIFT_DEADLINE="100") as server, ExitStack() as stack:
            slow = []
            for number in range(count):
                client = stack.enter_context(Client(server.port, address=f"127.0.1.{1 + number % addresses}"))
                with suppress(ConnectionError):  # the connection may already be closed
                    client.send(*HALVES[number % len(HALVES)])
                slow.append(client)
            assert_answered_first(server, "127.0.0.1", slow)
            assert_answered_first(server, "127.0.1.1", slow)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def assert_busy(client: Client) -> None:
    """Assert that a client gets an error because all connections are in use, and nothing else."""
    answer = client.answer()
    assert answer is not None
    assert (answer.status, answer.json()["error"]["code"]) == (503, "too_busy")
    assert b"Retry-After: " in answer.head
    assert client.answer() is None


def test_a_connection_too_many_takes_the_place_of_the_one_that_waited_longest(folder: Path) -> None:
    def connected(host: int) -> Client:
        return stack.enter_context(Client(server.port, address=f"127.0.0.{host}"))

    def served(client: Client) -> bool:
        answer = client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").answer()
        return answer is not None and answer.status == 200

    settings = {"RESIFT_MAX_CONNECTIONS_PER_ADDRESS": "2", "RESIFT_DEADLINE": "100"}
    with serving(folder, "--workers", "1", **settings) as server, ExitStack() as stack:
        other, half, idle = connected(2), connected(3).send(*HALF_A_BODY), connected(3)
        assert served(other)
        assert served(idle)
        third = connected(3)
        assert served(third)
        assert_busy(half)
        fourth = connected(3)
        assert served(fourth)
        assert idle.answer() is None
        assert all(map(served, (third, fourth, other)))


def test_a_connection_too_many_is_refused_where_all_others_are_answered(folder: Path) -> None:
    body = json.dumps(SEARCH).encode()
    head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(body)
    settings = {"RESIFT_DEADLINE": "100", "RESIFT_SEARCH_TIMEOUT": "100", "RESIFT_MAX_CONNECTIONS_PER_ADDRESS": "9"}
    with ExitStack() as stack:
        frozen = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
        engine = f"http://127.0.0.1:{frozen.getsockname()[1]}"
        server = stack.enter_context(serving(folder, "--workers", "1", "--engine", engine, **settings))
        clients = [stack.enter_context(Client(server.port, address="127.0.0.2")).send(head, body) for _ in range(9)]
        # health checks have a separate thread, and are sent after the other requests
        assert server.request("GET /healthz").status == 200
        assert_busy(stack.enter_context(Client(server.port, address="127.0.0.2")))
        frozen.close()  # ends all searches
        assert {answer.status for client in clients if (answer := client.answer())} == {503}


def comparison(documents: int) -> bytes:
    """Return a request that compares many documents with a query."""
    body = json.dumps({"query": "fire", "documents": (TEXTS * (documents // 3 + 1))[:documents]}).encode()
    return b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body


def seconds_of(server: Server, request: bytes) -> float:
    """Return the shortest of the times that a service takes to answer the same request, in seconds."""
    seconds = []
    for _ in range(5):
        began = time.monotonic()
        with Client(server.port).send(request) as client:
            assert client.answer() is not None
        seconds.append(time.monotonic() - began)
    return min(seconds)


def test_comparisons_that_take_long_keep_no_search_waiting(folder: Path, server: Server) -> None:
    # Requests are refused after waiting for a third of the deadline. In this time, the machine computes 20 to 40 of the
    # requests: one succeeds even if other programs use the processor, and never all of them, even if other programs
    # used the processor while the time was measured.
    request = comparison(MOST)
    deadline = 60 * seconds_of(server, request)
    with serving(folder, "--workers", "1", RESIFT_DEADLINE=str(deadline)) as busy, ExitStack() as stack:
        clients = [stack.enter_context(Client(busy.port)).send(request) for _ in range(MANY)]
        assert_answered_first(busy, "127.0.0.1", clients)
        for client in clients:
            client.socket.settimeout(60 + deadline)
        answers = [answer for client in clients if (answer := client.answer())]
        assert found(busy) == 2
    told = [(one.status, one.json().get("error", {}).get("code"), b"Retry-After" in one.head) for one in answers]
    assert len(told) == MANY
    assert {(200, None, False), (503, "too_busy", True)} <= set(told)


def test_who_sends_byte_by_byte_is_told_after_the_deadline_too(server: Server) -> None:
    with Client(server.port).send(*HALF_A_BODY) as client:
        client.socket.settimeout(DEADLINE / 20)
        for _ in range(400):
            client.send(b" ")
            try:
                answer = client.answer()
                break
            except TimeoutError:
                continue
    assert answer is not None
    assert answer.status == 408


def test_many_who_do_not_take_their_answers_keep_nobody_waiting(server: Server) -> None:
    body = json.dumps({"input": ["fire"] * 1000}).encode()
    request = (b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n", JSON, b"Content-Length: %d\r\n\r\n" % len(body))
    # sent first: behind the other requests, it could be refused as one too many
    complete = server.request("POST /v1/embeddings", {"input": ["fire"] * 1000})
    assert complete.status == 200
    whole = len(complete.body)
    with ExitStack() as stack:
        slow = [stack.enter_context(Client(server.port, small_window=True)).send(*request, body) for _ in range(12)]
        assert [found(server) for _ in range(5)] == [2] * 5
        for _ in range(3):  # each request takes one deadline; then the server has given up on the others
            stack.enter_context(Client(server.port)).send(*HALF_A_BODY).answer()
        for client in slow:
            answer = client.answer()
            assert answer is not None
            assert len(answer.body) < whole


def test_a_frozen_engine_ends_in_an_answer(folder: Path) -> None:
    with ExitStack() as stack:
        frozen = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
        engine = f"http://127.0.0.1:{frozen.getsockname()[1]}"
        server = stack.enter_context(serving(folder, "--workers", "1", "--engine", engine, RESIFT_DEADLINE="1"))
        body = json.dumps(SEARCH).encode()
        head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(body)
        # more requests than threads: waiting requests are answered, too
        clients = [stack.enter_context(Client(server.port)).send(head, body) for _ in range(20)]
        for client in clients:
            answer = client.answer()
            assert answer is not None
            assert (answer.status, answer.json()["error"]["code"]) == (503, "deadline_exceeded")
        frozen.close()  # otherwise the threads would still wait, and so would the shutdown


def posted(path: str, content: dict[str, object]) -> bytes:
    """Return a request with a JSON body."""
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n".encode()
    return head + JSON + b"\r\n" + body


def test_bodies_that_wait_behind_a_frozen_engine_come_back_unchanged(folder: Path) -> None:
    session = {"ext": {"ml_inference": {"session": "anna"}}}
    body = {"query": {"match": {"text": "fire"}}, **session}
    request = posted("/v1/rewrite", {"index": "docs", "body": body})
    with ExitStack() as stack:
        frozen = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
        engine = f"http://127.0.0.1:{frozen.getsockname()[1]}"
        server = stack.enter_context(serving(folder, "--workers", "1", "--engine", engine, RESIFT_DEADLINE="5"))
        busy = [stack.enter_context(Client(server.port)).send(request) for _ in range(3 * SESSION_THREADS // 4)]
        waiting = [stack.enter_context(Client(server.port)).send(request) for _ in range(10)]
        answers = [client.answer() for client in waiting]
        assert [answer and answer.status for answer in answers] == [200] * 10
        unchanged = {"rewritten": False, "outcome": "overloaded", "reason": "the service is overloaded"}
        assert all(answer.json() == {"body": body, "resift": unchanged} for answer in answers if answer)
        assert server.request("GET /healthz").json()["overloaded"] is True
        assert {answer.status for client in busy if (answer := client.answer())} == {503}
        frozen.close()


def test_requests_whose_caller_has_gone_away_are_not_computed(folder: Path) -> None:
    def compared() -> float:
        metrics = server.request("GET /metrics").body.decode()
        counts = re.findall(r'^resift_requests_total\{endpoint="api.rerank",.*?\} (\S+)$', metrics, re.MULTILINE)
        return sum(map(float, counts))

    with serving(folder, "--workers", "1") as server, ExitStack() as stack:
        long = comparison(MOST)
        first = [stack.enter_context(Client(server.port)).send(long) for _ in range(COMPUTING_THREADS)]
        for _ in range(MANY // 4):
            with Client(server.port) as gone:
                gone.send(long)
        last = stack.enter_context(Client(server.port)).send(long)
        answers = [client.answer() for client in (*first, last)]
        assert [answer and answer.status for answer in answers] == [200] * 3
        # a fast machine has computed some of them before their callers went away
        assert compared() < 3 + MANY // 4


def test_a_connection_is_kept_for_several_requests(server: Server) -> None:
    body = json.dumps(SEARCH).encode()
    request = (
        b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body
    )
    with Client(server.port) as client:
        for _ in range(3):
            answer = client.send(request).answer()
            assert answer is not None
            assert answer.status == 200
        client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)  # pipelined
        assert [one.status for _ in range(3) if (one := client.answer())] == [200] * 3
        client.send(b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n", JSON)
        client.send(b"Content-Length: %d\r\n\r\n" % len(body))
        assert client.socket.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (answer := client.send(body).answer())
        assert answer.status == 200
        # a chunked body, and a client that sends no host name
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
        client.send(
            b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n", JSON, b"\r\n", chunks
        )
        assert (answer := client.answer())
        assert answer.status == 200
        assert (answer := client.send(b"GET http://LOCALHOST/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").answer())
        assert answer.status == 200
        assert (answer := client.send(b"GET /healthz HTTP/1.0\r\n\r\n").answer())
        assert answer.status == 200
        assert client.answer() is None


HOST = b"Host: localhost\r\n"
MALFORMED: dict[str, tuple[bytes, int]] = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", 400),
    "lower case method": (b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "no colon": (b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n", 400),
    "bare line feed": (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
    "NUL in a header": (b"GET / HTTP/1.1\r\nHost: lo\0calhost\r\n\r\n", 400),
    "long head": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 70_000 + b"\r\n\r\n", 431),
    "many headers": (b"GET / HTTP/1.1\r\n" + HOST + b"X-Y: z\r\n" * 9000 + b"\r\n", 431),
    "no length": (POST + b"Content-Length: many\r\n\r\n", 400),
    "negative length": (POST + b"Content-Length: -1\r\n\r\n", 400),
    "two lengths": (POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    "the same length twice": (POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    "length and chunks": (POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks twice": (POST + b"Transfer-Encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks in HTTP/1.0": (
        b"POST /v1/search HTTP/1.0\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"host: evil.example\r\n\r\n", 400),
    "the same host twice": (b"GET /healthz HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    "absolute URL of another host": (b"GET http://evil.example/healthz HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "length of 5,000 digits": (POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
    "stated too large": (POST + b"Content-Length: 300001\r\n\r\n", 413),
    "chunk without a size": (POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n", 400),
    "negative chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n", 400),
    "chunk that does not end": (POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}}}\r\n0\r\n\r\n", 400),
    "chunks too large": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + (b"ffff\r\n" + b" " * 65535 + b"\r\n") * 5,
        413,
    ),
    "coding that is not known": (POST + b"Transfer-Encoding: gzip\r\n\r\n", 400),
    "two codings": (POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n", 400),
    "absolute URL of a bad host": (b"GET http://[::1/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 404),
}


@pytest.mark.parametrize(("sent", "status"), MALFORMED.values(), ids=MALFORMED)
def test_requests_that_are_not_http_get_an_error_response(server: Server, sent: bytes, status: int) -> None:
    with Client(server.port) as client:
        with suppress(ConnectionError):  # the request is refused before it was sent completely
            client.send(sent)
        answer = client.answer()
    assert answer is not None
    assert answer.status == status
    error = answer.json()["error"]
    assert error["code"] == {413: "too_large", 404: "no_such_path"}.get(status, "http_error")
    assert error["expected"]
    assert status != 413 or (error["message"], error["expected"]) == (
        "Request Entity Too Large: the body is too large",
        "at most 300000 bytes",
    )
    assert found(server) == 2


def test_urgent_data_ends_the_connection(server: Server) -> None:
    with Client(server.port) as client:
        client.send(b"GET / HTTP/1.1\r\n")
        client.socket.send(b"!", socket.MSG_OOB)
        assert client.answer() is None
    assert found(server) == 2


def test_a_stop_lets_requests_that_have_begun_end(folder: Path) -> None:
    body = json.dumps(SEARCH).encode()
    # A single process has received the beginning of the request when it answers the health check that is sent later.
    with (
        serving(folder, "--workers", "1", RESIFT_DEADLINE="20") as server,
        Client(server.port) as client,
        Client(server.port) as idle,
    ):
        client.send(b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\n", JSON, b"Content-Length: %d\r\n\r\n" % len(body))
        idle.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").answer()
        server.process.terminate()
        assert idle.answer() is None  # the shutdown has begun
        answer = client.send(body).answer()
        assert answer is not None
        assert answer.status == 200
        assert server.process.wait(30) == 0


def test_the_start_message_shows_no_passwords(folder: Path) -> None:
    cluster = "http://anna:se@cret@127.0.0.1:9, http://127.0.0.1:8"
    with serving(folder, "--workers", "1", "--engine", cluster) as server:
        server.process.terminate()
        _, log = server.process.communicate(timeout=60)
    assert f"Documents in http://127.0.0.1:9,http://127.0.0.1:8, sessions in {folder}/sessions.db, model" in log
    assert "cret" not in log


def test_a_missing_address_of_the_cluster_is_logged_at_the_start(folder: Path, tmp_path: Path) -> None:
    with serving(folder, "--workers", "1", "--engine", str(tmp_path / "new.db")) as server:
        server.process.terminate()
        _, log = server.process.communicate(timeout=60)
    warning = "new.db is new and contains no documents. To search an OpenSearch cluster, set OPENSEARCH_URL"
    assert warning in log
    existing, cluster = tmp_path / "documents.db", "http://127.0.0.1:9"
    existing.touch()
    assert engine_warning(Config(engine=str(existing))) == ""
    assert engine_warning(Config(engine=cluster, store=cluster)) == ""
    assert engine_warning(Config(engine=str(existing), store=cluster)).startswith("Sessions are in a cluster, but")


def test_an_engine_that_does_not_answer_is_logged_at_the_start(folder: Path) -> None:
    with serving(folder, "--engine", "http://anna:secret@127.0.0.1:9") as server:
        assert server.process.stderr is not None
        limit = threading.Timer(120, server.process.terminate)
        limit.start()
        line = next((line for line in server.process.stderr if "[WARNING]" in line), "")
        limit.cancel()
    assert "The search engine http://127.0.0.1:9 cannot be used yet: " in line
    assert "secret" not in line


def test_what_is_served_is_told_and_ctrl_c_by_the_exit_status(folder: Path, packaged: Model) -> None:
    with serving(folder) as server:
        server.process.send_signal(signal.SIGINT)
        _, log = server.process.communicate(timeout=30)
    assert server.process.returncode == 130
    assert (
        f"Documents in {folder}/resift.db, sessions in {folder}/resift.db, model resift-en ({packaged.hash})\n" in log
    )


SLOW_TO_START = """
import sys, time
from gunicorn.workers.base import Worker
from resift.cli.main import main
init_process = Worker.init_process
def slowly(worker):
    print("forked", file=sys.stderr, flush=True)
    time.sleep(1)
    init_process(worker)
Worker.init_process = slowly
main()
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_stop_ends_processes_that_are_only_starting(folder: Path, number: signal.Signals, status: int) -> None:
    command = [sys.executable, "-c", SLOW_TO_START, "serve", "--port", str(free_port())]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any(line == "forked\n" for line in process.stderr)
        process.send_signal(number)
        _, log = process.communicate(timeout=20)  # shorter than gunicorn's timeout of a worker that does not respond
    assert process.returncode == status, log


def test_an_invalid_listening_address_prints_one_line(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for host, named in (
            ("127.0.0.1", f"port {port}: Address already in use"),
            ("127.0.0.", "127.0.0. is not an address"),
        ):
            command = [sys.executable, "-m", "resift", "serve", "--host", host, "--port", port]
            key = {"RESIFT_API_KEY": "rsf_" + "0" * 64}  # required to listen on other addresses
            ran = subprocess.run(command, cwd=folder, env={**os.environ, **key}, capture_output=True, text=True)
            assert ran.returncode == 2, ran.stderr
            first, second = ran.stderr.splitlines()
            assert first.startswith("Error: ")
            assert named in first
            assert "expected: " in second


@pytest.mark.parametrize("options", [("--port", "99999"), ("--port", "0"), ("--workers", "0"), ("--workers", "-1")])
def test_invalid_numbers_are_refused(options: tuple[str, str]) -> None:
    ran = CliRunner().invoke(main, ["serve", *options])
    assert ran.exit_code == 2
    assert f"{options[1]} is not in the range" in ran.output
