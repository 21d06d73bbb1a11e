"""Tests of attaching different kinds of indices: with an HNSW index, with own vectors, and behind aliases."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attached_index import Index, other, own, run, shop
from engine_documents import CONTENT_WORDS
from flask.testing import FlaskClient
from service_app import ids, post

from resift import Model, WordVectors, load_model
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations import attach_vectors as attaching
from resift.query.dsl import COMPACT_FIELD
from resift.reranker import Config, create_app
from resift_lab.training.gate import GateResult

__all__ = ["other", "own", "shop"]

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"settings": {"index.blocks.write": True}}, "index.blocks.write is set", "null"),
    ({"settings": {"index.blocks.read_only_allow_delete": True}}, "read_only_allow_delete is set", "free disk space"),
    ({"mappings": {"_source": {"enabled": False}}}, "stores no _source", "the original data"),
    ({"mappings": {"_source": {"excludes": ["x"]}}}, "stores only a part of _source", "the whole _source"),
    ({"mappings": {"properties": {"n": {"type": "long"}}}}, "has no field title", "its text fields: none"),
]


@pytest.fixture
def made(cluster: OpenSearchEngine) -> Iterator[Any]:
    """Return a function that creates an index with documents. The indices are deleted at the end."""
    names: list[str] = []
    rest = Cluster(cluster)

    def make(body: dict[str, Any], documents: list[dict[str, Any]] | None = None, name: str = "") -> str:
        name = name or f"made-{uuid.uuid4().hex[:8]}"
        names.append(name)
        rest.request("PUT", f"/{name}", body)
        lines = [line for n, one in enumerate(documents or []) for line in ({"index": {"_id": str(n)}}, one)]
        if lines:
            text = "\n".join(map(json.dumps, lines)) + "\n"
            assert not rest.request("POST", f"/{name}/_bulk", text, refresh="true")["errors"]
        return name

    yield make
    for name in names:
        rest.request("PUT", f"/{name}/_settings", {"index.blocks.read_only_allow_delete": None})
        cluster.drop(name)


TEXTS = {"title": {"type": "text"}, "text": {"type": "text"}}


@pytest.mark.parametrize(("body", "message", "expected"), REFUSED, ids=[one[1] for one in REFUSED])
def test_indices_that_cannot_be_attached_are_refused_before_any_change(
    made: Any,
    cluster: OpenSearchEngine,
    own: tuple[Model, str],
    opensearch_url: str,
    body: dict[str, Any],
    message: str,
    expected: str,
) -> None:
    mapped = body.get("mappings", {})
    name = made({**body, "mappings": {"properties": TEXTS, **mapped}})
    before = Cluster(cluster).request("GET", f"/{name}/_mapping")
    said = run("attach", name, opensearch_url, "--model", own[1], "--fields", "title", status=2).output
    assert message in said
    assert expected in said
    assert Cluster(cluster).request("GET", f"/{name}/_mapping") == before


def test_names_that_stand_for_nothing_or_for_what_nobody_may_write(
    made: Any, cluster: OpenSearchEngine, own: tuple[Model, str], opensearch_url: str
) -> None:
    name = made({"mappings": {"properties": TEXTS}})

    def refused(name: str, *flags: str) -> str:
        return run("attach", name, opensearch_url, *(flags or ("--model", own[1])), status=2).output

    assert "no such index" in refused("none-of-these")
    assert "no index 'none-of-*'" in refused("none-of-*")
    for nothing in ("", f"{name},", " "):  # OpenSearch takes these names for all indices
        assert f"index is {nothing!r}" in refused(nothing)
        assert f"index is {nothing!r}" in run("detach", nothing, opensearch_url, status=2).output
    assert "--no-adapt is used with --model" in refused(name, "--no-adapt", "--model", own[1])
    assert "--field v is used without --model" in refused(name, "--field", "v")
    assert "'title' is text with dimension None in index" in refused(name, "--field", "title", "--model", own[1])
    assert "has no field nope" in refused(name, "--fields", "nope", "--model", own[1])
    numbers = made({"mappings": {"properties": {**TEXTS, "price": {"type": "double"}, "sold": {"type": "date"}}}})
    told = refused(numbers, "--fields", "title,price,sold", "--model", own[1])
    assert "in these fields: price is double, sold is date" in told
    assert "was created by Resift" in _detached_own(cluster, own[0], opensearch_url)
    Cluster(cluster).request("POST", f"/{name}/_close")
    assert "is closed" in refused(name)


def test_unsearchable_texts_are_not_text_fields_of_an_index(
    made: Any, cluster: OpenSearchEngine, own: tuple[Model, str], opensearch_url: str
) -> None:
    texts = {"title": "Fire in the hills", "kept": "Crews fight the fire in the forest west of the city."}
    mapped = {"properties": {**TEXTS, "kept": {"type": "text", "index": False}}}
    name = made({"mappings": mapped}, [texts])
    told = run("attach", name, opensearch_url, "--fields", "title,kept", "--model", own[1], status=2).output
    assert "in these fields: kept is not indexed" in told
    assert "its text fields: text, title\n" in told
    planned = run("attach", name, opensearch_url, "--model", own[1], "--dry-run").stdout
    assert "  texts       title\n" in planned


def _detached_own(cluster: OpenSearchEngine, model: Model, url: str) -> str:
    name = f"made-{uuid.uuid4().hex[:8]}"
    cluster.create(name, ["text"], model)
    try:
        return run("detach", name, url, status=2).output
    finally:
        cluster.drop(name)


def test_a_k_nn_index_gets_an_hnsw_index_and_keeps_fields_with_the_same_name(
    made: Any, cluster: OpenSearchEngine, own: tuple[Model, str], opensearch_url: str
) -> None:
    model, folder = own
    # the libraries of the default engine, faiss, are missing here
    method = {"name": "hnsw", "engine": "lucene", "space_type": "l2"}
    theirs = {"resift_vector": {"type": "knn_vector", "dimension": 2, "method": method}}
    body = {"settings": {"index.knn": True}, "mappings": {"properties": {**TEXTS, **theirs}}}
    documents = [{"text": word, "resift_vector": [1, 2]} for word in CONTENT_WORDS]
    name = made(body, documents)
    field = f"resift_vector_{model.hash[:8]}"
    run("attach", name, opensearch_url, "--model", folder, "--fields", "text", "--graph")
    properties = Cluster(cluster).request("GET", f"/{name}/_mapping")[name]["mappings"]["properties"]
    assert properties[field]["method"]["engine"] == "lucene"
    query = {"knn": {field: {"vector": model.encode(["forest"])[0].tolist(), "k": 1}}}
    assert cluster.search(name, {"query": query, "size": 1}).hits[0]["_source"]["text"] == "forest"
    run("detach", name, opensearch_url)
    hit = Cluster(cluster).request("GET", f"/{name}/_doc/3")["_source"]
    assert hit == documents[3]


def test_existing_vectors_of_an_index_are_used_and_not_changed(
    made: Any, cluster: OpenSearchEngine, own: tuple[Model, str], opensearch_url: str
) -> None:
    model, folder = own
    texts = [" ".join(CONTENT_WORDS[i : i + 4]) for i in range(10)]
    vectors = model.encode(texts)
    method = {"name": "hnsw", "engine": "lucene", "space_type": "innerproduct"}
    mapped = {**TEXTS, "deep": {"properties": {"dense": {"type": "knn_vector", "dimension": 8, "method": method}}}}
    documents = [
        {"text": text, "deep": {"dense": vector.tolist()}} for text, vector in zip(texts, vectors, strict=True)
    ]
    name = made({"settings": {"index.knn": True}, "mappings": {"properties": mapped}}, documents)
    before = Cluster(cluster).request("GET", f"/{name}/_mapping"), Cluster(cluster).request("GET", f"/{name}/_doc/2")
    told = run("attach", name, opensearch_url, "--model", folder, "--field", "deep.dense", "--json")
    (report,) = json.loads(told.stdout)["indices"]
    assert (report["documents"], report["vector_field"]) == (0, "deep.dense")
    info = cluster.info(name).require_model(model)
    assert (info.vector_field, info.fields) == ("deep.dense", ("text",))
    run("detach", name, opensearch_url)
    after = Cluster(cluster).request("GET", f"/{name}/_mapping"), Cluster(cluster).request("GET", f"/{name}/_doc/2")
    assert after[1] == before[1]
    assert after[0][name]["mappings"].pop("_meta") == {}
    assert after[0] == before[0]


@pytest.mark.parametrize("field", ["resift_vector", "dense"])
def test_approximate_k_nn_is_not_used_without_an_hnsw_index(
    made: Any, cluster: OpenSearchEngine, own: tuple[Model, str], opensearch_url: str, tmp_path: Path, field: str
) -> None:
    model, folder = own
    # for vectors in the index's own field, the mapping does not tell whether they have an HNSW index
    dense = {"dense": {"type": "knn_vector", "dimension": model.dim}}
    documents = [{"text": word, "dense": model.encode_one(word).tolist()} for word in CONTENT_WORDS]
    flags = ["--model", folder, "--fields", "text", *(["--field", "dense"] if field == "dense" else [])]
    plain = made({"mappings": {"properties": {**TEXTS, **dense}}}, documents)
    planned = run("attach", plain, opensearch_url, *flags, "--dry-run").stdout
    assert ("searches fail for up to a second" in planned) is (cluster.ping() == "opensearch 2.19.1")
    run("attach", plain, opensearch_url, *flags)
    method = {"name": "hnsw", "engine": "lucene", "space_type": "innerproduct"}
    mapped = {**TEXTS, "dense": {**dense["dense"], "method": method}}
    graph = made({"settings": {"index.knn": True}, "mappings": {"properties": mapped}}, documents)
    run("attach", graph, opensearch_url, *flags, *(["--graph"] if field != "dense" else []))

    def client(knn: int) -> FlaskClient:
        config = Config(store=str(tmp_path / "sessions.db"), knn=knn)
        return create_app(config, engine=cluster, model=model).test_client()

    def rewritten(index: str, **asked: Any) -> tuple[bool, dict[str, Any]]:
        body = {"query": {"match": {"text": "fire"}}, "ext": {"ml_inference": {"widen": True, **asked}}}
        answer = post(wide, "/v1/rewrite", index=index, body=body)
        assert cluster.search(index, {name: answer["body"][name] for name in ("query", "rescore")}).hits
        return '"knn"' in json.dumps(answer["body"]["query"]), answer["resift"]

    wide, narrow = client(3), client(0)
    asked = {"query": "fire", "index": plain}
    assert len(ids(post(wide, "/v1/search", query="fire", index=graph))) > 1
    assert rewritten(graph, knn=3) == rewritten(graph) == (True, {"rewritten": True, "outcome": "rewritten"})
    assert rewritten(plain) == (False, {"rewritten": True, "outcome": "rewritten"})
    answers = [post(one, "/v1/search", **asked) for one in (wide, narrow)]
    assert answers[0]["hits"] == answers[1]["hits"]
    assert answers[0]["resift"] == answers[1]["resift"]
    # a search of several indices would leave out the hits of an index without an HNSW index
    for index in (plain, *([f"{plain},{graph}"] if field == "dense" else [])):
        said = post(wide, "/v1/search", query="fire", index=index, knn=3)
        assert len(ids(said)) == index.count(",") + 1
        reason = f"knn: the vectors of {index!r} have no HNSW index (resift attach --vectors --graph)"
        assert (said["resift"]["reranked"], said["resift"]["reason"]) == (True, reason)
        assert rewritten(index, knn=3) == (False, {"rewritten": True, "outcome": "in_part", "reason": reason})


@pytest.fixture
def stream(cluster: OpenSearchEngine) -> Iterator[str]:
    """Yield the name of a data stream with two backing indices. It is the only stream with its prefix."""
    rest, name = Cluster(cluster), f"logs-{uuid.uuid4().hex[:8]}"
    template = {
        "index_patterns": [f"{name}-*"],
        "data_stream": {},
        "template": {"mappings": {"properties": TEXTS}},
    }
    rest.request("PUT", f"/_index_template/{name}", {**template, "priority": 7})
    for n, word in enumerate(CONTENT_WORDS):
        body = {"@timestamp": "2030-01-01", "text": f"{word} and {word} in the {n}"}
        rest.request("POST", f"/{name}-a/_doc", body, op_type="create")
        if n == 5:
            rest.request("POST", f"/{name}-a/_rollover")
    yield f"{name}-a"
    rest.request("DELETE", f"/_data_stream/{name}-a")
    rest.request("DELETE", f"/_index_template/{name}")


def test_a_data_stream_and_a_pattern_stand_for_their_indices(
    stream: str, cluster: OpenSearchEngine, own: tuple[Model, str], opensearch_url: str
) -> None:
    run("attach", f"{stream[:-1]}*", opensearch_url, "--model", own[1])
    backing = cluster.resolve(stream)
    assert len(backing) == 2
    assert cluster.info(stream).model == own[0].hash
    for index in backing:
        assert all(one.vector is not None for one in cluster.scan(index, COMPACT_FIELD))
    Cluster(cluster).request("POST", f"/{stream}/_rollover")
    (new,) = set(cluster.resolve(stream)) - set(backing)
    assert f"{new}: has no vectors from Resift, and is not changed" in run("detach", stream, opensearch_url).output
    assert cluster.info(stream).model is None
    assert "is not attached" in run("detach", stream, opensearch_url, status=2).output


def test_a_model_is_adapted_to_the_documents_only_once(
    here: Path, shop: Index, vectors: WordVectors, opensearch_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # these word vectors are smaller than the packaged ones, so the test is faster
    monkeypatch.setattr(attaching, "load_vectors", lambda name: vectors)
    # the shop has too few documents for a verdict
    monkeypatch.setattr(GateResult, "should_replace", lambda verdict, other: True)
    planned = run("attach", shop.name, opensearch_url, "--fields", "title,text", "--dry-run").stdout
    assert f"trained on these documents in seconds or minutes, and saved in {shop.name}-model" in planned
    report = json.loads(run("attach", shop.name, opensearch_url, "--fields", "title,text", "--json").stdout)
    learned = load_model(f"{shop.name}-model")
    assert (report["model"], learned.dim) == (learned.hash, 8)
    again = run("attach", shop.name, opensearch_url)
    assert "adapting" not in again.output
    assert shop.engine.info(shop.name).model == learned.hash
    shutil.rmtree(f"{shop.name}-model")
    lost = run("attach", shop.name, opensearch_url, status=2).output
    assert f"has vectors of model mean ({learned.hash}), which is not the model in {shop.name}-model" in lost


def test_documents_that_cannot_be_updated_are_named_and_nothing_is_switched_without_vectors(
    made: Any, cluster: OpenSearchEngine, own: tuple[Model, str], opensearch_url: str
) -> None:
    limit = "index.mapping.nested_objects.limit"
    mapped = {**TEXTS, "parts": {"type": "nested", "properties": {"says": {"type": "text"}}}}
    large = {"text": "fire in the forest", "parts": [{"says": "smoke"}] * 3}
    body = {"mappings": {"properties": mapped}}
    name, rest = made(body, [large, large]), Cluster(cluster)
    rest.request("PUT", f"/{name}/_settings", {limit: 2})
    flags = ["--model", own[1], "--fields", "text"]
    told = run("attach", name, opensearch_url, *flags, status=3).output
    assert "refused: 0: " in told
    assert "searches are not changed" in told
    assert cluster.info(name).model is None
    rest.request("PUT", f"/{name}/_doc/small", {"text": "rain"}, refresh="true")
    report = json.loads(run("attach", name, opensearch_url, *flags, "--json", status=3).stdout)["indices"][0]
    assert (report["documents"], report["refused"], report["missing"]) == (1, 2, 2)
    assert cluster.info(name).model == own[0].hash
    run("detach", name, opensearch_url)


def test_default_pipelines_come_with_what_searches_of_several_indices_need(
    made: Any, cluster: OpenSearchEngine, own: tuple[Model, str], opensearch_url: str
) -> None:
    mapped = {"properties": {"text": {"type": "text"}}}
    alias = f"several-{uuid.uuid4().hex[:8]}"
    bodies = [{"settings": {"number_of_shards": n}, "mappings": mapped, "aliases": {alias: {}}} for n in (1, 2)]
    for body in bodies:
        made(body, [{"text": "fire in the forest"}])

    def told(name: str, *flags: str) -> str:
        return run("attach", name, opensearch_url, "--model", own[1], "--dry-run", *flags).stdout

    assert told(alias, "--default-pipelines").count(f"resift-{alias}, instead of none") == 2
    assert f"send search_pipeline=resift-{alias}" in told(alias)
