"""The short form of `make chaos`: a reranker killed and frozen, a node killed, under load. Nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from opensearch_fixture import ENVIRONMENT, NEEDS

CHAOS = Path(__file__).resolve().parents[2] / "benchmarks" / "chaos.py"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_is_lost_and_no_new_error_is_seen() -> None:
    """On nodes of its own, which a cluster that OPENSEARCH_URL names cannot stand in for."""
    done = subprocess.run([sys.executable, str(CHAOS), "--short"], capture_output=True, text=True)
    if done.returncode == 2 and ENVIRONMENT.get("RESIFT_REQUIRE_OPENSEARCH", "") in ("", "0"):
        pytest.skip(f"{NEEDS}: {done.stderr.splitlines()[-1]}")
    _, _, verdict = done.stdout.partition("\nverdict\n")
    lines = verdict.splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == [], done.stdout
    assert done.returncode == 0, done.stderr
    assert len(lines) > 10
