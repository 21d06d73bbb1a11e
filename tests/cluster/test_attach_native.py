"""Tests of attaching in a cluster whose nodes have Resift's native plugin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attached_index import Index, own, shop
from attached_searches import (
    ENRICHER,
    MIXED,
    contents,
    kinds,
    made,
    pipeline,
    put_pipeline,
    resift_command,
    set_default,
)
from click.testing import CliRunner
from cluster_snapshot import snapshot
from native_node import NativeNode, RealService, faulty_service, real_service
from service_app import post
from waiting import until

from resift import Model
from resift.cli.main import main
from resift.plugin import read_resource
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.cluster.native_plugin import NativePlugin
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.attach_searches import NATIVE_COST, SearchAttachment
from resift.plugin.operations.native_status import native_rows
from resift.plugin.operations.search_status import search_rows
from resift.version import __version__

__all__ = ["made", "own", "shop"]

DEFAULT = "index.search.default_pipeline"
WORDS = {"match": {"text": "river"}}
KEY = "rsf_" + "1" * 64


@pytest.fixture(scope="module")
def cluster(native_engine: OpenSearchEngine) -> OpenSearchEngine:
    """Return a cluster whose only node has the plugin."""
    return native_engine


@pytest.fixture(scope="module")
def opensearch_url(native_node: NativeNode) -> str:
    """Return the address of this cluster."""
    return native_node.url


@pytest.fixture(scope="module")
def service(
    cluster: OpenSearchEngine, packaged: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealService]:
    """Yield a service for the cluster, which has no installation."""
    with real_service(cluster, packaged, tmp_path_factory.mktemp("service") / "sessions.db") as served:
        yield served


def mark(service: RealService, index: Index, scope: str = "") -> None:
    """Mark a document as relevant, under the name of the index or under another name."""
    scope = scope or index.name
    index.cluster.request("POST", f"/{scope}/_refresh")
    post(service.app.test_client(), "/v1/feedback", index=scope, session="anna", query="river", relevant=["1"])


def search(index: Index, scope: str, name: str | None, **ext: Any) -> list[dict[str, Any]]:
    """Return the hits of a search, with or without naming a search pipeline."""
    params = {} if name is None else {"search_pipeline": name}
    body = {"query": WORDS, **({"ext": ext} if ext else {})}
    hits: list[dict[str, Any]] = index.cluster.request("POST", f"/{scope}/_search", body, **params)["hits"]["hits"]
    assert hits
    return hits


def follows_session(index: Index, name: str | None, scope: str = "") -> bool:
    """Return whether a search in the session is rewritten. It may not be while the circuit breaker is open."""

    def is_rewritten() -> bool:
        hits = search(index, scope or index.name, name, resift={"session": "anna"})
        return all("resift" in hit.get("matched_queries", ()) for hit in hits)

    return until(is_rewritten)


def attach(index: Index, url: str, service: RealService, *flags: str, of: str = "", status: int = 0) -> str:
    """Attach an index, or another name, and return the output of the command."""
    return resift_command("attach", of or index.name, url, "--service", service.url, *flags, status=status).output


def test_attaching_changes_a_search_and_detaching_leaves_the_cluster_as_before(
    shop: Index, service: RealService, opensearch_url: str
) -> None:
    before, name = (snapshot(shop.cluster), contents(shop)), f"resift-{shop.name}"
    planned = attach(shop, opensearch_url, service, "--dry-run")
    assert "  route       Resift's plugin, which all nodes have: only searches in a session call the service" in planned
    assert f"  service     {service.url} (to change this: --service URL)" in planned
    assert f"  clients     send search_pipeline={name} in searches with a session" in planned
    assert (snapshot(shop.cluster), contents(shop)) == before
    result = json.loads(attach(shop, opensearch_url, service, "--json").partition("{")[2].join(["{", ""]))
    assert (result["route"], result["rewritten"], result["settings"]) == ("native", True, {})
    (processor,) = pipeline(shop, name)["request_processors"]
    assert (processor["resift"]["url"], processor["resift"]["ignore_failure"]) == (service.url, True)
    mark(service, shop)
    assert follows_session(shop, name)
    # without a session, or without the pipeline, the search is as before
    assert search(shop, shop.name, name) == search(shop, shop.name, "_none")
    assert search(shop, shop.name, None, resift={"session": "anna"}) == search(shop, shop.name, "_none")
    assert contents(shop) == before[1]
    report = CliRunner().invoke(main, ["doctor", "--engine", opensearch_url, "--json"])
    assert report.exit_code == 0, report.output
    states = {(row["kind"], row["name"]): row["state"] for row in json.loads(report.stdout)["parts"]}
    (node,) = NativePlugin.read(shop.cluster).versions
    assert states["plugin", f"resift on {node}"] == __version__
    assert states["service", service.url].startswith(__version__)
    assert states["search pipeline", name] == "ok"
    resift_command("detach", shop.name, opensearch_url)
    assert (snapshot(shop.cluster), contents(shop)) == before


def test_a_default_pipeline_is_copied_unless_all_searches_are_rewritten(
    shop: Index, service: RealService, made: list[str], opensearch_url: str
) -> None:
    theirs = put_pipeline(shop, made, f"{shop.name}-hybrid", {**MIXED, "request_processors": [ENRICHER]})
    set_default(shop, theirs)
    before, own = (contents(shop), pipeline(shop, theirs)), f"resift-{shop.name}"
    assert f"  pipeline    {own}, a copy of {theirs}" in attach(shop, opensearch_url, service)
    assert kinds(pipeline(shop, own)) == ["neural_query_enricher", "resift"]
    assert pipeline(shop, own)["phase_results_processors"] == MIXED["phase_results_processors"]
    assert (contents(shop), pipeline(shop, theirs)) == before
    mark(service, shop)
    assert follows_session(shop, own)
    resift_command("detach", shop.name, opensearch_url)
    assert (contents(shop), pipeline(shop, theirs), pipeline(shop, own)) == (*before, None)
    planned = attach(shop, opensearch_url, service, "--default-pipelines")
    assert f"  cost        {NATIVE_COST}" in planned
    assert kinds(pipeline(shop, theirs)) == ["neural_query_enricher", "resift"]
    assert follows_session(shop, None)
    resift_command("detach", shop.name, opensearch_url)
    assert (contents(shop), pipeline(shop, theirs)) == before


def exported_sections(index: Index, url: str) -> list[str]:
    """Return the sections of ``ext`` in an exported search configuration for searches in sessions."""
    command = ["export", "search-configuration", index.name, "--with-sessions", "--engine", url]
    return list(json.loads(json.loads(CliRunner().invoke(main, command).stdout)["query"])["ext"])


def test_an_index_attached_through_ml_inference_is_moved(
    shop: Index, service: RealService, packaged: Model, opensearch_url: str
) -> None:
    """The index was attached before the plugin was installed."""
    before, name = contents(shop), f"resift-{shop.name}"
    installation = Installation("moved", packaged, ("text",), service.url)
    installer = Installer(shop.engine, installation)
    installer.install()
    try:
        (model, _), *_ = shop.cluster.ml_objects("models", "moved-rewrite")
        SearchAttachment(shop.cluster, shop.name, rewrite_all=True).run("moved", model)
        assert kinds(pipeline(shop, name)) == ["ml_inference"] == exported_sections(shop, opensearch_url)
        (row,) = (row for row in native_rows(shop.cluster) if row.name == name)
        assert row.state.startswith("uses ml_inference, although all nodes have Resift's plugin")
        assert row.fix == f"resift attach {shop.name}"
        # the URL of the service is that of the installation
        planned = resift_command("attach", shop.name, opensearch_url).output
        assert "  moved       from ml_inference of ML Commons, which rewrites these searches now" in planned
        assert kinds(pipeline(shop, name)) == ["resift"] == exported_sections(shop, opensearch_url)
        assert pipeline(shop, name)["request_processors"][0]["resift"]["url"] == service.url
        assert [row.state for row in native_rows(shop.cluster) if row.name == name] == ["ok"]
        (row,) = (row for row in native_rows(shop.cluster) if row.kind == "installation")
        assert (row.name, row.state) == ("moved", "rewrites and encodes for no index: resift uninstall removes it")
        mark(service, shop)
        assert follows_session(shop, None)
        # the record of the default pipeline before the first attachment has moved, too
        resift_command("detach", shop.name, opensearch_url)
        assert (contents(shop), pipeline(shop, name)) == (before, None)
    finally:
        installer.uninstall()


def test_the_service_receives_the_name_that_is_searched(shop: Index, service: RealService, opensearch_url: str) -> None:
    alias = f"{shop.name}-odd"
    attach(shop, opensearch_url, service, "--default-pipelines", of=alias)
    assert shop.settings()[DEFAULT] == f"resift-{alias}"
    mark(service, shop, alias)
    for scope in (alias, shop.name):
        service.requests.clear()
        assert follows_session(shop, None, scope)
        assert {request["index"] for request in service.requests} == {scope}
    assert f"resift detach {alias}" in resift_command("detach", shop.name, opensearch_url, status=2).output
    resift_command("detach", alias, opensearch_url)
    assert DEFAULT not in shop.settings()


def test_a_data_stream_stays_attached_after_a_rollover(
    shop: Index, service: RealService, made: list[str], opensearch_url: str
) -> None:
    stream, name = f"{shop.name}-logs", f"resift-{shop.name}-logs"
    template = {"index_patterns": [f"{stream}*"], "priority": 900, "data_stream": {}}
    shop.cluster.request("PUT", f"/_index_template/{stream}", template)
    made.append(f"/_index_template/{stream}")
    made.append(f"/_data_stream/{stream}")
    document = {"@timestamp": "2030-01-01T00:00:00Z", "text": "the river and the forest"}
    shop.cluster.request("PUT", f"/{stream}/_create/1", document, refresh="true")
    attach(shop, opensearch_url, service, of=stream)
    shop.cluster.request("POST", f"/{stream}/_rollover")
    shop.cluster.request("PUT", f"/{stream}/_create/2", document, refresh="true")
    mark(service, shop, stream)
    assert follows_session(shop, name, stream)
    resift_command("detach", stream, opensearch_url)
    assert pipeline(shop, name) is None


def test_an_alias_that_moves_to_another_index_is_reported(
    shop: Index, service: RealService, made: list[str], opensearch_url: str
) -> None:
    alias, second, pipeline_name = f"{shop.name}-odd", f"{shop.name}-second", f"resift-{shop.name}-odd"
    vectors = ("--vectors", "--no-adapt", "--force")
    attach(shop, opensearch_url, service, *vectors, of=alias)
    attach(shop, opensearch_url, service, "--default-pipelines", of=alias)
    mark(service, shop, alias)
    assert follows_session(shop, None, alias)
    assert list(search_rows(shop.cluster)) == []
    shop.cluster.request("PUT", f"/{second}", {"mappings": {"properties": {"text": {"type": "text"}}}})
    made.append(f"/{second}")
    shop.cluster.request("PUT", f"/{second}/_doc/1", {"text": "the river and the forest"}, refresh="true")
    move = [{"remove": {"index": shop.name, "alias": alias}}, {"add": {"index": second, "alias": alias}}]
    shop.cluster.request("POST", "/_aliases", {"actions": move})

    index_row, alias_row = search_rows(shop.cluster)
    assert (index_row.name, alias_row.kind, alias_row.name) == (second, "alias", alias)
    assert index_row.state.endswith(f", with which {alias} is attached: sessions use words alone")
    assert index_row.fix == f"resift attach {alias} --vectors --model DIR of that model"
    assert alias_row.state == (
        f"was attached with the default pipeline {pipeline_name}, which {second} does not have: "
        f"searches that name no pipeline ignore their session"
    )
    assert alias_row.fix == f"resift attach {alias} --default-pipelines"
    resift_command(*alias_row.fix.split()[1:3], opensearch_url, *alias_row.fix.split()[3:])
    assert [row.name for row in search_rows(shop.cluster)] == [second]
    assert follows_session(shop, None, alias)
    attach(shop, opensearch_url, service, *vectors, of=alias)
    assert list(search_rows(shop.cluster)) == []

    set_default(shop, None)
    resift_command("detach", alias, opensearch_url)
    assert pipeline(shop, pipeline_name) is None


def test_settings_that_a_user_adds_to_the_processor_stay(
    shop: Index,
    cluster: OpenSearchEngine,
    packaged: Model,
    native_node: NativeNode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the key, the service refuses the calls. A search does not show this, but attach and doctor do."""
    if native_node.config is None:
        pytest.skip("needs the folder of the node's configuration")
    name, url = f"resift-{shop.name}", native_node.url
    # without the timeout that other tests add
    monkeypatch.setattr("resift.plugin.cluster.search_pipelines.read_resource", read_resource)

    def add(**settings: str) -> None:
        body = pipeline(shop, name)
        body["request_processors"][0]["resift"] |= settings
        shop.cluster.request("PUT", f"/_search/pipeline/{name}", body)

    with real_service(cluster, packaged, tmp_path / "sessions.db", api_key=KEY) as service:
        attach(shop, url, service, status=3)
        add(timeout="20s")
        told = attach(shop, url, service, status=3)
        assert "next: add an API key of the scope embed to the keystore of each node (now: " in told
        assert "the service refuses the API key: bin/opensearch-keystore add resift.key on each node" in told
        (row,) = (row for row in native_rows(shop.cluster) if row.name == name)
        assert row.state == "fails open"
        assert row.fix.startswith("add an API key of the scope embed to the keystore of each node (")
        assert "the service refuses the API key" in row.fix
        (native_node.config / "resift-key").write_text(KEY + "\n")
        try:
            add(key_file="resift-key")
            assert "next:" not in attach(shop, url, service)
        finally:
            (native_node.config / "resift-key").unlink()
        settings = pipeline(shop, name)["request_processors"][0]["resift"]
        assert (settings["key_file"], settings["timeout"]) == ("resift-key", "20s")
    resift_command("detach", shop.name, url)
    assert pipeline(shop, name) is None


