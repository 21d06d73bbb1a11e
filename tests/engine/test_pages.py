"""Every page of every search: joined, the pages are the whole result, each document once, on both engines."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import ids, post

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine

WORDS = ["fire", "bush", "flame", "smoke", "forest", "tree", "army", "gun", "soldier", "war", "rain", "river", "the"]
DOCUMENTS = 70
JUDGED = {"3", "12", "5", "30", "14"}
FILTERS: list[dict[str, Any] | None] = [
    None,
    {"range": {"n": {"lt": 40}}},
    {"bool": {"must_not": [{"term": {"n": 3}}]}},
]


@pytest.fixture
def corpus(engine: Engine, index: str, model: Model) -> str:
    """Seventy texts of a few words each, every seventh of them without a vector."""
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(DOCUMENTS)]
    engine.create(index, ["text"], model)
    documents = [
        Document(str(n), {"text": text, "n": n}, None if n % 7 == 0 else model.encode([text])[0])
        for n, text in enumerate(texts)
    ]
    assert engine.bulk(index, documents) == []
    engine.refresh(index)
    return index


@pytest.fixture
def judging(client: FlaskClient, corpus: str) -> str:
    """The corpus, with a session that has judged some of its documents."""
    marks = {"relevant": ["3", "12"], "irrelevant": ["5"]}
    post(client, "/v1/feedback", session="judging", index=corpus, query="fire", **marks)
    # without a query, like marks for another query
    post(client, "/v1/feedback", session="judging", index=corpus, relevant=["30"], clicked=["14"])
    return corpus


QUERIES = st.lists(st.sampled_from([*WORDS, "peace"]), min_size=1, max_size=3).map(" ".join)
SEARCHES = st.fixed_dictionaries(
    {
        "query": QUERIES,
        "window": st.sampled_from([1, 2, 5, 13, 40, 100]),
        "filter": st.sampled_from(FILTERS),
        "session": st.sampled_from([None, "judging", "empty"]),
        "judged": st.sampled_from(["keep", "demote", "hide"]),
        "widen": st.sampled_from([None, True, False]),
        "knn": st.sampled_from([None, 0, 1, 6, 30, 90]),
        "alpha": st.sampled_from([None, 0, 0.4, 1]),
    }
)
BODIES = st.sampled_from(["text", "clause", "multi_match", "body"])
# derandomised, and few: each of them is some twenty searches
CASES = settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def whole_of_the_engine(engine: Engine, index: str, query: Any, condition: Any) -> list[str]:
    """Ids of all that the engine finds, in its order."""
    must = {"multi_match": {"query": query, "fields": ["text"]}} if isinstance(query, str) else query
    clause = {"bool": {"must": [must], "filter": [condition]}} if condition else must
    return [hit["_id"] for hit in engine.search(index, {"query": clause, "size": 1000}).hits]


def pages(client: FlaskClient, size: int, total: int, **search: Any) -> list[dict[str, Any]]:
    """The answers for one page after another, until a client that reads the total stops."""
    found = []
    for start in count(0, size):
        if found and start >= total:
            return found
        found.append(post(client, "/v1/search", **search, size=size, **{"from": start}))
        assert found[-1]["hits"]["total"] == {"value": total, "relation": "eq"}
    raise AssertionError


def test_pages_joined_are_the_whole_result(client: FlaskClient, judging: str, engine: Engine) -> None:
    @CASES
    @given(SEARCHES, st.integers(1, 40), st.integers(0, 120), st.integers(0, 120))
    def check(search: dict[str, Any], size: int, start: int, length: int) -> None:
        asked = {**search, "index": judging}
        everything = post(client, "/v1/search", **asked, size=1000)
        whole, total = ids(everything), everything["hits"]["total"]["value"]
        assert len(whole) == len(set(whole)) == total
        own = whole_of_the_engine(engine, judging, search["query"], search["filter"])
        hidden = JUDGED if search["session"] == "judging" and search["judged"] == "hide" else set()
        own = [id for id in own if id not in hidden]
        assert set(own) <= set(whole)
        assert not hidden & set(whole)
        # what joins is filtered as well, and nothing joins a search without neighbours and without a session
        allowed = whole_of_the_engine(engine, judging, {"match_all": {}}, search["filter"])
        assert set(whole) <= set(allowed)
        if search["widen"] is False or (not search["knn"] and search["session"] != "judging"):
            assert set(whole) == set(own)
        scores = [hit["_score"] for hit in everything["hits"]["hits"]]
        assert scores == sorted(scores, reverse=True)
        if search["session"] == "judging" and search["judged"] == "demote":
            # behind all others of the window; with as many hits as it has, all of them
            places = [place for place, id in enumerate(whole[: search["window"]]) if id in JUDGED]
            assert places == list(
                range(
                    min(search["window"], len(whole)) - len(places),
                    len(places) + min(search["window"], len(whole)) - len(places),
                )
            )
        joined = pages(client, size, total, **asked)
        assert [hit for page in joined for hit in page["hits"]["hits"]] == everything["hits"]["hits"]
        page = post(client, "/v1/search", **asked, size=length, **{"from": start})
        assert ids(page) == whole[start : start + length]

    check()


def test_pages_of_the_callers_own_clauses_hold_what_the_engine_finds_and_no_more(
    client: FlaskClient, judging: str, engine: Engine
) -> None:
    @CASES
    @given(SEARCHES, st.integers(5, 40), st.booleans(), st.booleans())
    def check(search: dict[str, Any], size: int, whole_body: bool, several_fields: bool) -> None:
        text = search["query"]
        clause: dict[str, Any] = {"match": {"text": text}}
        if several_fields:
            # just what a query text becomes: being the caller's own, it must match all the same
            clause = {"multi_match": {"query": text, "fields": ["text"]}}
        own = whole_of_the_engine(engine, judging, clause, search["filter"])
        hides = search["session"] == "judging" and search["judged"] == "hide"
        asked = {
            **search,
            "widen": None,
            "index": judging,
            "query": {"query": clause, "_source": ["n"]} if whole_body else clause,
        }
        joined = pages(client, size, len(set(own) - (JUDGED if hides else set())), **asked)
        found = [id for page in joined for id in ids(page)]
        wanted = set(own) - (JUDGED if hides else set())
        assert len(found) == len(wanted)
        # only what may widen adds documents, and a clause of the caller's own does so where it is asked to
        assert set(found) == wanted

    check()


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_conditions_of_a_body_apply_to_hits_added_by_a_session(client: FlaskClient, judging: str) -> None:
    asked: dict[str, Any] = {"index": judging, "session": "judging", "window": 4}
    query = {"bool": {"should": [{"match": {"text": "fire"}}, {"match": {"text": "rain"}}]}}
    parts: list[dict[str, Any]] = [
        {"post_filter": {"range": {"n": {"lt": 30}}}},
        {"min_score": 1.5},
        {"script_fields": {"twice": {"script": "doc['n'].value * 2"}}, "version": True, "explain": True},
        {"aggs": {"n": {"sum": {"field": "n"}}}, "suggest": {"s": {"text": "fier", "term": {"field": "text"}}}},
    ]
    for part in parts:
        body = {"query": query, **part}
        engine: Engine = client.application.extensions["resift"].engine
        direct = engine.search(judging, {**body, "size": 100}).response
        answer = post(client, "/v1/search", **asked, query={**body, "size": 100})
        assert answer["resift"]["session"] == "judging"
        assert set(ids(answer)) == set(ids(direct))
        assert answer["hits"]["total"] == direct["hits"]["total"]
        assert answer.get("aggregations") == direct.get("aggregations")
        assert answer.get("suggest") == direct.get("suggest")
        keys = {frozenset({*hit, "matched_queries"}) for hit in direct["hits"]["hits"]}
        assert {frozenset(hit) for hit in answer["hits"]["hits"]} == keys


def test_searches_that_are_not_reranked_are_paged_by_the_engine(
    client: FlaskClient, judging: str, engine: Engine
) -> None:
    for query in ({"match_all": {}}, {"bool": {"filter": [{"range": {"n": {"gte": 20}}}]}}):
        whole = whole_of_the_engine(engine, judging, query, None)
        joined = pages(client, 17, len(whole), index=judging, query=query)
        assert [id for page in joined for id in ids(page)] == whole
    nothing = post(client, "/v1/search", index=judging, query="fire", size=0, knn=9, session="judging")
    assert ids(nothing) == []
