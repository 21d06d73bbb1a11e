"""Tests of changing the model of an attached index and changing it back, while clients search and write."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attached_index import Index, assert_right, other, own, own_model, routed, run, shop, source
from flask import Response
from listening import listening
from opensearch_fixture import service_host

from resift import Model, WordVectors
from resift.errors import EngineError
from resift.ingest.verify import verify
from resift.plugin.cluster.index_pipelines import pipeline_kinds, remove_ingest_pipeline
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.doctor import status_rows
from resift.query.dsl import document_text
from resift.reranker import Config, create_app
from resift.vectors.compact import decode_vector

__all__ = ["other", "own", "shop"]

PAUSE = 0.03  # time between two searches of a client, in seconds
QUERY = {"query": {"multi_match": {"query": "forest river", "fields": ["text", "everything"]}}, "size": 5}


@dataclass
class Served:
    """A model, its folder, a service with the model, and an installation of it."""

    model: Model
    folder: str
    installer: Installer
    away: bool = False  # if True, the service answers 503

    @property
    def field(self) -> str:
        """Name of the model's vector field in an index that had another model before."""
        return f"resift_vector_int8_{self.model.hash[:8]}"


def serve(engine: OpenSearchEngine, found: tuple[Model, str], host: str, store: Path) -> Iterator[Served]:
    """Yield a model with a service and an installation."""
    model, folder = found
    app = create_app(Config(store=str(store)), engine=engine, model=model)
    with listening(app, host) as url:
        served = Served(
            model, folder, Installer(engine, Installation(f"own-{uuid.uuid4().hex[:8]}", model, ("text",), url))
        )

        @app.before_request
        def refuse() -> Response | None:
            return Response(status=503) if served.away else None

        served.installer.install()
        yield served
        served.installer.uninstall()


