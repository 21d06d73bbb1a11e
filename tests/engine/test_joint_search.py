"""An index with our vectors and a transformer's, searched by both: a model and static queries side by side."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attached_index import run
from click.testing import CliRunner
from flask.testing import FlaskClient
from reranker_app import ids, post

import resift
from resift import Model, WordVectors, build_model
from resift.cli.main import main
from resift.contracts.documents import IndexInfo
from resift.encoders.model import DEFAULT_ALPHA, beta_from_alpha, joint_lengths
from resift.encoders.queries import QUERY_ALPHA, JointModel, StaticQueries
from resift.encoders.tables import build_table, plain_mean_table
from resift.errors import BadInput, ModelMismatch
from resift.feedback.feedback import METHODS, Feedback
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import vector_mapping
from resift.query.dsl import JoinedFields
from resift.reranker import Config, create_app
from resift.text import bag_of_words
from resift_lab.training.queries import SPREAD, weigh

WORDS = ["fire", "bush", "flame", "smoke", "forest", "tree", "army", "gun", "soldier", "war", "rain", "river"]
COUNT, DIM, QUERY = 40, 5, "fire rain"
RELEVANT, IRRELEVANT = ["3", "12", "30"], ["7"]


def texts() -> list[str]:
    """Forty texts of a few words each."""
    rng = np.random.default_rng(4)
    return [" ".join(rng.choice(WORDS, rng.integers(2, 9))) for _ in range(COUNT)]


@pytest.fixture(scope="module")
def queries(vectors: WordVectors) -> StaticQueries:
    """Static queries of five dimensions, for a field "embedding"."""
    rows = np.random.default_rng(9).normal(size=(len(vectors.words), DIM)).astype(np.float32)
    return StaticQueries(build_table(vectors.words, rows), "nobody", "embedding")


@pytest.fixture(scope="module")
def stored(model: Model) -> list[tuple[Any, Any]]:
    """Each document's vector of ours, and the transformer's, at a length of its own; some lack either, or both."""
    rng = np.random.default_rng(8)
    ours = model.encode(texts())
    return [
        (None if n % 7 == 1 else ours[n], None if n % 5 == 1 else (rng.normal(size=DIM) * (1 + n % 4)).astype("f4"))
        for n in range(COUNT)
    ]


@pytest.fixture(scope="module")
def both(
    cluster: OpenSearchEngine, model: Model, queries: StaticQueries, stored: list[tuple[Any, Any]]
) -> Iterator[str]:
    """An index with both."""
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    properties = {
        "text": {"type": "text", "analyzer": "english"},
        "resift_vector": vector_mapping(model),
        "embedding": {"type": "knn_vector", "dimension": DIM, "method": method},
    }
    others = [IndexInfo.from_model(queries, ["text"], vector_field="embedding").to_meta()]
    meta = {**IndexInfo.from_model(model, ["text"]).to_meta(), "others": others}
    request = Cluster(cluster).request
    settings = {"number_of_shards": 2, "number_of_replicas": 0, "index.knn": True}
    body = {"settings": settings, "mappings": {"properties": properties, "_meta": {"resift": meta}}}
    request("PUT", f"/{name}", body)
    lines = []
    for n, (text, vectors) in enumerate(zip(texts(), stored, strict=True)):
        held = zip(("resift_vector", "embedding"), vectors, strict=True)
        fields = {field: vector.tolist() for field, vector in held if vector is not None}
        lines += [json.dumps({"index": {"_id": str(n)}}), json.dumps({"text": text, **fields})]
    assert not request("POST", f"/{name}/_bulk", "\n".join(lines) + "\n", refresh="true")["errors"]
    yield name
    cluster.drop_if_exists(name)


@pytest.fixture(scope="module")
def saved(queries: StaticQueries, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the static queries."""
    return str(queries.save(tmp_path_factory.mktemp("queries") / "model"))


def application(cluster: OpenSearchEngine, model: Model, saved: str, folder: Path, **settings: Any) -> FlaskClient:
    """The client of an application that searches by both."""
    config = Config(store=str(folder / "sessions.db"), static_queries=saved, **settings)
    return create_app(config, engine=cluster, model=model).test_client()


