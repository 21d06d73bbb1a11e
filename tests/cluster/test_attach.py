"""An index made by hand is attached and detached on a real OpenSearch: what changes, what does not, what is refused."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import pytest
from attached_index import COUNT, MAPPINGS, Index, assert_right, other, own, run, shop

from resift import Model
from resift.errors import BadInput
from resift.plugin.cluster.attachment import targets

FIELDS = ["title", "text", "meta.note", "comments.says"]

__all__ = ["other", "own", "shop"]


def stored(index: Index, field: str = "resift_vector") -> dict[str, Any]:
    """The vector of each document, None where it has none."""
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
    assert (report["documents"], report["verified"], report["missing"], report["stale"]) == (COUNT, COUNT, 0, 0)
    assert_right(shop, model, report["fields"])
    mapping = shop.mapping()
    assert {**mapping["_meta"], "resift": None} == {**MAPPINGS["_meta"], "resift": None}
    field = mapping["properties"].pop("resift_vector")
    assert (field["type"], field["dimension"]) == ("knn_vector", 8)
    assert mapping["properties"] == before[0]["properties"]
    assert (shop.settings(), shop.aliases()) == before[1:3]
    assert shop.engine.info(shop.name).model == model.hash
    assert "nothing" not in run("detach", shop.name, opensearch_url).output
    mapping = shop.mapping()
    assert mapping["properties"].pop("resift_vector")["type"] == "knn_vector"
    assert json.dumps(mapping) == json.dumps(before[0])
    assert (shop.settings(), shop.aliases(), shop.documents()) == before[1:]
    assert "is not attached" in run("detach", shop.name, opensearch_url, status=2).output
    # the field that was left is had again
    run("attach", shop.name, opensearch_url, "--model", folder)
    assert_right(shop, model, report["fields"])


def test_without_scipy_attaching_says_how_it_works_without(
    shop: Index, opensearch_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("scipy", "scipy.sparse"):
        monkeypatch.setitem(sys.modules, name, None)
    told = run("attach", shop.name, opensearch_url, status=1).output
    assert "pip install 'resift[adapt]'" in told
    assert "or --no-adapt for the packaged model" in told


def test_a_dry_run_changes_nothing_and_nobody_is_asked_without_a_terminal(
    shop: Index, own: tuple[Model, str], opensearch_url: str
) -> None:
    before = shop.mapping(), shop.settings()
    plan = run("attach", shop.name, opensearch_url, "--model", own[1], "--dry-run", "--json")
    (planned,) = json.loads(plan.stdout)["indices"]
    assert (planned["documents"], planned["to_encode"], planned["vector_field"]) == (COUNT, COUNT, "resift_vector")
    told = run("attach", shop.name, opensearch_url, "--model", own[1], "--dry-run").stdout
    assert "+ resift_vector: knn_vector, 8 dimensions, with" in told
    assert "resift_vector in answers to GET, and to searches not through Resift\n  clients     that refuse" in told
    assert (shop.mapping(), shop.settings()) == before


def test_a_get_that_leaves_the_vector_out_is_as_before(
    shop: Index, own: tuple[Model, str], opensearch_url: str
) -> None:
    def got(parameters: str = "") -> Any:
        return shop.cluster.request("GET", f"/{shop.name}/_doc/1{parameters}")["_source"]

    before = got()
    run("attach", shop.name, opensearch_url, "--model", own[1])
    assert got("?_source_excludes=resift_vector*") == before
    assert set(got()) == {*before, "resift_vector"}


def test_of_two_who_attach_at_once_nobody_loses_what_the_other_has_recorded(
    shop: Index, own: tuple[Model, str], other: tuple[Model, str], opensearch_url: str
) -> None:
    before = shop.mapping()
    (first,), (second,) = (targets(shop.cluster, shop.name) for _ in range(2))
    mine, theirs = first.entry(own[0], FIELDS), second.entry(other[0], FIELDS)
    first = first.begin(mine, own[0])
    with pytest.raises(BadInput, match="have got into resift_vector of") as refused:
        second.begin(theirs, other[0])
    assert refused.value.expected == "the same command again"
    theirs = replace(theirs, vector_field=f"resift_vector_{other[0].hash[:8]}")
    second.begin(theirs, other[0])
    first.switch(mine)
    (found,) = targets(shop.cluster, shop.name)
    assert (found.record.current, found.record.filling) == (mine, theirs)
    second.switch(theirs)
    assert [entry.model for entry in targets(shop.cluster, shop.name)[0].record.ready] == [other[0].hash, own[0].hash]
    run("detach", shop.name, opensearch_url)
    assert shop.mapping()["_meta"] == before["_meta"]


def test_an_index_whose_meta_a_client_has_replaced_is_detached_all_the_same(
    shop: Index, own: tuple[Model, str], opensearch_url: str
) -> None:
    documents = shop.documents()
    run("attach", shop.name, opensearch_url, "--model", own[1])
    shop.cluster.request("PUT", f"/{shop.name}/_mapping", {"_meta": {"owner": "shop"}})
    planned = run("attach", shop.name, opensearch_url, "--model", own[1], "--dry-run").stdout
    told = f"resift_vector has vectors already, of which _meta tells nothing any more: resift detach {shop.name}"
    assert told in planned
    assert "what attaching recorded in _meta is lost" in run("detach", shop.name, opensearch_url).output
    assert (shop.documents(), shop.mapping()["_meta"]) == (documents, {"owner": "shop"})
    # while the vectors are being written
    (target,) = targets(shop.cluster, shop.name)
    entry = target.entry(own[0], FIELDS)
    target = target.begin(entry, own[0])
    shop.cluster.request("PUT", f"/{shop.name}/_mapping", {"_meta": {"owner": "shop"}})
    assert target.switch(entry).record.added == (entry.vector_field,)
    run("attach", shop.name, opensearch_url, "--model", own[1])
    run("detach", shop.name, opensearch_url)
    assert (shop.documents(), shop.mapping()["_meta"]) == (documents, {"owner": "shop"})
    assert "is not attached" in run("detach", shop.name, opensearch_url, status=2).output
