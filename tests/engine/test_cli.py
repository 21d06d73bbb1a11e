"""Tests of the command line."""

from __future__ import annotations

import errno
import gzip
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from ports import free_port

from resift import Model, WordVectors
from resift.cli.main import main
from resift.encoders.registry import load_model
from resift.reranker import Config
from resift_lab.training.options import RoBoewOptions

pytestmark = pytest.mark.usefixtures("here")
JSON_BODY = {"Content-Type": "application/json"}


@pytest.fixture
def model_folder(here: Path, model: Model) -> str:
    """Return the folder of a small saved model."""
    return str(model.save(here / "small"))


def resift(*arguments: str, status: int = 0, input: str | None = None) -> Result:
    """Run a command and check its exit status."""
    result = CliRunner().invoke(main, list(arguments), input=input)
    assert result.exit_code == status, result.output
    return result


def test_index_and_index_again(here: Path, model_folder: str) -> None:
    lines = [{"_id": str(i), "title": "fire", "text": "bush"} for i in range(5)]
    (here / "docs.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    for _ in range(2):
        result = resift("index", "docs.jsonl.gz", "--index", "docs", "--model", model_folder)
        assert "5 documents in index docs" in result.output
    assert (
        "5 documents in index docs: 0 without a vector, 0 with a stale one"
        in resift("verify", "docs", "--model", model_folder).output
    )


def test_commands_with_a_file_do_not_import_opensearch_py(here: Path, model_folder: str) -> None:
    (here / "docs.jsonl").write_text('{"_id": "1", "text": "bush fire"}')
    commands = [
        ["index", "docs.jsonl", "--index", "docs", "--model", model_folder, "--engine", "docs.db"],
        ["drop", "docs", "--engine", "docs.db", "--yes"],
    ]
    code = f"import sys\nfrom resift.cli.main import main\nfor command in {commands}:\n"
    code += "    main(command, standalone_mode=False)\nprint('opensearchpy' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=here)
    assert ran.stdout.splitlines()[-1] == "False", ran.stdout


def test_index_from_stdin_with_ids_and_dead_letters(here: Path, model_folder: str) -> None:
    data = '{"key": "a", "title": "fire"}\n{broken\n{"key": "b", "title": {"x": 1}}\n'
    result = resift(
        "index",
        "-",
        "--index",
        "docs",
        "--model",
        model_folder,
        "--id",
        "key",
        status=3,
        input=data,
    )
    assert "1 documents in index docs" in result.output
    assert "2 refused: see docs.dead.jsonl" in result.output
    dead = [json.loads(line) for line in (here / "docs.dead.jsonl").read_text().splitlines()]
    assert [letter["line"] for letter in dead] == [2, 3]
    fixed = [json.dumps({**dead[1], "document": {**dead[1]["document"], "title": "gun"}})]
    (here / "fixed.jsonl").write_text("\n".join(fixed))
    assert (
        "1 documents"
        in resift("index", "fixed.jsonl", "--index", "docs", "--model", model_folder, "--id", "key").output
    )


def test_index_adapts_to_the_documents_first(here: Path) -> None:
    topics = ("stove pan oven butter flour sugar", "engine wheel brake clutch gear tyre")
    lines = [
        {
            "_id": str(i),
            "text": " ".join(np.random.default_rng(i).permutation((topics[i % 2] + " the of and").split() * 3)),
        }
        for i in range(200)
    ]
    (here / "docs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    output = resift("index", "docs.jsonl", "--index", "docs", "--adapt", "own").output
    assert "200 documents in index docs" in output
    assert "text alone  untrained    adapted" in output
    assert load_model("own").dim
    assert "200 documents in index docs: 0 without a vector" in resift("verify", "docs", "--model", "own").output
    assert (
        "stdin cannot be read twice"
        in resift("index", "-", "--index", "docs", "--adapt", "own", status=2, input="{}").output
    )


def test_index_names_the_missing_package_before_it_reads_anything(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scipy", "scipy.sparse"):
        monkeypatch.setitem(sys.modules, name, None)
    told = resift("index", "missing.jsonl", "--index", "docs", "--adapt", "own", status=1).output
    assert told == "Error: Adapting word vectors needs scipy: pip install 'resift[adapt]'\n"
    assert list(here.iterdir()) == []


def test_csv_and_another_engine_file(here: Path, model_folder: str) -> None:
    (here / "docs.csv").write_text("id,text\n1,fire\n2,gun\n")
    resift(
        "index",
        "docs.csv",
        "--index",
        "docs",
        "--engine",
        "own.db",
        "--fields",
        "text",
        "--model",
        model_folder,
    )
    assert (here / "own.db").exists()
    assert not (here / "resift.db").exists()


def test_a_full_disk_is_no_wrong_argument(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    failed = resift("keys", "create", "page", "--scopes", "search", status=1)
    assert "No space left" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["index", "missing.jsonl", "--index", "docs"], 2, "missing.jsonl cannot be read"),
        (["index", "x.parquet", "--index", "docs"], 2, "cannot determine the format"),
        (["index", "-", "--index", "Docs"], 2, "is not a valid index name"),
        (["index", "-", "--index", "docs", "--model", "nowhere"], 2, "no model.json in nowhere"),
        (["verify", "nothing"], 2, "no index 'nothing'"),
        (["search", "nothing", "fire"], 2, "no index 'nothing'\n"),
        (["search", "nothing", "fire", "--explain", "--session", "anna"], 2, "no index 'nothing'\n"),
        (["model", "boew:0", "--out", "m"], 2, "unknown encoder"),
        (["vectors", "convert", "nothing.txt", "--out", "v"], 2, "no file or folder nothing.txt"),
        (["doctor", "--engine", "resift.db"], 2, "is not an OpenSearch cluster"),
    ],
)
def test_each_error_is_a_single_message(here: Path, arguments: list[str], status: int, message: str) -> None:
    result = resift(*arguments, status=status, input="{}")
    assert message in result.output
    assert "expected: " in result.output
    assert "Traceback" not in result.output


def test_encode_vectors_and_models(here: Path, vectors: WordVectors) -> None:
    (here / "corpus.txt").write_text("the bush fire burns\nthe army has guns\n\n" * 30)
    assert "words of 8 dimensions" in resift("vectors", "train", "corpus.txt", "--set", "dim=8", "--out", "own").output
    (here / "glove.txt").write_text(
        f"{len(vectors)} {vectors.dim}\n"
        + "".join(f"{w} {' '.join(map(str, row))}\n" for w, row in zip(vectors.words, vectors.rows(), strict=True))
    )
    resift("vectors", "convert", "glove.txt", "--out", "glove", "--limit", "10")
    assert len(WordVectors.load("glove")) == 10
    result = resift("model", "boew:3", "--vectors", "own", "--out", "boew")
    model = load_model("boew")
    assert model.hash in result.output


def test_help_needs_no_extra() -> None:
    extras = ("torch", "scipy", "gensim", "numba", "sklearn", "sentence_transformers")
    asked = [[], ["train", "ro-boew"], ["train", "word2doc"], ["vectors"], ["train", "self"]]
    code = f"import sys\nsys.modules.update(dict.fromkeys({extras}))\nfrom resift.cli.main import main\n"
    code += f"for words in {asked}: main([*words, '--help' if words else '--help-all'], standalone_mode=False)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("Usage") == len(asked)


def test_the_first_help_shows_the_ten_most_important_commands() -> None:
    shown, every = (CliRunner().invoke(main, words).output.partition("Commands:")[2] for words in ([], ["--help-all"]))
    assert re.findall(r"^  (\S+)  ", shown, re.MULTILINE) == [
        *("demo", "index", "search", "mark", "serve"),
        *("install", "attach", "detach", "doctor", "guard"),
    ]
    assert re.findall(r"^  (\S+)  ", every, re.MULTILINE) == main.list_commands(click.Context(main))


def test_options_show_and_take_the_defaults_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = " ".join(resift("train", "ro-boew", "--help").output.split())
    assert f"--codewords INTEGER Number of codewords. [default: {RoBoewOptions.codewords}]" in shown
    help = " ".join(resift("sessions", "purge", "--help").output.split())
    assert "default: (the embedded engine's file, sessions.db for a cluster)]" in help
    assert str(Path(Config().engine).resolve()) in resift("sessions", "purge", status=2).output
    monkeypatch.setenv("RESIFT_STORE", "other.db")
    assert str(Path("other.db").resolve()) in resift("sessions", "purge", status=2).output


def test_serve_with_several_workers(here: Path, model_folder: str) -> None:
    (here / "docs.jsonl").write_text('{"_id": "1", "text": "bush fire"}\n{"_id": "2", "text": "fire gun"}\n')
    resift("index", "docs.jsonl", "--index", "docs", "--model", model_folder)
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "resift",
        "serve",
        "--port",
        str(port),
        "--workers",
        "2",
        "--model",
        model_folder,
    ]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    staying: list[http.client.HTTPConnection] = []
    try:

        def call(path: str, body: object = None) -> bytes:
            data = None if body is None else json.dumps(body).encode()
            with urllib.request.urlopen(
                urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, JSON_BODY), timeout=60
            ) as answer:
                found: bytes = answer.read()
                return found

        deadline = time.monotonic() + 180
        while True:
            try:
                call("/readyz")
                break
            except OSError:
                assert time.monotonic() < deadline, "not ready"
                assert server.poll() is None, "ended"
                time.sleep(0.1)
        for i in range(20):
            marks = {"session": "s", "index": "docs", "relevant": ["1"] if i % 2 else ["2"]}
            assert json.loads(call("/v1/feedback", marks))["steps"] == i + 1
            found = json.loads(call("/v1/search", {"index": "docs", "query": "fire", "session": "s"}))
            assert len(found["hits"]["hits"]) == 2
        assert b'resift_requests_total{endpoint="api.search",status="200"} 20.0' in call("/metrics")
        staying += [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(40)]
        for turn in range(3):
            for number, connection in enumerate(staying):
                query = f"fire {turn} {number}"
                connection.request(
                    "POST", "/v1/rerank", json.dumps({"query": query, "documents": [query, "gun"]}), JSON_BODY
                )
                assert json.loads(connection.getresponse().read())["results"][0]["index"] == 0
    finally:
        server.send_signal(signal.SIGTERM)
        _, log = server.communicate(timeout=60)
        for connection in staying:
            connection.close()
    assert server.returncode == 0, log
    assert "Traceback" not in log
