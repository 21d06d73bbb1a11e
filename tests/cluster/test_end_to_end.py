"""Tests of all parts together: a plain client, installed pipelines, a session, and a service that does not answer."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from listening import listening
from opensearch_fixture import service_host
from opensearchpy import OpenSearch, RequestError

from resift import Model, WordVectors, build_model
from resift.errors import EngineError
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.cluster.remote_model import RemoteModel
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.doctor import status_rows
from resift.plugin.operations.status_row import StatusRow
from resift.reranker import Config, create_app
from resift.reranker.access.keys import KeyFile
from resift.version import __version__

DOCUMENTS: list[dict[str, Any]] = [
    {
        "title": "Power workers on strike",
        "text": "Workers at the power plant stopped work over pay and job security.",
    },
    {
        "title": "Air strike kills ten",
        "text": "Warplanes bombed a military camp; the army said militants died.",
    },
    {
        "title": "Bank staff to strike",
        "text": "The finance union says bank employees will walk out for a day.",
    },
    {
        "title": "Rocket strike on police post",
        "text": "Helicopter gunships fired missiles after a suicide bombing.",
    },
    {"title": "Airline mechanics", "text": "Maintenance crews may strike; their union wants higher wages."},
    {"title": "Lightning strike", "text": "A storm set a barn on fire; firefighters saved the animals."},
    {
        "title": "Wage talks",
        "text": "Employers and trade unions agreed on a salary increase for the labour force.",
    },
    {"title": "", "text": ""},
    {"title": "", "text": "zzxqj qqvvk"},
    {"text": ["a list", "of texts", None], "pages": 3},
    {"title": "no text field"},
    {"title": 'quotes " and \\ and \n lines', "text": "é 東京 €"},
]
QUERY = {"multi_match": {"query": "strike", "fields": ["title", "text"]}}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFile:
    """Return the API keys of the service."""
    return KeyFile(str(tmp_path_factory.mktemp("keys") / "keys.jsonl"))


@pytest.fixture(scope="module")
def key(keys: KeyFile) -> str:
    """Return the key of the cluster, with which the tests also mark documents."""
    return keys.create("cluster", ["embed", "search", "body", "feedback"])


@pytest.fixture(scope="module")
def other_key(keys: KeyFile, key: str) -> str:
    """Return the key of another caller."""
    return keys.create("other", ["search", "feedback"])


@pytest.fixture(scope="module")
def service(
    cluster: OpenSearchEngine,
    packaged: Model,
    keys: KeyFile,
    key: str,
    other_key: str,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[str]:
    """Yield the URL of a service that the cluster can reach, and that needs a key."""
    store = str(tmp_path_factory.mktemp("service") / "sessions.db")
    config = Config(store=store, alpha=0.5, keys=str(keys.path))
    host = service_host(request.config)
    with listening(create_app(config, engine=cluster, model=packaged), host) as url:
        yield url


@pytest.fixture(scope="module")
def name() -> str:
    """Return a unique name for an installation."""
    return f"resift-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def installed(cluster: OpenSearchEngine, packaged: Model, service: str, name: str, key: str) -> Iterator[Installer]:
    """Yield an installer after installation. Everything is removed at the end."""
    installer = Installer(cluster, Installation(name, packaged, ("title", "text"), service), key)
    installer.install()
    yield installer
    installer.uninstall()


@pytest.fixture(scope="module")
def index(installed: Installer, cluster: OpenSearchEngine, name: str) -> Iterator[str]:
    """Yield an index that a plain client has filled through the ingest pipeline."""
    index, client = f"{name}-docs", cluster.client
    lines: list[dict[str, Any]] = []
    for i, document in enumerate(DOCUMENTS):
        lines += [{"index": {"_id": str(i)}}, document]
    answer = client.bulk(body=lines, index=index, params={"pipeline": f"{name}-ingest", "refresh": "true"})
    assert not answer["errors"], answer
    yield index
    client.indices.delete(index=index)


def search(client: OpenSearch, index: str, pipeline: str | None, **body: Any) -> list[dict[str, Any]]:
    """Return the hits of a plain ``_search`` request."""
    params = {"search_pipeline": pipeline} if pipeline else {}
    hits: list[dict[str, Any]] = client.search(index=index, body={"query": QUERY, **body}, params=params)["hits"][
        "hits"
    ]
    return hits


def ids(hits: list[dict[str, Any]]) -> list[str]:
    """Return the ids of hits."""
    return [hit["_id"] for hit in hits]


def test_status_reports_the_service(
    installed: Installer, cluster: OpenSearchEngine, vectors: WordVectors, nowhere: str
) -> None:
    def row(installer: Installer) -> StatusRow:
        return next(row for row in status_rows(installer) if row.kind == "service")

    def seen(installer: Installer) -> str:
        return row(installer).state

    assert re.fullmatch(rf"{re.escape(__version__)}, \d+ ms", seen(installed))
    other = Installer(cluster, Installation(installed.name, build_model("mean", vectors), ("text",), installed.url))
    assert seen(other) == f"other model {installed.model.hash}"
    assert f"resift serve --model DIR with the installed model mean ({other.model.hash}), or" in row(other).fix
    assert seen(Installer(cluster, Installation("resift-x", installed.model, ("text",), nowhere))) == "no answer here"


def test_a_plain_client_gets_the_same_vectors_as_resift_index(
    index: str, cluster: OpenSearchEngine, packaged: Model, tmp_path: Path
) -> None:
    own = f"{index}-own"
    records = [Record("f", i, str(i), document) for i, document in enumerate(DOCUMENTS)]
    assert Indexer(cluster, packaged, own, DeadLetters(tmp_path / "d")).run(records, ["title", "text"]).refused == 0
    wanted = [str(i) for i in range(len(DOCUMENTS))]
    by_client, by_resift = cluster.documents(index, wanted), cluster.documents(own, wanted)
    cluster.drop(own)
    for id, document in enumerate(DOCUMENTS):
        source, vector = by_client[str(id)]
        assert source == document == by_resift[str(id)][0]
        np.testing.assert_allclose(vector, by_resift[str(id)][1], rtol=0, atol=1e-7)
    for empty in ("7", "8"):
        assert by_client[empty][1] is not None
        assert not by_client[empty][1].any()  # type: ignore[union-attr]
    assert cluster.info(index).model == packaged.hash


def test_uninstall_is_refused_while_an_index_needs_the_installation(
    index: str, cluster: OpenSearchEngine, installed: Installer
) -> None:
    setting = "index.search.default_pipeline"
    cluster.client.indices.put_settings(index=index, body={setting: f"{installed.name}-hybrid"})
    with pytest.raises(EngineError, match=f"{setting} of index {index}"):
        installed.uninstall()
    cluster.client.indices.put_settings(index=index, body={setting: None})
    # the next install creates a pipeline for an index that a client has created from the template
    own = f"resift-{index}"

    def found() -> dict[str, StatusRow]:
        of_index = [row for row in status_rows(installed) if row.name == own]
        assert [row.kind for row in of_index] == ["search pipeline", "ingest pipeline"]
        return {row.name: row for row in status_rows(installed) if row.name.startswith(installed.name)} | {
            own: of_index[0]
        }

    rows = found()
    assert (rows[own].state, rows[own].fix) == ("missing", "resift install")
    assert f"create search pipeline {own}" in installed.install()
    rows = found()
    assert rows[own].state == "ok"
    assert {row.state for row in rows.values()} == {"ok"}


def test_hybrid_search(index: str, cluster: OpenSearchEngine, name: str) -> None:
    assert "6" not in ids(search(cluster.client, index, None))
    neural = {"neural": {"resift_vector": {"query_text": "strike of the trade unions", "k": 5}}}
    hits = search(cluster.client, index, f"{name}-hybrid", query={"hybrid": {"queries": [QUERY, neural]}})
    assert "6" in ids(hits)
    assert {"0", "2", "4"} <= set(ids(hits))


def test_a_hybrid_query_with_a_pipeline_is_not_rewritten(index: str, name: str, service: str, key: str) -> None:
    neural = {"neural": {"resift_vector": {"query_text": "wages", "k": 5}}}
    query = {"hybrid": {"queries": [QUERY, neural]}}
    for pipeline, status in (({"search_pipeline": f"{name}-hybrid"}, 200), ({}, 400)):
        body = {"index": index, "query": {"query": query, **pipeline}}
        answer = requests.post(f"{service}/v1/search", json=body, headers={"X-Api-Key": key}, timeout=60)
        assert answer.status_code == status, answer.text
        if status == 200:
            nothing = {"outcome": "nothing_to_add", "reason": "there is nothing to add"}
            assert answer.json()["resift"] == {"reranked": False, **nothing}
        else:
            assert re.search("model_?id", answer.json()["error"]["message"], re.IGNORECASE)


def test_rerank_pipeline(index: str, cluster: OpenSearchEngine, name: str, packaged: Model) -> None:
    text = "industrial action of trade unions"
    hits = search(cluster.client, index, f"{name}-rerank", ext={"rerank": {"query_context": {"query_text": text}}})
    assert set(ids(hits[:3])) == {"0", "2", "4"}
    assert sorted(ids(hits)) == sorted(ids(search(cluster.client, index, None)))


def test_an_index_that_does_not_map_vectors_is_refused(
    installed: Installer, cluster: OpenSearchEngine, name: str
) -> None:
    """Dynamic mapping would index the vector as plain numbers, which no search uses, without an error."""
    index = f"uncovered-{name}"
    try:
        with pytest.raises(RequestError, match="resift_needs_mapping"):
            cluster.client.index(index=index, id="1", body={"text": "fire"}, params={"pipeline": f"{name}-ingest"})
        assert not cluster.client.exists(index=index, id="1")
    finally:
        cluster.drop_if_exists(index)


def test_stored_scripts_compute_the_models_scores(
    index: str, cluster: OpenSearchEngine, name: str, packaged: Model
) -> None:
    query = packaged.encode(["trade union wages"])[0]
    mask = np.linspace(0, 2, packaged.dim).astype(np.float32)
    vectors = {
        id: vector
        for id, (_, vector) in cluster.documents(index, [str(i) for i in range(7)]).items()
        if vector is not None
    }
    stacked = np.stack(list(vectors.values()))
    jaccard = Model("j", packaged.table, "max", "jaccard")
    for weights in (None, mask):
        params = {
            "field": "resift_vector",
            "query": query.tolist(),
            **({} if weights is None else {"mask": weights.tolist()}),
        }
        for script, expected in (
            ("masked-cosine", 1 + packaged.score(query, stacked, weights)),
            ("fuzzy-jaccard", jaccard.score(query, stacked, weights)),
        ):
            wanted = dict(zip(vectors, expected, strict=True))
            stored = {"script": {"id": f"{name}-{script}", "params": params}}
            only = {"ids": {"values": list(vectors)}}
            scored = search(cluster.client, index, None, query={"script_score": {"query": only, **stored}})
            assert {hit["_id"]: hit["_score"] for hit in scored} == pytest.approx(wanted, abs=1e-5)
            rescore = {
                "window_size": 10,
                "query": {
                    "rescore_query": {"script_score": {"query": {"match_all": {}}, **stored}},
                    "query_weight": 0,
                },
            }
            rescored = search(cluster.client, index, None, query=only, rescore=rescore)
            assert {hit["_id"]: hit["_score"] for hit in rescored} == pytest.approx(wanted, abs=1e-5)


def test_an_unavailable_service(
    index: str, cluster: OpenSearchEngine, packaged: Model, installed: Installer, nowhere: str
) -> None:
    name = f"resift-{uuid.uuid4().hex[:8]}"
    away = Installer(cluster, Installation(name, packaged, ("title", "text"), nowhere))
    away.install()
    try:
        plain = search(cluster.client, index, None)
        ext = {"ml_inference": {"query": "strike", "session": "s1"}}
        # the pipeline of the index calls the other installation, which has the same model
        path = f"/_search/pipeline/resift-{index}"
        body = away.cluster.get_or_none(path, f"resift-{index}")
        asked = RemoteModel(away.cluster, "rewrite", away.template_values).model_id
        body["request_processors"][0]["ml_inference"]["model_id"] = asked
        away.cluster.request("PUT", f"{path}-away", body)
        hits = search(cluster.client, index, f"resift-{index}-away", ext=ext)
        away.cluster.request("DELETE", f"{path}-away")
        assert [(hit["_id"], hit["_score"]) for hit in hits] == [(hit["_id"], hit["_score"]) for hit in plain]
        lines = [{"index": {"_id": "1"}}, {"text": "fire"}]
        answer = cluster.client.bulk(body=lines, index=f"{name}-docs", params={"pipeline": f"{name}-ingest"})
        assert answer["errors"]
        assert answer["items"][0]["index"]["status"] >= 400
    finally:
        away.uninstall()
        cluster.drop_if_exists(f"{name}-docs")
