"""Tests of invalid command lines: each invalid value of each parameter of each command gives a single error message.

The cases are derived from the tree of commands. A new command needs an entry in ``VALID``, and a new parameter whose
type does not show its invalid values an entry in ``TEXTS``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from tiny_transformer import save_sentence_transformer

from resift import Model, WordVectors
from resift.cli import http_server
from resift.cli.main import main
from resift.feedback.judgements import Judgement
from resift.service.connect import open_engine, open_session_store
from resift.sessions.sessions import Sessions

DOCUMENTS = 120
NOWHERE = "http://127.0.0.1:1"

# Valid values by the names of the parameters. A test replaces one of them by an invalid value.
VALID: dict[str, dict[str, Any]] = {
    "index": {"files": "docs.jsonl", "index": "new", "model": "model"},
    "verify": {"index": "docs", "model": "model"},
    "search": {"index": "docs", "query": "fire", "model": "model"},
    "mark": {"index": "docs", "query": "fire", "ids": "1", "session": "anna", "model": "model"},
    "indices": {"model": "model"},
    "drop": {"index": "docs", "yes": True},
    "sessions list": {},
    "sessions purge": {},
    "sessions delete": {"session": "anna"},
    "sessions export": {"client": "anna"},
    "sessions forget": {"client": "anna", "yes": True},
    "vectors train": {"files": "docs.jsonl", "out": "out"},
    "vectors convert": {"file": "glove.txt", "out": "out"},
    "vectors export": {"source": "vectors", "out": "out"},
    "vectors distill": {"folder": "teacher", "words": "words.txt", "out": "out"},
    "vectors mix": {"sources": "vectors", "out": "out"},
    "vectors refine": {"folder": "teacher", "files": "docs.jsonl", "vectors": "vectors", "out": "out"},
    "vectors pairs": {"files": "pairs.jsonl", "vectors": "vectors", "teacher": "teacher", "out": "out"},
    "model": {"encoder": "boew:4", "vectors": "vectors", "out": "out"},
    "train ro-boew": {"file": "labelled.jsonl", "vectors": "vectors", "out": "out"},
    "train rn-bof": {"file": "labelled.jsonl", "vectors": "vectors", "out": "out"},
    "train classes": {"file": "labelled.jsonl", "model": "model", "out": "out"},
    "train self": {"files": "docs.jsonl", "vectors": "vectors", "out": "out"},
    "train queries": {"files": "docs.jsonl", "teacher": "teacher", "vectors": "vectors", "out": "out"},
    "train reranker": {"folder": "collection", "sources": "vectors", "out": "out"},
    "train emboost": {"folder": "collection", "sources": "vectors", "out": "out"},
    "train word2doc": {"files": "docs.jsonl", "vectors": "vectors", "out": "out"},
    "eval classes": {"train": "labelled.jsonl", "test": "labelled.jsonl", "vectors": "vectors"},
    "eval sts": {"files": "pairs.tsv", "vectors": "vectors"},
    "eval retrieval": {"folder": "collection", "vectors": "vectors"},
    "eval index": {"index": "docs", "judged": "collection", "model": "model"},
    "eval feedback": {"folder": "collection", "vectors": "vectors", "encoder": "mean"},
    "review": {"review": "r", "index": "docs", "format_": "csv"},
    "eval review": {"folder": "collection", "seeds": 1},
    "eval word2doc": {"folder": "nothing"},
    "prove": {"index": "docs", "model": "model", "replay": "log.csv"},
    "tune": {"index": "docs", "model": "model", "source": "log.csv"},
    "export judgments": {"index": "docs"},
    "export query-set": {"index": "docs"},
    "export search-configuration": {"index": "docs"},
    "serve": {"model": "model"},
    "keys create": {"name": "anna", "scopes": "search"},
    "role": {"name": "serve"},
    "keys list": {},
    "keys rotate": {"name": "anna"},
    "keys delete": {"name": "anna"},
    "reranker use": {"source": "nothing"},
    "reranker drop": {},
    "attach": {"index": "docs", "url": NOWHERE, "model": "model", "vectors": True},
    "detach": {"index": "docs", "url": NOWHERE},
    "install": {"url": NOWHERE, "model": "model"},
    "uninstall": {"url": NOWHERE},
    "doctor": {"url": NOWHERE, "model": "model"},
    "mcp": {"index": "docs", "model": "model"},
    "guard": {"url": NOWHERE},
    "demo": {"no_serve": True},
}
# Invalid values of text parameters. An empty list stands for parameters that accept any text.
FILES = ["missing.jsonl", "directory.jsonl", "empty.jsonl", "binary.jsonl", "cut.jsonl.gz", "none.parquet"]
FOLDERS = ["nowhere", "docs.jsonl", "directory.jsonl", "damaged"]
ADDRESSES = ["directory.jsonl", "binary.jsonl", "nowhere/docs.db", NOWHERE, "http://["]
NAMES = ["", ",", "nope"]
TEXTS: dict[str, list[str]] = {
    "files": FILES,
    "sentence_files": FILES,
    "file": FILES,
    "corpus": FILES,
    "train": FILES,
    "test": FILES,
    "words": ["missing.jsonl", "directory.jsonl", "empty.jsonl", "binary.jsonl"],
    "folder": ["nowhere", "docs.jsonl", "directory.jsonl"],
    "turns": ["nowhere", "docs.jsonl", "directory.jsonl"],
    "source": ["nowhere", "docs.jsonl", "directory.jsonl"],
    "model": FOLDERS,
    "vectors": FOLDERS,
    "sources": [*FOLDERS, "vectors=x", "vectors=nan"],
    "engine": ADDRESSES,
    "url": [*ADDRESSES, "docs.db"],
    "store": ADDRESSES,
    "indices": ["a b", "x/y"],
    "fields": NAMES,
    "index": ["Docs", "", "nope"],
    "id_column": ["nope"],
    "field": ["nope"],
    "pipeline": ["nope"],
    "renames": ["a", "=b", "a="],
    "query": [],
    "session": ["nope", "a b", "x" * 200],
    "review": ["a b", "", "x" * 100],
    "topic": [],
    "client": [],
    "replay": ["missing.csv", "docs.jsonl", "directory.jsonl", "binary.jsonl"],
    "body": ["nowhere", "pairs.tsv", "directory.jsonl"],
    "id_field": ["nope"],
    "live": ["0", "-1%", "101%", "nan", "all", "", "%"],
    "bags": ["a.b", "_id", "", "nope"],
    "encoder": ["nope", "boew:x", "boew:0", "boew:99999999999", "boew:4,nan", "sfbow:nope"],
    "compare": ["nope"],
    "shares": ["x", "1,2", "1,nan,2", "-1,1,1"],
    "spelling": ["x", "0", "-1", "4=x", "99999999999"],
    "judgments": FILES,
    "of_sessions": ["Docs", "", "nope"],
    "of_ubi": ["Docs", "", "nope"],
    "settings": ["nope=1", "seed=x", "x", "=", ""],
    "out": ["directory.jsonl", "nowhere/x.json", "/proc/nope/x", ""],
    "methods": ["nope"],
    "queries": [],
    "host": [],
    "name": ["a/b"],
    "scopes": ["nope", ""],
    "service": ["nope", "http://["],
    "old_service": ["nope", "http://["],
    "key": ["short"],
    "role": ["nope"],
    "teacher": [*FOLDERS[:3], NOWHERE],
    "teacher_model": [],
    "prefix": [],
    "about": [],
    "ids": ["nobody"],
    "judged": ["nowhere", "docs.jsonl", "directory.jsonl"],
}
OTHERWISE: dict[tuple[str, str], list[str]] = {
    ("index", "index"): ["Docs", "", "a b", "_x"],
    ("search", "session"): ["a b", "x" * 200],
    ("mark", "session"): ["a b", "x" * 200],
    ("sessions delete", "index"): [],
    ("serve", "engine"): ADDRESSES[:3],  # a cluster that does not answer may recover
    ("mcp", "engine"): [one for one in ADDRESSES if one != NOWHERE],  # a cluster that does not answer may recover
    ("mcp", "store"): ADDRESSES[:3],
    ("vectors convert", "file"): [*FILES, "header.txt"],
    ("eval word2doc", "queries"): [],
    ("keys rotate", "name"): ["nobody"],
    ("keys delete", "name"): ["nobody"],
    ("train queries", "index"): [],  # checked by the cluster
    ("sessions export", "engine"): ADDRESSES[3:],  # the log of an embedded engine is in the session store
    ("sessions forget", "engine"): ADDRESSES[3:],
    ("prove", "store"): ["http://["],  # not used for a CSV file
    # that a cluster is away is what it finds
    ("doctor", "url"): [*(one for one in ADDRESSES if one != NOWHERE), "docs.db"],
    ("doctor", "name"): [],
    ("tune", "source"): ["nope", "directory.jsonl", "nowhere/x.csv"],
}
# Further parameters of a case (None removes one): parameters that require or exclude each other.
BESIDES: dict[tuple[str, str], dict[str, str | None]] = {
    ("search", "store"): {"session": "anna"},
    ("sessions delete", "index"): {"session": None},
    ("train reranker", "of_sessions"): {"folder": None},
    ("train reranker", "of_ubi"): {"folder": None},
    ("train reranker", "engine"): {"folder": None, "of_sessions": "docs"},
    ("train reranker", "store"): {"folder": None, "of_sessions": "docs", "model": "model"},
    ("train queries", "url"): {"files": None, "index": "docs", "field": "vector"},
    ("eval feedback", "train"): {"folder": None, "test": "labelled.jsonl"},
    ("eval feedback", "test"): {"folder": None, "train": "labelled.jsonl"},
    ("eval feedback", "model"): {"encoder": None},
    ("eval feedback", "turns"): {"folder": None},
}
# The names of values that messages do not or must not quote.
NAMED = {NOWHERE: "127.0.0.1", "short": "--key", "sfbow:nope": "'nope'"}
CLUSTER = ("attach", "detach", "install", "uninstall", "doctor", "guard")  # these connect to the cluster first
NUMBERS = {"integer": ["-5", "1.5", str(10**30)], "float": ["x", "nan", "inf", "-7.5"]}
OUT = {
    "folder": ["docs.jsonl", "docs.jsonl/out", "others", "/proc/nope/out", ""],
    "file": ["directory.jsonl", "nowhere/x.npy", "docs.jsonl/x.npy", "/proc/nope", ""],
}


def commands(group: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield all commands except groups, with their names."""
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, (*path, name))
    else:
        yield " ".join(path), group