def test_a_copy_with_settings_of_the_user_follows_its_original(
    shop: Index, service: RealService, made: list[str], opensearch_url: str
) -> None:
    base, copy = put_pipeline(shop, made, f"{shop.name}-hybrid", MIXED), f"resift-{shop.name}"
    set_default(shop, base)
    attach(shop, opensearch_url, service)
    body = pipeline(shop, copy)
    settings = next(processor["resift"] for processor in body["request_processors"] if "resift" in processor)
    settings["timeout"] = "20s"
    shop.cluster.request("PUT", f"/_search/pipeline/{copy}", body)
    shop.cluster.request("PUT", f"/_search/pipeline/{base}", {**MIXED, "request_processors": [ENRICHER]})
    (row,) = (row for row in search_rows(shop.cluster) if row.name == copy)
    assert row.state == f"is a copy of {base}, which has changed since"
    attach(shop, opensearch_url, service)
    body = pipeline(shop, copy)
    assert kinds(body) == ["neural_query_enricher", "resift"]
    assert body["request_processors"][1]["resift"]["timeout"] == "20s"
    assert [row for row in search_rows(shop.cluster) if row.name == copy] == []
    resift_command("detach", shop.name, opensearch_url)
    assert pipeline(shop, copy) is None


def test_a_service_that_is_not_resift_is_reported(shop: Index, opensearch_url: str) -> None:
    name = f"resift-{shop.name}"
    with faulty_service(lambda request: (200, b"hello")) as url:
        told = resift_command("attach", shop.name, opensearch_url, "--service", url, status=3).output
        assert f"next: start resift serve so that the nodes reach it at {url} (now: " in told
        rows = {(row.kind, row.name): row for row in native_rows(shop.cluster)}
        assert rows["service", url].state == "no answer here"
        assert rows["search pipeline", name].fix.startswith(
            f"let the nodes reach {url}, or resift attach {shop.name} --service URL"
        )
    resift_command("detach", shop.name, opensearch_url)


