"""Tests of explanations: words that a session moves queries by, and reasons for the movement of hits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from resift import Feedback, Model
from resift.encoders.tables import build_table
from resift.feedback.explain import explain, explain_moves, explain_moves_by_words, title_of
from resift.feedback.judgements import JudgedDocument, Judgement
from resift.feedback.methods import METHODS
from resift.feedback.ridge import Background


def judge(model: Model, marks: dict[str, float], query: str = "") -> list[JudgedDocument]:
    """Return judged documents whose ids are their texts."""
    return [
        JudgedDocument(Judgement("docs", text, grade, query), model.encode([text])[0], text)
        for text, grade in marks.items()
    ]


def test_explanations_name_words_of_both_directions(model: Model) -> None:
    judged = judge(model, {"bush forest zzz": 1, "army gun": -1})
    learned = explain(model, Feedback.from_judged(judged, model.dim), judged, ["bush", "forest", "zzz"])
    first, second = learned["because"]
    assert (first["document"], first["grade"], first["title"]) == ("bush forest zzz", 1, "bush forest zzz")
    assert set(first["words"]) == {"bush", "forest"}
    assert set(second["words"]) == {"army", "gun"}
    assert learned["towards"][0] in ("fire", "bush", "flame", "smoke", "forest", "tree")
    assert learned["away"][0] in ("army", "gun", "soldier", "war", "ceasefire", "peace")
    assert learned["asked"] == ["bush", "forest", "zzz"]


def test_words_count_by_their_value_for_searching(model: Model) -> None:
    judged = judge(model, {"bush forest fire": 1, "army gun": -1})
    feedback = Feedback.from_judged(judged, model.dim)
    requests = []

    def values(index: str, words: Sequence[str]) -> dict[str, float]:
        requests.append((index, set(words)))
        return {word: {"bush": 1e-6, "forest": 0.0, "army": 0.0, "gun": 0.0}.get(word, 1.0) for word in words}

    first, second = explain(model, feedback, judged, word_values=values)["because"]
    assert requests == [("docs", {"bush", "forest", "fire", "army", "gun"})]
    assert first["words"] == ["fire", "bush"]
    # If no word has a value, no other document contains the words. They still explain the document.
    assert set(second["words"]) == {"army", "gun"}


def test_judgements_of_one_class_explain_one_direction(model: Model) -> None:
    judged = judge(model, {"bush forest": 1})
    learned = explain(model, Feedback.from_judged(judged, model.dim), judged)
    assert learned["towards"]
    assert learned["away"] == []
    judged = judge(model, {"bush forest": -1})
    learned = explain(model, Feedback.from_judged(judged, model.dim), judged)
    assert learned["towards"] == []
    assert learned["away"]


@pytest.mark.parametrize("method", METHODS)
def test_only_methods_that_move_queries_have_directions(model: Model, method: str) -> None:
    judged = judge(model, {"bush forest": 1, "army gun": -1})
    learned = explain(model, Feedback.from_judged(judged, model.dim, method=method), judged)
    assert bool(learned["towards"]) is bool(learned["away"]) is bool(METHODS[method].ridge)
    unknown = judge(model, {"zzz": 1, "qqq": -1})
    learned = explain(model, Feedback.from_judged(unknown, model.dim, method=method), unknown)
    assert learned["towards"] == learned["away"] == []


def test_a_mask_is_explained_by_the_nearest_words_of_its_codewords() -> None:
    """Relevant documents use the codewords 0 and 2, irrelevant documents 1 and 2. No document uses codeword 3."""
    words = ["the", "fire", "bush", "army", "gun", "rain", "river", "music"]
    memberships = np.eye(4, dtype=np.float32)[[2, 0, 0, 1, 1, 2, 2, 3]]
    memberships[2] = (0.9, 0.1, 0, 0)
    boew = Model("boew:4", build_table(words, memberships), "mean", "cosine")
    judged = judge(boew, {"fire rain": 1, "bush river": 1, "army rain": -1, "gun river": -1})
    learned = explain(boew, Feedback.from_judged(judged, boew.dim, method="mask"), judged)["mask"]
    assert {row["codeword"]: row["words"][:2] for row in learned["gained"]} == {
        0: ["fire", "bush"],
        1: ["army", "gun"],
    }
    assert all(row["weight"] > 1 for row in learned["gained"])
    (lost,) = learned["lost"]
    assert (lost["codeword"], lost["words"][:2]) == (2, ["rain", "river"])  # without the function word
    assert lost["weight"] < 1


@pytest.mark.parametrize("method", METHODS)
def test_only_methods_with_a_mask_explain_it(model: Model, method: str) -> None:
    judged = judge(model, {"bush forest": 1})  # without an irrelevant document, all weights stay 1
    learned = explain(model, Feedback.from_judged(judged, model.dim, method=method), judged)
    assert learned["mask"] == ({"gained": [], "lost": []} if METHODS[method].masked else None)


def test_hits_are_explained_by_judgements_that_agree_with_their_movement(model: Model) -> None:
    judged = judge(model, {"army gun": -1, "bush smoke": 1, "river rain": 1})
    feedback = Feedback.from_judged(judged, model.dim)
    vectors = model.encode(["bush smoke the", "army gun the", "river rain the"])
    reasons = explain_moves(feedback, judged, vectors, [2, -3, 1])
    assert [reason and reason["document"] for reason in reasons] == ["bush smoke", "army gun", "river rain"]
    assert [reason and reason["moved"] for reason in reasons] == [2, -3, 1]
    # hits that stayed in place, or moved against the judgement, have no reason
    assert explain_moves(feedback, judged, vectors, [0, 0, 0]) == [None] * 3
    assert explain_moves(feedback, judged, vectors, [-2, 3, -1]) == [None] * 3


def test_a_hit_that_is_similar_to_no_judged_document_has_no_reason(model: Model) -> None:
    judged = judge(model, {"bush smoke": 1})
    feedback = Feedback.from_judged(judged, model.dim)
    away = -np.stack([document.vector for document in judged])
    assert explain_moves(feedback, judged, away, [5]) == [None]


@pytest.mark.parametrize("seed", range(200))
def test_reasons_agree_with_the_movement_of_hits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dim, count, marks = int(rng.integers(1, 12)), int(rng.integers(1, 30)), int(rng.integers(1, 9))
    grades = rng.choice([-1.0, -0.25, 0.5, 1.0], marks)
    # a component that all documents share: if the query moves away from it, all similarities fall
    common = rng.normal(size=dim) * rng.choice([0, 3])
    rows = rng.normal(size=(marks + count, dim)) + common
    judged = [
        JudgedDocument(Judgement("docs", str(row), grade, "fire"), rows[row].astype(np.float32), "")
        for row, grade in enumerate(grades.tolist())
    ]
    feedback = Feedback.from_judged(judged, dim)
    moved = rng.integers(-5, 6, count).tolist()
    for reason, places in zip(explain_moves(feedback, judged, rows[marks:], moved), moved, strict=True):
        if reason is not None:
            assert np.sign(reason["grade"]) == np.sign(places) == np.sign(reason["moved"])
            assert reason["similarity"] > 0


def test_judgements_that_do_not_apply_are_no_reasons(model: Model) -> None:
    judged = [*judge(model, {"soldier war": 1}, "war"), *judge(model, {"bush fire": 1, "river rain": -1}, "fire")]
    vectors, query = model.encode(["bush war"]), np.zeros(model.dim)
    feedback = Feedback.from_judged(judged, model.dim).scoped_to_query(query, vectors, "fire", carried_weight=0.0)
    (reason,) = explain_moves(feedback, judged, vectors, [1])
    assert reason is not None
    assert reason["document"] == "bush fire"
    empty = Feedback.from_judged(judged, model.dim).scoped_to_query(query, vectors, "rain", carried_weight=0.0)
    assert explain_moves(empty, judged, vectors, [1]) == [None]


def test_reasons_compare_vectors_of_the_field_that_ranked_the_hits(model: Model) -> None:
    """The index's own vectors can have more dimensions than the vectors of the model."""
    judged = judge(model, {"army gun": -1, "bush smoke": 1, "river rain": 1})
    learned = Feedback.from_judged(judged, model.dim)
    rows = {learned.positions.index(1): np.eye(12)[0], learned.positions.index(2): np.eye(12)[1]}
    background = Background(np.zeros((0, 12), np.float32))
    own = learned.with_vectors(dict(sorted(rows.items())), background)
    hits = np.stack([np.eye(12)[1], 3 * np.eye(12)[0] + 4 * np.eye(12)[5]])
    reasons = explain_moves(own, judged, hits, [2, 1])
    assert [(reason or {}).get("document") for reason in reasons] == ["river rain", "bush smoke"]
    assert [(reason or {}).get("similarity") for reason in reasons] == [1.0, 0.6]


