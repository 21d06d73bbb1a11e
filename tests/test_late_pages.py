"""Pages of searches that the trained reranker orders: their scores, what lies beyond the window, and none at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from test_late_reranker import TEXTS, post
from test_late_reranker import client as client
from test_late_reranker import folder as folder
from test_late_reranker import late as late

from resift.errors import CorruptModel
from resift.plugin.engine import Engine
from resift.ranking.fusion import z_score
from resift.ranking.late_interaction import LateInteraction
from resift.reranker.late_reranker import put_into_service

FIRE = {"match": {"text": "fire"}}


@pytest.fixture(autouse=True)
def in_service(late: LateInteraction, folder: str, tmp_path: Path) -> None:
    """The reranker is in service."""
    put_into_service(str(tmp_path / "made"), folder)


def search(client: FlaskClient, index: str, **settings: Any) -> dict[str, Any]:
    answer = post(client, "/v1/search", index=index, **{"query": "fire", **settings})
    assert answer["resift"]["method"] == "late"
    return answer


def test_the_engines_scores_are_its_own(client: FlaskClient, index: str, engine: Engine) -> None:
    plain = {hit["_id"]: hit["_score"] for hit in engine.search(index, {"query": FIRE}).hits}
    for settings in ({}, {"alpha": 1}, {"query": FIRE}):
        hits = search(client, index, **settings)["hits"]["hits"]
        assert {hit["_id"]: hit["resift"]["engine_score"] for hit in hits} == pytest.approx(plain)


def test_what_was_judged_is_shown_last_with_the_score_it_has(client: FlaskClient, index: str) -> None:
    post(client, "/v1/feedback", session="s", index=index, query="gun", relevant=["army"])
    kept = search(client, index, session="s")["hits"]["hits"]
    last = search(client, index, session="s", judged="demote")["hits"]["hits"]
    assert (kept[0]["_id"], last[-1]["_id"]) == ("army", "army")
    scores = [{hit["_id"]: hit["resift"]["engine_score"] for hit in hits} for hits in (kept, last)]
    assert scores[1] == pytest.approx(scores[0], rel=1e-4)


def test_half_of_the_score_is_the_sessions(client: FlaskClient, index: str, late: LateInteraction) -> None:
    post(client, "/v1/feedback", session="s", index=index, query="fire", relevant=["army"])
    hits = search(client, index, session="s")["hits"]["hits"]
    moved = post(client, "/v1/search", index=index, query="fire", session="s", method="vectors", reasons=True)
    by_id = {hit["_id"]: hit["resift"]["similarity"] for hit in moved["hits"]["hits"]}
    similarities = np.array([by_id[hit["_id"]] for hit in hits])
    expected = (z_score(late.scores("fire", [TEXTS[hit["_id"]] for hit in hits])) + z_score(similarities)) / 2
    assert np.ptp(expected) > 1
    np.testing.assert_allclose([hit["resift"]["similarity"] for hit in hits], expected, atol=0.01)  # of four digits


def test_hits_beyond_the_window_follow_in_the_engines_order(client: FlaskClient, index: str, engine: Engine) -> None:
    plain = engine.search(index, {"query": FIRE}).hits
    answer = search(client, index, window=2)
    hits = answer["hits"]["hits"]
    assert {hit["_id"] for hit in hits[:2]} == {hit["_id"] for hit in plain[:2]}
    assert answer["hits"]["max_score"] == hits[0]["_score"] > hits[1]["_score"]
    (beyond,) = hits[2:]
    assert (beyond["_id"], beyond["_score"]) == (plain[2]["_id"], None)
    said = {key: beyond["resift"][key] for key in ("engine_score", "similarity")}
    assert said == {"engine_score": pytest.approx(plain[2]["_score"]), "similarity": None}
    pages = [search(client, index, window=2, size=1, **{"from": start}) for start in range(4)]
    assert [[hit["_id"] for hit in page["hits"]["hits"]] for page in pages] == [*([hit["_id"]] for hit in hits), []]


def test_no_hits_are_no_fault(client: FlaskClient, index: str) -> None:
    post(client, "/v1/feedback", session="s", index=index, query="", relevant=["army"])
    filtered = {"bool": {"must": [FIRE], "filter": [{"term": {"n": 99}}]}}
    for session in (None, "s"):
        answer = search(client, index, query=filtered, session=session)
        assert (answer["hits"]["hits"], answer["hits"]["max_score"]) == ([], None)
        assert answer["resift"]["reranked"] is True


def test_what_is_wrong_here_costs_only_the_rewriting(
    client: FlaskClient, index: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: Any) -> Any:
        raise CorruptModel("the model is damaged")

    monkeypatch.setattr(client.application.extensions["resift"].rewriter, "rewrite", damaged)
    answer = post(client, "/v1/search", index=index, query="fire")
    assert answer["resift"] == {"reranked": False, "reason": "the model is damaged"}
    plain = engine.search(index, {"query": FIRE}).hits
    assert [hit["_id"] for hit in answer["hits"]["hits"]] == [hit["_id"] for hit in plain]


def test_where_no_hits_are_asked_for_none_are_read(client: FlaskClient, index: str) -> None:
    answer = post(client, "/v1/search", index=index, query="fire", size=0)
    assert (answer["hits"]["hits"], answer["resift"]["reranked"]) == ([], False)
    assert answer["resift"]["reason"] == "no hits were asked for"


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
@pytest.mark.parametrize("more", [{"sort": [{"n": "desc"}]}, {"sort": "_doc"}, {"stored_fields": "_none_"}])
def test_hits_that_are_sorted_or_have_no_ids_are_the_engines(
    client: FlaskClient, index: str, engine: Engine, more: dict[str, Any]
) -> None:
    body = {"query": FIRE, **more}
    answer = post(client, "/v1/search", index=index, query=body)
    assert answer["resift"]["reranked"] is False
    hits, plain = answer["hits"]["hits"], engine.search(index, body).hits
    assert [(hit.get("_id"), hit["_score"]) for hit in hits] == [(hit.get("_id"), hit["_score"]) for hit in plain]
    assert len(hits) == 3
