"""Sessions inside hybrid, knn, neural and sparse searches of an index that Resift never touched, on a real node."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from kept_memory import keeps_less_than
from request_kinds import default_pipeline
from rewritten_node import COUNT, SESSION, Node

from resift import Model
from resift.plugin.opensearch.engine import OpenSearchEngine

Body = dict[str, Any]
SPACES = {"cosine": "cosinesimil", "euclid": "l2", "product": "innerproduct", "bytes": "l2"}
TEXT = {"match": {"text": {"query": "fire", "_name": "mine"}}}
MIN_MAX = {"normalization-processor": {"combination": {"parameters": {"weights": [0.6, 0.4]}}}}
RRF = {"score-ranker-processor": {"combination": {"technique": "rrf"}}}
AGGS = {"tags": {"terms": {"field": "tag"}}}


@dataclass
class Own(Node):
    """The node, with another index, in whose session some documents were marked."""

    relevant: list[str] = field(default_factory=list)
    irrelevant: str = ""


@pytest.fixture(scope="module")
def own(rewritten_node: Node, model: Model) -> Iterator[Own]:
    """The node, with another index in place of its own: documents with vectors that somebody else gave them, which
    ``_source`` leaves out, and two marks of its session there."""
    node, index = rewritten_node, f"own-{uuid.uuid4().hex[:8]}"
    fields: Body = {name: _vectors(space) for name, space in SPACES.items()}
    fields["bytes"]["data_type"] = "byte"
    fields |= {
        "shown": _vectors("l2"),
        "longer": _vectors("l2", 12),
        "tokens": {"type": "rank_features"},
        "tag": {"type": "keyword"},
        "n": {"type": "integer"},
    }
    fields["parts"] = {"type": "nested", "properties": {"inner": _vectors("l2")}}
    mappings = {"_source": {"excludes": list(SPACES)}, "properties": fields}
    settings = {"index.knn": True, "number_of_shards": 2, "number_of_replicas": 0}
    node.client.indices.create(index=index, body={"mappings": mappings, "settings": settings})
    texts = list(documents())
    lines: list[Body] = []
    for n, (text, vector) in enumerate(zip(texts, model.encode(texts), strict=True)):
        source: Body = {"text": text, "n": n, "tag": f"t{n % 5}"}
        words = text.split()
        found = {"cosine": vector, "euclid": 3 * vector, "product": 2 * vector}
        document = {**source, **{name: one.tolist() for name, one in found.items()}}
        document["bytes"] = np.rint(100 * vector / np.abs(vector).max()).astype(int).tolist()
        document["tokens"] = {word: 1.0 + words.count(word) for word in words}
        document["parts"] = [{"inner": vector.tolist()}]
        document["shown"] = vector.tolist()
        document["longer"] = [*vector.tolist(), 0.1, 0.1, 0.1, 0.1]
        lines += [{"index": {"_index": index, "_id": str(n)}}, document if n < COUNT - 1 else source]
    assert not node.client.bulk(body=lines, params={"refresh": "true"})["errors"]
    made = Own(node.app, node.client, node.installation, index, node.other, node.query_model, node.rewritten)
    hits = ids(search(made, {"query": hybrid(vector_of(model)), "search_pipeline": pipeline(MIN_MAX)}))
    made.relevant, made.irrelevant = [hits[4], hits[7]], hits[0]
    made.post("/v1/feedback", session=SESSION, query="fire", relevant=made.relevant, irrelevant=[made.irrelevant])
    yield made
    node.client.indices.delete(index=index)


def documents() -> Iterator[str]:
    """The documents' texts: a few are about fires, others name one, and no two are of the same words."""
    rng = np.random.default_rng(3)
    about, beside = (
        ["fire", "bush", "flame", "smoke", "forest", "tree"],
        ["army", "gun", "soldier", "war", "peace", "rain", "river"],
    )
    for n in range(COUNT):
        words = rng.choice(about if n % 9 == 0 else beside, 8 + n % 7).tolist()
        yield " ".join([*words, "fire"] if n % 3 == 0 else words)


