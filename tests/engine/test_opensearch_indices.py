"""Indices that the engine makes on OpenSearch, as other clients write to them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_documents import ids
from flask.testing import FlaskClient
from service_app import app, client, config, filled, post

from resift import Model
from resift.contracts.documents import Document
from resift.errors import EngineError, IndexNotFound
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import SETTINGS, mappings
from resift.query.dsl import GUARD_FIELD, Body

__all__ = ["app", "client", "config", "filled"]


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_what_the_ingest_pipeline_writes_is_taken(engine: OpenSearchEngine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    engine.client.index(index=index, id="1", body={"text": "fire", GUARD_FIELD: [0, {}]}, refresh=True)
    assert ids(engine, index, {"match": {"text": "fire"}}) == ["1"]
    assert engine.get(index, "1")[0] == {"text": "fire"}


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_a_closed_index_is_named(engine: OpenSearchEngine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    engine.client.indices.close(index=index)
    with pytest.raises(EngineError, match=f"index '{index}' is closed") as refused:
        engine.search(index, {"query": {"match": {"text": "fire"}}})
    assert (refused.value.status, refused.value.expected) == (400, f"POST /{index}/_open first")


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_other_texts_are_whole_values_however_long(engine: OpenSearchEngine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    tags = {"1": "Blue sky", "2": "é" * 8191, "3": "é" * 8192}
    for id, tag in tags.items():
        engine.client.index(index=index, id=id, body={"text": "fire", "tag": tag}, refresh=True)
    for id, found in (("1", ["1"]), ("2", ["2"]), ("3", [])):
        assert ids(engine, index, {"term": {"tag": tags[id]}}) == found
    assert ids(engine, index, {"term": {"tag": "blue"}}) == []


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_vectors_find_documents_that_are_routed(engine: OpenSearchEngine, index: str, model: Model) -> None:
    body = {"settings": {**SETTINGS, "number_of_shards": 5}, "mappings": mappings(["text"], model)}
    engine.client.indices.create(index=index, body=body)
    for number in range(5):
        engine.client.index(index=index, id=f"{number}", body={"text": "fire"}, routing=f"r{number}")
    engine.refresh(index)
    vector = model.encode_one("fire")
    assert not engine.put_vectors(index, [(one.id, one.version, vector) for one in engine.scan(index)])
    engine.refresh(index)
    stored = list(engine.scan(index))
    assert sorted(one.id for one in stored) == ["0", "1", "2", "3", "4"]
    for one in stored:
        np.testing.assert_allclose(one.vector, vector, atol=1e-3)


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_a_pattern_without_matching_indices_is_an_error(engine: OpenSearchEngine) -> None:
    with pytest.raises(IndexNotFound, match=r"no index 'nothing-at-all-\*'"):
        engine.info("nothing-at-all-*")


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
@pytest.mark.parametrize("mapping", [{"type": "date"}, {"type": "integer"}, {"type": "text", "index": False}], ids=str)
def test_another_index_whose_fields_take_no_words_is_searched_beside(
    engine: OpenSearchEngine, filled: str, client: FlaskClient, mapping: dict[str, Any]
) -> None:
    other = f"{filled}-other"
    engine.client.indices.create(index=other, body={"mappings": {"properties": {"text": mapping}}})
    try:
        engine.client.index(index=other, id="only", body={"text": "2020", "tag": "fire"}, refresh=True)
        names = f"{filled},{other}"
        post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"])
        for query in ("fire in the bush", {"match_all": {}}, {"match": {"tag": "fire"}}):
            for session in ({}, {"session": "a"}):
                answer = post(client, "/v1/search", index=names, query=query, **session)
                assert answer["_shards"]["failed"] == 0
                assert query != {"match_all": {}} or "only" in [hit["_id"] for hit in answer["hits"]["hits"]]
    finally:
        engine.client.indices.delete(index=other)


@pytest.fixture(scope="module")
def named(cluster: OpenSearchEngine, packaged: Model) -> Iterator[tuple[OpenSearchEngine, str]]:
    """An index of texts with names, which the analyser ``standard`` has cut too, in ``title``."""
    index = f"names-{uuid.uuid4().hex[:8]}"
    mapped = mappings(["text"], packaged)
    mapped["properties"]["title"] = {"type": "text", "analyzer": "resift_standard"}
    cluster.client.indices.create(index=index, body={"settings": SETTINGS, "mappings": mapped})
    texts = ["os.path.join", "OS path", "a path of the os", "read_csv", "to_csv", "is_not"]
    rows = [Document(f"{n}", {"title": text, "text": text}) for n, text in enumerate(texts, 1)]
    assert not cluster.bulk(index, rows)
    cluster.refresh(index)
    yield cluster, index
    cluster.drop(index)


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ({"match": {"text": "os.path"}}, ["1", "2", "3"]),
        ({"match_phrase": {"text": "os.path"}}, ["1", "2"]),
        ({"query_string": {"query": '"os.path"', "default_field": "text"}}, ["1", "2"]),
        ({"query_string": {"query": "os.pa*", "default_field": "text"}}, []),
        ({"simple_query_string": {"query": "os.pa*", "fields": ["text"]}}, []),
        ({"prefix": {"text": "os.pa"}}, []),
        ({"prefix": {"text": "pa"}}, ["1", "2", "3"]),
        ({"wildcard": {"text": "pa*"}}, ["1", "2", "3"]),
        ({"match_phrase_prefix": {"text": "os.pa"}}, ["1", "2"]),
        ({"terms": {"text": ["os.path", "csv"]}}, ["4", "5"]),
        ({"match": {"text": "to_csv"}}, ["4", "5"]),
        ({"match": {"text": "is_not"}}, []),
        ({"match": {"title": "to_csv"}}, ["4", "5"]),
        ({"match": {"title": "is_not"}}, ["6"]),
    ],
)
def test_how_clauses_find_compound_names(named: tuple[OpenSearchEngine, str], clause: Body, found: list[str]) -> None:
    assert sorted(ids(*named, clause)) == found


def test_an_index_of_an_earlier_version_gets_the_new_words(
    cluster: OpenSearchEngine, opensearch_url: str, packaged: Model, tmp_path: Path
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "indexing.md").read_text("utf-8")
    (commands,) = re.findall(r"### Change an index to split names.*?```\n(.*?)```", page, re.DOTALL)
    old = f"old-{uuid.uuid4().hex[:8]}"
    before = mappings(["title", "text"], packaged)
    before["properties"] |= {name: {"type": "text", "analyzer": "english"} for name in ("title", "text")}
    cluster.client.indices.create(index=old, body={"settings": {"index.knn": True}, "mappings": before})
    try:
        source = {"title": "os.path.join", "text": "read_csv", "year": 2001}
        assert not cluster.bulk(old, [Document("1", source, packaged.encode_one("os path join read csv"))])
        cluster.refresh(old)
        script = commands.replace("http://localhost:9200", opensearch_url).replace("news", old)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path}
        done = subprocess.run(
            ["bash", "-e", "-c", script], capture_output=True, text=True, timeout=600, env=env, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert f"1 documents in index {old}-2: 0 without a vector, 0 with a stale one" in done.stdout
        cut = cluster.client.indices.analyze(index=f"{old}-2", body={"field": "text", "text": "os.path"})
        assert [one["token"] for one in cut["tokens"]] == ["os", "path"]
        for word in ("path", "csv"):
            assert ids(cluster, f"{old}-2", {"multi_match": {"query": word, "fields": ["title", "text"]}}) == ["1"]
        assert cluster.get(f"{old}-2", "1")[0] == source
        assert ids(cluster, old, {"match": {"title": "path"}}) == []
    finally:
        cluster.client.indices.delete(index=f"{old},{old}-2", params={"ignore_unavailable": "true"})
