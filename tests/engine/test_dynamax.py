"""Tests of DynaMax as a similarity of searches and of reranking: formula, bounds, sessions, and indices of any kind."""

from __future__ import annotations

import math

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient
from service_app import TEXTS, ids, post
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import filled as filled
from service_app import plain as plain

import resift
from resift import Model, WordVectors
from resift.cli.main import main
from resift.encoders.dynamax import MAX_HITS, MAX_WORDS, DynaMax

QUERY = "fire and smoke"


def test_scores_of_words_are_multiplied_by_a_factor_of_dynamax(client: FlaskClient, filled: str, model: Model) -> None:
    search = {"index": filled, "query": {"match": {"text": QUERY}}}
    words_only = {hit["_id"]: hit["_score"] for hit in post(client, "/v1/search", **search, alpha=0)["hits"]["hits"]}
    answer = post(client, "/v1/search", **search, method="dynamax", alpha=0.75)
    assert answer["resift"]["method"] == "dynamax"
    assert (answer["resift"]["alpha"], answer["resift"]["window"]) == (0.75, MAX_HITS)
    # the model of the test is named "mean", so its word vectors are compared
    similarities = dict(zip(TEXTS, DynaMax(model.table).scores(QUERY, list(TEXTS.values())).tolist(), strict=True))
    found = {hit["_id"]: hit for hit in answer["hits"]["hits"]}
    assert set(found) == set(words_only)
    for id, hit in found.items():
        assert hit["resift"]["similarity"] == pytest.approx(similarities[id], abs=1e-4)
        assert hit["_score"] == pytest.approx(words_only[id] * math.exp(3 * similarities[id]), rel=1e-4)
    scores = [hit["_score"] for hit in answer["hits"]["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert answer["hits"]["max_score"] == scores[0]


def test_pages_are_parts_of_one_list(client: FlaskClient, filled: str) -> None:
    search = {"index": filled, "query": {"match": {"text": QUERY}}, "method": "dynamax"}
    whole = ids(post(client, "/v1/search", **search))
    pages = [post(client, "/v1/search", **search, size=2, **{"from": start}) for start in range(0, len(whole), 2)]
    assert [id for page in pages for id in ids(page)] == whole


def test_a_search_without_a_text_is_not_reordered(client: FlaskClient, filled: str) -> None:
    search = {"index": filled, "query": {"range": {"n": {"gte": 3}}}}
    answer = post(client, "/v1/search", **search, method="dynamax")
    assert answer["resift"]["reranked"] is False
    assert ids(answer) == ids(post(client, "/v1/search", **search))


def test_a_session_adds_its_words(client: FlaskClient, filled: str) -> None:
    search = {"index": filled, "query": {"match": {"text": "fire"}}, "method": "dynamax"}
    before = {hit["_id"]: hit["_score"] for hit in post(client, "/v1/search", **search)["hits"]["hits"]}
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["tree"])
    answer = post(client, "/v1/search", **search, session="a")
    gains = {hit["_id"]: hit["_score"] / before[hit["_id"]] for hit in answer["hits"]["hits"]}
    assert answer["resift"]["session"] == "a"
    assert gains["bush"] > gains["army"]


def test_reranking_by_dynamax(plain: FlaskClient, model: Model) -> None:
    texts = ["an army with a gun", "smoke of a fire", "", "zzz"]
    answer = post(plain, "/v1/rerank", query="fire zzz", documents=texts, method="dynamax")
    expected = DynaMax(model.table).scores("fire zzz", texts).tolist()
    assert {one["index"]: one["relevance_score"] for one in answer["results"]} == pytest.approx(
        dict(enumerate(expected)), abs=1e-4
    )
    assert min(expected[1], expected[3]) > 0 == expected[2]
    many = {"documents": ["fire " * 10] * 3500, "method": "dynamax"}
    refused = post(plain, "/v1/rerank", 413, query="fire " * 100, **many)
    assert "pairs of words" in refused["error"]["message"]
    assert post(plain, "/v1/rerank", query="fire", top_n=1, **many)["results"]


def test_only_the_first_words_of_a_text_are_compared(vectors: WordVectors) -> None:
    compared, beginning = DynaMax(vectors), "river " * MAX_WORDS
    long, short = compared.scores("fire", [f"{beginning} fire", beginning])
    assert long == short
    assert compared.scores("fire", [f"fire {beginning}"])[0] > short


def test_commands_and_the_library_compare_words(here: object) -> None:
    with resift.open("resift.db") as library:
        news = library.index("news", fields=["text"])
        news.add([{"id": id, "text": text} for id, text in TEXTS.items()])
        hits = news.search("smoke", method="dynamax")
        assert hits.response["resift"]["method"] == "dynamax"
        assert all(0 < hit["resift"]["similarity"] < 1 for hit in hits)
    result = CliRunner().invoke(main, ["search", "news", "smoke", "--method", "dynamax"])
    assert result.exit_code == 0
    assert "bush" in result.stdout
    explained = CliRunner().invoke(main, ["search", "news", "smoke", "--method", "dynamax", "--explain", "--json"])
    assert "script_score" not in explained.stdout  # no stage compares vectors
