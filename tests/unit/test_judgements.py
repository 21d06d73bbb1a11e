"""Tests of judgements: grades, which of a document's judgements counts, and invalid marks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from resift.errors import BadInput
from resift.feedback.judgements import GRADES, Judgement, collect_marks
from resift.sessions.sessions import effective_judgements


def effective_grades(*grades: float) -> list[float]:
    """Return the grades that count for a document with these marks, clicks and skips, in this order."""
    sources = {GRADES["clicked"]: "click", GRADES["skipped"]: "skip"}
    judgements = [Judgement("i", "a", grade, source=sources.get(grade, "mark")) for grade in grades]
    return [judgement.grade for judgement in effective_judgements(judgements)]


def test_each_kind_of_mark_has_its_grade_and_source() -> None:
    assert GRADES == {"relevant": 1.0, "irrelevant": -1.0, "clicked": 0.5, "skipped": -0.25, "neutral": 0.0}
    marks = collect_marks({name: [name] for name in GRADES})
    assert {name: mark.grade for name, mark in marks.items()} == GRADES
    assert {name: mark.source for name, mark in marks.items()} == {
        **dict.fromkeys(["relevant", "irrelevant", "neutral"], "mark"),
        "clicked": "click",
        "skipped": "skip",
    }


@pytest.mark.parametrize(
    ("grades", "expected"),
    [
        ([1, -1], [-1]),
        ([-1, 1], [1]),
        ([1, 0.5], [1]),
        ([-1, 0.5], [-1]),
        ([-1, -0.25], [-1]),
        ([0.5, -0.25], [0.5]),
        ([-0.25, 0.5], [0.5]),
        ([0.5, -1], [-1]),
        ([1, 0], []),
        ([1, 0, 0.5], [0.5]),
        ([1, 0, -0.25], [-0.25]),
        ([0.5, 0], []),
        ([0.8, 0.3], [0.3]),
        ([1, -0.1], [-0.1]),
        ([0.8, -0.25], [0.8]),
        ([0], []),
        ([], []),
    ],
)
def test_the_latest_mark_counts_and_clicks_do_not_replace_marks(grades: list[float], expected: list[float]) -> None:
    assert effective_grades(*grades) == expected


@pytest.mark.parametrize("grade", [0.5, -0.25])
def test_a_models_score_counts_as_a_mark_even_if_it_equals_a_clicks_grade(grade: float) -> None:
    marked = [Judgement("i", "a", 1), Judgement("i", "a", grade, source="model")]
    assert [judgement.grade for judgement in effective_judgements(marked)] == [grade]
    clicked = [Judgement("i", "a", grade, source="model"), Judgement("i", "a", 0.5, source="click")]
    assert [judgement.source for judgement in effective_judgements(clicked)] == ["model"]


def test_a_click_replaces_a_click_and_is_not_replaced_by_a_skip() -> None:
    actions = [("click", 0.8), ("click", 0.3), ("skip", -0.25)]
    effective = effective_judgements([Judgement("i", "a", grade, source=source) for source, grade in actions])
    assert [(judgement.source, judgement.grade) for judgement in effective] == [("click", 0.3)]


def test_judgements_of_different_documents_and_indices_are_independent() -> None:
    judgements = [
        Judgement("i", "a", 1.0),
        Judgement("j", "a", -1.0),
        Judgement("i", "b", 0.5),
        Judgement("i", "a", -1.0),
    ]
    effective = [
        (judgement.index, judgement.document, judgement.grade) for judgement in effective_judgements(judgements)
    ]
    assert effective == [("i", "a", -1), ("j", "a", -1), ("i", "b", 0.5)]


def test_the_latest_of_equal_judgements_counts() -> None:
    first = Judgement("i", "a", 1, query="fire", at=1.0, step=1)
    second = Judgement("i", "a", 1, query="bush", at=2.0, step=2)
    assert effective_judgements([first, second]) == [second]


def test_judgements_belong_to_step_1_of_an_empty_query_by_default() -> None:
    assert Judgement("i", "a", 1) == Judgement("i", "a", 1, query="", at=0.0, step=1)


def test_contradictory_or_missing_marks_are_refused() -> None:
    with pytest.raises(BadInput, match="'b' has two different marks") as raised:
        collect_marks({"relevant": ["a", "b"], "irrelevant": ["c", "b"]})
    assert raised.value.value == "b"
    empty: list[dict[str, list[str]]] = [{}, {"relevant": [], "skipped": []}]
    for marked in empty:
        with pytest.raises(BadInput, match="no document is marked"):
            collect_marks(marked)
    assert collect_marks({"relevant": ["a", "a"]}) == {"a": (1, "mark")}


def test_scores_of_a_model_are_grades_of_its_marks() -> None:
    assert collect_marks({"relevant": ["a"]}, {"b": -0.3, "c": 1, "a": 1}) == {
        "a": (1, "model"),
        "b": (-0.3, "model"),
        "c": (1, "model"),
    }
    assert collect_marks({}, {"b": 0}) == {"b": (0, "model")}
    numpy_scores = collect_marks({}, {"a": np.float32(0.25), "b": np.int64(-1)})
    assert numpy_scores == {"a": (0.25, "model"), "b": (-1, "model")}
    assert {type(mark.grade) for mark in numpy_scores.values()} == {float}
    with pytest.raises(BadInput, match="'a' has two different marks"):
        collect_marks({"relevant": ["a"]}, {"a": 0.9})


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"a": 1.01}, "the score of 'a' is 1.01"),
        ({"a": -2}, "the score of 'a' is -2"),
        ({"a": True}, "the score of 'a' is True"),
        ({"a": "1"}, "the score of 'a' is '1'"),
        ({"a": None}, "the score of 'a' is None"),
        ({"a": float("nan")}, "the score of 'a' is nan"),
        ({"a": np.float32(1.5)}, "the score of 'a' is np.float32(1.5)"),
        ({"": 1}, "scores are not by document id"),
        ({3: 1}, "scores are not by document id"),
        ([("a", 1)], "scores are not by document id"),
        ("a", "scores are not by document id"),
    ],
)
def test_invalid_scores_are_refused(scores: Any, message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        collect_marks({}, scores)
