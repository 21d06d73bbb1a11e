"""Explanations: words that pull and push, and which judgement moved a hit; they never contradict what happened."""

from __future__ import annotations

import numpy as np
import pytest

from resift import Feedback, Model
from resift.feedback.explain import explain, explain_moves, title_of
from resift.feedback.judgements import JudgedDocument, Judgement
from resift.feedback.methods import METHODS


def judge(model: Model, marks: dict[str, float], query: str = "") -> list[JudgedDocument]:
    """Judged documents whose ids are their texts."""
    return [
        JudgedDocument(Judgement("docs", text, grade, query), model.encode([text])[0], text)
        for text, grade in marks.items()
    ]


def test_words_that_pull_and_push(model: Model) -> None:
    judged = judge(model, {"bush forest zzz": 1, "army gun": -1})
    learned = explain(model, Feedback.from_judged(judged, model.dim), judged, ["bush", "forest", "zzz"])
    first, second = learned["because"]
    assert (first["document"], first["grade"], first["title"]) == ("bush forest zzz", 1, "bush forest zzz")
    assert set(first["words"]) == {"bush", "forest"}
    assert set(second["words"]) == {"army", "gun"}
    assert learned["towards"][0] in ("fire", "bush", "flame", "smoke", "forest", "tree")
    assert learned["away"][0] in ("army", "gun", "soldier", "war", "ceasefire", "peace")
    assert learned["asked"] == ["bush", "forest", "zzz"]


def test_one_kind_of_marks_pulls_or_pushes_only(model: Model) -> None:
    judged = judge(model, {"bush forest": 1})
    learned = explain(model, Feedback.from_judged(judged, model.dim), judged)
    assert learned["towards"]
    assert learned["away"] == []
    judged = judge(model, {"bush forest": -1})
    learned = explain(model, Feedback.from_judged(judged, model.dim), judged)
    assert learned["towards"] == []
    assert learned["away"]


@pytest.mark.parametrize("method", METHODS)
def test_where_no_query_moves_there_is_no_direction(model: Model, method: str) -> None:
    judged = judge(model, {"bush forest": 1, "army gun": -1})
    learned = explain(model, Feedback.from_judged(judged, model.dim, method=method), judged)
    assert bool(learned["towards"]) is bool(learned["away"]) is bool(METHODS[method].ridge)
    unknown = judge(model, {"zzz": 1, "qqq": -1})
    learned = explain(model, Feedback.from_judged(unknown, model.dim, method=method), unknown)
    assert learned["towards"] == learned["away"] == []


def test_a_hit_that_went_up_is_explained_by_a_relevant_document(model: Model) -> None:
    judged = judge(model, {"army gun": -1, "bush smoke": 1, "river rain": 1})
    feedback = Feedback.from_judged(judged, model.dim)
    vectors = model.encode(["bush smoke the", "army gun the", "river rain the"])
    found = explain_moves(feedback, judged, vectors, [2, -3, 1])
    assert [one and one["document"] for one in found] == ["bush smoke", "army gun", "river rain"]
    assert [one and one["moved"] for one in found] == [2, -3, 1]
    # what stayed has no reason, nor has what went the other way than what it is like
    assert explain_moves(feedback, judged, vectors, [0, 0, 0]) == [None] * 3
    assert explain_moves(feedback, judged, vectors, [-2, 3, -1]) == [None] * 3


def test_what_is_like_no_judged_document_has_no_reason(model: Model) -> None:
    judged = judge(model, {"bush smoke": 1})
    feedback = Feedback.from_judged(judged, model.dim)
    away = -np.stack([one.vector for one in judged])
    assert explain_moves(feedback, judged, away, [5]) == [None]


@pytest.mark.parametrize("seed", range(200))
def test_a_reason_never_contradicts_the_way_that_a_hit_went(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dim, count, marks = int(rng.integers(1, 12)), int(rng.integers(1, 30)), int(rng.integers(1, 9))
    grades = rng.choice([-1.0, -0.25, 0.5, 1.0], marks)
    # with a part that all have in common, away from which the query may be led: then all similarities fall
    common = rng.normal(size=dim) * rng.choice([0, 3])
    rows = rng.normal(size=(marks + count, dim)) + common
    judged = [
        JudgedDocument(Judgement("docs", str(at), grade, "fire"), rows[at].astype(np.float32), "")
        for at, grade in enumerate(grades.tolist())
    ]
    feedback = Feedback.from_judged(judged, dim)
    moved = rng.integers(-5, 6, count).tolist()
    for reason, places in zip(explain_moves(feedback, judged, rows[marks:], moved), moved, strict=True):
        if reason is not None:
            assert np.sign(reason["grade"]) == np.sign(places) == np.sign(reason["moved"])
            assert reason["similarity"] > 0


def test_a_judgement_out_of_scope_explains_nothing(model: Model) -> None:
    judged = [*judge(model, {"soldier war": 1}, "war"), *judge(model, {"bush fire": 1, "river rain": -1}, "fire")]
    vectors, query = model.encode(["bush war"]), np.zeros(model.dim)
    feedback = Feedback.from_judged(judged, model.dim).scoped(query, vectors, "fire", carried_weight=0.0)
    (found,) = explain_moves(feedback, judged, vectors, [1])
    assert found is not None
    assert found["document"] == "bush fire"
    nothing = Feedback.from_judged(judged, model.dim).scoped(query, vectors, "rain", carried_weight=0.0)
    assert explain_moves(nothing, judged, vectors, [1]) == [None]


def test_titles_are_cut_at_words() -> None:
    assert title_of("\n  Bush fire\nSydney") == "Bush fire"
    assert title_of("word " * 30) == "word " * 15 + "word…"
    assert title_of("") == ""
