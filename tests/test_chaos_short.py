"""The short form of `make chaos`: a reranker killed and frozen, a node killed, under load. Nothing is lost."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from opensearch_fixture import ENVIRONMENT, NEEDS

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_is_lost_and_no_new_error_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three nodes of its own, which a cluster that OPENSEARCH_URL names cannot stand in for."""
    import node
    from chaos import SHORT, run

    # each takes what a node of the tests takes; a search may be given up, which is what is looked at
    for name in ("RESIFT_SEARCH_TIMEOUT", "OPENSEARCH_URL", "RESIFT_DATA"):
        monkeypatch.delenv(name, raising=False)
    try:
        lines = run(SHORT, lambda text: None)
    except node.NodeUnavailable as error:
        if ENVIRONMENT.get("RESIFT_REQUIRE_OPENSEARCH", "") not in ("", "0"):
            raise
        pytest.skip(f"{NEEDS}: {str(error).splitlines()[0]}")
    assert [str(line) for line in lines if not line.holds] == []
    assert len(lines) > 10
    assert os.environ.get("OPENSEARCH_URL") is None
