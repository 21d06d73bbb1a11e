"""Tests of the rows of ``resift doctor`` about indices: how many documents have a vector, and how to repair this."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from wrong_vectors import PEACE

from resift import Model
from resift.cli.main import main
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import IndexRecord
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.doctor import cluster_rows


def examined(url: str, index: str) -> list[tuple[str, str]]:
    """Return the state of an index in the report, and the advice."""
    result = CliRunner().invoke(main, ["doctor", "--engine", url, "--json"])
    # the report has problems, because nothing is installed, or no service runs
    assert result.exit_code == 3, result.output
    report = json.loads(result.stdout)
    assert not report["ok"]
    return [(row["state"], row["fix"]) for row in report["parts"] if (row["kind"], row["name"]) == ("index", index)]


def run(command: str) -> None:
    """Run the command in the advice, as a user would paste it."""
    resift, *arguments = shlex.split(command)
    result = CliRunner().invoke(main, arguments)
    assert (resift, result.exit_code) == ("resift", 0), result.output


def test_problems_are_reported_with_their_solution(
    rest: Cluster, hand_made: str, model: Model, opensearch_url: str, here: Path
) -> None:
    own, other = examined(opensearch_url, hand_made)
    assert own == (f"40 of 40 documents have a vector of {model.name} ({model.hash})", "")
    assert other[0].startswith("40 of 40 documents have a vector of ")
    rest.request("PUT", f"/{hand_made}/_doc/new", PEACE, refresh="true")
    (state, mend), _ = examined(opensearch_url, hand_made)
    assert (state.split(" (")[0], mend) == (
        f"40 of 41 documents have a vector of {model.name}",
        f"resift verify {hand_made} --repair",
    )
    shown = CliRunner().invoke(main, ["doctor", "--engine", opensearch_url]).output.splitlines()
    assert f"  fix: {mend}" in shown
    assert max(len(line) for line in shown if "fix: " not in line) <= 120
    run(f"{mend} --engine {opensearch_url} --model {model.save(here / 'model')}")
    assert examined(opensearch_url, hand_made)[0][1] == ""


@pytest.mark.since(3, "shards without index.knn fail when the mapping changes")
def test_checks_that_are_impossible_or_in_progress_are_reported(
    rest: Cluster, hand_made: str, opensearch_url: str
) -> None:
    meta = rest.request("GET", f"/{hand_made}/_mapping")[hand_made]["mappings"]["_meta"]
    record = IndexRecord.read(hand_made, meta)
    assert record.searched_vectors is not None
    interrupted = IndexRecord(hand_made).with_filling(record.searched_vectors)
    rest.request("PUT", f"/{hand_made}/_doc/new", PEACE, refresh="true")
    rest.request("PUT", f"/{hand_made}/_mapping", {"_meta": interrupted.to_meta({})})
    (found,) = examined(opensearch_url, hand_made)
    assert found[0].startswith("40 of 41 documents have a vector of ")
    assert found[0].endswith(": attaching was interrupted")
    assert found[1] == f"resift attach {hand_made} --vectors"
    rest.request("POST", f"/{hand_made}/_close")
    assert examined(opensearch_url, hand_made) == [("closed", "")]


def test_an_unreachable_cluster_is_reported_as_the_problem() -> None:
    result = CliRunner().invoke(main, ["doctor", "--engine", "http://anna:secret@127.0.0.1:1"])
    head, line, fix = result.output.splitlines()
    assert (result.exit_code, head.split()) == (3, ["KIND", "NAME", "STATE"])
    assert line.startswith("cluster  http://127.0.0.1:1  no answer from OpenSearch")
    assert "Reaching a cluster" in fix
    assert "secret" not in result.output


def test_a_clock_difference_is_reported(
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
