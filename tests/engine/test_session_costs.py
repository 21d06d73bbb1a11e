"""Test that the benchmark of session costs runs with a small number of sessions."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "sessions.py"))


def test_bytes_of_a_session_in_both_stores(opensearch_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    BENCHMARK["bytes_stored"](opensearch_url, count=200)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["store"] for line in lines] == ["SqliteSessionStore", "OpenSearchSessionStore"]
    assert all(400 < line["json"] < 800 for line in lines)
    assert all(line["all"] > 100 for line in lines)


def test_times_of_a_large_file(capsys: pytest.CaptureFixture[str]) -> None:
    BENCHMARK["a_million"](count=3000)
    line = json.loads(capsys.readouterr().out)
    assert line["purged"] == 1500
    assert line["find"]["p50"] > 0
