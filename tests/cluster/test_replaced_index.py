"""Tests of sessions after an alias was moved to a new index with the same documents, and the old index was deleted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Driver, Page, served
from flask import Flask
from flask.testing import FlaskClient
from service_app import TEXTS, ids, post

from resift import Model
from resift.contracts.documents import Document
from resift.errors import IndexNotServed
from resift.library import Library
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app


class Shop:
    """An alias of an index, which :meth:`replace` replaces by a new index."""

    def __init__(self, engine: OpenSearchEngine, model: Model) -> None:
        self.engine, self.model = engine, model
        self.alias = f"resift-test-{uuid.uuid4().hex[:8]}"
        self.index = ""
        self.replace()

    def replace(self, *missing: str) -> None:
        """Move the alias to a new index without the ``missing`` documents, and delete the old index."""
        old, self.index = self.index, f"{self.alias}-{uuid.uuid4().hex[:4]}"
        self.engine.create(self.index, ["text"], self.model)
        texts = {id: text for id, text in TEXTS.items() if id not in missing}
        documents = [Document(id, {"text": text}, self.model.encode_one(text)) for id, text in texts.items()]
        assert self.engine.bulk(self.index, documents) == []
        self.engine.refresh(self.index)
        actions: list[dict[str, object]] = [{"add": {"index": self.index, "alias": self.alias}}]
        actions += [{"remove_index": {"index": old}}] if old else []
        self.engine.client.indices.update_aliases(body={"actions": actions})


@pytest.fixture
def shop(cluster: OpenSearchEngine, model: Model) -> Iterator[Shop]:
    """Yield an alias, which is the only name that the service serves."""
    made = Shop(cluster, model)
    yield made
    cluster.drop(made.index)


def app(shop: Shop, folder: Path) -> Flask:
    """Yield a service without caches."""
    config = Config(store=str(folder / "s.db"), indices=(shop.alias,), index=shop.alias, alpha=0.5)
    return create_app(config, engine=shop.engine, model=shop.model)


@pytest.fixture
def client(shop: Shop, tmp_path: Path) -> FlaskClient:
    """Return a client of the service."""
    return app(shop, tmp_path).test_client()


@pytest.mark.parametrize("remembers", [True, False])
def test_marks_under_the_alias_are_of_the_new_index(
    shop: Shop, client: FlaskClient, tmp_path: Path, remembers: bool
) -> None:
    first, second, *_ = ids(post(client, "/v1/search", index=shop.alias, query="fire"))
    mark = {"session": "anna", "index": shop.alias, "query": "fire"}
    learned = post(client, "/v1/feedback", **mark, relevant=[first], irrelevant=[second], explain=True)["learned"]
    before = post(client, "/v1/search", index=shop.alias, query="bush", session="anna", alpha=0.7)
    shop.replace()
    client = client if remembers else app(shop, tmp_path).test_client()
    assert client.get("/v1/sessions/anna").get_json()["learned"] == learned
    after = post(client, "/v1/search", index=shop.alias, query="bush", session="anna", alpha=0.7)
    scores = [[(hit["_id"], round(hit["_score"], 3)) for hit in found["hits"]["hits"]] for found in (before, after)]
    assert scores[0] == scores[1] != []
    hidden = post(client, "/v1/search", index=shop.alias, query="fire", session="anna", judged="hide")
    assert ids(hidden)
    assert not {first, second} & set(ids(hidden))


def test_what_the_new_index_lacks_teaches_nothing(shop: Shop, client: FlaskClient, tmp_path: Path) -> None:
    first, second, *_ = ids(post(client, "/v1/search", index=shop.alias, query="fire"))
    post(client, "/v1/feedback", session="anna", index=shop.alias, query="fire", relevant=[first, second])
    shop.replace(first)
    session = app(shop, tmp_path).test_client().get("/v1/sessions/anna").get_json()
    assert [one["document"] for one in session["learned"]["because"]] == [second]


def test_the_library_marks_its_hits_under_the_alias(shop: Shop, client: FlaskClient) -> None:
    session = Library(client.application.extensions["resift"]).index(shop.alias).session("anna")
    hit = session.search("fire")[0]
    with pytest.raises(IndexNotServed):
        client.application.extensions["resift"].infos.get(hit["_index"])
    session.mark(relevant=[hit])
    shop.replace()
    assert [one["document"] for one in session.explain()["learned"]["because"]] == [hit.id]


def test_the_new_index_s_pipeline_has_its_searches_rewritten_by_them(shop: Shop, tmp_path: Path) -> None:
    def rewritten() -> dict[str, Any]:
        # a pipeline contains the name of its index, even if clients search by another name
        ext = {"ml_inference": {"session": "anna", "judged": "hide"}}
        asked = {"index": shop.index, "body": {"query": {"match": {"text": "fire"}}, "ext": ext}}
        found: dict[str, Any] = post(client, "/v1/rewrite", **asked)["body"]
        return found

    config = Config(store=str(tmp_path / "s.db"))
    client = create_app(config, engine=shop.engine, model=shop.model).test_client()
    first, second, *_ = ids(post(client, "/v1/search", index=shop.alias, query="fire"))
    post(client, "/v1/feedback", session="anna", index=shop.alias, query="fire", relevant=[first], irrelevant=[second])
    hidden = [{"ids": {"values": [first, second]}}]
    assert rewritten()["query"]["bool"]["must_not"] == hidden
    shop.replace()
    # the indices of an alias are cached for five seconds
    client = create_app(config, engine=shop.engine, model=shop.model).test_client()
    assert rewritten()["query"]["bool"]["must_not"] == hidden


def test_the_page_marks_and_reads_under_the_alias(driver: Driver, shop: Shop, client: FlaskClient) -> None:
    pressed = "#right .thumb[title=relevant][aria-pressed=true]"
    with served(client.application) as server:
        page = Page(driver, f"http://127.0.0.1:{server.server_port}")
        page.errors()
        page.colours("light")
        page.open(q="fire").click("#right .card:nth-child(2) .thumb[title=relevant]")
        marked = page.text("#right .card:has([aria-pressed=true]) h3")
        assert page.text("#toggle") == "Session · 1 mark"
        page.click("#right .card:nth-child(3) .read")
        assert page.text("#toggle") == "Session · 1 mark"
        page.click("#right .card:nth-child(3) .thumb[title=relevant]")
        assert page.text("#toggle") == "Session · 2 marks"
        shop.replace()
        page.driver.refresh()
        page.settle()
        assert page.text("#right .card:has([aria-pressed=true]) h3") == marked
        page.click(pressed)
        assert page.text("#toggle") == "Session · 1 mark"
        page.usual()
        assert page.errors() == []
