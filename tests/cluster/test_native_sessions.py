"""Searches in sessions on a node with Resift's own plugin: which are rewritten, and how."""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from native_node import NativeNode, RealService, Searches, faulty_service, ids, real_service
from opensearchpy import TransportError
from service_app import post

from resift import Model
from resift.plugin.opensearch.engine import OpenSearchEngine

FIRE = {"match": {"text": "fire"}}
ANNA = {"resift": {"session": "anna"}}


@pytest.fixture(scope="module")
def service(
    native_engine: OpenSearchEngine, searches: Searches, model: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealService]:
    """Yield a service in whose session ``anna`` a document was marked."""
    with real_service(native_engine, model, tmp_path_factory.mktemp("native") / "sessions.db") as served:
        marks = {"session": "anna", "query": "fire", "relevant": ["war"]}
        post(served.app.test_client(), "/v1/feedback", index=searches.index, **marks)
        yield served


@pytest.fixture(scope="module")
def pipeline(searches: Searches, service: RealService) -> str:
    """Return a pipeline that calls the service."""
    return searches.pipeline(service.url)


def test_a_search_in_a_session_runs_the_body_that_the_service_returns(
    searches: Searches, service: RealService, pipeline: str
) -> None:
    body = {"query": FIRE, "ext": ANNA}
    rewritten = post(service.app.test_client(), "/v1/rewrite", index=searches.index, body=body)["body"]
    assert "ext" not in rewritten
    hits = searches.hits(pipeline, "anna")
    assert hits == ids(searches.ask("POST", f"/{searches.index}/_search", rewritten))
    assert hits[0] == "war"
    assert set(hits) == set(searches.hits())


def test_the_service_receives_the_names_that_are_searched(
    searches: Searches, service: RealService, pipeline: str
) -> None:
    searches.ask("PUT", f"/{searches.index}/_alias/{searches.index}-alias")
    point = searches.ask("POST", f"/{searches.index}/_search/point_in_time", keep_alive="1m")["pit_id"]
    body = {"query": FIRE, "ext": ANNA, "_source": False}
    service.requests.clear()
    for path in (f"/{searches.index}-alias", f"/{searches.index},missing-*", ""):
        searches.ask("POST", f"{path}/_search", body, search_pipeline=pipeline, ignore_unavailable="true")
    searches.ask("POST", "/_search", {**body, "pit": {"id": point}}, search_pipeline=pipeline)
    searches.ask("DELETE", "/_search/point_in_time", {"pit_id": [point]})
    names = [request["index"] for request in service.requests]
    assert names == [f"{searches.index}-alias", f"{searches.index},missing-*", "_all", searches.index]


def test_closed_and_missing_indices_are_tolerated_as_without_a_session(searches: Searches, pipeline: str) -> None:
    closed, body = f"{searches.index}-closed", {"query": FIRE, "ext": ANNA}
    searches.ask("PUT", f"/{closed}")
    searches.ask("POST", f"/{closed}/_close")
    try:
        for other, message in ((closed, "closed"), (f"{searches.index}-missing", "no such index")):
            path, params = f"/{searches.index},{other}/_search", {"search_pipeline": pipeline}
            answer = searches.ask("POST", path, body, ignore_unavailable="true", **params)
            assert set(ids(answer)) == set(searches.hits())
            with pytest.raises(TransportError, match=message):
                searches.ask("POST", path, body, **params)
    finally:
        searches.ask("DELETE", f"/{closed}")


@pytest.mark.parametrize("ext", [{}, {"resift": None}, {"resift": {"query": "fire"}}, {"resift": {"session": None}}])
def test_a_search_without_a_session_makes_no_call(
    searches: Searches, service: RealService, pipeline: str, ext: dict[str, Any]
) -> None:
    service.requests.clear()
    assert searches.hits(pipeline, ext=ext) == searches.hits()
    assert service.requests == []


def test_searches_of_an_index_with_a_default_pipeline_are_rewritten(searches: Searches, pipeline: str) -> None:
    path, body, index = f"/{searches.index}/_search", {"query": FIRE, "ext": ANNA}, searches.index
    wanted, plain = searches.hits(pipeline, "anna"), searches.hits()
    assert wanted != plain
    searches.ask("PUT", f"/{index}/_settings", {"index.search.default_pipeline": pipeline})
    try:
        assert ids(searches.ask("POST", path, body)) == wanted
        assert ids(searches.ask("POST", path, {"query": FIRE})) == plain
        lines = [{"index": index}, body, {"index": index}, {"query": FIRE}]
        sent = "".join(json.dumps(line) + "\n" for line in lines)
        assert [ids(answer) for answer in searches.ask("POST", "/_msearch", sent)["responses"]] == [wanted, plain]
        template = {"source": {**body, "size": "{{size}}"}, "params": {"size": 10}}
        assert ids(searches.ask("POST", f"{path}/template", template)) == wanted
    finally:
        searches.ask("PUT", f"/{index}/_settings", {"index.search.default_pipeline": None})