def test_an_address_that_the_nodes_cannot_use_gives_status_3(
    shop: Index, service: RealService, opensearch_url: str, nowhere: str
) -> None:
    attach(shop, opensearch_url, service)
    replaced = resift_command("attach", shop.name, opensearch_url, "--service", nowhere, status=3).output
    assert f"next: start resift serve so that the nodes reach it at {nowhere} (now: " in replaced
    (back,) = re.findall("or back: resift (.*)", replaced)
    assert back == f"attach {shop.name} --service {service.url}"
    again = CliRunner().invoke(main, [*back.split(), "--yes", "--engine", opensearch_url])
    assert (again.exit_code, "next:" in again.output) == (0, False)
    resift_command("detach", shop.name, opensearch_url)


def doctor_row(name: str, url: str, status: int) -> tuple[str, str]:
    """Return the state of an index in the report of ``resift doctor``, and the advice."""
    report = CliRunner().invoke(main, ["doctor", "--engine", url, "--json"])
    assert report.exit_code == status, report.output
    (row,) = (row for row in json.loads(report.stdout)["parts"] if (row["kind"], row["name"]) == ("index", name))
    return row["state"], row["fix"]


def test_a_service_with_another_model_than_the_index_is_reported(
    shop: Index, service: RealService, packaged: Model, own: tuple[Model, str], tmp_path: Path, opensearch_url: str
) -> None:
    model, folder = own
    flags = ("--vectors", "--force", "--model", folder)
    told = attach(shop, opensearch_url, service, *flags, status=3)
    problem = f"in place of the service at {service.url}, which has model resift-en ({packaged.hash})."
    assert f"next: start resift serve --model {folder} {problem}" in told
    assert "are rewritten" not in told
    marks = {"index": shop.name, "session": "anna", "query": "river", "relevant": ["1"]}
    refused = service.app.test_client().post("/v1/feedback", json=marks)
    assert (refused.status_code, refused.get_json()["error"]["code"]) == (409, "model_mismatch")
    state, fix = doctor_row(shop.name, opensearch_url, 3)
    assert f"but {service.url} has model resift-en ({packaged.hash}): marks are refused" in state
    assert fix == (
        f"resift serve --model DIR with the model of {shop.name}, and resift attach {shop.name} --service URL"
    )
    with real_service(shop.engine, model, tmp_path / "sessions.db") as right:
        assert f"searches through resift-{shop.name} are rewritten" in attach(shop, opensearch_url, right, *flags)
        state, fix = doctor_row(shop.name, opensearch_url, 0)
        assert (state, fix) == (f"80 of 80 documents have a vector of {model.name} ({model.hash})", "")
        shop.cluster.request("POST", f"/{shop.name}/_refresh")
        mark(right, shop)
        assert follows_session(shop, f"resift-{shop.name}")
    resift_command("detach", shop.name, opensearch_url)


