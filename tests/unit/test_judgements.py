"""Judgements: what each mark is worth, which of a document's marks counts, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from resift.errors import BadInput
from resift.feedback.judgements import GRADES, Judgement, collect_marks, source_from_grade
from resift.sessions.sessions import effective_judgements


def counting(*grades: float) -> list[float]:
    """The grades that count of one document's marks, clicks and skips, made in this order."""
    made = [Judgement("i", "a", grade, source=source_from_grade(grade)) for grade in grades]
    return [one.grade for one in effective_judgements(made)]


def test_what_marks_are_worth() -> None:
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
def test_which_mark_counts(grades: list[float], expected: list[float]) -> None:
    assert counting(*grades) == expected


@pytest.mark.parametrize("grade", [0.5, -0.25])
def test_a_models_score_is_no_click_whatever_it_is(grade: float) -> None:
    marked = [Judgement("i", "a", 1), Judgement("i", "a", grade, source="model")]
    assert [one.grade for one in effective_judgements(marked)] == [grade]
    clicked = [Judgement("i", "a", grade, source="model"), Judgement("i", "a", 0.5, source="click")]
    assert [one.source for one in effective_judgements(clicked)] == ["model"]


def test_a_click_replaces_a_click_and_is_not_replaced_by_a_skip() -> None:
    made = [("click", 0.8), ("click", 0.3), ("skip", -0.25)]
    found = effective_judgements([Judgement("i", "a", grade, source=source) for source, grade in made])
    assert [(one.source, one.grade) for one in found] == [("click", 0.3)]


def test_documents_and_indices_do_not_mix() -> None:
    made = [("i", "a", 1.0), ("j", "a", -1.0), ("i", "b", 0.5), ("i", "a", -1.0)]
    found = effective_judgements([Judgement(*one) for one in made])
    assert [(one.index, one.document, one.grade) for one in found] == [("i", "a", -1), ("j", "a", -1), ("i", "b", 0.5)]


def test_the_latest_of_equal_marks_brings_its_query() -> None:
    first, again = (Judgement("i", "a", 1, query, at, step) for query, at, step in (("fire", 1.0, 1), ("bush", 2.0, 2)))
    assert effective_judgements([first, again]) == [again]


def test_a_judgement_of_which_no_more_is_known() -> None:
    assert Judgement("i", "a", 1) == Judgement("i", "a", 1, query="", at=0.0, step=1)


def test_marks_that_are_refused() -> None:
    with pytest.raises(BadInput, match="'b' has two different marks") as raised:
        collect_marks({"relevant": ["a", "b"], "irrelevant": ["c", "b"]})
    assert raised.value.value == "b"
    empty: list[dict[str, list[str]]] = [{}, {"relevant": [], "skipped": []}]
    for nothing in empty:
        with pytest.raises(BadInput, match="no document is marked"):
            collect_marks(nothing)
    assert collect_marks({"relevant": ["a", "a"]}) == {"a": (1, "mark")}


def test_scores_of_a_model() -> None:
    assert collect_marks({"relevant": ["a"]}, {"b": -0.3, "c": 1, "a": 1}) == {
        "a": (1, "model"),
        "b": (-0.3, "model"),
        "c": (1, "model"),
    }
    assert collect_marks({}, {"b": 0}) == {"b": (0, "model")}
    of_numpy = collect_marks({}, {"a": np.float32(0.25), "b": np.int64(-1)})
    assert of_numpy == {"a": (0.25, "model"), "b": (-1, "model")}
    assert {type(mark.grade) for mark in of_numpy.values()} == {float}
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
def test_scores_that_are_refused(scores: Any, message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        collect_marks({}, scores)
