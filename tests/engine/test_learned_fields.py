"""In an index without vectors, sessions learn from the text fields that queries search, also inside objects."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from service_app import post

from resift import Model
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

TEXT, KEYWORD = {"type": "text", "analyzer": "english"}, {"type": "keyword"}
PACKAGES: dict[str, Any] = {
    "name": {**KEYWORD, "fields": {"text": TEXT}},
    "pkg": {"properties": {"description": TEXT}},
    "reviews": {"type": "nested", "properties": {"comment": TEXT}},
    "tags": TEXT,
    "section": KEYWORD,
    "homepage": {**KEYWORD, "index": False},
    "maintainer": TEXT,
    "maintainer_email": TEXT,
}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "feh": {
        "name": "feh",
        "pkg": {"description": "viewer of pictures"},
        "reviews": [{"comment": "fast"}, {"comment": ["photographs"]}],
        "tags": ["slideshow", "wallpaper"],
        "section": "graphics",
        "homepage": "https://www.example.org/linux",
        "maintainer": "Ann Example",
        "maintainer_email": "ann@example.org",
    },
    "eog": {"name": "eog", "pkg": {"description": "pictures of the desktop"}, "section": "graphics"},
    "mpv": {"name": "mpv", "pkg": {"description": "viewer of films"}, "section": "video", "maintainer": "Ann Example"},
}


def filled(cluster: OpenSearchEngine, mappings: dict[str, Any], ids: list[str]) -> str:
    """Return the name of a new index that contains some of the documents."""
    name, request = f"learned-{uuid.uuid4().hex[:8]}", Cluster(cluster).request
    settings = {"number_of_shards": 1, "number_of_replicas": 0}
    request("PUT", f"/{name}", {"settings": settings, "mappings": mappings})
    lines = [line for id in ids for line in (json.dumps({"index": {"_id": id}}), json.dumps(DOCUMENTS[id]))]
    request("POST", f"/{name}/_bulk", "\n".join(lines) + "\n", refresh="true")
    return name


@pytest.fixture(scope="module")
def packages(cluster: OpenSearchEngine) -> Iterator[str]:
    name = filled(cluster, {"properties": PACKAGES}, list(DOCUMENTS))
    yield name
    cluster.drop_if_exists(name)


@pytest.fixture
def client(cluster: OpenSearchEngine, model: Model, tmp_path: Path) -> FlaskClient:
    return create_app(Config(store=str(tmp_path / "sessions.db")), engine=cluster, model=model).test_client()


def explained(client: FlaskClient, index: str, *ids: str) -> set[str]:
    """Return the words that a new session learns from marked documents."""
    session = uuid.uuid4().hex
    answer = post(client, "/v1/feedback", session=session, index=index, query="xyz", relevant=list(ids), explain=True)
    return set(answer["learned"]["asked"])


def added(client: FlaskClient, index: str, query: dict[str, Any]) -> set[str]:
    """Return the words that a session adds to a query after the document feh was marked."""
    session = uuid.uuid4().hex
    post(client, "/v1/feedback", session=session, index=index, query="xyz", relevant=["feh"])
    options = {"query": "xyz", "session": session}
    answer = post(client, "/v1/rewrite", index=index, body={"query": query, "ext": {"resift": options}})
    return set(re.findall(r'"query": "(\w+)"', json.dumps(answer["body"]))) - {"xyz"}


def test_only_words_of_text_fields_are_learned(client: FlaskClient, packages: str) -> None:
    words = {"feh", "viewer", "pictures", "fast", "photographs", "slideshow", "wallpaper"}
    assert explained(client, packages, "feh") == words
    assert explained(client, packages, "eog") == {"eog", "pictures", "desktop"}


def test_a_query_learns_from_the_fields_that_it_searches(client: FlaskClient, packages: str) -> None:
    boosted = {"multi_match": {"query": "xyz", "fields": ["name.text^3", "tags"]}}
    assert added(client, packages, boosted) == {"feh", "slideshow", "wallpaper"}
    comments = {"nested": {"path": "reviews", "query": {"match": {"reviews.comment": "xyz"}}}}
    assert added(client, packages, {"bool": {"should": [comments, {"term": {"section": "graphics"}}]}}) == {
        "fast",
        "photographs",
    }
    everything = {"feh", "viewer", "pictures", "fast", "photographs", "slideshow", "wallpaper"}
    assert added(client, packages, {"multi_match": {"query": "xyz"}}) == everything
    assert added(client, packages, {"match": {"maintainer": "xyz"}}) == everything


def test_an_alias_of_indices_with_different_mappings(
    cluster: OpenSearchEngine, client: FlaskClient, packages: str
) -> None:
    text = {"properties": {"name": KEYWORD, "section": KEYWORD, "pkg": {"properties": {"description": KEYWORD}}}}
    other = filled(cluster, {"dynamic": False, **text}, ["mpv"])
    try:
        assert explained(client, other, "mpv") == {"mpv", "video", "viewer", "films"}  # there is no text field
        alias = f"learned-{uuid.uuid4().hex[:8]}"
        actions = [{"add": {"index": name, "alias": alias}} for name in (packages, other)]
        Cluster(cluster).request("POST", "/_aliases", {"actions": actions})
        assert "graphics" not in added(client, alias, {"match": {"pkg.description": "xyz"}})
    finally:
        cluster.drop_if_exists(other)


def test_a_source_without_some_fields(cluster: OpenSearchEngine, client: FlaskClient) -> None:
    filtered = filled(cluster, {"_source": {"excludes": ["tags", "reviews"]}, "properties": PACKAGES}, ["feh"])
    stored = {"name": {**KEYWORD, "fields": {"text": {**TEXT, "store": True}}}, "section": {**KEYWORD, "store": True}}
    hidden = filled(cluster, {"_source": {"enabled": False}, "properties": stored}, ["feh"])
    try:
        assert explained(client, filtered, "feh") == {"feh", "viewer", "pictures"}
        assert explained(client, hidden, "feh") == {"feh"}
    finally:
        cluster.drop_if_exists(filtered)
        cluster.drop_if_exists(hidden)