def _vectors(space: str, dimension: int = 8) -> Body:
    method = {"name": "hnsw", "engine": "lucene", "space_type": space}
    return {"type": "knn_vector", "dimension": dimension, "method": method}


def vector_of(model: Model) -> list[float]:
    """What somebody asks for by a vector."""
    return [round(float(value), 4) for value in model.encode_one("fire")]


def hybrid(vector: list[float], field: str = "cosine") -> Body:
    """Words and vectors, of which all documents are found."""
    return {"hybrid": {"queries": [TEXT, {"knn": {field: {"vector": vector, "k": COUNT}}}]}}


def pipeline(*phases: Body) -> Body:
    """A search pipeline of the user's."""
    return {"phase_results_processors": list(phases)}


def search(node: Node, body: Body, **params: Any) -> Body:
    """The node's own answer, by what the body names as its pipeline."""
    answer: Body = node.client.search(index=node.index, body=body, params=params)
    return answer


def rewritten(node: Node, body: Body, outcome: str = "rewritten", session: str | None = SESSION) -> Body:
    """The body in a session, as ``/v1/rewrite`` answers it, without what is said to us."""
    asked = {"ext": {"ml_inference": {"query": "fire", "session": session}}} if session else {}
    answer = node.post("/v1/rewrite", body={**body, **asked})
    assert answer["resift"]["outcome"] == outcome, answer["resift"]
    return {name: value for name, value in answer["body"].items() if name != "ext"}


def ids(answer: Body) -> list[str]:
    return [hit["_id"] for hit in answer["hits"]["hits"]]


def marks_are_right(node: Own, plain: Body, after: Body) -> None:
    """Assert that relevant documents stay on the first page, and that an irrelevant one does not rise."""
    assert set(node.relevant) <= set(ids(after)[:10])
    assert _better(after, node.irrelevant) >= _better(plain, node.irrelevant)


def _better(answer: Body, id: str) -> int:
    """How many hits have a higher score than one of them; RRF of 2.19 counts ranks on each shard, and has many ties."""
    scores = {hit["_id"]: hit["_score"] for hit in answer["hits"]["hits"]}
    return sum(score > scores[id] for score in scores.values())


@pytest.mark.parametrize("phase", [MIN_MAX, RRF], ids=["min_max", "rrf"])
@pytest.mark.parametrize("field", SPACES)
def test_a_hybrid_search_follows_the_session(own: Own, model: Model, phase: Body, field: str) -> None:
    vector = [round(50 * value) for value in vector_of(model)] if field == "bytes" else vector_of(model)
    body = {"query": hybrid(vector, field), "size": COUNT, "aggs": AGGS, "search_pipeline": pipeline(phase)}
    plain, after = search(own, body), search(own, rewritten(own, body))
    marks_are_right(own, plain, after)
    assert ids(plain) != ids(after)
    assert sorted(ids(plain)) == sorted(ids(after))
    assert (after["hits"]["total"], after["aggregations"]) == (plain["hits"]["total"], plain["aggregations"])
    names = {hit["_id"]: set(hit["matched_queries"]) - {"resift"} for hit in after["hits"]["hits"]}
    assert names == {hit["_id"]: set(hit.get("matched_queries", [])) for hit in plain["hits"]["hits"]}


@pytest.mark.parametrize("field", SPACES)
def test_a_knn_search_follows_the_session(own: Own, model: Model, field: str) -> None:
    vector = [round(50 * value) for value in vector_of(model)] if field == "bytes" else vector_of(model)
    condition = {"range": {"n": {"lt": 50}}}
    body = {"query": {"knn": {field: {"vector": vector, "k": COUNT, "filter": condition}}}, "size": COUNT}
    plain, after = search(own, body), search(own, rewritten(own, body))
    assert sorted(ids(plain)) == sorted(ids(after))
    assert ids(plain) != ids(after)
    for id in set(own.relevant) & set(ids(plain)):
        assert ids(after).index(id) <= max(9, ids(plain).index(id))