def test_the_next_url_is_used_if_a_service_is_down(
    shop: Index, service: RealService, opensearch_url: str, nowhere: str
) -> None:
    urls = f"{nowhere},{service.url}/"
    told = resift_command("attach", shop.name, opensearch_url, "--service", urls).output
    assert f"  service     {nowhere}, {service.url} (to change this: --service URL)" in told
    settings = pipeline(shop, f"resift-{shop.name}")["request_processors"][0]["resift"]
    assert settings["url"] == [nowhere, service.url]
    # attaching again keeps the URLs
    assert f"  service     {nowhere}, {service.url} " in resift_command("attach", shop.name, opensearch_url).output
    mark(service, shop)
    assert follows_session(shop, f"resift-{shop.name}")
    resift_command("detach", shop.name, opensearch_url)
    refused = resift_command("attach", shop.name, opensearch_url, "--service", "ftp://x", status=2).output
    assert "'ftp://x' is not the address of a service" in refused


def test_a_processor_that_a_user_wrote_is_not_touched(
    shop: Index, service: RealService, made: list[str], opensearch_url: str
) -> None:
    theirs = {"request_processors": [{"resift": {"url": service.url, "description": "by hand"}}]}
    name = put_pipeline(shop, made, f"{shop.name}-own", theirs)
    exact = pipeline(shop, name)
    assert "is not attached" in resift_command("detach", shop.name, opensearch_url, status=2).output
    attach(shop, opensearch_url, service, "--pipeline", name)
    assert kinds(pipeline(shop, name)) == ["resift", "resift"]
    resift_command("detach", shop.name, opensearch_url)
    assert pipeline(shop, name) == exact