def test_a_point_in_time_is_searched_in_the_session(searches: Searches, pipeline: str) -> None:
    point = searches.ask("POST", f"/{searches.index}/_search/point_in_time", keep_alive="1m")["pit_id"]
    body = {"query": FIRE, "ext": ANNA, "pit": {"id": point}}
    answer = searches.ask("POST", "/_search", body, search_pipeline=pipeline)
    searches.ask("DELETE", "/_search/point_in_time", {"pit_id": [point]})
    assert ids(answer) == searches.hits(pipeline, "anna")


def test_routing_and_preference_choose_the_same_shards_as_without_a_session(searches: Searches, pipeline: str) -> None:
    path = f"/{searches.index}/_search"
    for params in ({"routing": "x"}, {"routing": "y"}, {"preference": "_shards:0"}, {"preference": "_shards:1"}):
        plain = searches.ask("POST", path, {"query": FIRE}, **params)
        in_session = searches.ask("POST", path, {"query": FIRE, "ext": ANNA}, search_pipeline=pipeline, **params)
        assert in_session["_shards"] == plain["_shards"]
        assert set(ids(in_session)) == set(ids(plain))


def test_a_scroll_continues_the_rewritten_search(searches: Searches, service: RealService, pipeline: str) -> None:
    path, body = f"/{searches.index}/_search", {"size": 2, "query": FIRE, "ext": ANNA}
    answer = searches.ask("POST", path, body, search_pipeline=pipeline, scroll="1m")
    hits, rewritten = [], True
    while answer["hits"]["hits"]:
        hits += ids(answer)
        rewritten &= all(hit["matched_queries"] == ["resift"] for hit in answer["hits"]["hits"])
        answer = searches.ask("POST", "/_search/scroll", {"scroll": "1m", "scroll_id": answer["_scroll_id"]})
    searches.ask("DELETE", "/_search/scroll", {"scroll_id": [answer["_scroll_id"]]})
    assert rewritten
    assert service.requests[-1]["scroll"] is True
    assert sorted(hits) == sorted(searches.hits())


def test_options_and_their_errors_are_those_of_the_service(searches: Searches, pipeline: str) -> None:
    hidden = {"resift": {"session": "anna", "judged": "hide"}}
    assert "war" not in searches.hits(pipeline, ext=hidden)
    for wrong in ({"session": "anna", "judged": "burn"}, {"session": 7}):
        with searches.counting() as counts:
            assert searches.hits(pipeline, ext={"resift": wrong}) == searches.hits()
        assert counts() == {"unchanged": 1}


@pytest.mark.parametrize("section", ["anna", ["anna"], [{"session": "anna"}], 3])
def test_a_section_that_is_no_object_is_refused(searches: Searches, pipeline: str, section: Any) -> None:
    with pytest.raises(TransportError, match=r"\[ext.resift\] must be an object such as"):
        searches.hits(pipeline, ext={"resift": section})


SECTIONS = {
    "generative_qa_parameters": {"llm_question": "who made the fire?"},
    "rerank": {"query_context": {"query_text": "fire"}},
    "ml_inference": {"parameters": {"temperature": 0}},
}


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_of_other_plugins_do_not_prevent_a_session(searches: Searches, pipeline: str, name: str) -> None:
    if not searches.has_plugin("opensearch-ml"):
        pytest.skip("the node has no ML Commons")
    with searches.counting() as counts:
        assert searches.hits(pipeline, ext={**ANNA, name: SECTIONS[name]}) == searches.hits(pipeline, "anna")
    assert counts() == {"rewritten": 2}


def shard_log(
    native_node: NativeNode, searches: Searches, index: str, body: dict[str, Any], **params: Any
) -> list[str]:
    """Search an index, and return the lines that its shards wrote to their slow log."""
    if native_node.config is None:
        pytest.skip("reads the log of the node")
    threshold, id = "index.search.slowlog.threshold.query.warn", uuid.uuid4().hex
    searches.ask("PUT", f"/{index}/_settings", {threshold: "0s"})
    transport = searches.engine.client.transport
    transport.perform_request("POST", f"/{index}/_search", headers={"X-Opaque-Id": id}, params=params, body=body)
    searches.ask("PUT", f"/{index}/_settings", {threshold: None})
    (log,) = native_node.config.with_name("logs").glob("*_index_search_slowlog.log")
    return [line for line in log.read_text().splitlines() if f"id[{id}]" in line]


