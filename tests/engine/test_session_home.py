"""Tests of the default session store: the library, the commands and the service use the same store."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import resift as library
from resift import Model
from resift.cli.main import main
from resift.reranker import Config, create_app
from resift.service.connect import default_session_store, open_engine

TEXTS = {"1": "bush fire", "2": "the army returned fire", "3": "rain and rivers"}


def resift(*arguments: str) -> Result:
    """Run a command, which must succeed."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def filled(here: Path, engine_url: str, model: Model) -> Iterator[str]:
    """Return an index of three documents."""
    name = f"resift-test-{uuid.uuid4().hex[:8]}"
    model.save("small")
    with library.open(engine_url, model) as opened:
        assert opened.index(name, ["text"]).add({"id": id, "text": text} for id, text in TEXTS.items()).refused == []
    yield name
    engine = open_engine(engine_url)
    engine.drop_if_exists(name)
    engine.close()


def test_one_home_for_all_doors(
    engine_url: str, filled: str, model: Model, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESIFT_ENGINE", engine_url)
    with library.open(engine_url, model) as opened:
        session = opened.index(filled).session("anna")
        session.search("fire")
        session.mark(relevant=["2"])
    _, listed = resift("sessions", "list").stdout.splitlines()
    assert listed.split()[:2] == ["anna", "1"]
    found = resift("search", filled, "fire", "--session", "anna", "--model", "small", "--json")
    assert json.loads(found.stdout)["resift"]["session"] == "anna"
    assert found.stderr == ""
    client = create_app(Config(engine=engine_url), model=model).test_client()
    assert client.get("/v1/sessions/anna").get_json()["steps"] == 1
    marks = {"session": "anna", "index": filled, "query": "fire", "irrelevant": ["1"]}
    assert client.post("/v1/feedback", json=marks).get_json()["steps"] == 2
    with library.open(engine_url, model) as opened:
        assert opened.index(filled).session("anna").explain()["steps"] == 2
    assert resift("sessions", "delete", "--index", filled).stdout.startswith("1 sessions deleted from ")
    assert Path("sessions.db").exists() == engine_url.startswith("http")


def test_files_of_other_documents_have_their_own_sessions(here: Path, model: Model) -> None:
    for file in ("a.db", "b.db"):
        with library.open(file, model) as opened:
            opened.index("docs", ["text"]).add([{"id": "1", "text": "bush fire"}])
    with library.open("a.db", model) as opened:
        opened.index("docs").session("anna").mark(relevant=["1"], query="fire")
    with library.open("b.db", model) as opened:
        assert opened.index("docs").session("anna").explain()["judgements"] == []


# Root may write to any file because of a capability (number 1), which is dropped here.
ASK = """
import ctypes, os, sys
if sys.argv[1] == "":
    ctypes.CDLL(None).prctl(24, 1)
    os.execv(sys.executable, [sys.executable, __file__, *sys.argv[2:]])
from resift.service.connect import default_session_store
print(os.access(sys.argv[1], os.W_OK), default_session_store(sys.argv[1]))
"""


def test_a_file_that_cannot_be_written_holds_no_sessions(tmp_path: Path) -> None:
    engine, script = tmp_path / "engine.db", tmp_path / "ask.py"
    assert default_session_store(str(engine)) == str(engine)
    engine.write_bytes(b"")
    engine.chmod(0o444)
    script.write_text(ASK)
    ran = subprocess.run([sys.executable, str(script), "", str(engine)], capture_output=True, text=True, check=True)
    writable, store = ran.stdout.split()
    if writable == "True":
        pytest.skip("root cannot give its rights away here")
    assert store == "sessions.db"


def test_a_mark_names_its_store_and_a_search_creates_none(engine_url: str, filled: str, here: Path) -> None:
    where = [filled, "fire", "--engine", engine_url, "--model", "small", "--session", "anna", "--store", "marks.db"]
    path, files = here / "marks.db", set(here.iterdir())
    searched = resift("search", *where)
    assert f"session anna has no marks in {path}" in searched.stderr
    assert set(here.iterdir()) == files
    assert (
        f"stored in the new file {path}; a service reads this mark only if"
        in resift("mark", *where[:2], "2", *where[2:]).stderr
    )
    assert f"stored in {path}; a service reads this mark only if" in resift("mark", *where[:2], "1", *where[2:]).stderr
