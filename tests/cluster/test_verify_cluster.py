"""Tests of ``resift verify`` on a cluster: all ways in which a vector becomes stale are detected and repaired."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from wrong_vectors import FIELDS, OTHER, PEACE, WAYS, body, hits, plain, wrong

from resift import Model
from resift.cli.main import main
from resift.contracts.documents import IndexInfo
from resift.ingest.verify import select_indices, verify
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine


def test_all_kinds_of_wrong_vectors_are_reported_and_repaired(
    cluster: OpenSearchEngine, rest: Cluster, hand_made: str, model: Model, other_model: Model
) -> None:
    expected: list[str] = []
    for way in WAYS:
        expected += way(rest, hand_made)
        assert wrong(cluster, model, hand_made) == sorted(expected, key=int), way.__name__
    before = {hit["_id"]: hit for hit in hits(rest, hand_made)}
    found = verify(cluster, model, hand_made, repair=True)
    assert (found.checked, found.repaired, found.unrepaired) == (40, len(expected), 0)
    assert wrong(cluster, model, hand_made) == []
    # only the vectors were changed: no other field, no routing, and no vectors of the other model
    after = {hit["_id"]: hit for hit in hits(rest, hand_made)}
    assert {id: plain(hit) for id, hit in after.items()} == {id: plain(hit) for id, hit in before.items()}
    assert wrong(cluster, other_model, hand_made) == sorted({*expected} - {"16"}, key=int)


def test_verification_bypasses_the_search_pipeline_of_the_index(
    cluster: OpenSearchEngine, rest: Cluster, hand_made: str, model: Model
) -> None:
    """The pipeline truncates the hits, as a pipeline of a user may do."""
    path = f"/_search/pipeline/{hand_made}"
    rest.request("PUT", path, {"response_processors": [{"truncate_hits": {"target_size": 1}}]})
    rest.request("PUT", f"/{hand_made}/_settings", {"index.search.default_pipeline": hand_made})
    assert len(rest.request("POST", f"/{hand_made}/_search")["hits"]["hits"]) == 1
    assert verify(cluster, model, hand_made).checked == 40
    cluster.drop(hand_made)
    rest.request("DELETE", path)


def test_indices_are_chosen_by_model_name_and_field(
    cluster: OpenSearchEngine,
    rest: Cluster,
    hand_made: str,
    model: Model,
    other_model: Model,
    opensearch_url: str,
    here: Path,
) -> None:
    stream, template, plain_index = f"{hand_made}-stream", f"{hand_made}-template", f"{hand_made}-plain"
    made = body(model, other_model)
    pattern = {"index_patterns": [f"{stream}*"], "data_stream": {}, "template": made, "priority": 500}
    rest.request("PUT", f"/_index_template/{template}", pattern)
    own = IndexInfo.from_model(model, FIELDS, vector_field="embedding").to_meta()
    try:
        rest.request("POST", f"/{stream}/_doc", {"@timestamp": 0, **PEACE}, refresh="true")
        rest.request("PUT", f"/{plain_index}", {"mappings": {"_meta": {"resift": own}}})
        rest.request("POST", "/_aliases", {"actions": [{"add": {"index": hand_made, "alias": f"{hand_made}-alias"}}]})
        chosen, others = select_indices(cluster, other_model, [f"{hand_made}*"])
        names = [one.name for one in chosen]
        assert names == [f".ds-{stream}-000001", hand_made]
        assert {one.vector_field for one in chosen} == {OTHER}
        assert list(others) == [plain_index]
        assert {one.name for one in select_indices(cluster, other_model, [])[0]} >= {*names}
        (one,), _ = select_indices(cluster, model, [f"{hand_made}-alias"])
        assert (one.name, one.vector_field) == (hand_made, "resift_vector")

        folder = str(model.save(here / "model"))
        command = ["verify", f"{hand_made}*", "--engine", opensearch_url, "--model", folder, "--repair", "--json"]
        report = json.loads(CliRunner().invoke(main, command).stdout)
        assert [(one["index"], one["checked"], one["repaired"]) for one in report["indices"]] == [
            (f".ds-{stream}-000001", 1, 1),
            (hand_made, 40, 0),
        ]
        assert (report["checked"], report["missing"], report["unrepaired"]) == (41, 1, 0)
        assert report["not_checked"] == {plain_index: "vectors in its own field embedding, which Resift does not write"}
        alone = CliRunner().invoke(main, ["verify", plain_index, "--engine", opensearch_url, "--model", folder])
        assert (alone.exit_code, "its own field embedding" in alone.output) == (2, True)
    finally:
        cluster.drop_if_exists(plain_index)
        with suppress(Exception):
            rest.request("DELETE", f"/_data_stream/{stream}")
        rest.request("DELETE", f"/_index_template/{template}")


@pytest.mark.parametrize("mapped", ["text", "float", "binary", ""])
def test_vectors_are_not_written_into_a_field_of_another_type(
    cluster: OpenSearchEngine, rest: Cluster, model: Model, opensearch_url: str, here: Path, mapped: str
) -> None:
    index = f"resift-test-{uuid.uuid4().hex[:8]}"
    field = {"resift_vector": {"type": mapped}} if mapped else {}
    meta = IndexInfo.from_model(model, ["title"]).to_meta()
    mappings = {"properties": {"title": {"type": "text"}, **field}, "_meta": {"resift": meta}}
    rest.request("PUT", f"/{index}", {"mappings": mappings})
    try:
        rest.request("POST", f"/{index}/_doc/1", {"title": "bush fire"}, refresh="true")
        command = ["verify", index, "--engine", opensearch_url, "--model", str(model.save(here / "model"))]
        assert "1 without a vector" in CliRunner().invoke(main, command).stdout
        refused = CliRunner().invoke(main, [*command, "--repair"])
        assert refused.exit_code == 1, refused.output
        kind = mapped or "not mapped"
        assert f"field resift_vector of index '{index}' is {kind}, and cannot contain vectors" in refused.stderr
        assert "copy the index to an index without that field" in refused.stderr
        assert rest.request("GET", f"/{index}/_doc/1")["_source"] == {"title": "bush fire"}
        assert rest.request("GET", f"/{index}/_mapping")[index]["mappings"]["properties"].keys() == {"title", *field}
    finally:
        cluster.drop(index)