def test_the_shards_receive_the_headers_of_the_search(
    native_node: NativeNode, searches: Searches, pipeline: str
) -> None:
    body = {"query": FIRE, "ext": ANNA}
    lines = shard_log(native_node, searches, searches.index, body, search_pipeline=pipeline)
    assert len(lines) == 2  # one for each shard
    assert all('"_name":"resift"' in line for line in lines)  # the rewritten search


def test_a_search_that_waits_for_the_service_can_be_cancelled(searches: Searches) -> None:
    received, may_answer = threading.Event(), threading.Event()

    def respond(request: dict[str, Any]) -> tuple[int, bytes]:
        received.set()
        assert may_answer.wait(60)
        return 500, b""

    with faulty_service(respond) as url, ThreadPoolExecutor() as threads:
        search = threads.submit(searches.hits, searches.pipeline(url), "anna")
        assert received.wait(60)
        listed = searches.ask("GET", "/_tasks", actions="indices:data/read/search", detailed="true")
        tasks = [task for node in listed["nodes"].values() for task in node["tasks"].items()]
        (id,) = (id for id, task in tasks if searches.index in task["description"])
        searches.ask("POST", f"/_tasks/{id}/_cancel")
        may_answer.set()
        with pytest.raises(TransportError, match="cancelled"):
            search.result(60)


def test_two_processors_rewrite_a_search_once(searches: Searches, service: RealService, pipeline: str) -> None:
    twice = {"request_processors": [{"resift": {"url": service.url, "timeout": "30s"}}] * 2}
    searches.ask("PUT", f"/_search/pipeline/{pipeline}-twice", twice)
    service.requests.clear()
    hits = searches.hits(f"{pipeline}-twice", "anna")
    searches.ask("DELETE", f"/_search/pipeline/{pipeline}-twice")
    assert len(service.requests) == 1
    assert hits == searches.hits(pipeline, "anna")


@contextmanager
def generated_processors(searches: Searches, *other_factories: str) -> Iterator[Callable[[list[str]], None]]:
    """Let the cluster add processors to searches. Yield a function that sets the URLs of the service."""
    if searches.version < (3, 3):
        pytest.skip("OpenSearch has system-generated processors since version 3.3")
    names = ("resift.url", "resift.timeout", "cluster.search.enabled_system_generated_factories")

    def configure(*values: Any) -> None:
        searches.ask("PUT", "/_cluster/settings", {"persistent": dict(zip(names, values, strict=True))})

    try:
        yield lambda urls: configure(urls, "30s", ["resift", *other_factories])
    finally:
        configure(None, None, None)


def test_a_cluster_can_rewrite_searches_without_a_pipeline(searches: Searches, service: RealService) -> None:
    pipeline, path = searches.pipeline(service.url), f"/{searches.index}/_search"
    wanted, body = searches.hits(pipeline, "anna"), {"query": FIRE, "ext": ANNA}
    with generated_processors(searches) as configure:
        configure([service.url])
        assert ids(searches.ask("POST", path, body)) == wanted
        service.requests.clear()
        assert ids(searches.ask("POST", path, {"query": FIRE})) == searches.hits()
        assert service.requests == []
        assert ids(searches.ask("POST", path, body, search_pipeline=pipeline)) == wanted
        assert len(service.requests) == 1  # not by both processors
        configure([])
        assert ids(searches.ask("POST", path, body)) == searches.hits()
        with pytest.raises(TransportError, match="must be an http or https URL"):
            configure(["ftp://127.0.0.1"])


def test_generated_processors_remove_the_section_if_they_send_nothing(
    native_node: NativeNode, searches: Searches, service: RealService
) -> None:
    with generated_processors(searches) as configure:
        lines = shard_log(native_node, searches, searches.index, {"query": FIRE, "ext": ANNA})
        assert all('"ext":{"resift"' in line for line in lines)  # without a processor
        service.requests.clear()
        for urls, session in (([service.url], ""), ([], "anna")):
            configure(urls)
            body = {"query": FIRE, "ext": {"resift": {"session": session}}}
            lines = shard_log(native_node, searches, searches.index, body)
            assert len(lines) == 2  # one for each shard
            assert all('"ext"' not in line for line in lines)
        assert service.requests == []


