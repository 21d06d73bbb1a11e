"""Tests of an index that was created by a snapshot, a clone or ``_reindex``, without its pipelines or its mapping."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attached_index import COUNT, Index, own, remove_pipelines, run, shop
from click.testing import CliRunner
from test_attach_models import QUERY, Served, old

from resift.cli.main import main
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.doctor import status_rows
from resift.plugin.operations.index_status import index_rows
from resift.plugin.operations.status_row import StatusRow
from resift.query.dsl import COMPACT_FIELD
from resift.rewriting.similarity import QueryVector, similarity_clause

__all__ = ["old", "own", "shop"]


@pytest.fixture
def twin(shop: Index, old: Served, opensearch_url: str) -> Iterator[str]:
    """Yield a clone of the attached index with its default pipelines, like an index restored under a new name."""
    name = f"{shop.name}-twin"
    run("attach", shop.name, opensearch_url, "--model", old.folder, "--default-pipelines")
    shop.cluster.request("PUT", f"/{shop.name}/_block/write")
    body = {"settings": {"index.blocks.write": None}}
    shop.cluster.request("PUT", f"/{shop.name}/_clone/{name}", body, wait_for_active_shards="1")
    shop.cluster.request("PUT", f"/{shop.name}/_settings", {"index.blocks.write": None})
    yield name
    shop.engine.drop_if_exists(name)
    remove_pipelines(shop.cluster, name)


def rows(served: Served, name: str) -> dict[str, StatusRow]:
    """Return the status rows of the pipelines of a name, by kind."""
    return {row.kind: row for row in status_rows(served.installer) if row.name == name}


def standing(shop: Index, name: str) -> tuple[str, str]:
    """Return the problem of an index, and the advice."""
    (found,) = (one for one in index_rows(shop.cluster) if one.name == name)
    return found.state, found.fix


def defaults(shop: Index, name: str) -> dict[str, Any]:
    """Return the settings of an index that name pipelines of Resift."""
    settings = shop.cluster.request("GET", f"/{name}/_settings", flat_settings="true")[name]["settings"]
    return {key: value for key, value in settings.items() if str(value).startswith("resift-")}


def test_our_own_searches_pass_by_the_pipeline_that_a_clone_names(
    cluster: OpenSearchEngine, shop: Index, twin: str, opensearch_url: str
) -> None:
    through = cluster.client.search(index=twin, body=QUERY)["hits"]["hits"]
    assert [hit["matched_queries"] for hit in through] == [["resift"]] * QUERY["size"]
    assert not any("matched_queries" in hit for hit in cluster.search(twin, QUERY).hits)
    # other processors of a pipeline apply to these searches, too
    name = f"resift-{shop.name}"
    pipeline = shop.cluster.get_or_none(f"/_search/pipeline/{name}", name)
    pipeline["request_processors"].append({"script": {"source": "ctx._source['size'] = 2"}})
    shop.cluster.request("PUT", f"/_search/pipeline/{name}", pipeline)
    another = OpenSearchEngine(opensearch_url)
    assert len(another.search(twin, QUERY).hits) == 2
    another.close()


def test_an_index_whose_pipelines_are_gone_is_named_and_can_be_verified_attached_and_detached(
    shop: Index, old: Served, twin: str, opensearch_url: str, here: Path
) -> None:
    pipeline = f"resift-{shop.name}"
    settings = ("index.final_pipeline", "index.search.default_pipeline")
    state = f"{settings[1]} is {pipeline}, which is missing: searches are refused"
    remove_pipelines(shop.cluster, shop.name)
    assert standing(shop, shop.name) == (state, "resift install")
    fix = f"resift attach {twin} --vectors --default-pipelines"
    assert standing(shop, twin) == (state, fix)
    flags = ["--model", old.folder, "--engine", opensearch_url]
    told = CliRunner().invoke(main, ["doctor", "--name", old.installer.name, *flags])
    assert (told.exit_code, f"  fix: {fix}\n" in told.output) == (3, True)
    old.installer.install()
    assert standing(shop, twin)[1] == ""
    shop.engine.drop(shop.name)
    left = rows(old, pipeline)
    # The pipeline must not be deleted while the clone names it.
    unused = f"no index {shop.name} with vectors of this model"
    assert left["ingest pipeline"].state == f"{unused}, but {settings[0]} of index {twin} is {pipeline}"
    assert left["ingest pipeline"].fix == f"{fix}, or resift detach {twin}"
    assert left["search pipeline"].state == f"no index {shop.name}"
    assert left["search pipeline"].fix == f"resift detach {shop.name}"
    remove_pipelines(shop.cluster, shop.name)

    result = CliRunner().invoke(main, ["verify", twin, *flags])
    assert result.exit_code == 0, result.output
    run("attach", twin, opensearch_url, "--model", old.folder, "--default-pipelines")
    assert defaults(shop, twin) == dict.fromkeys(settings, f"resift-{twin}")
    shop.cluster.request("PUT", f"/{twin}/_settings", dict.fromkeys(settings, pipeline))
    run("detach", twin, opensearch_url)
    assert defaults(shop, twin) == {}
    shop.cluster.request("POST", f"/{twin}/_search", QUERY)


def test_searches_go_on_in_a_copy_without_the_mapping_of_the_vectors(
    cluster: OpenSearchEngine, shop: Index, old: Served, opensearch_url: str
) -> None:
    copy, alias, request = f"{shop.name}-copy", f"{shop.name}-posts", shop.cluster.request
    run("attach", shop.name, opensearch_url, "--model", old.folder)
    request("PUT", f"/{copy}", {"aliases": {alias: {}}})
    try:
        request("POST", "/_reindex", {"source": {"index": shop.name}, "dest": {"index": copy}}, refresh="true")
        plain = {hit["_id"] for hit in request("POST", f"/{alias}/_search", QUERY)["hits"]["hits"]}
        through = request("POST", f"/{alias}/_search", QUERY, search_pipeline=f"resift-{shop.name}")["hits"]["hits"]
        assert [hit["matched_queries"] for hit in through] == [["resift"]] * QUERY["size"]
        assert {hit["_id"] for hit in through} == plain
        vector = np.ones(old.model.dim, np.float32)
        for similarity, score in (("cosine", np.exp(2)), ("jaccard", 1.0)):
            body = {"query": similarity_clause(QueryVector(similarity, COMPACT_FIELD, vector), 2.0)}
            hits = request("POST", f"/{copy}/_search", body)["hits"]["hits"]
            assert [hit["_score"] for hit in hits] == pytest.approx([score] * 10)
        state = f"{COUNT} vectors of an unknown model, as in a copy by _reindex"
        assert standing(shop, copy) == (state, f"resift attach {copy} --vectors")
        run("attach", copy, opensearch_url, "--model", old.folder)
        assert standing(shop, copy)[1] == ""
    finally:
        shop.engine.drop_if_exists(copy)
        remove_pipelines(shop.cluster, copy)
