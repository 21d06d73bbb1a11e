"""Property-based tests of the explanations on cards: they agree with the arrow, and with the grade of the judgement."""

from __future__ import annotations

from typing import Any

import numpy as np
from browser import Page
from page_app import QUESTION

CASES = 4000
SAY = """
const [cases, done] = arguments;
import('/static/hits.js').then(({ arrow, places, sentence }) => done(cases.map((one) => {
  const found = places(one);
  return { ...arrow(found, 'BM25'), said: sentence(found, one.because, one) };
})), (error) => done(String(error)));
"""
NAME = """
const [facts, text, learned, done] = arguments;
const title = { textContent: 'Alpena warm shoes' }, snippet = { textContent: text };
const card = { hit: { resift: { card: { facts } } }, title, snippet };
import('/static/hits.js').then(({ shownWords }) => done(shownWords(card, learned)), (error) => done(String(error)));
"""


def cases() -> list[dict[str, Any]]:
    """Generate ranks and reasons, including inconsistent ones."""
    rng = np.random.default_rng(11)

    def because() -> dict[str, Any] | None:
        if rng.random() < 0.3:
            return None
        return {"grade": float(rng.choice([-1, -0.25, 0.5, 1])), "title": "Bush fire"}

    return [
        {
            "base": None if rng.random() < 0.15 else int(rng.integers(1, 101)),
            "rank": int(rng.integers(1, 101)),
            "depth": 100,
            "because": because(),
            "grade": int(rng.choice([0, 0, 1, -1])),
            "words": [["ember"], []][rng.integers(2)],
            "session": bool(rng.random() < 0.8),
            "vectors": bool(rng.random() < 0.7),
        }
        for _ in range(CASES)
    ]


def test_a_sentence_never_contradicts_its_arrow(page: Page) -> None:
    page.open()
    given = cases()
    found = page.run_async(SAY, given)
    assert len(found) == len(given)
    for one, shown in zip(given, found, strict=True):
        sign = int(np.sign((one["base"] or 101) - one["rank"]))
        assert shown["kind"] == ("up" if one["base"] is None or sign > 0 else "down" if sign else "same")
        said = shown["said"]
        if said["like"]:
            assert np.sign(one["because"]["grade"]) == sign
            assert said["text"] == ("More like " if sign > 0 else "Like ")
        assert ("ahead" in said["text"]) <= (sign < 0)
        assert ("behind" in said["text"] or "Closer" in said["text"] or "Has words" in said["text"]) <= (sign > 0)
        assert "meaning" not in said["text"] or one["vectors"]
        assert bool(said["text"]) == bool(sign or one["grade"])


def test_cards_of_a_session_name_the_mark_and_its_words(page: Page) -> None:
    page.open(q=QUESTION)
    assert not any(page.texts("#right .why"))
    page.click("#right .card:nth-child(1) .thumb").click("#right .card:nth-child(5) .thumb")
    marked = {title.rstrip("…") for title in page.texts("#right .card.relevant h3")}
    named = set(page.texts("#right .why q"))
    assert named
    assert named <= marked
    learned = set(page.texts("#drawer .pill [dir]"))
    words = [why.rpartition(": ")[2] for why in page.texts("#right .why:has(q)") if not why.endswith(tuple(marked))]
    assert any(words)
    assert {word for phrases in words for word in phrases.replace(",", "").split()} <= learned


def test_a_reason_names_each_word_once_and_those_of_titles_and_facts_first(page: Page) -> None:
    page.open()
    text = "Warm shoes with a rubber sole, made by Alpena."
    learned = ["rubber", "sole", "warm", "alpena", "clear"]
    assert page.run_async(NAME, {"brand": "Alpena"}, text, learned) == ["alpena warm", "rubber sole"]
    assert page.run_async(NAME, {"color": "Clear"}, text, learned) == ["alpena warm", "clear", "rubber sole"]
