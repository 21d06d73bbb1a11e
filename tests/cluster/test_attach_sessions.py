"""Tests of attaching without vectors: Resift's processor is added to the search pipeline in use, and removed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attached_index import Index, own, shop
from attached_searches import (
    ENRICHER,
    FILTER,
    MIXED,
    NORMALIZATION,
    RRF,
    SCRIPT,
    WORDS,
    Served,
    asked,
    contents,
    is_rewritten,
    kinds,
    made,
    pipeline,
    put_pipeline,
    resift_command,
    served,
    set_default,
)
from click.testing import CliRunner

import resift
from resift.cli.main import main
from resift.errors import BadInput
from resift.plugin.cluster.installation import find_installations
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.attach_searches import COST
from resift.plugin.operations.doctor import status_rows
from resift.plugin.operations.index_status import index_rows
from resift.plugin.operations.search_status import attached_rows, search_rows

__all__ = ["made", "own", "served", "shop"]


def test_nothing_is_written_and_searches_are_rewritten(shop: Index, served: Served, opensearch_url: str) -> None:
    before, name = contents(shop), f"resift-{shop.name}"
    planned = resift_command("attach", shop.name, opensearch_url, "--dry-run").output
    assert f"send search_pipeline={name}" in planned
    assert pipeline(shop, name) is None
    result = json.loads(resift_command("attach", shop.name, opensearch_url, "--json").stdout)
    assert (result["pipeline"], result["rewritten"], result["settings"]) == (name, True, {})
    assert asked(shop, name) == {"index": shop.name}
    assert is_rewritten(shop, served, name)
    assert not is_rewritten(shop, served, None)
    assert contents(shop) == before
    # attaching again changes nothing
    there = pipeline(shop, name)
    assert "which already has Resift's processor" in resift_command("attach", shop.name, opensearch_url).output
    assert (contents(shop), pipeline(shop, name)) == (before, there)
    planned = resift_command("detach", shop.name, opensearch_url).output
    assert f"  clients must first stop sending search_pipeline={name}: OpenSearch refuses searches" in planned
    assert (contents(shop), pipeline(shop, name)) == (before, None)
    with pytest.raises(resift.ResiftError, match=f"Pipeline {name} is not defined"):
        shop.cluster.request("POST", f"/{shop.name}/_search", {"query": WORDS}, search_pipeline=name)
    assert "is not attached" in resift_command("detach", shop.name, opensearch_url, status=2).output


def test_a_scroll_of_one_shard_reads_to_its_end(shop: Index, served: Served, opensearch_url: str) -> None:
    name = f"resift-{shop.name}"
    shop.cluster.request("POST", f"/{shop.name}/_refresh")
    resift_command("attach", shop.name, opensearch_url)
    assert is_rewritten(shop, served, name)
    one = {"preference": "_shards:0", "scroll": "1m"}
    body = {"query": WORDS, "size": 2, "ext": {"ml_inference": {"session": "anna", "scroll": True}}}
    page = shop.cluster.request("POST", f"/{shop.name}/_search", body, search_pipeline=name, **one)
    assert all("resift" in hit["matched_queries"] for hit in page["hits"]["hits"])
    total, found = page["hits"]["total"]["value"], list[str]()
    while hits := page["hits"]["hits"]:
        found += [hit["_id"] for hit in hits]
        page = shop.cluster.request("POST", "/_search/scroll", {"scroll": "1m", "scroll_id": page["_scroll_id"]})
    shop.cluster.request("DELETE", "/_search/scroll", {"scroll_id": [page["_scroll_id"]]})
    assert len(found) == len(set(found)) == total > 4
    resift_command("detach", shop.name, opensearch_url)


def test_all_searches_are_rewritten_after_confirmation(shop: Index, served: Served, opensearch_url: str) -> None:
    before, name = contents(shop), f"resift-{shop.name}"
    planned = resift_command("attach", shop.name, opensearch_url, "--dry-run", "--default-pipelines").output
    assert f"index.search.default_pipeline of {shop.name}: {name}, instead of none" in planned
    resift_command("attach", shop.name, opensearch_url, "--default-pipelines")
    assert shop.settings()["index.search.default_pipeline"] == name
    assert is_rewritten(shop, served, None)
    # attaching again keeps the record of the original default pipeline
    resift_command("attach", shop.name, opensearch_url)
    set_default(shop, None)
    assert contents(shop) == before
    set_default(shop, name)
    told = resift_command("detach", shop.name, opensearch_url).output
    assert f"index.search.default_pipeline of {shop.name} back to unset" in told
    assert (contents(shop), pipeline(shop, name)) == (before, None)


PROCESSORS = [
    ([], 0),
    ([ENRICHER], 1),
    ([ENRICHER, SCRIPT], 2),
    ([ENRICHER, FILTER], 1),
    ([FILTER, ENRICHER], 2),
]


@pytest.mark.parametrize("phase", [NORMALIZATION, RRF])
@pytest.mark.parametrize(("processors", "place"), PROCESSORS, ids=lambda value: str(value)[:40])
def test_a_users_pipeline_keeps_its_processors(
    shop: Index,
    served: Served,
    made: list[str],
    opensearch_url: str,
    processors: list[dict[str, Any]],
    place: int,
    phase: dict[str, Any],
) -> None:
    theirs = {"description": "ours and ä", "version": 3, "phase_results_processors": [phase]}
    theirs |= {"request_processors": processors} if processors else {}
    name = put_pipeline(shop, made, f"{shop.name}-hybrid", theirs)
    set_default(shop, name)
    exact, before = pipeline(shop, name), contents(shop)
    # a hybrid query must be the top-level query
    query = WORDS if FILTER in processors else {"hybrid": {"queries": [WORDS, {"match": {"title": "fire"}}]}}

    def scores() -> list[tuple[str, float]]:
        found = shop.cluster.request("POST", f"/{shop.name}/_search", {"query": query, "size": 300})
        return [(hit["_id"], hit["_score"]) for hit in found["hits"]["hits"]]

    plain = scores()
    assert FILTER in processors or 0 < plain[0][1] <= 1
    planned = resift_command("attach", shop.name, opensearch_url, "--default-pipelines").output
    assert f"  cost        {COST}" in planned
    now = pipeline(shop, name)
    wanted = kinds({"request_processors": processors})
    assert kinds(now) == [*wanted[:place], "ml_inference", *wanted[place:]]
    assert {**now, "request_processors": None} == {**exact, "request_processors": None}
    assert now["phase_results_processors"] == exact["phase_results_processors"]
    assert scores() == plain
    assert is_rewritten(shop, served, None)
    assert contents(shop) == before
    assert "stays, without Resift's processor" in resift_command("detach", shop.name, opensearch_url).output
    assert (pipeline(shop, name), contents(shop)) == (exact, before)


def test_only_searches_that_name_a_copy_of_the_default_pipeline_are_rewritten(
    shop: Index, served: Served, made: list[str], opensearch_url: str
) -> None:
    name, own = put_pipeline(shop, made, f"{shop.name}-hybrid", MIXED), f"resift-{shop.name}"
    set_default(shop, name)
    before, exact = contents(shop), pipeline(shop, name)
    planned = resift_command("attach", shop.name, opensearch_url).output
    assert f"  pipeline    {own}, a copy of {name}\n" in planned
    assert f"  clients     send search_pipeline={own} in searches with a session\n" in planned
    assert (contents(shop), pipeline(shop, name)) == (before, exact)
    assert pipeline(shop, own)["phase_results_processors"] == MIXED["phase_results_processors"]
    assert is_rewritten(shop, served, own)
    assert not is_rewritten(shop, served, None)
    state = f"by ML Commons, in search pipeline {own}, a copy of {name}"
    assert [row.state for row in attached_rows(shop.cluster) if row.name == shop.name] == [state]
    doctor = CliRunner().invoke(main, ["doctor", "--engine", opensearch_url, "--json"])
    attached = {"kind": "attached", "name": shop.name, "state": state, "fix": ""}
    assert attached in json.loads(doctor.stdout)["parts"]
    # the copy follows the original when the index is attached again, and doctor reports the difference until then
    changed = {**MIXED, "request_processors": [ENRICHER]}
    shop.cluster.request("PUT", f"/_search/pipeline/{name}", changed)
    (row,) = (row for row in search_rows(shop.cluster) if row.name == own)
    assert (row.state, row.fix) == (
        f"is a copy of {name}, which has changed since",
        f"resift attach {shop.name}",
    )
    resift_command("attach", shop.name, opensearch_url)
    assert kinds(pipeline(shop, own)) == ["neural_query_enricher", "ml_inference"]
    assert [row for row in search_rows(shop.cluster) if row.name == own] == []
    resift_command("detach", shop.name, opensearch_url)
    assert (contents(shop), pipeline(shop, name), pipeline(shop, own)) == (before, changed, None)


def test_a_named_pipeline_must_exist(shop: Index, served: Served, made: list[str], opensearch_url: str) -> None:
    named = put_pipeline(shop, made, f"{shop.name}-named", {"response_processors": []})
    default = put_pipeline(shop, made, f"{shop.name}-default", {"request_processors": [ENRICHER]})
    set_default(shop, default)
    before, exact = contents(shop), pipeline(shop, default)
    told = resift_command("attach", shop.name, opensearch_url, "--pipeline", "nope", status=2).output
    assert "there is no search pipeline 'nope'" in told
    told = resift_command("attach", shop.name, opensearch_url, "--pipeline", named).output
    assert f"send search_pipeline={named}" in told
    assert asked(shop, named) == {"index": shop.name}
    assert (pipeline(shop, default), contents(shop)) == (exact, before)
    told = resift_command("attach", shop.name, opensearch_url, "--pipeline", named, "--default-pipelines").output
    assert f"{named}, instead of {default}" in told
    assert shop.settings()["index.search.default_pipeline"] == named
    resift_command("detach", shop.name, opensearch_url)
    assert (contents(shop), kinds(pipeline(shop, named))) == (before, [])


def test_a_pipeline_of_several_indices_is_copied(
    cluster: OpenSearchEngine, shop: Index, served: Served, made: list[str], opensearch_url: str
) -> None:
    body = {"request_processors": [ENRICHER], "phase_results_processors": [NORMALIZATION], "description": "shared"}
    shared, own = put_pipeline(shop, made, f"{shop.name}-shared", body), f"resift-{shop.name}"
    second = Index(cluster, 20)
    try:
        for index in (shop, second):
            set_default(index, shared)
        before, exact, other = contents(shop), pipeline(shop, shared), contents(second)
        told = resift_command("attach", shop.name, opensearch_url).output
        assert f"{own}, a copy of {shared}\n" in told
        assert f"send search_pipeline={own}" in told
        assert pipeline(shop, shared) == exact
        now = pipeline(shop, own)
        assert kinds(now) == ["neural_query_enricher", "ml_inference"]
        assert now["phase_results_processors"] == [NORMALIZATION]
        assert contents(shop) == before
        told = resift_command("attach", shop.name, opensearch_url, "--default-pipelines").output
        assert f"{own}, a copy of {shared}, which is also used by index {second.name}" in told
        assert is_rewritten(shop, served, None)
        assert not is_rewritten(second, served, None)
        resift_command("detach", shop.name, opensearch_url)
        assert (contents(shop), contents(second), pipeline(shop, shared)) == (before, other, exact)
        assert pipeline(shop, own) is None
        # a template is a user of the pipeline, too
        set_default(second, None)
        template = {"index_patterns": [f"{second.name}*"], "template": {"settings": {}}}
        template["template"] = {"settings": {"index.search.default_pipeline": shared}}
        shop.cluster.request("PUT", f"/_index_template/{shop.name}-t", template)
        made.append(f"/_index_template/{shop.name}-t")
        assert (
            f"which is also used by index template {shop.name}-t"
            in resift_command("attach", shop.name, opensearch_url, "--dry-run", "--default-pipelines").output
        )
        # if all users are attached together, no copy is needed
        set_default(second, shared)
        shop.cluster.request("DELETE", f"/_index_template/{shop.name}-t")
        pattern = f"{shop.name},{second.name}"
        resift_command("attach", pattern, opensearch_url, "--default-pipelines")
        assert asked(shop, shared) == {"index": pattern}
        resift_command("detach", pattern, opensearch_url)
        assert pipeline(shop, shared) == exact
    finally:
        second.close()


def test_an_alias_a_pattern_and_a_data_stream(
    shop: Index, served: Served, made: list[str], opensearch_url: str
) -> None:
    alias, pattern, stream = f"{shop.name}-odd", f"{shop.name}*", f"{shop.name}-ds"
    before = contents(shop)
    template = {"index_patterns": [stream], "data_stream": {}, "priority": 900}
    shop.cluster.request("PUT", f"/_index_template/{stream}", template)
    made.append(f"/_index_template/{stream}")
    shop.cluster.request("PUT", f"/_data_stream/{stream}")
    made.append(f"/_data_stream/{stream}")
    document = {"@timestamp": "2026-01-01T00:00:00Z", "text": "the river"}
    shop.cluster.request("POST", f"/{stream}/_doc", document, refresh="true", op_type="create")
    for name, made_one in ((alias, f"resift-{alias}"), (pattern, f"resift-{shop.name}_"), (stream, f"resift-{stream}")):
        resift_command("attach", name, opensearch_url)
        assert asked(shop, made_one) == {"index": name}
        if name != stream:
            assert is_rewritten(shop, served, made_one, alias) or name == pattern
        resift_command("detach", name, opensearch_url)
        assert pipeline(shop, made_one) is None
    assert contents(shop) == before
    # a template that names the pipeline only for these indices: searches are still rewritten after a rollover
    name = put_pipeline(shop, made, f"{stream}-own", {"request_processors": [ENRICHER]})
    template |= {"template": {"settings": {"index.search.default_pipeline": name}}}
    shop.cluster.request("PUT", f"/_index_template/{stream}", template)
    set_default(shop, name, stream)
    resift_command("attach", stream, opensearch_url, "--default-pipelines")
    assert asked(shop, name) == {"index": stream}
    shop.cluster.request("POST", f"/{stream}/_rollover")
    resift_command("attach", stream, opensearch_url)
    told = resift_command("detach", ".ds-" + stream + "-000001", opensearch_url, status=2).output
    assert f"resift detach {stream}, to which the index belongs" in told
    resift_command("detach", stream, opensearch_url)
    assert kinds(pipeline(shop, name)) == ["neural_query_enricher"]
    # a template that names Resift's pipeline: the indices that it creates belong to the stream, too
    template["template"]["settings"] = {"index.search.default_pipeline": f"resift-{stream}"}
    shop.cluster.request("PUT", f"/_index_template/{stream}", {**template, "template": {"settings": {}}})
    set_default(shop, None, stream)
    resift_command("attach", stream, opensearch_url, "--default-pipelines")
    shop.cluster.request("PUT", f"/_index_template/{stream}", template)
    shop.cluster.request("POST", f"/{stream}/_rollover")
    told = resift_command("detach", stream, opensearch_url, status=1).output
    assert f"index template {stream}" in told
    shop.cluster.request("PUT", f"/_index_template/{stream}", {**template, "template": {"settings": {}}})
    resift_command("detach", stream, opensearch_url)
    assert pipeline(shop, f"resift-{stream}") is None
    assert "default_pipeline" not in json.dumps(shop.cluster.request("GET", f"/{stream}/_settings"))


def test_an_index_behind_an_alias_belongs_to_it(shop: Index, served: Served, opensearch_url: str) -> None:
    before, alias = contents(shop), f"{shop.name}-odd"
    resift_command("attach", alias, opensearch_url, "--default-pipelines")
    assert shop.settings()["index.search.default_pipeline"] == f"resift-{alias}"
    told = resift_command("detach", shop.name, opensearch_url, status=2).output
    assert f"resift detach {alias}, to which the index belongs" in told
    # attached by its own name, the index gets a pipeline of its own
    resift_command("attach", shop.name, opensearch_url, "--default-pipelines")
    assert shop.settings()["index.search.default_pipeline"] == f"resift-{shop.name}"
    resift_command("detach", alias, opensearch_url)
    assert (contents(shop), pipeline(shop, f"resift-{alias}"), pipeline(shop, f"resift-{shop.name}")) == (
        before,
        None,
        None,
    )


def test_detaching_several_indices_restores_all_of_them(
    cluster: OpenSearchEngine, shop: Index, served: Served, made: list[str], opensearch_url: str
) -> None:
    second = Index(cluster, 10)
    try:
        before, both = contents(shop), f"{shop.name},{second.name}"
        name = put_pipeline(shop, made, f"{shop.name}-theirs", {"request_processors": [ENRICHER]})
        exact = pipeline(shop, name)
        resift_command("attach", both, opensearch_url, "--pipeline", name, "--default-pipelines")
        told = resift_command("attach", shop.name, opensearch_url, "--default-pipelines", status=2).output
        assert f"attached name {both} also reaches {second.name}" in told
        resift_command("attach", shop.name, opensearch_url)
        resift_command("detach", both, opensearch_url)
        assert (contents(shop), pipeline(shop, name)) == (before, exact)
        assert pipeline(shop, f"resift-{shop.name}") is None
        assert "index.search.default_pipeline" not in second.settings()
    finally:
        second.close()


def test_indices_of_different_pipelines_are_attached_together_without_a_default(
    cluster: OpenSearchEngine, shop: Index, served: Served, made: list[str], opensearch_url: str
) -> None:
    second = Index(cluster, 10)
    try:
        first_default = put_pipeline(shop, made, f"{shop.name}-p", MIXED)
        set_default(shop, first_default)
        set_default(second, put_pipeline(shop, made, f"{second.name}-p", {"request_processors": [ENRICHER]}))
        both = f"{shop.name},{second.name}"
        own = f"resift-{shop.name}_{second.name}"
        before = contents(shop), contents(second)
        told = resift_command("attach", both, opensearch_url, "--default-pipelines", status=2).output
        assert "have different default search pipelines" in told
        # OpenSearch applies neither of them to a search of both, and nor does the new pipeline
        resift_command("attach", both, opensearch_url)
        assert kinds(pipeline(shop, own)) == ["ml_inference"]
        assert "phase_results_processors" not in pipeline(shop, own)
        assert asked(shop, own) == {"index": both}
        assert (contents(shop), contents(second)) == before
        resift_command("detach", both, opensearch_url)
        # an index without a default pipeline does not count
        set_default(second, None)
        resift_command("attach", both, opensearch_url)
        assert pipeline(shop, own)["phase_results_processors"] == MIXED["phase_results_processors"]
        resift_command("detach", both, opensearch_url)
    finally:
        second.close()


@pytest.mark.parametrize("block", ["write", "read_only"])
def test_an_index_that_is_read_only(shop: Index, served: Served, opensearch_url: str, block: str) -> None:
    shop.cluster.request("PUT", f"/{shop.name}/_settings", {f"index.blocks.{block}": True})
    try:
        before, settings = contents(shop), shop.settings()
        resift_command("attach", shop.name, opensearch_url)
        assert is_rewritten(shop, served, f"resift-{shop.name}")
        if block == "read_only":
            told = resift_command("attach", shop.name, opensearch_url, "--default-pipelines", status=2).output
            assert "cannot be changed: index.blocks.read_only is set" in told
        else:
            resift_command("attach", shop.name, opensearch_url, "--default-pipelines")
        resift_command("detach", shop.name, opensearch_url)
        assert (contents(shop)[:0], shop.settings()) == (before[:0], settings)
    finally:
        shop.cluster.request("PUT", f"/{shop.name}/_settings", {f"index.blocks.{block}": None})


def test_an_edited_pipeline_stays_without_the_added_processors(
    shop: Index, served: Served, made: list[str], opensearch_url: str
) -> None:
    name = f"resift-{shop.name}"
    made.append(f"/_search/pipeline/{name}")
    resift_command("attach", shop.name, opensearch_url, "--default-pipelines")
    edited = pipeline(shop, name)
    edited["request_processors"] = [ENRICHER, *edited["request_processors"], FILTER]
    edited["phase_results_processors"] = [NORMALIZATION]
    shop.cluster.request("PUT", f"/_search/pipeline/{name}", edited)
    resift_command("attach", shop.name, opensearch_url)  # attaching again does not undo the change of the user
    assert kinds(pipeline(shop, name)) == ["neural_query_enricher", "ml_inference", "filter_query"]
    assert "stays, without Resift's processor" in resift_command("detach", shop.name, opensearch_url).output
    left = pipeline(shop, name)
    assert left == {**edited, "request_processors": [ENRICHER, FILTER]}
    assert "index.search.default_pipeline" not in shop.settings()
    resift_command("attach", shop.name, opensearch_url)
    resift_command("detach", shop.name, opensearch_url)
    assert pipeline(shop, name) == left
    # a foreign pipeline of that name
    shop.cluster.request("PUT", f"/_search/pipeline/{name}", {**left, "description": "mine"})
    told = resift_command("attach", shop.name, opensearch_url, status=2).output
    assert f"--pipeline {name}, to add the processor to that pipeline" in told
    resift_command("attach", shop.name, opensearch_url, "--pipeline", name)
    resift_command("detach", shop.name, opensearch_url)
    assert pipeline(shop, name) == {**left, "description": "mine"}


def test_shared_pipelines_are_not_deleted(
    cluster: OpenSearchEngine, shop: Index, served: Served, opensearch_url: str
) -> None:
    second, name = Index(cluster, 10), f"resift-{shop.name}"
    try:
        resift_command("attach", shop.name, opensearch_url)
        set_default(second, name)
        told = resift_command("detach", shop.name, opensearch_url, status=1).output
        assert f"of index {second.name} is {name}" in told
        assert served.installer.name in find_installations(shop.cluster)
        with pytest.raises(resift.ResiftError, match=f"of index {second.name} is {name}"):
            served.installer.uninstall()
        resift_command("attach", second.name, opensearch_url, "--default-pipelines")
        assert asked(second, f"resift-{second.name}") == {"index": second.name}
        resift_command("detach", second.name, opensearch_url)
        assert "index.search.default_pipeline" not in second.settings()
        # another user has set a pipeline as default that detaching deletes: OpenSearch would refuse searches
        set_default(shop, name)
        resift_command("detach", shop.name, opensearch_url)
        assert "index.search.default_pipeline" not in shop.settings()
        assert pipeline(shop, name) is None
    finally:
        second.close()


def test_an_installation_is_not_removed_while_a_users_pipeline_needs_it(
    shop: Index, served: Served, made: list[str], opensearch_url: str
) -> None:
    name = put_pipeline(shop, made, f"{shop.name}-own", {"request_processors": [ENRICHER]})
    set_default(shop, name)
    resift_command("attach", shop.name, opensearch_url, "--default-pipelines")
    with pytest.raises(resift.ResiftError, match=f"{name} has searches of {shop.name} rewritten"):
        served.installer.uninstall()
    (row,) = (row for row in status_rows(served.installer) if row.name == name)
    assert (row.kind, row.state) == ("search pipeline", "ok")
    # install replaces an outdated processor in this pipeline, too
    model = shop.cluster.ml_objects("models", f"{served.installer.name}-rewrite")[0][0]
    there = pipeline(shop, name)
    shop.cluster.request("PUT", f"/_search/pipeline/{name}", json.loads(json.dumps(there).replace(model, "gone")))
    (row,) = (row for row in status_rows(served.installer) if row.name == name)
    assert row.state == "changed"
    assert f"replace search pipeline {name} (changed)" in served.installer.install()
    assert pipeline(shop, name) == there
    shop.engine.drop_if_exists(shop.name)
    (row,) = (row for row in status_rows(served.installer) if row.name == name and row.fix.startswith("resift detach"))
    assert row.state == f"no index {shop.name}"
    resift_command("detach", shop.name, opensearch_url)
    assert kinds(pipeline(shop, name)) == ["neural_query_enricher"]


def test_a_deleted_pipeline_is_created_again_or_its_setting_is_removed(
    shop: Index, served: Served, opensearch_url: str
) -> None:
    before, name = contents(shop), f"resift-{shop.name}"
    for command in ("attach", "detach"):
        resift_command("attach", shop.name, opensearch_url, "--default-pipelines")
        shop.cluster.request("DELETE", f"/_search/pipeline/{name}")
        (row,) = (row for row in index_rows(shop.cluster) if row.name == shop.name)
        assert row.state == f"index.search.default_pipeline is {name}, which is missing: searches are refused"
        assert row.fix == f"resift attach {shop.name} --default-pipelines"
        flags = ["--default-pipelines"] if command == "attach" else []
        resift_command(command, shop.name, opensearch_url, *flags)
        assert (pipeline(shop, name) is None) == (command == "detach")
    assert contents(shop) == before
    assert served.installer.install() == []


def test_there_is_nothing_to_verify(shop: Index, served: Served, opensearch_url: str) -> None:
    resift_command("attach", shop.name, opensearch_url)
    told = CliRunner().invoke(main, ["verify", shop.name, "--engine", opensearch_url])
    assert (told.exit_code, told.output) == (0, f"index {shop.name} has no vectors of Resift: nothing to verify\n")
    resift_command("detach", shop.name, opensearch_url)


OF_VECTORS = [
    ["--no-adapt"],
    ["--model", "resift-en"],
    ["--fields", "text"],
    ["--field", "dense"],
    ["--out", "folder"],
]


@pytest.mark.parametrize("flags", OF_VECTORS, ids=lambda flags: flags[0])
def test_options_for_vectors_are_refused_by_name(
    shop: Index, opensearch_url: str, flags: list[str], here: Path
) -> None:
    told = resift_command("attach", shop.name, opensearch_url, *flags, status=2).output
    assert f"{' '.join(flags)} is used without --vectors" in told
    with pytest.raises(BadInput, match="--model resift-en is used without --vectors"):
        resift.attach(opensearch_url, shop.name, model="resift-en")


def test_the_model_of_the_environment_is_only_used_for_vectors(
    shop: Index, served: Served, opensearch_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESIFT_MODEL", "resift-en")
    resift_command("attach", shop.name, opensearch_url, "--dry-run")


def test_what_is_missing_is_refused(shop: Index, opensearch_url: str) -> None:
    assert "no such index" in resift_command("attach", f"{shop.name}-nope", opensearch_url, status=2).output
    resift_command("detach", f"{shop.name}-nope", opensearch_url, status=2)
    told = resift_command("attach", ".plugins-ml-model", opensearch_url, status=2).output
    assert "is a system index" in told
