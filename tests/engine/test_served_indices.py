"""Tests of the allow-list of indices on OpenSearch: names, aliases, patterns, lists, data streams and lookups."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from service_app import post

from resift import Model
from resift.contracts.documents import Document
from resift.embedded.engine import SqliteEngine
from resift.errors import BadInput, IndexNotServed
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.limits import collect_contents
from resift.query.lookups import named_indices
from resift.reranker import Config, create_app
from resift.service.served_indices import ServedIndices

P = f"resift-test-{uuid.uuid4().hex[:8]}"
OPEN, MORE, SECRET, SESSIONS = f"{P}-open", f"{P}-more", f"{P}-secret", f"{P}_sessions"
GRANTED = f"{P}-granted"  # an alias of SECRET that is in the allow-list


def alike(index: str) -> str:
    """Return a name for a test case that is the same in every run and process of pytest-xdist."""
    return index.replace(P, "resift-test")


@pytest.fixture(scope="module")
def indices(cluster: OpenSearchEngine, model: Model) -> Iterator[None]:
    """Create two served indices, an unserved index, an index of sessions, aliases of each, and a data stream."""
    client = cluster.client
    for name in (OPEN, MORE, SECRET, SESSIONS):
        cluster.create(name, ["text"], model)
        document = Document("1", {"text": "fire", "ids": ["1"]}, model.encode(["fire"])[0])
        assert cluster.bulk(name, [document]) == []
        cluster.refresh(name)
    aliases = {"to-open": OPEN, "to-secret": SECRET, "granted": SECRET, "to-sessions": SESSIONS}
    for alias, name in aliases.items():
        client.indices.put_alias(index=name, name=f"{P}-{alias}")
    stream = {"index_patterns": [f"{P}-stream*"], "data_stream": {}, "priority": 999}
    client.indices.put_index_template(name=P, body=stream)
    body = {"@timestamp": "2025-01-01", "text": "fire"}
    client.index(index=f"{P}-stream", body=body, params={"refresh": "true", "op_type": "create"})
    yield
    client.transport.perform_request("DELETE", f"/_data_stream/{P}-stream")
    client.indices.delete_index_template(name=P)
    for name in (OPEN, MORE, SECRET, SESSIONS):
        cluster.drop(name)


@pytest.fixture
def client(cluster: OpenSearchEngine, model: Model, tmp_path: Path, indices: None) -> FlaskClient:
    """Return an application with an allow-list."""
    served = (OPEN, f"{P}-m*", f"{P}-stream", GRANTED)
    config = Config(store=str(tmp_path / "sessions.db"), session_index=SESSIONS, indices=served)
    return create_app(config, engine=cluster, model=model).test_client()


@pytest.fixture
def unlisted(cluster: OpenSearchEngine, model: Model, tmp_path: Path, indices: None) -> FlaskClient:
    """Return an application without an allow-list."""
    config = Config(store=str(tmp_path / "sessions.db"), session_index=SESSIONS)
    return create_app(config, engine=cluster, model=model).test_client()


ALLOWED = [OPEN, MORE, f"{OPEN},{MORE}", f"{P}-o*", f"{P}-m*,{OPEN}", f"{P}-to-open", GRANTED, f"{GRANTED},{MORE}"]
STREAM = f".ds-{P}-stream-000001"  # names that search pipelines and hits contain
ALLOWED += [f"{P}-stream", STREAM, f"{OPEN},{STREAM}", f"{P}-s*,-{P}-secret,-{P}-granted", f"{GRANTED},{P}-m*"]
REFUSED = [SECRET, f"{OPEN},{SECRET}", f"{P}-s*", f"{P}*", f"{P}-to-secret", f"{P}-to*", f"{P}-granted*"]
REFUSED += [f"{GRANTED},{SECRET}", f"{GRANTED},{P}*", f".ds-{SECRET}-000001", f"{STREAM},{SECRET}", "*", "_all"]
NEVER = [
    SESSIONS,
    f"{OPEN},{SESSIONS}",
    f"{P}-to-sessions",
    f"{P}_s*",
    ".tasks",
    ".*",
    f"{OPEN},.*",
    ".plugins-ml-config",
]
NEVER += [f".ds-{SESSIONS}-000001", f"{STREAM}*", ".ds-.tasks-000001", ".ds-*", "<.{now/d}>"]


@pytest.mark.parametrize("index", ALLOWED, ids=alike)
def test_what_the_list_allows_is_served(client: FlaskClient, index: str) -> None:
    found = post(client, "/v1/search", index=index, query="fire")
    assert found["hits"]["hits"]


# nodes with system indices warn about "*"
@pytest.mark.filterwarnings("ignore:this request accesses system indices")
@pytest.mark.parametrize("index", [*REFUSED, *NEVER], ids=alike)
def test_nothing_else_is_served_however_it_is_called(client: FlaskClient, index: str) -> None:
    for path, body in (
        ("/v1/search", {"query": "fire"}),
        ("/v1/search", {"query": {"match_all": {}}}),
        ("/v1/feedback", {"session": "a", "relevant": ["1"]}),
    ):
        answer = client.post(path, json={"index": index, **body})
        # OpenSearch answers that some of these indices do not exist, which reveals nothing either.
        assert answer.get_json()["error"]["code"] in ("index_not_served", "index_not_found"), answer.text
        assert "hits" not in answer.get_json()
    assert client.get("/v1/sessions/a").status_code == 404


def test_a_listed_pattern_does_not_serve_other_indices_through_their_aliases(
    client: FlaskClient, cluster: OpenSearchEngine
) -> None:
    alias = f"{P}-m-secret"  # matches the pattern in the settings
    cluster.client.indices.put_alias(index=SECRET, name=alias)
    try:
        for index in (f"{P}-m*", f"{P}-m*,{OPEN}", f"{GRANTED},{P}-m*", alias):
            answer = client.post("/v1/search", json={"index": index, "query": "fire"})
            assert answer.status_code == 403, (index, answer.text)
    finally:
        cluster.client.indices.delete_alias(index=SECRET, name=alias)


@pytest.fixture
def remote(cluster: OpenSearchEngine) -> Iterator[str]:
    """Connect the cluster to itself as a remote cluster, and return the name of the remote cluster."""
    name = f"{P}-remote"
    (node,) = cluster.client.nodes.info(node_id="_local", metric="transport")["nodes"].values()
    setting = f"cluster.remote.{name}.seeds"
    cluster.client.cluster.put_settings(body={"persistent": {setting: [node["transport"]["publish_address"]]}})
    yield name
    cluster.client.cluster.put_settings(body={"persistent": {setting: None}})


def test_indices_of_remote_clusters_are_not_served(
    client: FlaskClient, unlisted: FlaskClient, cluster: OpenSearchEngine, remote: str
) -> None:
    # The cluster itself can search the remote indices. But as names of mappings, they match no index.
    for index in (f"{OPEN},{remote}:{SECRET[:-1]}*", f"{OPEN},*:{SECRET[:-1]}*", f"{OPEN},{remote}:*"):
        hits = cluster.search(index, {"size": 100}).hits
        assert any(hit["_index"] == f"{remote}:{SECRET}" for hit in hits)
        for asked in (client, unlisted):
            answer = asked.post("/v1/search", json={"index": index, "query": {"match_all": {}}})
            assert answer.status_code == 403, answer.text
    assert unlisted.post("/v1/search", json={"index": f"{remote}:{SECRET}", "query": "fire"}).status_code == 403


def test_sessions_of_an_index_that_is_served_no_more_teach_nothing(client: FlaskClient, unlisted: FlaskClient) -> None:
    post(unlisted, "/v1/feedback", session="a", index=SECRET, query="fire", relevant=["1"])
    assert unlisted.get("/v1/sessions/a").get_json()["learned"] is not None
    assert client.get("/v1/sessions/a").get_json()["learned"] is None
    assert post(client, "/v1/search", index=OPEN, query="fire", session="a")["resift"]["session"] is None


@pytest.mark.parametrize("index", NEVER, ids=alike)
def test_internal_indices_are_never_served(unlisted: FlaskClient, index: str) -> None:
    answer = unlisted.post("/v1/search", json={"index": index, "query": "fire"})
    assert answer.get_json()["error"]["code"] in ("index_not_served", "index_not_found"), answer.text
    assert unlisted.post("/v1/search", json={"index": SECRET, "query": "fire"}).status_code == 200


def lookups(index: str) -> list[dict[str, Any]]:
    """Return queries that look something up in another index."""
    terms = {"terms": {"_id": {"index": index, "id": "1", "path": "ids"}}}
    hidden = base64.b64encode(json.dumps(terms).encode()).decode()
    return [
        terms,
        {"bool": {"filter": [{"constant_score": {"filter": terms}}]}},
        {"wrapper": {"query": hidden}},
        {
            "more_like_this": {
                "like": [{"_index": index, "_id": "1"}],
                "fields": ["text"],
                "min_term_freq": 1,
                "min_doc_freq": 1,
            }
        },
        {
            "more_like_this": {
                "like": "fire",
                "unlike": {"_index": index, "_id": "1"},
                "fields": ["text"],
                "min_doc_freq": 1,
            }
        },
    ]


@pytest.mark.parametrize("position", range(5))
def test_queries_look_nothing_up_in_other_indices(client: FlaskClient, unlisted: FlaskClient, position: int) -> None:
    for asked, index, status in (
        (client, MORE, 200),
        (client, SECRET, 403),
        (client, SESSIONS, 403),
        (unlisted, SESSIONS, 403),
    ):
        query = lookups(index)[position]
        for body in (
            {"query": query},
            {"query": {"query": query}},
            {"query": "fire", "filter": query},
            {"query": {"query": {"match_all": {}}, "post_filter": query}},
            {"query": {"query": {"match_all": {}}, "size": 0, "aggs": {"a": {"filter": query}}}},
        ):
            answer = asked.post("/v1/search", json={"index": OPEN, **body})
            assert answer.status_code == status, (index, body, answer.text)


@pytest.mark.parametrize("position", range(5))
def test_rewriting_runs_no_lookups_in_other_indices(
    client: FlaskClient, cluster: OpenSearchEngine, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    post(client, "/v1/feedback", session="a", index=OPEN, query="fire", relevant=["1"])
    sent: list[str] = []
    search = cluster.search

    def record(index: str, body: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(json.dumps(body))
        return search(index, body, *arguments, **options)

    monkeypatch.setattr(cluster, "search", record)
    harmless, lookup = {"term": {"text": "fire"}}, lookups(SECRET)[position]
    for condition in (harmless, lookup):
        query = {"bool": {"must": [{"match": {"text": "fire"}}], "filter": [condition]}}
        body = {"query": query, "ext": {"resift": {"session": "a", "widen": True}}}
        post(client, "/v1/rewrite", index=OPEN, body=body)
    assert any(json.dumps(harmless) in body for body in sent)
    assert not any(json.dumps(lookup) in body for body in sent)


def looked_up(value: Any) -> list[str]:
    """Return the indices that a part of a body names, sorted."""
    return sorted(named_indices(collect_contents("query", value)))


def test_where_a_query_names_indices() -> None:
    terms = {"terms": {"f": {"index": "a", "id": "1", "path": "p"}}}
    assert looked_up({"query": {"percolate": {"field": "q", "index": "b", "id": "1"}}}) == ["b"]
    shape = {"geo_shape": {"where": {"indexed_shape": {"id": "1"}}}}
    assert looked_up([shape, terms]) == ["a", "shapes"]
    assert looked_up({"search_pipeline": {"request_processors": [{"filter_query": {"query": terms}}]}}) == ["a"]
    fields: list[dict[str, Any]] = [
        {"match": {"index": "secret"}},
        {"term": {"_index": "secret"}},
        {"terms": {"index": ["a", "b"]}},
        {"terms": {"field": "x", "order": {"index": "desc"}}},
        {"match": {"wrapper": "text"}},
        {"match": {"collate": {"query": "text"}}},
        {"ext": {"ml_inference": {"query": "fire", "session": "anna"}}},
        {"ext": {"resift": {"query": "fire", "session": "anna"}}},
        {"more_like_this": {"like": ["some text"], "fields": ["text"]}},
    ]
    assert looked_up(fields) == []
    deep: Any = terms
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadInput, match="levels deep"):
        looked_up(deep)


@pytest.mark.parametrize(
    "hiding",
    [
        {"wrapper": {"query": base64.b64encode(b"\xbf\x61a\x01\xff").decode()}},  # CBOR, which OpenSearch also accepts
        {"wrapper": {"query": "!!"}},
        {"match_phrase": {"wrapper": {"query": "text"}}},  # a field of this name, which looks like a wrapper query
        {"search_pipeline": {"request_processors": [{"ml_inference": {"query_template": "{}"}}]}},
        {"search_pipeline": {"request_processors": [{"resift": {"url": "http://127.0.0.1"}}]}},
        {"suggest": {"s": {"phrase": {"collate": {"query": {"source": "{}"}}}}}},
    ],
)
def test_what_hides_a_query_is_refused(hiding: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        looked_up({"query": hiding})


@pytest.mark.parametrize(
    ("pattern", "served"), [("*", True), ("docs", True), ("d*s", True), ("do", False), ("*x", False), ("d.cs", False)]
)
def test_patterns(tmp_path: Path, model: Model, pattern: str, served: bool) -> None:
    engine = SqliteEngine(str(tmp_path / "engine.db"))
    engine.create("docs", ["text"], model)
    config = Config(store=str(tmp_path / "sessions.db"), indices=(pattern,))
    client = create_app(config, engine=engine, model=model).test_client()
    assert client.post("/v1/search", json={"index": "docs", "query": "fire"}).status_code == (200 if served else 403)
    engine.close()


def test_what_resolves_to_nothing_is_not_served() -> None:
    with pytest.raises(IndexNotServed):
        ServedIndices(("*",), "sessions").require_served("docs", lambda index: ())
