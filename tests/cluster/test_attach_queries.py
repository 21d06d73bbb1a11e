"""Tests of an index with vectors of a transformer: a static query model is trained, attached and used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attached_index import run
from click.testing import CliRunner, Result
from rewritten_node import FIELDS, Node, sources
from service_app import ids, post

from resift import Model, WordVectors
from resift.cli.main import main
from resift.encoders.queries import StaticQueries
from resift.encoders.registry import load_model
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.dsl import document_text
from resift.reranker import Config, create_app


@pytest.fixture(scope="module")
def embedded(cluster: OpenSearchEngine, model: Model) -> Iterator[str]:
    """Yield an index with vectors of ``model`` in its own field, of various lengths. One document has no vector."""
    # OpenSearch's random numbers depend on the name, and so do the few documents that are held out.
    name = "resift-test-embedded"
    cluster.drop_if_exists(name)
    properties = {"title": {"type": "text"}, "text": {"type": "text"}, "comments": {"enabled": False, "type": "object"}}
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    vector = {"embedding": {"type": "knn_vector", "dimension": model.dim, "method": method}}
    settings = {"number_of_shards": 2, "number_of_replicas": 0, "index.knn": True}
    request = Cluster(cluster).request
    request("PUT", f"/{name}", {"settings": settings, "mappings": {"properties": {**properties, **vector}}})
    found = [source for _ in range(3) for source in sources()]
    lines = []
    for n, (source, row) in enumerate(zip(found, model.encode([text(one) for one in found]), strict=True)):
        held = {} if n == 7 or not row.any() else {"embedding": (row * (1 + n % 5)).tolist()}
        lines += [json.dumps({"index": {"_id": str(n)}}), json.dumps({**source, **held})]
    assert not request("POST", f"/{name}/_bulk", "\n".join(lines) + "\n", refresh="true")["errors"]
    yield name
    cluster.drop_if_exists(name)


def text(source: dict[str, Any]) -> str:
    """Return the text that is encoded as a document's vector."""
    return document_text(source, FIELDS)


@pytest.fixture(scope="module")
def trained(
    embedded: str, rewritten_node: Node, opensearch_url: str, vectors: WordVectors, tmp_path_factory: Any
) -> tuple[Result, Path]:
    """Run ``resift train queries`` with a model in the cluster, and yield the folder of the trained model."""
    folder = tmp_path_factory.mktemp("queries")
    table = vectors.save(folder / "vectors")
    command = ["train", "queries", "--index", embedded, "--field", "embedding", "--engine", opensearch_url]
    teacher = f"opensearch:{rewritten_node.query_model}"
    more = ["--teacher", teacher, "--set", "texts=600", "--vectors", str(table), "--fields", ",".join(FIELDS), "--json"]
    return CliRunner().invoke(main, [*command, *more, "--out", str(folder / "model")]), folder / "model"


def test_queries_are_learned_from_an_index_and_a_deployed_model(
    trained: tuple[Result, Path], model: Model, rewritten_node: Node
) -> None:
    result, folder = trained
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    # the few documents that are held out here say no more of the ranks; test_static_queries.py has enough of them
    assert not found["worse"]
    assert found["cosine"] > 0.8
    learned = load_model(folder)
    assert isinstance(learned, StaticQueries)
    assert (learned.teacher, learned.field) == (f"opensearch:{rewritten_node.query_model}", "embedding")
    near = learned.encode(["fire bush", "army gun"]) @ model.encode(["fire bush", "army gun"]).T
    assert near.argmax(axis=1).tolist() == [0, 1]


def test_missing_parts_of_the_cluster_are_named(embedded: str, opensearch_url: str, tmp_path: Path) -> None:
    def refused(field: str, teacher: str, index: str = embedded) -> str:
        command = ["train", "queries", "--index", index, "--field", field, "--engine", opensearch_url]
        done = CliRunner().invoke(main, [*command, "--teacher", teacher, "--out", str(tmp_path / "out")])
        assert done.exit_code == 2, done.output
        return done.output

    assert "model 'nobody' is not deployed" in refused("embedding", "opensearch:nobody")
    assert "no knn_vector field 'text'" in (output := refused("text", "opensearch:nobody"))
    assert "expected: embedding" in output
    assert "no such index" in refused("embedding", "opensearch:nobody", "resift-test-nowhere")


def test_an_index_is_attached_with_its_existing_vectors(
    trained: tuple[Result, Path], embedded: str, cluster: OpenSearchEngine, opensearch_url: str, tmp_path: Path
) -> None:
    folder = str(trained[1])
    learned, request = load_model(folder), Cluster(cluster).request
    before = request("GET", f"/{embedded}/_doc/3")["_source"]
    command = ["index", "-", "--index", "new", "--engine", opensearch_url, "--model", folder]
    refused = CliRunner().invoke(main, command, input="{}")
    assert refused.exit_code == 2, refused.output
    assert "encodes queries only" in refused.output
    assert Cluster(cluster).get_or_none("/new/_mapping") is None
    plan = json.loads(run("attach", embedded, opensearch_url, "--model", folder, "--dry-run", "--json").stdout)
    assert [(one["vector_field"], one["to_encode"]) for one in plan["indices"]] == [("embedding", 0)]
    run("attach", embedded, opensearch_url, "--model", folder, "--fields", ",".join(FIELDS))
    assert request("GET", f"/{embedded}/_doc/3")["_source"] == before
    config = Config(store=str(tmp_path / "sessions.db"), alpha=0.9)
    client = create_app(config, engine=cluster, model=learned).test_client()
    answer = post(client, "/v1/search", index=embedded, query="fire tree", size=180, reasons=True)
    assert answer["resift"]["model"] == learned.hash
    query, held = learned.encode_one("fire tree"), cluster.documents(embedded, ids(answer), None, "embedding")
    for hit in answer["hits"]["hits"]:
        vector = held[hit["_id"]][1]
        expected = None if vector is None else learned.score(query, vector[None] / np.linalg.norm(vector))[0]
        assert hit["resift"]["similarity"] == pytest.approx(expected, abs=2e-3)
    marked = next(id for id in reversed(ids(answer)) if held[id][1] is not None)
    post(client, "/v1/feedback", session="a", index=embedded, query="fire tree", relevant=[marked])
    after = post(client, "/v1/search", index=embedded, query="fire tree", size=180, session="a", reasons=True)
    assert ids(after) != ids(answer)
    reasons = [hit["resift"]["because"] for hit in after["hits"]["hits"]]
    assert {because["document"] for because in reasons if because} <= {marked}
    run("detach", embedded, opensearch_url)
    assert request("GET", f"/{embedded}/_doc/3")["_source"] == before
    assert request("GET", f"/{embedded}/_mapping")[embedded]["mappings"].get("_meta", {}) == {}
