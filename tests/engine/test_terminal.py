"""Tests of output in a terminal: bold headings, red errors and shell completion."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from resift import Model
from resift.contracts.documents import Document
from resift.embedded.engine import SqliteEngine

RESIFT = [sys.executable, "-m", "resift"]
STYLE = re.compile(r"\x1b\[[0-9;]*m")
NAME = "a-rather-long-name-of-an-index-that-nobody-would-like-to-type"


@pytest.fixture
def folder(here: Path, model: Model) -> Path:
    """Return a folder with an index that has a long name."""
    engine = SqliteEngine(str(here / "resift.db"))
    engine.create(NAME, ["text"], model)
    engine.bulk(NAME, [Document("1", {"text": "fire"}, model.encode_one("fire"))])
    engine.close()
    return here


def on_terminal(folder: Path, *arguments: str, **environment: str) -> str:
    """Return the output of a command in a terminal with 50 columns."""
    ours, theirs = pty.openpty()
    settings = {**os.environ, "COLUMNS": "50", **environment}
    process = subprocess.Popen([*RESIFT, *arguments], cwd=folder, env=settings, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # Linux raises this error when all writers have closed
        pass
    process.wait(30)
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def test_heads_of_tables_are_bold_on_a_terminal(folder: Path) -> None:
    shown = on_terminal(folder, "indices")
    assert NAME in shown
    assert shown.startswith("\x1b[1m")
    piped = subprocess.run([*RESIFT, "indices"], cwd=folder, capture_output=True, text=True).stdout
    assert NAME in piped
    assert not STYLE.search(piped)


def test_errors_are_red_on_a_terminal_unless_colours_are_disabled(folder: Path) -> None:
    assert "\x1b[31m" in on_terminal(folder, "search", "nowhere", "fire")
    plain = on_terminal(folder, "search", "nowhere", "fire", NO_COLOR="1")
    assert plain.startswith("Error: ")
    assert not STYLE.search(plain)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_can_be_installed(folder: Path, shell: str) -> None:
    told = subprocess.run(
        RESIFT, cwd=folder, env={**os.environ, "_RESIFT_COMPLETE": f"{shell}_source"}, capture_output=True, text=True
    )
    assert told.returncode == 0
    assert "_RESIFT_COMPLETE" in told.stdout