def test_titles_are_cut_at_the_end_of_a_word() -> None:
    assert title_of("\n  Bush fire\nSydney") == "Bush fire"
    assert title_of("word " * 30) == "word " * 15 + "word…"
    assert title_of("") == ""


def test_without_vectors_common_expansion_words_explain_moves(model: Model) -> None:
    judged = judge(model, {"old smoke": 1, "bush forest fire": 1, "army gun": -1, "fire tree": 0.5}, query="fire")
    feedback = Feedback.from_judged(judged, model.dim)
    weights = {"fire": 0.9, "forest": 0.5, "smoke": 0.3, "bush": 0.2}
    hits: list[tuple[str, int | None]] = [
        ("Forest fires and a bush fire", None),
        ("a tree: smoke", None),
        ("rain", None),
        ("forest", None),
        ("army gun fire", 2),
        ("old smoke", 0),
        ("bush forest fire", 1),
    ]
    reasons = explain_moves_by_words(feedback, judged, weights, hits, [3, 2, 1, -1, -2, 1, 0], "Fire")
    assert [reason and reason["document"] for reason in reasons] == [
        "bush forest fire",
        "old smoke",
        None,  # no common words
        None,  # other hits moved ahead
        "army gun",
        "old smoke",
        None,
    ]
    # only the beginning of a long text is read, from which a session would learn
    long = [("rain " * 3990 + "forest", None), ("rain " * 4000 + "forest", None)]
    beginning, end = explain_moves_by_words(feedback, judged, weights, long, [1, 1])
    assert (beginning and beginning["words"], end) == (["forest"], None)
    first, *_ = reasons
    # the words of the query are not listed
    assert first == {
        "index": "docs",
        "document": "bush forest fire",
        "grade": 1,
        "title": "bush forest fire",
        "similarity": None,
        "moved": 3,
        "words": ["forest", "bush"],
    }
    # a document that was judged for another query explains nothing if its judgement does not apply
    other = Feedback.from_judged(judged[:1], model.dim).scoped_to_query(np.zeros(8), np.zeros((0, 8)), "new army bases")
    assert explain_moves_by_words(other, judged, weights, hits[:1], [3]) == [None]
    masked = Feedback.from_judged(judged, model.dim, method="mask")
    assert explain_moves_by_words(masked, judged, weights, hits[:1], [3]) == [None]