@pytest.mark.parametrize("has_pipeline", [False, True])
def test_generated_processors_of_resift_and_mmr_run_together(
    native_node: NativeNode, searches: Searches, has_pipeline: bool
) -> None:
    if not searches.has_plugin("opensearch-knn"):
        pytest.skip("the node has no k-NN plugin")
    received = list[dict[str, Any]]()

    def search_opposite(request: dict[str, Any]) -> tuple[int, bytes]:
        received.append(request)
        body = {"query": {"knn": {"v": {"vector": [0.0, 1.0], "k": 3}}}, "size": 2}
        return 200, json.dumps({"body": body, "resift": {"rewritten": True}}).encode()

    vectors, index = {"a": [1.0, 0.1], "b": [1.0, 0.2], "c": [0.1, 1.0]}, f"{searches.index}-mmr"
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    field = {"type": "knn_vector", "dimension": 2, "method": method}
    settings = {"index.knn": True, "number_of_shards": 1, "number_of_replicas": 0}
    body = {
        "query": {"knn": {"v": {"vector": [1.0, 0.0], "k": 3}}},
        "size": 2,
        "ext": {"mmr": {"diversity": 0.0, "candidates": 3}},
    }
    with (
        faulty_service(search_opposite) as url,
        generated_processors(searches, "mmr_over_sample_factory", "mmr_rerank_factory") as configure,
    ):
        configure([url])
        params = {"search_pipeline": searches.pipeline(url)} if has_pipeline else {}
        searches.ask("PUT", f"/{index}", {"settings": settings, "mappings": {"properties": {"v": field}}})
        try:
            for id, vector in vectors.items():
                searches.ask("PUT", f"/{index}/_doc/{id}", {"v": vector}, refresh="true")
            assert ids(searches.ask("POST", f"/{index}/_search", body)) == ["a", "b"]
            assert received == []
            in_session = {**body, "ext": {**body["ext"], **ANNA}}
            assert ids(searches.ask("POST", f"/{index}/_search", in_session, **params)) == ["c", "b"]
            assert len(received) == 1  # not by both processors
            (line,) = shard_log(native_node, searches, index, in_session, **params)
            assert '"size":3' in line  # MMR reranks three candidates
            assert '"resift"' not in line
        finally:
            searches.ask("DELETE", f"/{index}")


def test_a_search_body_may_not_contain_the_processor(searches: Searches, service: RealService) -> None:
    # Otherwise everybody who may search could send the API key of the service to any address.
    own = {"request_processors": [{"resift": {"url": service.url}}]}
    body = {"query": FIRE, "ext": ANNA, "search_pipeline": own}
    with pytest.raises(TransportError, match="use a named pipeline"):
        searches.ask("POST", f"/{searches.index}/_search", body)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "required property is missing"),
        ({"url": []}, "must be a URL, or a list of URLs"),
        ({"url": "file:///etc/passwd"}, r"must be an http or https URL such as .*, but is \[file:///etc/passwd\]"),
        ({"url": "http://anna:secret@127.0.0.1"}, "must be an http or https URL"),
        ({"url": "http://127.0.0.1", "timeout": "soon"}, "soon"),
        ({"url": "http://127.0.0.1", "timeout": "0ms"}, r"must be at least 1ms, but is \[0ms\]"),
        ({"url": "http://127.0.0.1", "key_file": "../secret"}, r"inside the config directory, but is \[../secret\]"),
        ({"url": "http://127.0.0.1", "retries": 3}, r"doesn't support one or more provided configuration parameters"),
    ],
)
def test_a_wrong_configuration_is_refused(searches: Searches, config: dict[str, Any], message: str) -> None:
    with pytest.raises(TransportError, match=message):
        searches.ask("PUT", "/_search/pipeline/wrong", {"request_processors": [{"resift": config}]})


def test_the_api_key_is_read_from_a_file(
    native_node: NativeNode, native_engine: OpenSearchEngine, searches: Searches, model: Model, tmp_path: Path
) -> None:
    if native_node.config is None:
        pytest.skip("writes into the configuration of the node")
    file, key, other = native_node.config / "resift-key", "rsf_" + "a" * 40, "rsf_" + "b" * 40
    with real_service(native_engine, model, tmp_path / "sessions.db", api_key=key) as served:
        pipeline = searches.pipeline(served.url, key_file="resift-key")
        for seconds, (content, counted) in enumerate(
            (
                (None, "unauthorized"),
                (key, "unchanged"),
                (other, "unauthorized"),
                (key, "unchanged"),
            )
        ):
            if content is not None:
                file.write_text(content + "\n")
                file.chmod(0o644)
                # The node compares the times of changes, which the file system may round to hundredths of a second.
                os.utime(file, (seconds, seconds))
            with searches.counting() as counts:
                assert searches.hits(pipeline, "anna") == searches.hits()
            assert counts() == {counted: 1}


def test_a_file_that_contains_no_key_is_not_sent(native_node: NativeNode, searches: Searches) -> None:
    received = list[dict[str, Any]]()
    with faulty_service(lambda body: received.append(body) or (200, b"{}")) as url:
        hits = searches.hits(searches.pipeline(url, key_file="opensearch.yml"), "anna")
    assert hits == searches.hits()
    assert received == []