def test_without_a_session_a_search_goes_out_as_it_came(own: Own, model: Model) -> None:
    near = {"knn": {"cosine": {"vector": vector_of(model), "k": 5}}}
    for query in (hybrid(vector_of(model)), near, {"bool": {"should": [TEXT, near]}}):
        body = {"query": query, "search_pipeline": pipeline(MIN_MAX)}
        for session in (None, "nobody"):
            assert rewritten(own, body, "nothing_to_add", session) == body
    served = own.post("/v1/search", query={"query": near, "size": COUNT})
    assert ids(served) == ids(search(own, {"query": near, "size": COUNT}))
    assert served["resift"]["reranked"] is False


def test_a_query_that_a_model_encodes_follows_the_session(own: Own, model: Model) -> None:
    # a cold model takes longer than anybody waits for
    path = f"/_plugins/_ml/_predict/text_embedding/{own.query_model}"
    own.client.transport.perform_request("POST", path, body={"text_docs": ["smoke"]})
    asked = {"query_text": "fire", "model_id": own.query_model, "k": COUNT}
    by_text = rewritten(own, {"query": {"neural": {"cosine": asked}}, "size": COUNT})
    vector = model.encode_one("fire").tolist()
    by_vector = rewritten(own, {"query": {"knn": {"cosine": {"vector": vector, "k": COUNT}}}, "size": COUNT})
    assert ids(search(own, by_text)) == ids(search(own, by_vector))
    gone = {"query": {"neural": {"cosine": {**asked, "model_id": "gone"}}}, "size": COUNT}
    assert rewritten(own, gone, "model_unavailable") == gone


def test_a_sparse_query_follows_the_session(own: Own) -> None:
    body = {"query": {"neural_sparse": {"tokens": {"query_tokens": {"fire": 1.0}}}}, "size": COUNT}
    plain, after = search(own, body), rewritten(own, body)
    assert _added_tokens(after)
    assert sorted(ids(plain)) == sorted(ids(search(own, after)))
    widened = {**body, "ext": {"ml_inference": {"query": "fire", "session": SESSION, "widen": True}}}
    found = search(own, {"query": own.post("/v1/rewrite", body=widened)["body"]["query"], "size": COUNT})
    assert set(ids(plain)) < set(ids(found))


def _added_tokens(body: dict[str, Any]) -> dict[str, float]:
    """The tokens of relevant documents in a rewritten query, whose irrelevant documents sink."""
    clause = body["query"]["bool"]["must"][0]["function_score"]["query"]
    return dict(clause["bool"]["should"][0]["neural_sparse"]["tokens"]["query_tokens"])


@pytest.mark.since(3, "neural_sparse has no analyzer that is the default")
def test_a_sparse_query_that_an_analyzer_reads_follows_the_session(own: Own) -> None:
    # a cold one takes longer than anybody waits for
    own.client.indices.analyze(body={"analyzer": "bert-uncased", "text": "smoke"})
    by_text = {"query": {"neural_sparse": {"tokens": {"query_text": "fire"}}}}
    assert _added_tokens(rewritten(own, by_text))