def test_no_pipeline_is_needed_if_the_cluster_generates_the_processor(
    shop: Index, service: RealService, opensearch_url: str
) -> None:
    settings = {
        "cluster.search.enabled_system_generated_factories": ["resift"],
        "resift.url": service.url,
        "resift.timeout": "20s",
    }
    if tuple(map(int, shop.cluster.request("GET", "/")["version"]["number"].split(".")[:2])) < (3, 3):
        pytest.skip("OpenSearch has system-generated processors since version 3.3")
    mark(service, shop)
    shop.cluster.update_settings(settings)
    try:
        assert follows_session(shop, None)
        planned = resift_command("attach", shop.name, opensearch_url, "--dry-run").output
        assert "  note        the cluster rewrites searches in a session without any pipeline (resift.url)" in planned
        rows = [row for row in native_rows(shop.cluster) if row.name == service.url]
        assert [(row.kind, row.fix) for row in rows] == [("service", ""), ("clock", "")]
    finally:
        shop.cluster.update_settings(dict.fromkeys(settings))


def test_no_installation_is_needed(opensearch_url: str, cluster: OpenSearchEngine) -> None:
    before = snapshot(Cluster(cluster))
    told = CliRunner().invoke(main, ["install", "--engine", opensearch_url, "--dry-run"])
    assert "All nodes have Resift's plugin, so resift attach needs no installation." in told.stderr
    assert (told.exit_code, snapshot(Cluster(cluster))) == (0, before)