def joined(parts: Any) -> np.ndarray[Any, Any]:
    """Two vectors by the textbook, side by side: each at length 1, or zero, times the root of its beta's share."""
    dims = (8, DIM)
    rows = [np.zeros(dim) if part is None else np.asarray(part, float) for part, dim in zip(parts, dims, strict=True)]
    betas = [QUERY_ALPHA / (1 - QUERY_ALPHA) if dim == DIM else DEFAULT_ALPHA / (1 - DEFAULT_ALPHA) for dim in dims]
    return np.concatenate(
        [row / (np.linalg.norm(row) or 1) * (beta / sum(betas)) ** 0.5 for row, beta in zip(rows, betas, strict=True)]
    )


def test_joined_vectors_have_a_mean_of_both_cosines(model: Model, queries: StaticQueries) -> None:
    joint = JointModel(model, queries)
    assert (joint.dim, joint.similarity) == (8 + DIM, "cosine")
    found = joint.encode(["fire bush", "army gun", "fire", "unknown"])
    np.testing.assert_allclose(found[0], joint.encode_one("fire bush"), atol=1e-6)
    assert not found[3].any()
    apart = [part.score(part.encode_one("fire"), part.encode(["fire bush", "army gun"])) for part in (model, queries)]
    weighed = joint.alpha / (1 - joint.alpha) * joint.score(joint.encode_one("fire"), found[:2])
    alone = [part.alpha / (1 - part.alpha) * cosines for part, cosines in zip((model, queries), apart, strict=True)]
    np.testing.assert_allclose(weighed, alone[0] + alone[1], atol=1e-5)
    assert joint.alpha < joint.max_alpha < 1
    assert joint.nearest_words(joint.encode_one("fire"), 3) == model.nearest_words(model.encode_one("fire"), 3)
    assert joint.hash not in (model.hash, queries.hash)
    with pytest.raises(BadInput, match="no mean of word vectors"):
        plain_mean_table(joint)


@pytest.mark.parametrize(("alpha", "max_alpha"), [(0.0, 0.0), (0.5, 0.75), (0.75, 1.0), (1.0, 1.0)])
def test_both_count_as_they_do_by_themselves_whatever_their_weights(
    alpha: float, max_alpha: float, vectors: WordVectors, queries: StaticQueries
) -> None:
    model = Model("mean", vectors, "mean", "cosine", alpha=alpha, max_alpha=max_alpha)
    narrow = StaticQueries(queries.table, "nobody", "embedding")
    weigh(narrow, SPREAD / 4)
    assert narrow.alpha == pytest.approx(12 / 13)
    joint = JointModel(model, narrow)
    assert 0 < joint.alpha <= joint.max_alpha <= 1
    a, b = (part.score(part.encode_one(QUERY), part.encode(texts()[:9])) for part in (model, narrow))
    weighed = joint.alpha / (1 - joint.alpha) * joint.score(joint.encode_one(QUERY), joint.encode(texts()[:9]))
    np.testing.assert_allclose(weighed, beta_from_alpha(alpha) * a + 12 * b, rtol=1e-5, atol=1e-5)


def test_a_model_of_fuzzy_sets_is_refused(vectors: WordVectors, queries: StaticQueries) -> None:
    with pytest.raises(BadInput, match="jaccard"):
        JointModel(build_model("sfbow", vectors), queries)


@pytest.mark.parametrize("source", [True, False, ["text", "embedding"]])
def test_vectors_of_both_fields_come_joined(
    cluster: OpenSearchEngine, both: str, stored: list[tuple[Any, Any]], source: Any
) -> None:
    fields = JoinedFields(("resift_vector", "embedding"), (8, DIM), joint_lengths((DEFAULT_ALPHA, QUERY_ALPHA)))
    body = {"query": {"match_all": {}}, "size": COUNT, "_source": source}
    result = cluster.search(both, body, fields)
    assert len(result.hits) == COUNT
    sample = cluster.sample(both, COUNT, source, fields)
    exact = cluster.documents(both, [str(n) for n in range(COUNT)], None, fields)
    lacking = 0
    for found in (result, sample):
        for hit, vector in zip(found.hits, found.vectors, strict=True):
            parts = stored[int(hit["_id"])]
            assert "fields" not in hit
            if all(part is None for part in parts):
                lacking += 1
                assert vector is None
                assert exact[hit["_id"]][1] is None
            else:
                np.testing.assert_allclose(vector, joined(parts), atol=1e-4)
                np.testing.assert_allclose(exact[hit["_id"]][1], joined(parts), atol=1e-6)
    assert lacking == 4


