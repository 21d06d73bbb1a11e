"""Tests of the grades of clicks: actions and positions."""

from __future__ import annotations

import pytest

from resift.contracts.ubi import UbiEvent
from resift.errors import BadInput
from resift.feedback.judgements import GRADES
from resift.sessions.clicks import ACTIONS, IMPRESSION, click_grades, parse_action_grades


def did(document: str, action: str, ordinal: int | None, at: float = 0.0) -> UbiEvent:
    """Return an event of an action on a hit."""
    return UbiEvent(action, "anna", "", "q", document, "", ordinal, at, "")


def grades(*interactions: tuple[str, str, int | None], shown: tuple[str, ...] = ()) -> dict[str, float]:
    """Return the grades by document of events (document, action, ordinal), each later than the previous."""
    made = [did(document, action, ordinal, at) for at, (document, action, ordinal) in enumerate(interactions)]
    return {document: judgement.grade for document, judgement in click_grades(made, shown=shown).items()}


def test_a_click_at_an_unknown_position_counts_like_a_click_of_a_session() -> None:
    assert grades(("a", "click", None)) == {"a": GRADES["clicked"]}


def test_clicks_count_more_at_lower_positions_and_purchases_equally() -> None:
    clicks = [grades(("a", "click", ordinal))["a"] for ordinal in (1, 2, 10, 100)]
    assert clicks == sorted(clicks)
    assert clicks[0] == GRADES["clicked"] < clicks[2] < 1
    assert [grades(("a", "purchase", ordinal))["a"] for ordinal in (1, 10)] == [1, 1]


def test_hits_above_a_click_are_skipped_and_hits_below_it_are_unseen() -> None:
    shown = [(document, IMPRESSION, ordinal) for ordinal, document in enumerate("abcde", 1)]
    values = grades(*shown, ("d", "click", 4))
    assert set(values) == {"a", "b", "c", "d"}
    assert values["a"] == GRADES["skipped"] < values["b"] < values["c"] < 0 < values["d"]


def test_the_lowest_click_decides_and_clicked_hits_are_not_skipped() -> None:
    shown = [(document, IMPRESSION, ordinal) for ordinal, document in enumerate("abc")]
    values = grades(*shown, ("c", "click", 2), ("a", "click", 0))
    assert values["a"] > 0 > values["b"]
    assert values["c"] > values["a"]


def test_ordinals_start_at_0_if_any_ordinal_is_0() -> None:
    from_0 = grades(*((document, IMPRESSION, ordinal) for ordinal, document in enumerate("ab")), ("b", "click", 1))
    from_1 = grades(*((document, IMPRESSION, ordinal) for ordinal, document in enumerate("ab", 1)), ("b", "click", 2))
    assert from_0 == from_1


def test_the_order_of_hits_gives_positions_without_impressions() -> None:
    assert grades(("b", "click", None), shown=("a", "b", "c")) == grades(("a", IMPRESSION, 1), ("b", "click", 2))
    # The position in the event takes precedence.
    assert grades(("b", "click", 1), shown=("a", "b")) == {"b": GRADES["clicked"]}


def test_the_strongest_action_of_a_document_counts() -> None:
    assert grades(("a", "purchase", 1), ("a", "click", 1)) == {"a": 1}
    assert grades(("a", "click", 1), ("a", "add_to_cart", 1)) == {"a": ACTIONS["add_to_cart"]}


def test_impressions_alone_and_ungraded_actions_give_no_judgements() -> None:
    assert grades(("a", IMPRESSION, 1), ("b", IMPRESSION, 2), ("b", "scrolled", 2)) == {}


def test_an_action_may_count_against_a_document() -> None:
    actions = {**ACTIONS, "declined": -1.0}
    made = [did("a", "declined", 3, 5.0), did("b", IMPRESSION, 1)]
    assert {key: (judgement.grade, judgement.at) for key, judgement in click_grades(made, actions).items()} == {
        "a": (-1, 5)
    }


def test_no_hit_is_skipped_without_a_grade_for_impressions() -> None:
    made = [did("a", IMPRESSION, 1), did("b", "click", 2)]
    assert set(click_grades(made, {"click": 0.5})) == {"b"}


def test_grades_of_actions_are_from_minus_1_to_1() -> None:
    for action in ACTIONS:
        for ordinal in (None, 0, 1, 7, 10**9):
            assert all(-1 <= grade <= 1 for grade in grades(("a", IMPRESSION, 0), ("b", action, ordinal)).values())


@pytest.mark.parametrize("part", ["click", "click=", "=1", "click=much", "click=1.5", "click=nan", ""])
def test_a_malformed_action_is_refused(part: str) -> None:
    with pytest.raises(BadInput, match="is not the grade of an action"):
        parse_action_grades([part])


def test_actions_are_read_with_blanks_and_equals_signs() -> None:
    assert parse_action_grades(["click = 0.5", "a=b=1"]) == {"click": 0.5, "a=b": 1}