def bad_values(command: str, parameter: click.Parameter) -> list[str]:
    """Return invalid values of a parameter."""
    kind = parameter.type.name.removesuffix(" range")
    if kind == "boolean":
        return []
    if kind == "choice":
        return ["nope"]
    if kind in NUMBERS:
        return NUMBERS[kind]
    if kind in OUT:
        return OUT[kind]
    assert parameter.name in TEXTS, f"{command}: say in TEXTS what {parameter.name} cannot take"
    return OTHERWISE.get((command, parameter.name), TEXTS[parameter.name])


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield the test cases: parameters of each command with an invalid value.

    The first parameter with a certain name and type is tested with all invalid values, and so are parameters of
    commands with their own values. Others share the code, so a single value suffices.
    """
    seen: set[tuple[str, str, str]] = set()
    for command, found in commands():
        for parameter in found.params if command in VALID else ():
            name, kind = parameter.name or "", parameter.type.name
            values = bad_values(command, parameter)
            for number, value in enumerate(values):
                if number == len(command) % len(values) or (name, kind, value) not in seen or kind == "integer range":
                    yield command, name, value
                seen.add((name, kind, value))


ROWS = [pytest.param(*row, id=" ".join(row)[:60]) for row in rows()]


def line(command: str, bad: dict[str, str]) -> list[str]:
    """Return a command line that is valid except for the ``bad`` values."""
    found = dict(commands())[command]
    (name,) = bad
    values = {**VALID[command], **BESIDES.get((command, name), {}), **bad}
    for name in ("engine", "store"):
        if any(parameter.name == name for parameter in found.params):
            values.setdefault(name, f"{name}.db")
    words: list[str] = []
    for parameter in found.params:
        if values.get(parameter.name or "") is not None:
            value = values[parameter.name]
            option = [parameter.opts[0]] if isinstance(parameter, click.Option) else []
            words += option if value is True else [*option, str(value)]
    return [*command.split(), *words]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: Model, vectors: WordVectors) -> Path:
    """Return a folder of valid files, and of files that are invalid in one way each."""
    root = tmp_path_factory.mktemp("lines")
    ids, words = range(DOCUMENTS), ["fire bush flame", "army gun war", "rain river water"]
    texts = [f"{words[n % 3]} of number {n}, named x{n} y{n} z{n} u{n} v{n}" for n in ids]
    documents = [{"_id": str(n), "title": words[n % 3], "text": text} for n, text in enumerate(texts)]
    lines = {
        "docs.jsonl": documents,
        "pairs.jsonl": [{"query": one["title"], "document": one["text"]} for one in documents],
        "labelled.jsonl": [{"id": one["_id"], "text": one["text"], "label": one["title"]} for one in documents],
        "collection/corpus.jsonl": documents,
        "collection/queries.jsonl": [{"_id": f"q{n}", "text": f"fire {n}"} for n in ids],
    }
    (root / "collection").mkdir()
    for name, rows in lines.items():
        (root / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    qrels = "".join(f"q{n}\t{n}\t1\n" for n in ids)
    (root / "collection" / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{qrels}")
    pairs = "".join(f"a\t{n}\tfire {n}\tbush\n" for n in range(9))
    (root / "pairs.tsv").write_text(f"task\tscore\tsentence1\tsentence2\n{pairs}")
    (root / "log.csv").write_text("query,shown,clicked,client,time\nfire,1,1,a,1700000000\nfire,2,2,a,1700000001\n")
    (root / "words.txt").write_text("fire\nbush\n")
    (root / "empty.jsonl").write_text("")
    (root / "header.txt").write_text("100000000 300\nfire 1 2\n")
    (root / "binary.jsonl").write_bytes(bytes(range(256)) * 40)
    (root / "cut.jsonl.gz").write_bytes(gzip.compress(np.random.default_rng(0).bytes(9999).hex().encode())[:5000])
    (root / "none.parquet").write_bytes(b"PAR1")
    for name in ("directory.jsonl", "others"):
        (root / name).mkdir()
    (root / "others" / "letter.txt").write_text("mine")
    glove = "".join(f"{w} {' '.join(map(str, row))}\n" for w, row in zip(vectors.words, vectors.rows(), strict=True))
    (root / "glove.txt").write_text(glove)
    model.save(root / "model")
    vectors.save(root / "vectors")
    (root / "damaged").mkdir()
    for name in ("model.json", "vectors.json"):
        (root / "damaged" / name).write_text("{")
    save_sentence_transformer(root / "teacher", ["fire", "bush"])
    engine = open_engine(str(root / "engine.db"))
    engine.create("docs", ["title", "text"], model)
    engine.close()
    store = open_session_store(str(root / "store.db"), "")
    Sessions(store).add("kept", "fire", [Judgement("docs", "1", 1.0)])
    store.close()
    return root


@pytest.fixture
def at(folder: Path, monkeypatch: pytest.MonkeyPatch, here: Path) -> Path:
    """Change to this folder. A server that starts fails the test."""
    monkeypatch.chdir(folder)

    def run(server: http_server.HttpServer) -> None:
        server.load()
        raise AssertionError("it serves")

    monkeypatch.setattr(http_server.HttpServer, "run", run)
    monkeypatch.setattr(http_server, "bind", lambda host, port, bind=http_server.bind: bind(host, 0))
    for name in ("RESIFT_ENGINE", "RESIFT_MODEL"):  # set by the server
        monkeypatch.setenv(name, "")
    return folder


def resift(*arguments: str) -> Result:
    """Run a command and return its result."""
    return CliRunner().invoke(main, list(arguments), input="")


def message_of(result: Result) -> list[str]:
    """Return the lines of the error message of a command, which must exit without an exception."""
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    assert "Error: " in result.output, result.output
    return result.output[result.output.rindex("Error: ") :].rstrip().splitlines()


def test_every_command_is_here_and_shows_an_example() -> None:
    assert {name for name, _ in commands()} == set(VALID)
    for name, command in commands():
        assert (command.epilog or "").startswith(f"Example: resift {name}"), name


@pytest.mark.parametrize(("command", "parameter", "value"), ROWS)
def test_an_invalid_value_prints_a_single_message(at: Path, command: str, parameter: str, value: str) -> None:
    result = resift(*line(command, {parameter: value}))
    lines = message_of(result)
    assert len(lines) <= 2, lines
    assert all(one.startswith("  expected: ") for one in lines[1:])
    asked = command in CLUSTER and "no answer" in lines[0]
    failed = asked or value in ADDRESSES or value == "damaged"
    assert result.exit_code in ((1, 2, 3) if failed else (2, 3)), result.output
    assert asked or NAMED.get(value, value[:50]) in lines[0], lines
