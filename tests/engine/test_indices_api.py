"""Tests of the lists of indices, cards, facets, suggestions, and searches without vectors."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from service_app import TEXTS, ids, post, wait_for_sample
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import filled as filled

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

KINDS = ["dry", "wet", "dry", "war", "war", "wet", "dry"]


@pytest.fixture
def kinds(engine: Engine, index: str, model: Model, tmp_path: Path) -> str:
    """Return an index whose documents have titles, links, and fields with few distinct values."""
    records = [
        Record(
            "f",
            n,
            id,
            {
                "title": f"About <b>{id}</b>",
                "text": text * 9,
                "url": f"https://a.example/{id}",
                "kind": kind,
                "hot": n > 4,
                "year": 2001 + n % 2,
            },
        )
        for n, ((id, text), kind) in enumerate(zip(TEXTS.items(), KINDS, strict=True))
    ]
    assert Indexer(engine, model, index, DeadLetters(tmp_path / "dead")).run(records, ["title", "text"]).refused == 0
    return index


def get(client: FlaskClient, path: str, status: int = 200) -> dict[str, Any]:
    """Return the JSON response to a GET request, and check its status."""
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.get_json()
    return found


def test_indices_are_listed_with_their_documents(client: FlaskClient, filled: str) -> None:
    answer = get(client, "/v1/indices")
    assert {"index": filled, "documents": 7} in answer["indices"]
    assert answer["methods"] == ["vectors", "dynamax"]


def test_documents_are_not_counted_for_each_list_of_indices(
    client: FlaskClient, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = get(client, "/v1/indices")
    monkeypatch.setattr(client.application.extensions["resift"].engine, "search", None)
    assert get(client, "/v1/indices") == first


def test_only_what_is_served_and_can_be_searched_is_listed(
    engine: Engine, filled: str, model: Model, packaged: Model, config: Config, tmp_path: Path
) -> None:
    other = f"{filled}-other"
    engine.create(other, ["text"], packaged)
    try:
        everything = create_app(config, engine=engine, model=model).test_client()
        listed = [one["index"] for one in everything.get("/v1/indices").get_json()["indices"]]
        assert filled in listed
        assert other not in listed  # its vectors come from another model
        assert get(everything, f"/v1/indices/{other}", 409)["error"]["code"] == "model_mismatch"
        for patterns, expected in (((filled,), [filled]), ((f"{filled}*",), [filled]), (("none", "none-*"), [])):
            settings = Config(store=str(tmp_path / "s.db"), indices=patterns)
            some = create_app(settings, engine=engine, model=model).test_client()
            assert [one["index"] for one in some.get("/v1/indices").get_json()["indices"]] == expected
        refused = get(some, f"/v1/indices/{filled}", 403)
        assert refused["error"]["code"] == "index_not_served"
    finally:
        engine.drop_if_exists(other)
    assert get(everything, "/v1/indices/none-such", 404)["error"]["code"] == "index_not_found"


def test_an_index_says_how_it_is_shown(client: FlaskClient, kinds: str) -> None:
    answer = get(client, f"/v1/indices/{kinds}")
    assert (answer["indices"], answer["documents"], answer["fields"]) == ([kinds], 7, ["title", "text"])
    assert answer["card"] == {"title": "title", "text": "text", "link": "url", "image": None}
    assert sorted(answer["facets"]) == ["hot", "kind", "year"]
    assert 1 <= len(answer["examples"]) <= 3
    for example in answer["examples"]:
        assert "b" not in example.split(), "no tag of a title"
        assert ids(post(client, "/v1/search", index=kinds, query=example))


def test_a_service_reads_ahead_what_its_first_search_needs(
    engine: Engine, kinds: str, model: Model, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in ("none", kinds):  # an index that cannot be read is not an error of the service
        client = create_app(Config(store=config.store, index=index), engine=engine, model=model).test_client()
        client.application.extensions["resift"].warm_up()
        wait_for_sample()
    drawn: list[str] = []
    monkeypatch.setattr(engine, "sample", lambda name, *_, **__: drawn.append(name))
    assert get(client, f"/v1/indices/{kinds}")["facets"]
    assert get(client, f"/v1/indices/{kinds}/suggestions?q=fire+fo")["suggestions"] == ["fire forest"]
    assert drawn == []


def test_an_empty_index_is_looked_at_again(client: FlaskClient, engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    answer = get(client, f"/v1/indices/{index}")
    assert (answer["documents"], answer["examples"], answer["card"]["text"]) == (0, [], None)
    engine.bulk(index, [Document("1", {"text": "fire in the bush"}, model.encode(["fire"])[0])])
    engine.refresh(index)
    answer = get(client, f"/v1/indices/{index}")
    assert (answer["documents"], answer["examples"]) == (1, ["fire bush"])


def test_settings_win_over_guesses(engine: Engine, kinds: str, model: Model, config: Config) -> None:
    settings = Config(store=config.store, page_fields=("title=kind", "link=", "facet=year"))
    client = create_app(settings, engine=engine, model=model).test_client()
    answer = get(client, f"/v1/indices/{kinds}")
    assert (answer["card"]["title"], answer["card"]["link"], answer["facets"]) == ("kind", None, ["year", "hot"])
    card = post(client, "/v1/search", index=kinds, query="bush", documents="card")["hits"]["hits"][0]["resift"]["card"]
    assert (card["title"], "link" in card) == ("dry", False)


@pytest.mark.parametrize("alpha", [0, 0.5])
def test_hits_come_as_cards_or_as_ids(client: FlaskClient, kinds: str, alpha: float) -> None:
    body = {"index": kinds, "query": "fire", "alpha": alpha, "highlight": True}
    whole = post(client, "/v1/search", **body)
    cards = post(client, "/v1/search", **body, documents="card")
    bare = post(client, "/v1/search", **body, documents="none")
    assert ids(whole) == ids(cards) == ids(bare)
    for source, card, none in zip(*(one["hits"]["hits"] for one in (whole, cards, bare)), strict=True):
        assert "_source" in source
        assert "_source" not in card
        assert "_source" not in none
        assert card["highlight"] == source["highlight"]
        assert card["resift"]["card"] == {
            "title": source["_source"]["title"],
            "text": source["_source"]["text"][:400],
            "link": source["_source"]["url"],
            "facts": {"kind": source["_source"]["kind"], "year": str(source["_source"]["year"])},
        }
    clause = {"match": {"text": "fire"}}
    for documents in ("card", "none"):
        refused = post(client, "/v1/search", 400, index=kinds, query=clause, documents=documents)
        assert "_source" in refused["error"]["expected"]


def test_values_are_counted_among_all_hits(client: FlaskClient, kinds: str) -> None:
    body = {"index": kinds, "query": "fire", "size": 1, "facets": ["kind", "hot", "year", "none"]}
    facets = post(client, "/v1/search", **body)["resift"]["facets"]
    found = {name: {str(one["value"]): one["count"] for one in values} for name, values in facets.items()}
    assert found == {
        "kind": {"dry": 2, "war": 2, "wet": 1},
        "hot": {"False": 5},
        "year": {"2001": 3, "2002": 2},
        "none": {},
    }
    assert facets["hot"][0]["value"] is False
    filtered = post(client, "/v1/search", **body, filter={"term": {"kind": "war"}})["resift"]["facets"]
    assert filtered["kind"] == [{"value": "war", "count": 2}]
    # Facets also count hits of the session's words. Their sum equals the total.
    post(client, "/v1/feedback", session="a", index=kinds, query="fire", relevant=["rain"])
    widened = post(client, "/v1/search", **body, session="a")
    counted = sum(one["count"] for one in widened["resift"]["facets"]["year"])
    assert counted == widened["hits"]["total"]["value"] > 5
    assert "facets" not in post(client, "/v1/search", index=kinds, query="fire")["resift"]


def test_numbers_and_dates_are_counted_by_ranges(
    client: FlaskClient, engine: Engine, index: str, model: Model, tmp_path: Path
) -> None:
    sources = [{"text": f"fire {n}", "price": 1.5 + n, "day": f"20{n:02}-03-05"} for n in range(20)]
    records = [Record("f", n, str(n), source) for n, source in enumerate(sources)]
    assert Indexer(engine, model, index, DeadLetters(tmp_path / "dead")).run(records, ["text"]).refused == 0
    assert get(client, f"/v1/indices/{index}")["ranges"].keys() == {"price", "day"}
    body = {"index": index, "query": "fire", "facets": ["price", "day"], "size": 20}
    answer = post(client, "/v1/search", **body)
    for name in ("price", "day"):
        ranges = answer["resift"]["facets"][name]
        assert sum(one["count"] for one in ranges) == 20
        limits = {key: ranges[1][end] for key, end in (("gte", "from"), ("lt", "to"))}
        narrowed = post(client, "/v1/search", **body, filter={"range": {name: limits}})
        assert len(ids(narrowed)) == ranges[1]["count"] > 0


def test_a_search_leaves_words_of_the_session_out(client: FlaskClient, filled: str) -> None:
    marks = {"session": "w", "index": filled, "query": "smoke", "relevant": ["wood"]}
    asked = post(client, "/v1/feedback", **marks, explain=True)["learned"]["asked"]
    body = {"index": filled, "query": "smoke", "session": "w", "alpha": 0}
    assert set(ids(post(client, "/v1/search", **body))) > {"bush", "tree"}
    assert set(ids(post(client, "/v1/search", **body, without=asked))) == {"bush", "tree"}


def test_what_is_typed_is_completed(client: FlaskClient, kinds: str) -> None:
    path = f"/v1/indices/{kinds}/suggestions?q="
    assert get(client, f"{path}fo")["suggestions"] in ([], ["forest"])
    wait_for_sample()
    assert get(client, f"{path}fire+fo")["suggestions"] == ["fire forest"]
    assert get(client, f"{path}about+fo")["suggestions"][0] == "about forest"
    titles = get(client, f"{path}abo")["suggestions"]
    assert len(titles) == 4
    assert set(titles) < {f"About {id}" for id in TEXTS}
    assert get(client, path)["suggestions"] == []


def test_a_text_has_no_values_to_count_and_its_keyword_has(
    cluster: OpenSearchEngine, model: Model, tmp_path: Path
) -> None:
    index = f"resift-test-{uuid.uuid4().hex[:12]}"
    texts = {"title": {"type": "text", "fields": {"keyword": {"type": "keyword"}}}, "text": {"type": "text"}}
    mapping = {"properties": {**texts, "kind": {"type": "keyword"}, "year": {"type": "date"}}}
    client = create_app(Config(store=str(tmp_path / "s.db")), engine=cluster, model=model).test_client()
    try:
        cluster.client.indices.create(index=index, body={"mappings": mapping})
        body = {"title": "A fire", "text": "in the bush", "kind": "dry", "year": "2001"}
        cluster.client.index(index=index, body=body, params={"refresh": "true"})
        error = post(client, "/v1/search", 400, index=index, query="fire", facets=["year", "title"])["error"]
        assert "use a keyword field instead" in error["message"]
        found = post(client, "/v1/search", index=index, query="fire", facets=["year", "title.keyword"])
        assert [len(values) for values in found["resift"]["facets"].values()] == [1, 1]
    finally:
        cluster.drop_if_exists(index)


@pytest.mark.parametrize("options", [{}, {"reasons": True}, {"method": "dynamax"}])
def test_a_search_whose_rewriting_the_index_refuses_returns_plain_hits_and_facets(
    cluster: OpenSearchEngine, model: Model, tmp_path: Path, options: dict[str, Any]
) -> None:
    index = f"resift-test-{uuid.uuid4().hex[:12]}"
    client = create_app(Config(store=str(tmp_path / "s.db")), engine=cluster, model=model).test_client()
    mapping = {"properties": {"text": {"type": "text"}, "kind": {"type": "keyword"}}}
    try:
        cluster.client.indices.create(index=index, body={"mappings": mapping})
        body = {"text": "fire in the bush with smoke and flame", "kind": "dry"}
        cluster.client.index(index=index, id="1", body=body, params={"refresh": "true"})
        post(client, "/v1/feedback", index=index, session="a", query="fire", relevant=["1"])
        search = {"index": index, "query": {"match": {"text": "fire"}}, "session": "a", "facets": ["kind"]}
        post(client, "/v1/search", **search, **options)
        # The service remembers the limits of an index for a minute.
        limits = {"index": {"max_rescore_window": 50, "max_result_window": 150}}
        cluster.client.indices.put_settings(index=index, body=limits)
        found = post(client, "/v1/search", **search, **options)
        assert [hit["_id"] for hit in found["hits"]["hits"]] == ["1"]
        assert found["resift"]["facets"] == {"kind": [{"value": "dry", "count": 1}]}
        assert found["resift"]["outcome"] == "failed"
        assert "window" in found["resift"]["reason"]
        smaller = post(client, "/v1/search", **search, window=50)
        assert (smaller["resift"]["outcome"], smaller["resift"]["session"]) == ("rewritten", "a")
        error = post(client, "/v1/search", 400, **search, size=151)["error"]
        assert "from + size must be less than or equal to: [150] but was [151]" in error["message"]
    finally:
        cluster.drop_if_exists(index)


def test_long_documents_are_highlighted(client: FlaskClient, engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    texts = {"long": "fire " + "in the bush " * 100_000, "late": "the bush " * 120_000 + "fire"}
    engine.bulk(index, [Document(id, {"text": text}, model.encode(["fire"])[0]) for id, text in texts.items()])
    engine.refresh(index)
    body = {"index": index, "query": "fire", "highlight": True, "documents": "card"}
    hits = {hit["_id"]: hit for hit in post(client, "/v1/search", **body)["hits"]["hits"]}
    assert "<em>fire</em>" in hits["long"]["highlight"]["text"][0]
    assert "highlight" not in hits["late"]  # beyond the last page
    assert hits["late"]["resift"]["card"]["text"].startswith("the bush")
