"""Rocchio's formula, and the methods of feedback that only evaluations use."""

from __future__ import annotations

import numpy as np
import pytest

from resift.feedback.judgements import JudgedDocument, Judgement
from resift.text import bag_of_words
from resift_lab.evaluation.feedback.learners import LEARNERS, RocchioFeedback, learn_feedback


@pytest.fixture
def judged() -> list[JudgedDocument]:
    """Five relevant and five irrelevant documents: dimension 0 separates them, dimension 1 is large noise."""
    vectors = np.abs(np.random.default_rng(5).normal(size=(10, 6))).astype(np.float32)
    vectors[:, 1] *= 3
    vectors[:5, 0] += 3
    return [
        JudgedDocument(Judgement("index", str(row), 1.0 if row < 5 else -1.0, "fire"), vector, f"fire word{row}")
        for row, vector in enumerate(vectors)
    ]


def learn(name: str, judged: list[JudgedDocument]) -> RocchioFeedback:
    feedback = learn_feedback(name, judged, 6, lambda word: 1.0)
    assert isinstance(feedback, RocchioFeedback)
    return feedback


def test_rocchio_follows_the_formula(judged: list[JudgedDocument]) -> None:
    query = np.arange(1, 7, dtype=np.float32)
    units = [one.vector / np.linalg.norm(one.vector) for one in judged]
    shift = 0.8 * np.mean(units[:5], axis=0) - 0.2 * np.mean(units[5:], axis=0)
    for name in ("rocchio", "mask+rocchio"):
        moved = learn(name, judged).transform_query(query)
        np.testing.assert_allclose(moved, query + np.linalg.norm(query) * shift, rtol=1e-5)
        assert moved.dtype == np.float32


def test_rocchio_weights_clicks_and_skips_by_their_grades() -> None:
    marks = zip(np.eye(4, dtype=np.float32), [1, 0.5, -1, -0.25], strict=True)
    judged = [JudgedDocument(Judgement("i", str(grade), grade), vector, "") for vector, grade in marks]
    shift = learn_feedback("rocchio", judged, 4, lambda word: 1.0).shift
    np.testing.assert_allclose(shift, [0.8 / 1.5, 0.4 / 1.5, -0.2 / 1.25, -0.05 / 1.25], rtol=1e-6)
    click = learn_feedback("rocchio", judged[1:2], 4, lambda word: 1.0)
    a, b = np.eye(4, dtype=np.float32)[:2]
    np.testing.assert_allclose(click.transform_query(3 * a), 3 * a + 1.2 * b, rtol=1e-6)
    np.testing.assert_allclose(click.transform_query(np.zeros(4)), 0.4 * b, rtol=1e-6)


def test_rocchio_moves_the_query_by_its_own_judgements_only(judged: list[JudgedDocument]) -> None:
    query, others = np.arange(1, 7, dtype=np.float32), np.random.default_rng(2).normal(size=(9, 6))
    feedback = learn("rocchio", judged)
    assert feedback.scoped_to_query(query, others, "fire") is feedback
    elsewhere = feedback.scoped_to_query(query, others, "rain")
    assert isinstance(elsewhere, RocchioFeedback)
    np.testing.assert_array_equal(elsewhere.transform_query(query), query)


@pytest.mark.parametrize("name", LEARNERS)
def test_methods_learn_what_their_names_say(judged: list[JudgedDocument], name: str) -> None:
    feedback = learn_feedback(name, judged, 6, lambda word: 1.0)
    parts = set(name.split("+"))
    assert bool((feedback.mask != 1).any()) == ("mask" in parts)
    assert bool(feedback.expansion_terms) == ("lexical" in parts)
    assert bool(feedback.shift.any()) == bool({"rocchio", "ridge"} & parts)
    assert feedback.bags == (tuple(bag_of_words(one.text) for one in judged) if "lexical" in parts else ())