def test_a_search_lets_the_cluster_encode_only_a_few_texts(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, encoded = own.app.extensions["resift"].engine, list[str]()
    embed = engine.embed

    def record(model: str, text: str, headers: Any) -> Any:
        encoded.append(text)
        return embed(model, text, headers)

    monkeypatch.setattr(engine, "embed", record)
    near = [{"neural": {"cosine": {"query_text": f"fire {n}", "model_id": "gone", "k": 3}}} for n in range(100)]
    own.post("/v1/rewrite", body={"query": {"bool": {"should": near}}, "ext": {"ml_inference": {"session": SESSION}}})
    assert set(encoded) == {f"fire {n}" for n in range(10)}


def test_names_of_models_and_analyzers_do_not_fill_the_memory(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    # pytest keeps the messages of the log, which quote the names
    monkeypatch.setattr(logging.getLogger("resift.sessions.documents"), "disabled", True)

    def rewrite(number: int) -> None:
        asked = {"query_text": "fire", "analyzer": f"{number}{'x' * 900_000}"}
        own.post("/v1/rewrite", body={"query": {"neural_sparse": {"tokens": asked}}, **in_session})
        own.rewritten.pop()  # the fixture keeps the responses

    in_session = {"ext": {"ml_inference": {"session": SESSION}}}
    rewrite(0)
    with keeps_less_than(5_000_000):
        for number in range(1, 21):
            rewrite(number)


@pytest.mark.parametrize("kind", ["match", "knn", "neural_sparse"])
def test_a_first_hit_that_is_marked_irrelevant_sinks(own: Own, model: Model, kind: str) -> None:
    queries = {
        "match": TEXT,
        "knn": {"knn": {"cosine": {"vector": vector_of(model), "k": COUNT}}},
        "neural_sparse": {"neural_sparse": {"tokens": {"query_tokens": {"fire": 1.0}}}},
    }
    body = {"query": queries[kind], "size": COUNT, "track_total_hits": True}
    plain, session = search(own, body), f"irrelevant-{uuid.uuid4().hex}"
    first = ids(plain)[0]
    own.post("/v1/feedback", session=session, query="fire", irrelevant=[first])
    after = search(own, rewritten(own, body, session=session))
    assert _better(after, first) > 2
    assert after["hits"]["total"] == plain["hits"]["total"]


def test_queries_that_cannot_be_moved_are_reported_and_run_unchanged(own: Own, model: Model) -> None:
    vector = vector_of(model)
    nested = {"nested": {"path": "parts", "query": {"knn": {"parts.inner": {"vector": vector, "k": COUNT}}}}}
    radial = {"knn": {"cosine": {"vector": vector, "min_score": 0.6}}}
    for query, outcome in ((nested, "vectors_not_moved"), (radial, "threshold")):
        mixed = {"query": {"hybrid": {"queries": [TEXT, query]}}, "size": COUNT, "search_pipeline": pipeline(MIN_MAX)}
        plain, after = search(own, mixed), search(own, rewritten(own, mixed, outcome))
        assert sorted(ids(plain)) == sorted(ids(after))
    wrong = {"query": {"knn": {"cosine": {"vector": vector[:3], "k": 5}}}}
    assert rewritten(own, wrong, "other_dimension") == wrong


def test_groups_highlights_and_pages_are_the_engines(own: Own, model: Model) -> None:
    query = hybrid(vector_of(model))
    body = {"query": query, "size": COUNT, "search_pipeline": pipeline(MIN_MAX), "highlight": {"fields": {"text": {}}}}
    plain, after = search(own, body), search(own, rewritten(own, body))
    before = {hit["_id"]: hit.get("highlight") for hit in plain["hits"]["hits"]}
    assert {hit["_id"]: hit.get("highlight") for hit in after["hits"]["hits"]} == before
    grouped = {**body, "collapse": {"field": "tag"}}
    assert len(ids(search(own, rewritten(own, grouped)))) == len(ids(search(own, grouped)))
    near = {"knn": {"cosine": {"vector": vector_of(model), "k": COUNT}}}
    whole = ids(search(own, rewritten(own, {"query": near, "size": COUNT})))
    ordered, found = {"query": near, "size": 7, "sort": [{"_score": "desc"}, {"n": "asc"}]}, list[str]()
    page = search(own, rewritten(own, ordered))
    while hits := page["hits"]["hits"]:
        found += [hit["_id"] for hit in hits]
        page = search(own, rewritten(own, {**ordered, "search_after": hits[-1]["sort"]}))
    assert sorted(found) == sorted(whole)
    assert found[:10] == whole[:10]


def test_other_documents_take_the_positions_of_hidden_documents(own: Own, model: Model) -> None:
    for query in ({"knn": {"cosine": {"vector": vector_of(model), "k": 10}}}, hybrid(vector_of(model))):
        asked = {"query": "fire", "session": SESSION, "judged": "hide"}
        body = {"query": query, "search_pipeline": pipeline(MIN_MAX), "ext": {"ml_inference": asked}}
        answer = own.post("/v1/rewrite", body=body)["body"]
        del answer["ext"]
        hits = ids(search(own, answer))
        assert len(hits) == 10
        assert set(hits).isdisjoint([*own.relevant, own.irrelevant])


@contextmanager
def user_pipeline(node: Node) -> Iterator[str]:
    """A pipeline of the user's that mixes scores, with our processor before it."""
    name, perform = f"mine-{uuid.uuid4().hex[:8]}", node.client.transport.perform_request
    ours = f"{node.installation}-a"
    found = perform("GET", f"/_search/pipeline/resift-{ours}")[f"resift-{ours}"]["request_processors"]
    found[0]["ml_inference"]["model_config"]["index"] = node.index
    perform("PUT", f"/_search/pipeline/{name}", body={"request_processors": found, **pipeline(MIN_MAX)})
    try:
        yield name
    finally:
        perform("DELETE", f"/_search/pipeline/{name}")


def test_a_pipeline_of_the_users_mixes_what_ours_rewrites(own: Own, model: Model) -> None:
    query = hybrid(vector_of(model))
    by_client = search(own, rewritten(own, {"query": query, "size": COUNT, "search_pipeline": pipeline(MIN_MAX)}))
    asked = {"ext": {"ml_inference": {"query": "fire", "session": SESSION}}}
    with user_pipeline(own) as name:
        through = search(own, {"query": query, "size": COUNT, **asked}, search_pipeline=name)
    scores = [(hit["_id"], pytest.approx(hit["_score"], rel=1e-4)) for hit in by_client["hits"]["hits"]]
    assert [(hit["_id"], hit["_score"]) for hit in through["hits"]["hits"]] == scores


@pytest.mark.since(3, "it has no maximal marginal relevance")
@pytest.mark.parametrize("kind", ["knn", "neural"])
def test_hits_are_reranked_by_maximal_marginal_relevance(own: Own, model: Model, kind: str) -> None:
    by_kind: Body = {"knn": {"vector": vector_of(model)}, "neural": {"query_text": "fire", "model_id": own.query_model}}
    ext = {"mmr": {"diversity": 0.3, "candidates": COUNT}}
    body = {"query": {kind: {"shown": {**by_kind[kind], "k": COUNT}}}, "size": 10}
    session = {"ml_inference": {"query": "fire", "session": SESSION}}
    with factories(own, "mmr_over_sample_factory", "mmr_rerank_factory"):
        plain = search(own, {**body, "ext": ext}, search_pipeline="_none")
        with user_pipeline(own) as name:
            through = search(own, {**body, "ext": {**ext, **session}}, search_pipeline=name)
        assert own.rewritten[-1]["resift"]["outcome"] == "rewritten"
        served = own.post(
            "/v1/search", query={**body, "ext": {**ext, "ml_inference": {"query": "fire"}}}, session=SESSION
        )
    assert ids(served) == ids(through)
    assert ids(through) != ids(plain)
    assert set(own.relevant) <= set(ids(through))


@contextmanager
def factories(node: Node, *names: str) -> Iterator[None]:
    """Let OpenSearch add processors to searches that ask for them in ``ext``."""
    setting = "cluster.search.enabled_system_generated_factories"
    node.client.cluster.put_settings(body={"persistent": {setting: list(names)}})
    try:
        yield
    finally:
        node.client.cluster.put_settings(body={"persistent": {setting: None}})


@pytest.mark.parametrize("kind", ["match", "function_score", "knn", "bool"])
def test_a_scroll_of_one_shard_reads_to_its_end(own: Own, model: Model, kind: str) -> None:
    near = {"knn": {"cosine": {"vector": vector_of(model), "k": COUNT}}}
    queries: Body = {
        "match": TEXT,
        "function_score": {
            "function_score": {"query": TEXT, "functions": [{"filter": {"range": {"n": {"lt": 9}}}, "weight": 1.1}]}
        },
        "knn": near,
        "bool": {"bool": {"should": [TEXT, near]}},
    }
    asked = {"ext": {"ml_inference": {"query": "fire", "session": SESSION, "scroll": True}}}
    body, only = {"query": queries[kind], "size": 7}, {"preference": "_shards:0"}
    whole = search(own, {**body, "size": COUNT}, **only)
    with user_pipeline(own) as name:
        page = search(own, {**body, **asked}, search_pipeline=name, scroll="1m", **only)
        assert own.rewritten[-1]["resift"]["outcome"] == "rewritten"
        found = list[Body]()
        while hits := page["hits"]["hits"]:
            found += hits
            page = own.client.scroll(body={"scroll_id": page["_scroll_id"], "scroll": "1m"})
        own.client.clear_scroll(body={"scroll_id": [page["_scroll_id"]]})
    assert sorted(hit["_id"] for hit in found) == sorted(ids(whole))
    assert [hit["_id"] for hit in found] != ids(whole)
    scores = [hit["_score"] for hit in found]
    assert scores == sorted(scores, reverse=True)


def test_the_service_searches_by_the_users_own_pipeline(
    own: Own, model: Model, cluster: OpenSearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster._only_rewrites, "seconds", 0.0)
    body = {"query": hybrid(vector_of(model)), "size": COUNT, "ext": {"ml_inference": {"query": "fire"}}}
    expected = search(own, rewritten(own, {**body, "search_pipeline": pipeline(MIN_MAX)}))
    with user_pipeline(own) as name, default_pipeline(own, name):
        own.rewritten.clear()
        served = own.post("/v1/search", query=body, session=SESSION, reasons=True)
        # and the plain search beside it, for the hits' ranks there
        assert {one["resift"]["outcome"] for one in own.rewritten} == {"already_rewritten", "nothing_to_add"}
    assert (served["resift"]["reranked"], served["resift"]["outcome"]) == (True, "rewritten")
    assert ids(served) == ids(expected)
    plain = ids(search(own, {**body, "search_pipeline": pipeline(MIN_MAX)}))
    reasons = {hit["_id"]: one for hit in served["hits"]["hits"] if (one := hit["resift"]["because"])}
    places = {id: plain.index(id) - rank for rank, id in enumerate(ids(served))}
    assert {id: one["moved"] for id, one in reasons.items()} == {id: places[id] for id in reasons}
    because = {one["document"] for one in reasons.values()}
    assert because
    assert because <= {*own.relevant, own.irrelevant}


def test_reasons_compare_own_vectors_of_another_dimension(own: Own, model: Model) -> None:
    vector = [*vector_of(model), 0.1, 0.1, 0.1, 0.1]
    body = {"query": {"knn": {"longer": {"vector": vector, "k": COUNT}}}, "ext": {"ml_inference": {"query": "fire"}}}
    expected = own.post("/v1/search", query=body, session=SESSION)
    answer = own.post("/v1/search", query=body, session=SESSION, reasons=True)
    assert (answer["resift"]["outcome"], ids(answer)) == ("rewritten", ids(expected))
    because = {one["document"] for hit in answer["hits"]["hits"] if (one := hit["resift"]["because"])}
    assert because
    assert because <= {*own.relevant, own.irrelevant}


def test_the_vector_of_a_long_hybrid_search_follows_the_session(own: Own, model: Model) -> None:
    words = " ".join(["fire", *(f"w{number}" for number in range(1015))])
    knn = {"knn": {"cosine": {"vector": vector_of(model), "k": COUNT}}}
    query = {"hybrid": {"queries": [{"match": {"text": words}}, knn]}}
    body = {"query": query, "size": COUNT, "search_pipeline": pipeline(MIN_MAX)}
    after = rewritten(own, body, "too_many_clauses")
    text, moved = after["query"]["hybrid"]["queries"]
    assert (text, next(iter(moved))) == (query["hybrid"]["queries"][0], "knn")
    plain, found = search(own, body), search(own, after)
    assert sorted(ids(plain)) == sorted(ids(found))
    assert ids(plain) != ids(found)
    assert "resift" in found["hits"]["hits"][0]["matched_queries"]


def test_demoted_documents_of_a_hybrid_search_are_not_above_kept_ones(own: Own, model: Model) -> None:
    post = {"query": {"query": hybrid(vector_of(model)), "ext": {"ml_inference": {"query": "fire"}}}, "size": COUNT}
    own.post("/v1/feedback", session="demoting", query="fire", irrelevant=[own.irrelevant])
    with user_pipeline(own) as name, default_pipeline(own, name):
        kept, demoted = (own.post("/v1/search", **post, session="demoting", judged=how) for how in ("keep", "demote"))
    assert ids(demoted) == ids(kept)
    assert demoted["resift"]["outcome"] == "not_demoted"