@pytest.fixture(scope="module")
def old(
    cluster: OpenSearchEngine,
    own: tuple[Model, str],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    """Yield the first model of the index."""
    yield from serve(cluster, own, service_host(request.config), tmp_path_factory.mktemp("old") / "sessions.db")


@pytest.fixture(scope="module")
def new(
    cluster: OpenSearchEngine,
    other: tuple[Model, str],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    """Yield the model to which the index changes."""
    yield from serve(cluster, other, service_host(request.config), tmp_path_factory.mktemp("new") / "sessions.db")


class Searches:
    """A client that searches repeatedly inside a ``with`` block. ``failed`` collects its errors."""

    def __init__(self, index: Index) -> None:
        self.index, self.count, self.rewritten, self.failed = index, 0, 0, []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Searches:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                hits = search(self.index)
                self.rewritten += all("resift" in hit.get("matched_queries", ()) for hit in hits)
                self.count += 1
                time.sleep(PAUSE)
            except Exception as error:
                self.failed.append(error)


def search(index: Index) -> list[dict[str, Any]]:
    """Return the hits of a plain client, which does not use Resift's API."""
    hits: list[dict[str, Any]] = index.cluster.request("POST", f"/{index.name}/_search", QUERY)["hits"]["hits"]
    assert hits
    return hits


def asked_model(index: Index) -> str:
    """Return the hash of the model in the search pipeline of the index."""
    name = f"resift-{index.name}"
    (processor,) = index.cluster.get_or_none(f"/_search/pipeline/{name}", name)["request_processors"]
    return str(processor["ml_inference"]["model_config"]["model"])


def write(index: Index, *numbers: int) -> None:
    """Write documents as a client does, and check that none is refused."""
    lines = []
    for n in numbers:
        lines += [json.dumps({"index": {"_id": str(n), **routed(n)}}), json.dumps(source(n))]
    assert {item["status"] for item in index.bulk(lines)} <= {200, 201}
    index.cluster.request("POST", f"/{index.name}/_refresh")


def vector(index: Index, n: int, field: str) -> Any:
    """Return the stored vector of a document, and its other fields."""
    found = index.cluster.request("GET", f"/{index.name}/_doc/{n}", **routed(n))["_source"]
    assert found["stamped"] is True  # through the index's own default pipeline
    assert "resift_text" not in found
    return found.get(field)


def test_a_model_is_changed_and_changed_back_under_searches(
    shop: Index, old: Served, new: Served, opensearch_url: str
) -> None:
    name = shop.name
    run("attach", name, opensearch_url, "--model", old.folder, "--default-pipelines")
    settings = shop.settings()
    assert settings["index.final_pipeline"] == settings["index.search.default_pipeline"] == f"resift-{name}"
    assert settings["index.default_pipeline"] == f"{name}-own"
    fields = list(shop.engine.info(name).fields)
    write(shop, 7, 8, 10_001, 10_002)
    assert_right(shop, old.model, fields)
    assert not any("resift_vector_int8" in hit["_source"] for hit in search(shop))
    assert "resift_vector_int8" in shop.cluster.request("GET", f"/{name}/_doc/1")["_source"]

    with Searches(shop) as searches:
        assert asked_model(shop) == old.model.hash
        run("attach", name, opensearch_url, "--model", new.folder, "--default-pipelines")
        assert asked_model(shop) == new.model.hash
        write(shop, 8, 9, 10_003)
        assert_right(shop, old.model, fields)
        assert_right(shop, new.model, fields, new.field)
        refused = run("detach", name, opensearch_url, "--model", new.folder, status=2).output
        assert f"use the vectors of model {new.model.hash}" in refused
        run("attach", name, opensearch_url, "--model", old.folder, "--default-pipelines")
        assert asked_model(shop) == old.model.hash
        run("detach", name, opensearch_url, "--model", new.model.hash)
        assert vector(shop, 8, new.field) is None
        write(shop, 11)
        assert_right(shop, old.model, fields)
        assert vector(shop, 11, new.field) is None
    assert not searches.failed
    assert min(searches.count, searches.rewritten) > 5
    with pytest.raises(EngineError, match=f"of index {name} is resift-{name}"):
        old.installer.uninstall()
    run("detach", name, opensearch_url)
    assert not {"index.final_pipeline", "index.search.default_pipeline"} & shop.settings().keys()
    for kind in ("search", "ingest"):
        assert shop.cluster.get_or_none(f"/_{kind}/pipeline/resift-{name}") is None


# OpenSearch warns that a future version will not run pipelines for updates.
@pytest.mark.filterwarnings("ignore:the index .* pipeline")
def test_documents_are_indexed_without_vectors_while_the_service_is_down(
    shop: Index, old: Served, opensearch_url: str
) -> None:
    run("attach", shop.name, opensearch_url, "--model", old.folder, "--default-pipelines")
    old.away = True
    write(shop, *range(20, 50), 10_001)
    update = {"doc": {"text": "river"}}
    shop.cluster.request("POST", f"/{shop.name}/_update/61", update)
    assert [vector(shop, n, "resift_vector_int8") for n in (20, 49, 10_001, 61)] == [None] * 4
    assert vector(shop, 62, "resift_vector_int8") is not None
    assert not any("matched_queries" in hit for hit in search(shop))
    old.away = False
    # attaching again with the same model encodes only the documents that lack a vector
    again = run("attach", shop.name, opensearch_url, "--model", old.folder, "--json")
    (report,) = json.loads(again.stdout)["indices"]
    assert (report["documents"], report["missing"]) == (32, 0)
    run("detach", shop.name, opensearch_url)


# OpenSearch warns that a future version will not run pipelines for updates.
@pytest.mark.filterwarnings("ignore:the index .* pipeline")
def test_updates_in_bulk_requests_leave_stale_vectors_until_they_are_repaired(
    shop: Index, old: Served, opensearch_url: str
) -> None:
    run("attach", shop.name, opensearch_url, "--model", old.folder, "--default-pipelines")
    fields = list(shop.engine.info(shop.name).fields)
    update = {"doc": {"text": "river"}}
    shop.cluster.request("POST", f"/{shop.name}/_update/61", update)
    assert_right(shop, old.model, fields)
    # OpenSearch does not run the pipeline for the first update, and runs it for the new fields alone for the second one
    lines = [{"update": {"_id": "62"}}, update, {"update": {"_id": "64"}}, {**update, "doc_as_upsert": True}]
    assert {item["status"] for item in shop.bulk(list(map(json.dumps, lines)))} == {200}
    shop.engine.refresh(shop.name)
    report = verify(shop.engine, old.model, shop.name, repair=True)
    assert (sorted(report.stale_ids), report.repaired) == (["62", "64"], 2)
    assert_right(shop, old.model, fields)
    run("detach", shop.name, opensearch_url)


def test_fields_with_dots_and_nested_values_stay_as_a_client_wrote_them(
    shop: Index, old: Served, opensearch_url: str
) -> None:
    run("attach", shop.name, opensearch_url, "--model", old.folder, "--default-pipelines")
    written: list[dict[str, Any]] = [
        {"meta.note": "the river", "meta": {"note": "a forest", "code": "A-1"}, "comments": [{"by": "bob"}]},
        {"n": 1, "meta.code": "x"},
        {"comments": [{"says": "fire"}], "meta.note": ["a", "b"]},
        {"comments": [{"by": "eve", "says": 'a "quoted" \\ line\n\tand \u0001'}, {"says": "é 😀", "by": "bob"}]},
        {"n": [[3, 1], [2, 4]], "comments": [], "meta": {}},
    ]
    for id, document in enumerate(written):
        shop.cluster.request("PUT", f"/{shop.name}/_doc/nested-{id}", document)
        stored = shop.cluster.request("GET", f"/{shop.name}/_doc/nested-{id}")["_source"]
        right = old.model.encode_one(document_text(document, shop.engine.info(shop.name).fields))
        # the last digit of a number may differ, depending on the other texts in the batch
        np.testing.assert_allclose(
            decode_vector(stored.pop("resift_vector_int8")), right, atol=np.abs(right).max() / 125
        )
        assert stored == {**document, "stamped": True}
    run("detach", shop.name, opensearch_url)


def test_detaching_puts_settings_back_where_a_client_has_replaced_meta(
    shop: Index, old: Served, opensearch_url: str
) -> None:
    before = shop.settings()
    run("attach", shop.name, opensearch_url, "--model", old.folder, "--default-pipelines")
    shop.cluster.request("PUT", f"/{shop.name}/_mapping", {"_meta": {}})
    run("detach", shop.name, opensearch_url)
    assert shop.settings() == before
    assert pipeline_kinds(shop.cluster, shop.name) == []
    remove_ingest_pipeline(shop.cluster, shop.name)  # as another process does that detaches the index at the same time


def test_a_clone_gets_pipelines_of_its_own_or_goes_without(shop: Index, old: Served, opensearch_url: str) -> None:
    cluster, names = shop.cluster, [f"{shop.name}-{n}" for n in range(2)]

    def defaults(name: str) -> list[str | None]:
        settings = cluster.request("GET", f"/{name}/_settings", flat_settings="true")[name]["settings"]
        return [settings.get("index.final_pipeline"), settings.get("index.search.default_pipeline")]

    run("attach", shop.name, opensearch_url, "--model", old.folder, "--default-pipelines")
    cluster.request("PUT", f"/{shop.name}/_block/write")
    for name in names:
        body = {"settings": {"index.blocks.write": None}}
        cluster.request("PUT", f"/{shop.name}/_clone/{name}", body, wait_for_active_shards="1")
    cluster.request("PUT", f"/{shop.name}/_settings", {"index.blocks.write": None})
    try:
        assert defaults(names[0]) == [f"resift-{shop.name}"] * 2
        refused = run("detach", shop.name, opensearch_url, status=1).output
        assert f"of index {shop.name}-" in refused
        assert f"expected: resift detach {shop.name}-" in refused
        run("attach", names[0], opensearch_url, "--model", old.folder, "--default-pipelines")
        assert defaults(names[0]) == [f"resift-{names[0]}"] * 2
        for name in (*names, shop.name):
            run("detach", name, opensearch_url)
            assert defaults(name) == [None, None]
    finally:
        for name in names:
            shop.engine.drop_if_exists(name)


def test_existing_pipelines_of_an_index_stay_and_the_output_explains_what_to_do(
    shop: Index, old: Served, opensearch_url: str
) -> None:
    cluster, name = shop.cluster, shop.name
    cluster.request("PUT", f"/_search/pipeline/{name}-own", {"request_processors": []})
    taken = {"index.search.default_pipeline": f"{name}-own"}
    cluster.request("PUT", f"/{name}/_settings", taken)
    final = {"index.final_pipeline": f"{name}-own"}
    cluster.request("PUT", f"/{name}/_settings", final)
    told = run("attach", name, opensearch_url, "--model", old.folder, "--default-pipelines", status=3).output
    assert f"index.final_pipeline of {name} is {name}-own, and stays" in told
    (processor,) = cluster.get_or_none(f"/_search/pipeline/{name}-own", f"{name}-own")["request_processors"]
    assert processor["ml_inference"]["model_config"] == {"index": name, "model": old.model.hash}
    cluster.request("PUT", f"/{name}/_settings", dict.fromkeys(final))
    run("attach", name, opensearch_url, "--model", old.folder, "--default-pipelines")
    assert shop.settings()["index.final_pipeline"] == f"resift-{name}"
    # detaching is refused while another pipeline calls Resift's pipeline
    cluster.request(
        "PUT", f"/_ingest/pipeline/{name}-calls", {"processors": [{"pipeline": {"name": f"resift-{name}"}}]}
    )
    refused = run("detach", name, opensearch_url, status=1).output
    assert f"a processor of ingest pipeline {name}-calls is resift-{name}" in refused
    cluster.request("DELETE", f"/_ingest/pipeline/{name}-calls")
    # a setting that somebody has changed since is not restored
    cluster.request("PUT", f"/{name}/_settings", {"index.final_pipeline": f"{name}-own"})
    run("detach", name, opensearch_url)
    assert {key: shop.settings()[key] for key in taken} == taken
    assert shop.settings()["index.final_pipeline"] == f"{name}-own"
    cluster.request("PUT", f"/{name}/_settings", {**dict.fromkeys(taken), "index.final_pipeline": None})
    cluster.request("DELETE", f"/_search/pipeline/{name}-own")


def test_a_missing_pipeline_never_becomes_the_default(shop: Index, old: Served, opensearch_url: str) -> None:
    """OpenSearch would refuse all writes through a missing pipeline."""
    cluster, name = shop.cluster, shop.name
    # a foreign pipeline of the same name, which is not replaced
    cluster.request("PUT", f"/_ingest/pipeline/resift-{name}", {"processors": []})
    told = run("attach", name, opensearch_url, "--model", old.folder, "--default-pipelines", status=3).output
    assert (
        f"there is no ingest pipeline that could be the default: resift attach {name} --vectors --default-pipelines"
        in told
    )
    assert shop.settings()["index.search.default_pipeline"] == f"resift-{name}"
    assert "index.final_pipeline" not in shop.settings()
    run("detach", name, opensearch_url)

    # Resift does not write to the index's own vector field, so no ingest pipeline is needed
    vectors = {"properties": {"dense": {"type": "knn_vector", "dimension": old.model.dim}}}
    cluster.request("PUT", f"/{name}/_mapping", vectors)
    cluster.request("DELETE", f"/_ingest/pipeline/resift-{name}")
    run("attach", name, opensearch_url, "--model", old.folder, "--field", "dense", "--default-pipelines")
    assert shop.settings()["index.search.default_pipeline"] == f"resift-{name}"
    assert "index.final_pipeline" not in shop.settings()
    write(shop, 8, 10_001)
    run("detach", name, opensearch_url)


def test_an_installation_stays_while_an_index_uses_it(
    cluster: OpenSearchEngine, shop: Index, old: Served, opensearch_url: str
) -> None:
    second = Installer(cluster, Installation(f"second-{uuid.uuid4().hex[:8]}", old.model, ("text",), old.installer.url))
    second.install()
    try:
        run("attach", shop.name, opensearch_url, "--model", old.folder, "--default-pipelines")
        owner, other = sorted([old.installer, second], key=lambda one: one.name)
        own_row = f"resift-{shop.name}"
        assert own_row in [row.name for row in status_rows(owner)]
        assert own_row not in [row.name for row in status_rows(other)]
        with pytest.raises(EngineError, match=f"of index {shop.name} is {own_row}"):
            owner.uninstall()
        with Searches(shop) as searches:
            write(shop, 8, 10_001)
        assert not searches.failed
        assert_right(shop, old.model, list(shop.engine.info(shop.name).fields))
        run("detach", shop.name, opensearch_url)
    finally:
        second.uninstall()


def test_the_output_explains_how_to_install_a_model(
    shop: Index, old: Served, new: Served, vectors: WordVectors, tmp_path: Path, opensearch_url: str
) -> None:
    _, folder = own_model(vectors, tmp_path, 3, Path(__file__).name)
    told = run("attach", shop.name, opensearch_url, "--model", folder, "--default-pipelines", status=3).output
    # With several installations, resift install needs a name, which must be new.
    command = f"resift install --model {folder} --name resift --service URL"
    assert f"next: a second service, beside the service that other indices need: resift serve --model {folder} " in told
    assert f" --port PORT and {command}, once for the cluster\n" in told
    assert f"{command}, then resift attach {shop.name} --vectors --default-pipelines\n" in told
    run("detach", shop.name, opensearch_url)
