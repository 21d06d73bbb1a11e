"""`resift doctor` of indices: how many documents have a vector, and what mends that."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from wrong_vectors import OTHER, PEACE

from resift import Model
from resift.cli.main import main
from resift.operations.doctor import cluster_rows
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import IndexRecord
from resift.plugin.opensearch.engine import OpenSearchEngine


def examined(url: str, index: str) -> dict[str, dict[str, Any]]:
    """What is reported of an index, by the field of the vectors."""
    result = CliRunner().invoke(main, ["doctor", "--engine", url, "--json"])
    assert result.exit_code == 3, result.output  # nothing is installed, or no reranker runs
    report = json.loads(result.stdout)
    assert not report["ok"]
    return {line["vector_field"]: line for line in report["indices"] if line["index"] == index}


def run(command: str) -> None:
    """What a user would paste."""
    resift, *arguments = shlex.split(command)
    result = CliRunner().invoke(main, arguments)
    assert (resift, result.exit_code) == ("resift", 0), result.output


def test_what_is_missing_is_said_with_its_mend(
    rest: Cluster, hand_made: str, model: Model, opensearch_url: str, here: Path
) -> None:
    found = examined(opensearch_url, hand_made)
    counted = {"documents": 40, "with_vector": 40, "state": "ok", "fix": ""}
    assert all(found[field].items() >= counted.items() for field in ("resift_vector", OTHER))
    rest.request("PUT", f"/{hand_made}/_doc/new", PEACE, refresh="true")
    found, mend = examined(opensearch_url, hand_made), f"resift verify {hand_made} --repair"
    lacking = {"documents": 41, "with_vector": 40, "state": "1 documents lack a vector", "fix": mend}
    assert found["resift_vector"].items() >= lacking.items()
    shown = CliRunner().invoke(main, ["doctor", "--engine", opensearch_url]).output.splitlines()
    (line,) = [line for line in shown if line.startswith(hand_made) and f" ({model.hash})" in line]
    assert line.split()[1:3] == ["41", "97.5%"]
    assert f"    fix: {mend}" in shown
    assert max(len(line) for line in shown if "fix: " not in line) <= 100
    run(f"{mend} --engine {opensearch_url} --model {model.save(here / 'model')}")
    assert examined(opensearch_url, hand_made)["resift_vector"]["fix"] == ""


@pytest.mark.since(3, "shards without index.knn fail when the mapping changes")
def test_what_cannot_be_checked_or_is_under_way(rest: Cluster, hand_made: str, opensearch_url: str) -> None:
    meta = rest.request("GET", f"/{hand_made}/_mapping")[hand_made]["mappings"]["_meta"]
    record = IndexRecord.read(hand_made, meta)
    assert record.current is not None
    begun = IndexRecord(hand_made).begun(record.current)
    rest.request("PUT", f"/{hand_made}/_doc/new", PEACE, refresh="true")
    rest.request("PUT", f"/{hand_made}/_mapping", {"_meta": begun.meta({})})
    (line,) = examined(opensearch_url, hand_made).values()
    assert line["state"] == "attaching was interrupted: 1 documents lack a vector"
    assert line["fix"] == f"resift attach {hand_made} --vectors"
    rest.request("POST", f"/{hand_made}/_close")
    (line,) = examined(opensearch_url, hand_made).values()
    assert (line["documents"], line["with_vector"]) == (None, 0)
    shown = CliRunner().invoke(main, ["doctor", "--engine", opensearch_url]).output
    assert any(line.split()[:2] == [hand_made, "closed"] for line in shown.splitlines())


def test_a_cluster_that_does_not_answer_is_what_is_wrong() -> None:
    result = CliRunner().invoke(main, ["doctor", "--engine", "http://anna:secret@127.0.0.1:1"])
    head, line, fix = result.output.splitlines()
    assert (result.exit_code, head.split()) == (3, ["KIND", "NAME", "STATE"])
    assert line.startswith("cluster  http://127.0.0.1:1  no answer from OpenSearch")
    assert "Reaching a cluster" in fix
    assert "secret" not in result.output


def test_clocks_that_are_apart_are_told(
    cluster: OpenSearchEngine, rest: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def states() -> list[tuple[str, bool]]:
        return [(row.kind, row.in_order) for row in cluster_rows(rest, "http://127.0.0.1:9200")]

    assert states() == [("cluster", True), ("clock", True)]
    ours = time.time
    monkeypatch.setattr(time, "time", lambda: ours() - 95)
    assert states() == [("cluster", True), ("clock", False)]
    monkeypatch.setattr(time, "time", lambda: ours() + 95)
    assert states() == [("cluster", True), ("clock", False)]
