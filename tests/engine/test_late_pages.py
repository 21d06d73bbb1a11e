"""Tests of pages of searches with a trained reranker: scores, hits beyond the window, and empty pages."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from test_late_reranker import FIRE, post
from test_late_reranker import client as client
from test_late_reranker import folder as folder
from test_late_reranker import late as late

from resift.contracts.engine import Engine
from resift.encoders.late_interaction import LateInteraction
from resift.errors import CorruptModel
from resift.vectors.weights import beta_from_alpha
from resift_lab.commands.reranker import put_into_service


@pytest.fixture(autouse=True)
def in_service(late: LateInteraction, folder: str, tmp_path: Path) -> None:
    """Return an application with a trained reranker."""
    put_into_service(str(tmp_path / "made"), folder)


def search(client: FlaskClient, index: str, **settings: Any) -> dict[str, Any]:
    answer = post(client, "/v1/search", index=index, **{"query": "fire", **settings})
    assert answer["resift"]["method"] == "late"
    return answer


def test_scores_are_the_engines_times_both_factors(
    client: FlaskClient, index: str, engine: Engine, late: LateInteraction
) -> None:
    plain = {hit["_id"]: hit["_score"] for hit in engine.search(index, {"query": FIRE}).hits}
    for settings in ({}, {"alpha": 0.9}, {"query": FIRE}, {"from": 1}):
        answer = search(client, index, **settings, reasons=True)
        hits, alpha = answer["hits"]["hits"], answer["resift"]["alpha"]
        for hit in hits:
            said = hit["resift"]
            parts = beta_from_alpha(alpha) * (1 + said["similarity"]), beta_from_alpha(late.alpha) * said["reranker"]
            assert hit["_score"] == pytest.approx(plain[hit["_id"]] * math.exp(sum(parts)), rel=2e-3)
        assert len(hits) == len(plain) - settings.get("from", 0)


def test_what_was_judged_is_shown_last(client: FlaskClient, index: str) -> None:
    post(client, "/v1/feedback", session="s", index=index, query="fire", relevant=["army"])
    kept = search(client, index, session="s")["hits"]["hits"]
    last = search(client, index, session="s", judged="demote")["hits"]["hits"]
    assert (kept[0]["_id"], last[-1]["_id"]) == ("army", "army")


def test_hits_beyond_the_window_follow_in_the_engines_order(client: FlaskClient, index: str, engine: Engine) -> None:
    plain = engine.search(index, {"query": FIRE}).hits
    answer = search(client, index, window=2)
    hits = answer["hits"]["hits"]
    assert {hit["_id"] for hit in hits[:2]} == {hit["_id"] for hit in plain[:2]}
    assert answer["hits"]["max_score"] == hits[0]["_score"] > hits[1]["_score"]
    (beyond,) = hits[2:]
    assert (beyond["_id"], beyond["_score"]) == (plain[2]["_id"], pytest.approx(plain[2]["_score"]))
    assert hits[1]["_score"] >= beyond["_score"]
    assert ["reranker" in hit.get("resift", {}) for hit in hits] == [True, True, False]
    pages = [search(client, index, window=2, size=1, **{"from": start}) for start in range(4)]
    assert [[hit["_id"] for hit in page["hits"]["hits"]] for page in pages] == [*([hit["_id"]] for hit in hits), []]


def test_a_search_without_hits_is_not_an_error(client: FlaskClient, index: str) -> None:
    post(client, "/v1/feedback", session="s", index=index, query="", relevant=["army"])
    filtered = {"bool": {"must": [FIRE], "filter": [{"term": {"n": 99}}]}}
    for session in (None, "s"):
        answer = search(client, index, query=filtered, session=session)
        assert (answer["hits"]["hits"], answer["hits"]["max_score"]) == ([], None)
        assert answer["resift"]["reranked"] is True


def test_what_is_wrong_here_costs_only_the_rewriting(
    client: FlaskClient, index: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: Any, **__: Any) -> Any:
        raise CorruptModel("the model is damaged")

    monkeypatch.setattr(client.application.extensions["resift"].rewriter, "rewrite_search", damaged)
    answer = post(client, "/v1/search", index=index, query="fire")
    assert answer["resift"] == {"reranked": False, "outcome": "failed", "reason": "the model is damaged"}
    plain = engine.search(index, {"query": FIRE}).hits
    assert [hit["_id"] for hit in answer["hits"]["hits"]] == [hit["_id"] for hit in plain]


def test_no_hits_are_read_if_none_are_requested(client: FlaskClient, index: str) -> None:
    answer = post(client, "/v1/search", index=index, query="fire", size=0)
    assert (answer["hits"]["hits"], answer["resift"]["reranked"]) == ([], False)
    assert answer["resift"]["reason"] == "no hits are requested"


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
@pytest.mark.parametrize("more", [{"sort": [{"n": "desc"}]}, {"sort": "_doc"}])
def test_hits_that_are_sorted_are_the_engines(
    client: FlaskClient, index: str, engine: Engine, more: dict[str, Any]
) -> None:
    body = {"query": FIRE, **more}
    answer = post(client, "/v1/search", index=index, query=body)
    assert answer["resift"]["reranked"] is False
    hits, plain = answer["hits"]["hits"], engine.search(index, body).hits
    assert [(hit.get("_id"), hit["_score"]) for hit in hits] == [(hit.get("_id"), hit["_score"]) for hit in plain]
    assert len(hits) == 3


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_hits_without_ids_are_not_read(client: FlaskClient, index: str) -> None:
    body = {"query": FIRE, "stored_fields": "_none_"}
    answer, without = (
        post(client, "/v1/search", index=index, query=body, method=method) for method in ("auto", "vectors")
    )
    assert answer["resift"]["method"] == "vectors"
    scores = [[hit["_score"] for hit in found["hits"]["hits"]] for found in (answer, without)]
    assert scores[0] == scores[1]
    assert len(scores[0]) == 3