@pytest.mark.parametrize("method", METHODS)
def test_the_scores_are_those_of_the_formula(
    cluster: OpenSearchEngine,
    model: Model,
    queries: StaticQueries,
    both: str,
    stored: list[tuple[Any, Any]],
    saved: str,
    tmp_path: Path,
    method: str,
) -> None:
    client, joint = application(cluster, model, saved, tmp_path, feedback=method), JointModel(model, queries)
    plain = cluster.search(both, {"query": {"match": {"text": QUERY}}, "size": COUNT}).hits
    own = {hit["_id"]: hit["_score"] for hit in plain}
    asked = {"index": both, "query": QUERY, "session": "a", "size": COUNT, "reasons": True, "widen": False}
    orders = []
    for marked in (False, True):
        if marked:
            post(client, "/v1/feedback", session="a", index=both, query=QUERY, relevant=RELEVANT, irrelevant=IRRELEVANT)
        answer = post(client, "/v1/search", **asked)
        assert answer["resift"]["model"] == model.hash
        query = joint.encode_one(QUERY)
        feedback = learned(joint, stored, method) if marked else None
        mask = np.ones(joint.dim) if feedback is None or not feedback.method.masked else feedback.mask
        # the ridge also knows the index's other documents; what it makes of them is tested elsewhere
        known = feedback is None or feedback.method.transformation != "ridge"
        moved = query if feedback is None else feedback.transform_query(query)
        assert set(ids(answer)) == set(own)
        alpha = answer["resift"]["alpha"]
        scores = [hit["_score"] for hit in answer["hits"]["hits"]]
        assert scores == sorted(scores, reverse=True)
        for hit in answer["hits"]["hits"]:
            said = hit["resift"]
            parts = stored[int(hit["_id"])]
            if known and any(part is not None for part in parts):
                a, b = mask * moved, mask * joined(parts)
                assert said["similarity"] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=2e-3)
            factor = np.exp(alpha / (1 - alpha) * (1 + (said["similarity"] or 0)))
            if feedback is None or not feedback.method.expands:
                assert hit["_score"] == pytest.approx(own[hit["_id"]] * factor, rel=2e-3)
        orders.append(ids(answer))
    assert orders[0] != orders[1]


def learned(joint: JointModel, stored: list[tuple[Any, Any]], method: str) -> Feedback:
    """What the marks teach, without a session."""
    relevant, irrelevant = (np.stack([joined(stored[int(id)]) for id in marked]) for marked in (RELEVANT, IRRELEVANT))
    bags = [bag_of_words(texts()[int(id)], joint.table.idf) for id in RELEVANT + IRRELEVANT]
    return Feedback.learn(relevant.astype("f4"), irrelevant.astype("f4"), method, bags=bags)


def test_nearest_documents_are_those_of_either_field(
    cluster: OpenSearchEngine, model: Model, both: str, saved: str, tmp_path: Path
) -> None:
    client = application(cluster, model, saved, tmp_path)
    found = ids(post(client, "/v1/search", index=both, query="fire zzz", size=COUNT))
    more = ids(post(client, "/v1/search", index=both, query="fire zzz", size=COUNT, knn=COUNT, window=COUNT))
    assert set(found) < set(more)
    body = post(client, "/v1/rewrite", index=both, body={"query": {"match": {"text": "fire"}}})["body"]
    (stage,) = body["rescore"]
    params = stage["query"]["rescore_query"]["script_score"]["script"]["params"]
    assert (params["fields"], [len(one) for one in params["queries"]]) == (["resift_vector", "embedding"], [8, DIM])


