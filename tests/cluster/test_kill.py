"""Tests of ``resift index`` that is killed, stopped or out of disk space: running it again completes the index."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import termios
import time
import uuid
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tcp_proxy import Proxy

from resift import Model, WordVectors, load_model
from resift.contracts.engine import Engine
from resift.embedded.engine import SqliteEngine
from resift.errors import BadInput, ResiftError
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.ingest.verify import verify
from resift.service.connect import open_engine
from resift.stopping import Stop

DOCUMENTS = 3000


def lines(first: int, last: int) -> str:
    """Return documents with some numbers as JSON lines."""
    texts = ["bush fire with smoke", "army gun in the war", "rain water of the river"]
    rows = ({"_id": str(i), "text": f"{texts[i % 3]} number {i}"} for i in range(first, last))
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def command(tmp_path: Path, model: Model, index: str) -> list[str]:
    """Return the command ``resift index`` with documents from stdin."""
    return indexing(tmp_path, model, index)


def indexing(tmp_path: Path, model: Model, index: str) -> list[str]:
    folder = str(model.save(tmp_path / "model"))
    options = ["--index", index, "--fields", "text", "--model", folder, "--dead-letters", str(tmp_path / "dead")]
    return [sys.executable, "-m", "resift", "index", "-", *options]


@contextmanager
def running(command: list[str], url: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a command with an open stdin, and end it after the block."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen([*command, "--engine", url], text=True, **pipes, **more)
    try:
        yield process
    finally:
        process.kill()
        with suppress(BrokenPipeError):
            process.communicate()


def feed(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def count(engine: Engine, index: str) -> int:
    """Return the number of documents in an index, or 0 if it does not exist yet."""
    with suppress(ResiftError):
        engine.refresh(index)
        body = {"size": 0, "track_total_hits": True}
        return int(engine.search(index, body).response["hits"]["total"]["value"])
    return 0


def wait_for(process: subprocess.Popen[str], engine: Engine, index: str, documents: int) -> None:
    """Wait until a process has indexed a number of documents."""
    ended = False
    while (there := count(engine, index)) < documents:
        assert not ended, f"{there} of {documents}"
        ended = process.poll() is not None
        time.sleep(0.1)  # each check refreshes the index, which slows down the process


def wait_until_read(process: subprocess.Popen[str]) -> None:
    """Wait until a process has read and processed all data in its stdin, and waits for more."""
    worked = -1
    while True:
        left = array("i", [0])
        fcntl.ioctl(process.stdin, termios.FIONREAD, left)  # type: ignore[arg-type]
        before, (worked, is_idle) = worked, work_of(process)
        if not left[0] and worked == before and is_idle:
            return
        assert process.poll() is None, "not read"
        time.sleep(0.1)


def work_of(process: subprocess.Popen[str]) -> tuple[int, bool]:
    """Return the CPU time of a process in hundredths of a second, and whether all its threads sleep.

    On a busy machine, a thread with work to do may not have had time for it.
    """
    stats = [one.read_text().rpartition(")")[2].split() for one in Path(f"/proc/{process.pid}/task").glob("*/stat")]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats), all(stat[0] == "S" for stat in stats)


def read_documents(process: subprocess.Popen[str]) -> int:
    """Return the number of documents that a process had read when it ended, according to its last message."""
    _, errors = process.communicate(timeout=300)
    (line,) = [line for line in errors.splitlines() if "read up to line" in line]
    assert "Traceback" not in errors
    return int(line.partition("read up to line ")[2].split()[0])


def kept(engine: Engine, index: str, dead: Path) -> set[int]:
    """Return the numbers of the documents in the index or in the dead-letter file, without the half line."""
    written = map(json.loads, dead.read_text().splitlines() if dead.exists() else [])
    documents = [letter["document"] for letter in written]
    found = {int(document["_id"]) for document in documents if isinstance(document, dict)}
    return found | {int(stored.id) for stored in engine.scan(index)}


def test_indexing_can_be_repeated_after_a_kill(
    engine: Engine, engine_url: str, index: str, model: Model, command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "docs.jsonl").write_text(lines(0, DOCUMENTS))
    command[command.index("-")] = str(tmp_path / "docs.jsonl")
    for documents in (1, 1500):
        with running(command, engine_url) as process:
            wait_for(process, engine, index, documents)
            process.send_signal(signal.SIGKILL)
            process.wait(30)
        assert verify(engine, model, index).missing == 0
        assert verify(engine, model, index).stale == 0
    with running(command, engine_url) as process:
        assert process.wait(300) == 0
    found = verify(engine, model, index)
    assert (found.checked, found.missing, found.stale) == (DOCUMENTS, 0, 0)
    assert kept(engine, index, tmp_path / "none") == set(range(DOCUMENTS))
    assert count(engine, index) == DOCUMENTS
    assert not (tmp_path / "dead").exists()


def test_two_first_indexers_at_once(
    engine: Engine, engine_url: str, index: str, model: Model, command: list[str]
) -> None:
    with running(command, engine_url) as first, running(command, engine_url) as second:
        for number, process in enumerate((first, second)):
            assert process.stdin is not None
            feed(process, lines(500 * number, 500 * number + 700))
            process.stdin.close()
            process.stdin = None  # communicate() would flush stdin
        assert [first.wait(300), second.wait(300)] == [0, 0]
    found = verify(engine, model, index)
    assert (found.checked, found.missing, found.stale) == (1200, 0, 0)


@pytest.mark.parametrize("packed", [False, True])
def test_a_signal_while_the_first_documents_are_read(tmp_path: Path, model: Model, packed: bool) -> None:
    data, engine = lines(0, 90).encode(), SqliteEngine(str(tmp_path / "e.db"))
    with running(indexing(tmp_path, model, "docs"), engine.path) as process:
        assert process.stdin is not None
        # compressed in parts, as gzip does when it is flushed
        compressor = zlib.compressobj(wbits=31)
        process.stdin.buffer.write(compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH) if packed else data)
        process.stdin.flush()
        wait_until_read(process)
        process.send_signal(signal.SIGTERM)
        assert read_documents(process) == 90
        assert process.returncode == 128 + signal.SIGTERM
    assert count(engine, "docs") == 90
    engine.close()


@pytest.mark.parametrize(
    ("engine_url", "number"), [("sqlite", signal.SIGINT), ("opensearch", signal.SIGTERM)], indirect=["engine_url"]
)
def test_a_signal_ends_it_when_what_was_read_is_indexed(
    engine: Engine, engine_url: str, index: str, command: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    with running(command, engine_url) as process:
        feed(process, lines(0, 1234))
        wait_for(process, engine, index, 1000)
        feed(process, '{"_id": "half')
        wait_until_read(process)
        process.send_signal(number)
        read = read_documents(process)
        assert process.returncode == 128 + number
    # the half line is line 1235, and becomes a dead letter like all lines without a document
    assert read in (1234, 1235)
    assert {int(stored.id) for stored in engine.scan(index)} == set(range(1234))


def test_a_signal_ends_the_wait_for_a_cluster_that_is_away(opensearch_url: str, model: Model, tmp_path: Path) -> None:
    proxy, engine, index = Proxy(opensearch_url), open_engine(opensearch_url), f"resift-test-{uuid.uuid4().hex[:12]}"
    try:
        with running(indexing(tmp_path, model, index), proxy.url) as process:
            feed(process, lines(0, 700))
            wait_for(process, engine, index, 500)
            proxy.kill()
            feed(process, lines(700, 3000))
            process.send_signal(signal.SIGTERM)
            read = read_documents(process)
            assert process.returncode != 0
        assert read >= 1000
        assert kept(engine, index, tmp_path / "dead") >= set(range(read - 1))
    finally:
        engine.drop_if_exists(index)
        engine.close()
        proxy.kill()


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Limit the size of files inside a ``with`` block, so that writes beyond it fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_for_dead_letters(tmp_path: Path, model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    engine, dead, read = SqliteEngine(str(tmp_path / "e.db")), DeadLetters(tmp_path / "dead"), list[int]()
    stop = Stop()

    def records() -> Iterator[Record]:
        for number in range(5000):
            if stop.requested:
                return
            read.append(number)
            # every second document is refused, and the file has room for about twenty of them
            text: Any = "fire" if number % 2 else {"long": "x" * 50_000}
            yield Record("f", number, str(number), {"text": text})

    with full_disk(2**20), pytest.raises(BadInput, match=r"cannot be written.*on standard error"):
        Indexer(engine, model, "docs", dead, stop=stop).run(records(), ["text"])
    spilled = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(read) < 5000
    in_file = [json.loads(line) for line in (tmp_path / "dead").read_text().splitlines()]
    assert in_file
    assert spilled
    assert all(len(letter["document"]["text"]["long"]) == 50_000 for letter in [*in_file, *spilled])
    numbers = [int(letter["document"]["_id"]) for letter in [*in_file, *spilled]]
    numbers += [int(stored.id) for stored in engine.scan("docs")]
    assert sorted(numbers) == read
    engine.close()


def test_a_full_disk_for_a_model(tmp_path: Path, model: Model) -> None:
    folder = model.save(tmp_path / "model")
    large = WordVectors([f"w{i}" for i in range(5000)], np.ones((5000, 100), np.float32))
    with full_disk(2**20), pytest.raises(BadInput, match="cannot be written"):
        large.save(tmp_path / "vectors")
    with full_disk(2**20), pytest.raises(BadInput, match="cannot be written"):
        Model("mean", large, "mean", "cosine").save(folder)
    assert load_model(folder).hash == model.hash
    assert os.listdir(tmp_path) == ["model"]
