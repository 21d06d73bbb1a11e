"""Tests of attaching vectors to an existing index and detaching it: what changes, what stays, and what is refused."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attached_index import COUNT, MAPPINGS, Index, assert_right, other, own, run, shop
from click.testing import CliRunner

from resift import Model, WordVectors, build_model
from resift.cli.main import main
from resift.contracts.documents import IndexInfo
from resift.encoders.tables import build_table
from resift.errors import BadInput
from resift.plugin.cluster.target_index import find_targets
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.vector_updates import write_vectors
from resift.rewriting.similarity import QueryVector, similarity_clause
from resift.stopping import Stop

FIELDS = ["title", "text", "meta.note", "comments.says"]

__all__ = ["other", "own", "shop"]


def stored(index: Index, field: str = "resift_vector_int8") -> dict[str, Any]:
    """Return the vector of each document, or None if it has no vector."""
    index.cluster.request("POST", f"/{index.name}/_refresh")
    return {one.id: one.vector for one in index.engine.scan(index.name, field)}


def test_attached_and_detached_leaves_everything_as_it_was(
    shop: Index, own: tuple[Model, str], opensearch_url: str
) -> None:
    model, folder = own
    before = shop.mapping(), shop.settings(), shop.aliases(), shop.documents()
    attached = run("attach", f"{shop.name}-odd", opensearch_url, "--model", folder, "--json")
    (report,) = json.loads(attached.stdout)["indices"]
    assert set(report["fields"]) == set(FIELDS)
    assert (report["documents"], report["missing"]) == (COUNT, 0)
    assert_right(shop, model, report["fields"])
    mapping = shop.mapping()
    others = {name: value for name, value in mapping["_meta"].items() if name not in ("resift", "resift_tuning")}
    assert others == MAPPINGS["_meta"]
    field = mapping["properties"].pop("resift_vector_int8")
    assert field == {"type": "binary", "doc_values": True}
    assert mapping["properties"] == before[0]["properties"]
    assert (shop.settings(), shop.aliases()) == before[1:3]
    assert shop.engine.info(shop.name).model == model.hash
    assert "nothing" not in run("detach", shop.name, opensearch_url).output
    mapping = shop.mapping()
    assert mapping["properties"].pop("resift_vector_int8")["type"] == "binary"
    assert json.dumps(mapping) == json.dumps(before[0])
    assert (shop.settings(), shop.aliases(), shop.documents()) == before[1:]
    assert "is not attached" in run("detach", shop.name, opensearch_url, status=2).output
    # the field that stayed in the mapping is used again
    run("attach", shop.name, opensearch_url, "--model", folder)
    assert_right(shop, model, report["fields"])


@pytest.mark.parametrize("flags", [[], ["--dry-run"]])
def test_without_scipy_attaching_plans_nothing_and_names_the_package(
    shop: Index, opensearch_url: str, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    for name in ("scipy", "scipy.sparse"):
        monkeypatch.setitem(sys.modules, name, None)
    assert run("attach", shop.name, opensearch_url, *flags, status=1).output.splitlines() == [
        "Error: Adapting word vectors needs scipy: pip install 'resift[adapt]'",
        "  expected: that package, or --no-adapt for the packaged model",
    ]
    assert "model: resift-en" in run("attach", shop.name, opensearch_url, "--no-adapt", "--dry-run").output


def test_vectors_that_do_not_help_are_only_written_with_force(
    shop: Index, vectors: WordVectors, tmp_path: Path, opensearch_url: str
) -> None:
    """All words have the same vector, and so have all documents: similarity cannot change any ranking."""
    model = build_model("mean", build_table(list(vectors.words), np.ones_like(vectors.rows())))
    before = shop.mapping(), shop.settings(), shop.documents()
    folder = str(model.save(tmp_path / "model"))
    command = ["attach", shop.name, "--engine", opensearch_url, "--yes", "--vectors", "--model", folder]
    stopped = CliRunner().invoke(main, command)
    assert stopped.exit_code == 2
    assert f"vectors do not improve the searches of {shop.name}, so nothing was written (nDCG@10 of" in stopped.output
    assert (shop.mapping(), shop.settings(), shop.documents()) == before
    forced = CliRunner().invoke(main, [*command, "--force"])
    assert (forced.exit_code, stored(shop).keys()) == (0, {str(number) for number in range(COUNT)})
    assert "weight of the vectors 0.00: nDCG@10 of" in forced.output
    # Nothing is left to write, so nothing has to be forced.
    assert CliRunner().invoke(main, command).exit_code == 0


def test_a_dry_run_changes_nothing_and_asks_no_question_without_a_terminal(
    shop: Index, own: tuple[Model, str], opensearch_url: str
) -> None:
    before = shop.mapping(), shop.settings()
    plan = run("attach", shop.name, opensearch_url, "--model", own[1], "--dry-run", "--json")
    (planned,) = json.loads(plan.stdout)["indices"]
    assert (planned["documents"], planned["to_encode"], planned["vector_field"]) == (COUNT, COUNT, "resift_vector_int8")
    told = run("attach", shop.name, opensearch_url, "--model", own[1], "--dry-run").stdout
    assert "+ resift_vector_int8: binary with doc values, 8 dimensions\n" in told
    assert (
        "  _source     contains resift_vector_int8 (40 bytes per hit) in GET requests and in searches that bypass"
        in told
    )
    assert (shop.mapping(), shop.settings()) == before


def test_a_get_request_without_the_vector_returns_the_original_document(
    shop: Index, own: tuple[Model, str], opensearch_url: str
) -> None:
    def got(parameters: str = "") -> Any:
        return shop.cluster.request("GET", f"/{shop.name}/_doc/1{parameters}")["_source"]

    before = got()
    run("attach", shop.name, opensearch_url, "--model", own[1])
    assert got("?_source_excludes=resift_vector*") == before
    assert set(got()) == {*before, "resift_vector_int8"}


def test_simultaneous_attaching_loses_no_record(
    shop: Index, own: tuple[Model, str], other: tuple[Model, str], opensearch_url: str
) -> None:
    before = shop.mapping()
    (first,), (second,) = (find_targets(shop.cluster, shop.name) for _ in range(2))
    mine, theirs = first.describe_vectors(own[0], FIELDS), second.describe_vectors(other[0], FIELDS)
    first = first.start_writing(mine, own[0])
    with pytest.raises(
        BadInput, match=r"another process has written vectors of model .* to resift_vector_int8 of"
    ) as refused:
        second.start_writing(theirs, other[0])
    assert refused.value.expected == "the same command again"
    theirs = replace(theirs, vector_field=f"resift_vector_int8_{other[0].hash[:8]}")
    second.start_writing(theirs, other[0])
    first.use_in_searches(mine)
    (found,) = find_targets(shop.cluster, shop.name)
    assert (found.record.searched_vectors, found.record.filling) == (mine, theirs)
    second.use_in_searches(theirs)
    assert [info.model for info in find_targets(shop.cluster, shop.name)[0].record.complete_vectors] == [
        other[0].hash,
        own[0].hash,
    ]
    run("detach", shop.name, opensearch_url)
    assert shop.mapping()["_meta"] == before["_meta"]


def test_an_index_with_replaced_meta_can_be_detached(shop: Index, own: tuple[Model, str], opensearch_url: str) -> None:
    documents = shop.documents()
    run("attach", shop.name, opensearch_url, "--model", own[1])
    shop.cluster.request("PUT", f"/{shop.name}/_mapping", {"_meta": {"owner": "shop"}})
    planned = run("attach", shop.name, opensearch_url, "--model", own[1], "--dry-run").stdout
    told = f"resift_vector_int8 already contains vectors, but _meta no longer describes them: resift detach {shop.name}"
    assert told in planned
    assert "the record in _meta is lost" in run("detach", shop.name, opensearch_url).output
    assert (shop.documents(), shop.mapping()["_meta"]) == (documents, {"owner": "shop"})
    # a client replaces _meta while the vectors are being written
    (target,) = find_targets(shop.cluster, shop.name)
    info = target.describe_vectors(own[0], FIELDS)
    target = target.start_writing(info, own[0])
    shop.cluster.request("PUT", f"/{shop.name}/_mapping", {"_meta": {"owner": "shop"}})
    assert target.use_in_searches(info).record.added_fields == (info.vector_field,)
    run("attach", shop.name, opensearch_url, "--model", own[1])
    run("detach", shop.name, opensearch_url)
    assert (shop.documents(), shop.mapping()["_meta"]) == (documents, {"owner": "shop"})
    assert "is not attached" in run("detach", shop.name, opensearch_url, status=2).output


def attach_floats(index: Index, model: Model) -> None:
    """Attach an index with vectors of floats in a field without an HNSW index."""
    (target,) = find_targets(index.cluster, index.name)
    info = replace(IndexInfo.from_model(model, FIELDS, index.name), has_hnsw=False)
    floats = {info.vector_field: {"type": "knn_vector", "dimension": model.dim}}
    target = target.change_record(lambda record: record.with_filling(info), floats)
    write_vectors(index.engine, model, info, Stop(), lambda done: None)
    target.use_in_searches(info)


def scores(index: Index, model: Model) -> dict[str, float]:
    """Return the similarity of each document to a query, by the vectors in the index."""
    info = index.engine.info(index.name).require_model(model)
    clause = similarity_clause(QueryVector("cosine", info.vector_field, model.encode_one("forest river")), 1.0)
    hits = index.engine.search(index.name, {"query": clause, "size": COUNT}).hits
    return {hit["_id"]: hit["_score"] for hit in hits}


@pytest.mark.since(3, "2.19.1 lets no knn_vector join an index without index.knn, and versions before refused it there")
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_vectors_of_floats_are_read_until_they_are_replaced(
    shop: Index, own: tuple[Model, str], opensearch_url: str, monkeypatch: pytest.MonkeyPatch, is_interrupted: bool
) -> None:
    model, folder = own
    documents = shop.documents()
    attach_floats(shop, model)
    assert_right(shop, model, FIELDS, "resift_vector")
    before = scores(shop, model)
    flags = ("--model", folder)
    told = run("attach", shop.name, opensearch_url, *flags, "--dry-run").stdout
    assert "  replaced    vectors in resift_vector are removed at the end\n" in told
    if is_interrupted:  # after the compact vectors were written, and before the old vectors are removed
        with monkeypatch.context() as patched:
            patched.setattr("resift.plugin.operations.attach_vectors.remove_vectors", lambda *_: sys.exit(9))
            run("attach", shop.name, opensearch_url, *flags, status=9)
        assert [one.vector_field for one in find_targets(shop.cluster, shop.name)[0].record.all_vectors] == [
            "resift_vector_int8"
        ]
        assert {one is None for one in stored(shop, "resift_vector").values()} == {False}
    run("attach", shop.name, opensearch_url, *flags)
    assert_right(shop, model, FIELDS)
    assert set(stored(shop, "resift_vector").values()) == {None}
    record = find_targets(shop.cluster, shop.name)[0].record
    assert [one.vector_field for one in record.all_vectors] == ["resift_vector_int8"] == list(record.added_fields)
    assert scores(shop, model) == pytest.approx(before, abs=0.02)
    run("detach", shop.name, opensearch_url)
    assert shop.documents() == documents


@pytest.mark.since(3, "2.19.1 lets no knn_vector join an index without index.knn, and versions before refused it there")
def test_indices_of_one_alias_are_searched_together_while_their_vectors_are_replaced(
    shop: Index, cluster: OpenSearchEngine, own: tuple[Model, str], opensearch_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, found = Index(cluster, 30), []
    both = f"{shop.name},{second.name}"

    def look(self: object) -> list[str]:
        found.append(cluster.info(both).require_model(own[0]).vector_field)
        return []

    try:
        for index in (shop, second):
            attach_floats(index, own[0])
        monkeypatch.setattr("resift.plugin.operations.attach_vectors._IndexAttachment._update_pipelines", look)
        run("attach", both, opensearch_url, "--model", own[1])
    finally:
        second.close()
    assert found == ["resift_vector", *["resift_vector_int8"] * 3]
