"""`resift doctor` of indices: how many documents have a vector, which belong to another text, and what mends that."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from wrong_vectors import FIELDS, OTHER, PEACE, update_by_query

from resift import Model
from resift.cli.main import main
from resift.ingest.verify import stale_share, verify
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import IndexRecord
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation_status import cluster_rows
from resift.plugin.opensearch.engine import OpenSearchEngine


def examined(url: str, index: str, *flags: str) -> dict[str, dict[str, Any]]:
    """What is reported of an index, by the field of the vectors."""
    result = CliRunner().invoke(main, ["doctor", "--engine", url, "--json", *flags])
    assert result.exit_code == 3, result.output  # nothing is installed, or no reranker runs
    report = json.loads(result.stdout)
    assert not report["ok"]
    return {line["vector_field"]: line for line in report["indices"] if line["index"] == index}


def run(command: str) -> None:
    """What a user would paste."""
    resift, *arguments = shlex.split(command)
    result = CliRunner().invoke(main, arguments)
    assert (resift, result.exit_code) == ("resift", 0), result.output


def test_what_is_missing_or_stale_is_said_with_its_mend(
    rest: Cluster, hand_made: str, model: Model, opensearch_url: str, here: Path
) -> None:
    flags = ["--model", str(model.save(here / "model"))]
    found = examined(opensearch_url, hand_made, *flags)
    counted = {"documents": 40, "with_vector": 40, "sampled": 40, "stale": 0, "state": "ok", "fix": ""}
    assert found["resift_vector"].items() >= counted.items()
    # of another model no text can be encoded here
    assert found[OTHER].items() >= {**counted, "sampled": 0}.items()
    stale = update_by_query(rest, hand_made)
    mend = f"resift verify {hand_made} --repair --model {here / 'model'} --engine {opensearch_url}"
    fault = {"state": f"{len(stale)} of 40 vectors belong to another text", "fix": mend}
    assert examined(opensearch_url, hand_made, *flags)["resift_vector"].items() >= fault.items()
    rest.request("PUT", f"/{hand_made}/_doc/new", PEACE, refresh="true")
    found = examined(opensearch_url, hand_made, *flags)
    assert (found["resift_vector"]["documents"], found["resift_vector"]["with_vector"]) == (41, 40)
    assert found["resift_vector"].items() >= {"state": "1 documents lack a vector", "fix": mend}.items()
    assert found[OTHER]["fix"] == f"resift verify {hand_made} --repair --model DIR --engine {opensearch_url}"
    shown = CliRunner().invoke(main, ["doctor", "--engine", opensearch_url, *flags]).output.splitlines()
    (line,) = [line for line in shown if line.startswith(hand_made) and "3 of 40" in line]
    assert line.split()[1:3] == ["41", "97.5%"]
    assert any(line.startswith(hand_made) and f" ({found[OTHER]['model']}) " in line for line in shown)
    assert f"    fix: {mend}" in shown
    assert max(len(line) for line in shown if "fix: " not in line) <= 100
    run(mend)
    assert examined(opensearch_url, hand_made, *flags)["resift_vector"]["fix"] == ""


def test_pipelines_defaults_and_what_they_did_not_encode(
    cluster: OpenSearchEngine, rest: Cluster, hand_made: str, model: Model, opensearch_url: str, here: Path
) -> None:
    name = f"{hand_made}-installed"
    installer = Installer(cluster, model, FIELDS, "http://127.0.0.1:9", name)  # where nothing answers
    flags = ["--model", str(model.save(here / "model")), "--name", name]
    own = f"resift-{hand_made}"
    installer.install()
    try:
        line = examined(opensearch_url, hand_made, *flags)["resift_vector"]
        assert (line["pipelines"], line["default_pipelines"], line["unencoded"]) == (["search", "ingest"], [], 0)
        told = CliRunner().invoke(main, ["doctor", "--engine", opensearch_url, *flags]).output
        assert f", or resift install {' '.join(flags)} --engine {opensearch_url} --reranker URL (" in told
        settings = {"index.final_pipeline": own, "index.search.default_pipeline": own}
        rest.request("PUT", f"/{hand_made}/_settings", settings)
        for id in ("a", "b"):
            rest.request("PUT", f"/{hand_made}/_doc/{id}", PEACE, refresh="true")
        line = examined(opensearch_url, hand_made, *flags)["resift_vector"]
        assert (line["default_pipelines"], line["unencoded"]) == (["search", "ingest"], 2)
        assert line["state"] == "2 documents lack a vector"
        # The pipeline, whose reranker is away, would take out the vectors that are written here.
        found = verify(cluster, model, hand_made, repair=True)
        assert (found.repaired, verify(cluster, model, hand_made).right) == (2, True)
    finally:
        rest.request("PUT", f"/{hand_made}/_settings", dict.fromkeys(settings))
        installer.uninstall()


@pytest.mark.since(3, "shards without index.knn fail when the mapping changes")
def test_what_cannot_be_checked_or_is_under_way(
    rest: Cluster, cluster: OpenSearchEngine, hand_made: str, model: Model, opensearch_url: str, here: Path
) -> None:
    flags = ["--model", str(model.save(here / "model"))]
    meta = rest.request("GET", f"/{hand_made}/_mapping")[hand_made]["mappings"]["_meta"]
    record = IndexRecord.read(hand_made, meta)
    assert record.current is not None
    begun = IndexRecord(hand_made).begun(record.current)
    rest.request("PUT", f"/{hand_made}/_doc/new", PEACE, refresh="true")
    rest.request("PUT", f"/{hand_made}/_mapping", {"_meta": begun.meta({})})
    (line,) = examined(opensearch_url, hand_made, *flags).values()
    assert line["state"] == "attaching was interrupted: 1 documents lack a vector"
    assert line["fix"].startswith(f"resift attach {hand_made} --vectors --model ")
    rest.request("POST", f"/{hand_made}/_close")
    (line,) = examined(opensearch_url, hand_made, *flags).values()
    assert (line["documents"], line["with_vector"], line["sampled"]) == (None, 0, 0)
    shown = CliRunner().invoke(main, ["doctor", "--engine", opensearch_url, *flags]).output
    assert any(line.split()[:2] == [hand_made, "closed"] for line in shown.splitlines())


@pytest.mark.parametrize("sampled", [7, 100])
def test_a_sample_is_of_documents_with_vectors(
    cluster: OpenSearchEngine, hand_made: str, model: Model, sampled: int
) -> None:
    info = cluster.info(hand_made).of(model)
    assert stale_share(cluster, model, info, sampled) == (min(sampled, 40), 0)


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