def test_an_index_without_the_transformers_vectors_is_refused_by_name(
    cluster: OpenSearchEngine, model: Model, queries: StaticQueries, both: str, saved: str, tmp_path: Path
) -> None:
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    cluster.create(name, ["text"], model)
    client = application(cluster, model, saved, tmp_path, indices=(name, both))
    refused = client.post("/v1/search", json={"index": name, "query": "fire"})
    assert refused.status_code == ModelMismatch.status
    assert f"no vectors of the static queries {queries.hash}" in refused.get_json()["error"]["message"]
    assert [one["index"] for one in client.get("/v1/indices").get_json()["indices"]] == [both]
    cluster.drop(name)


def test_texts_are_compared_by_both_and_vectors_of_documents_made_by_the_model(
    cluster: OpenSearchEngine, model: Model, queries: StaticQueries, both: str, saved: str, tmp_path: Path
) -> None:
    client, joint = application(cluster, model, saved, tmp_path), JointModel(model, queries)
    health = client.get("/healthz").get_json()
    assert (health["model_hash"], health["static_queries"]) == (model.hash, queries.hash)
    (made,) = post(client, "/v1/embeddings", input=["fire bush"])["data"]
    np.testing.assert_allclose(made["embedding"], model.encode_one("fire bush"), atol=1e-6)
    documents = ["army gun", "fire bush"]
    expected = (1 + joint.score(joint.encode_one("fire"), joint.encode(documents))) / 2
    found = post(client, "/v1/rerank", query="fire", documents=documents)["results"]
    assert {one["index"]: pytest.approx(one["relevance_score"], abs=1e-5) for one in found} == dict(enumerate(expected))


def test_the_library_searches_by_both(
    cluster: OpenSearchEngine, opensearch_url: str, model: Model, both: str, saved: str, tmp_path: Path
) -> None:
    client = application(cluster, model, saved, tmp_path)
    library = resift.open(opensearch_url, model, sessions=tmp_path / "other.db", static_queries=saved)
    answer = post(client, "/v1/search", index=both, query=QUERY, size=COUNT)
    assert [hit.id for hit in library.index(both).search(QUERY, size=COUNT)] == ids(answer)


def test_a_folder_that_holds_no_static_queries_is_refused(model: Model, tmp_path: Path) -> None:
    folder = str(model.save(tmp_path / "model"))
    config = Config(engine=str(tmp_path / "resift.db"), static_queries=folder)
    with pytest.raises(BadInput, match="kind 'pooled'"):
        create_app(config)


def test_a_model_is_learned_beside_static_queries(
    cluster: OpenSearchEngine, opensearch_url: str, queries: StaticQueries, saved: str, tmp_path: Path
) -> None:
    name, request = f"resift-test-{uuid.uuid4().hex[:12]}", Cluster(cluster).request
    vector = {"type": "knn_vector", "dimension": DIM, "method": {"name": "hnsw", "engine": "lucene"}}
    properties = {"text": {"type": "text"}, "embedding": vector}
    request("PUT", f"/{name}", {"settings": {"index.knn": True}, "mappings": {"properties": properties}})
    body = {"text": "fire in the bush", "embedding": [1.0, 0.0, 0.0, 0.0, 1.0]}
    request("PUT", f"/{name}/_doc/1", body, refresh="true")
    run("attach", name, opensearch_url, "--model", saved)
    # ten words are too few to learn from, and nothing else is against it
    plan = CliRunner().invoke(
        main, ["attach", name, "--vectors", "--engine", opensearch_url, "--out", str(tmp_path / "own"), "--yes"]
    )
    assert "has vectors of model queries" not in plan.output
    run("attach", name, opensearch_url, "--no-adapt")
    info = cluster.info(name)
    assert info.for_search(resift.load_model(), queries).searched == JoinedFields(
        ("resift_vector_int8", "embedding"), (256, DIM), joint_lengths((DEFAULT_ALPHA, QUERY_ALPHA))
    )
    cluster.drop(name)
