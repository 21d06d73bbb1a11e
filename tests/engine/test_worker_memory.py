"""Tests of the memory of a worker process for requests within the limits, and of chunked bodies."""

from __future__ import annotations

import json
import logging
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_memory import Server, serving

from resift import Model
from resift.embedded.database import SqliteSessionStore
from resift.embedded.engine import SqliteEngine
from resift.feedback.judgements import Judgement
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.sessions.sessions import Sessions

log = logging.getLogger(__name__)
MB = 2**20
SEED = 5


@pytest.fixture(scope="module")
def words(packaged: Model) -> list[str]:
    """Return a text of a million characters, with words that do not occur in documents."""
    return random.Random(SEED).choices(packaged.table.words, k=150_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def server(folder: Path, packaged: Model, words: list[str]) -> Iterator[Server]:
    """Start a server over 2,000 short and 100 long documents, after everything was loaded once."""
    engine = SqliteEngine(str(folder / "resift.db"))
    for index, count, length in (("docs", 2000, 80), ("long", 100, 2500)):
        records = [Record("f", n, str(n), {"text": " ".join(words[n * 50 : n * 50 + length])}) for n in range(count)]
        Indexer(engine, packaged, index, DeadLetters(folder / "dead")).run(records, ["text"])
    engine.close()
    with serving(folder, RESIFT_DEADLINE="100") as server:  # the largest requests take long on a busy machine
        warm_up(server)
        yield server


def warm_up(server: Server) -> None:
    """Send all kinds of requests until the memory stops growing."""
    query = {"query": "fire in the forest", "documents": ["a fire", "the forest"] * 300}
    marks = {"session": "warm", "index": "docs", "query": "the", "relevant": ["1"], "irrelevant": ["2"]}
    assert server.post("/v1/feedback", marks)[0] == 200
    before = 0
    for _ in range(20):
        server.post("/v1/embeddings", {"input": ["fire in the forest " * 3000] * 8})
        server.post("/v1/rerank", query)
        server.post("/v1/search", {"index": "docs", "query": "fire", "session": "warm"})
        time.sleep(0.25)
        now = server.memory() if server.worker else 0
        if now - before < MB:
            return
        before = now


def requests(words: list[str]) -> dict[str, tuple[str, Any]]:
    """Return the largest known requests that are within the limits, or that are only refused after parsing."""
    text = " ".join(words)[:990_000]
    document = text[:3800]
    keys = b",".join(b'"k%d":%d' % (n, n + 1000) for n in range(400_000))
    values = b",".join(b'"k%d"' % n for n in range(499_000))
    emoji = json.dumps({"input": [f"{text}\U0001f600"] * 8}, ensure_ascii=False).encode()
    return {
        "2048 texts, vectors": ("/v1/embeddings", {"input": [document] * 2048}),
        "8 long texts, vectors": ("/v1/embeddings", emoji),
        "10,000 texts, reranked": ("/v1/rerank", {"query": "fire", "documents": [document[:700]] * 10_000}),
        "unknown fields": ("/v1/search", b"{" + keys + b"}"),
        "a query of many values": ("/v1/search", b'{"index":"docs","query":{"terms":{"n":[' + values + b"]}}}"),
        "a query of many words": ("/v1/search", {"index": "docs", "query": "fire " * 190_000}),
        "a wide window": ("/v1/search", {"index": "docs", "query": "the", "window": 1000, "knn": 1000, "size": 2000}),
        "the same in a session": ("/v1/search", {"index": "docs", "query": "the", "window": 1000, "session": "warm"}),
        "a hundred marks": (
            "/v1/feedback",
            {"session": "b", "index": "docs", "relevant": [str(n) for n in range(100)]},
        ),
    }


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_request_takes_as_much_memory_as_a_worker_has_at_rest(
    server: Server, packaged: Model, words: list[str]
) -> None:
    rest = server.memory()
    log.info("at rest %.0f MiB; a request's peak against that:", rest / MB)
    for name, (path, body) in requests(words).items():
        server.forget_peak()
        status, answer = server.post(path, body)
        peak = server.memory("VmHWM")
        log.info("%-24s %-14s %d  %.2f", name, path, status, peak / rest)
        assert status in (200, 400, 413), answer
        assert peak < 2 * rest, name


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_sessions_do_not_add_up(server: Server, folder: Path) -> None:
    sessions, random_ids, rest = Sessions(SqliteSessionStore(str(folder / "resift.db"))), random.Random(SEED), 0
    for number in range(40):
        # The learned state of a session takes 1.5 MB: ten of the longest texts that are read completely.
        ids = [str(n) for n in random_ids.sample(range(100), 10)]
        sessions.add(f"s{number}", "", [Judgement("long", id, 1 - 2 * (row % 2)) for row, id in enumerate(ids)])
        status, answer = server.post(
            "/v1/search", {"index": "long", "query": {"ids": {"values": ids}}, "session": f"s{number}"}
        )
        assert (status, answer["resift"]["session"]) == (200, f"s{number}")
        if number == 9:  # by now, the threads that load sessions have heaps of their own
            rest = server.memory()
    log.info("after 40 sessions %.2f times what ten of them took", server.memory() / rest)
    # without the limit, the states of the other 30 sessions would take 45 MB more
    assert server.memory() < 1.1 * rest


HEAD = (
    b"POST /v1/rerank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
)
CLOSING = HEAD + b"Connection: close\r\n\r\n"
BODY = json.dumps({"query": "fire", "documents": ["bush"]}).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_bodies_in_chunks(server: Server) -> None:
    whole = server.send(CLOSING + chunk(BODY[:9]) + chunk(BODY[9:]) + chunk(b""))
    assert whole.startswith(b"HTTP/1.1 200")
    for malformed in (b"zz\r\n" + BODY, chunk(BODY[:9]) + b"-1\r\n", chunk(BODY)[:-2] + b"xx0\r\n\r\n"):
        answer = server.send(CLOSING + malformed + b"\r\n0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400")
    assert server.post("/v1/rerank", BODY)[0] == 200


def test_a_body_in_chunks_beyond_the_limit_is_not_cut(server: Server) -> None:
    # padded with blanks, so that the body would still be valid JSON if it was cut
    answer = server.send(CLOSING + chunk(BODY) + chunk(b" " * (8 * MB - len(BODY))) + chunk(b" ") + chunk(b""))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"too_large" in answer
    allowed = server.send(CLOSING + chunk(BODY) + chunk(b" " * (8 * MB - 4096)) + chunk(b""))
    assert allowed.startswith(b"HTTP/1.1 200")
