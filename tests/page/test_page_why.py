"""The sentence under "Why?": on any ranks and reasons its parts add up to the arrow, and its mark pulls that way."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from browser import Page
from page_app import QUESTION

CASES = 4000
SAY = """
const [cases, done] = arguments;
import('/static/why.js').then(({ arrow, places, sentence }) => done(cases.map((one) => {
  const found = places(one);
  return { ...arrow(found, 'BM25'), ...sentence(found, one.because, 'own', 'BM25', one.depth) };
})), (error) => done(String(error)));
"""


def numbers(text: str) -> list[int]:
    """The numbers with a sign in a sentence."""
    return [int(number.replace("±", "")) for number in re.findall(r"[-+±]\d+", text.replace("−", "-"))]


def cases() -> list[dict[str, Any]]:
    """Ranks and reasons, some of them at odds with each other as a server of another version may have them."""
    rng = np.random.default_rng(11)

    def rank() -> int | None:
        return None if rng.random() < 0.15 else int(rng.integers(1, 101))

    def because() -> dict[str, Any] | None:
        if rng.random() < 0.3:
            return None
        document, grade = rng.choice(["own", "other"]), float(rng.choice([-1, -0.25, 0.5, 1]))
        return {"document": str(document), "grade": grade, "title": "Bush fire"}

    return [
        {
            "base": rank(),
            "words": rank(),
            "rank": int(rng.integers(1, 101)),
            "depth": 100,
            "because": because(),
            "by": by,
        }
        for by in ("parts", "meaning", None)
        for _ in range(CASES // 3)
    ]


def test_a_sentence_never_contradicts_its_arrow(page: Page) -> None:
    page.open()
    given = cases()
    found = page.driver.execute_async_script(SAY, given)  # type: ignore[no-untyped-call]
    assert len(found) == len(given)
    for one, said in zip(given, found, strict=True):
        moved = (one["base"] or 101) - one["rank"]
        sign = int(np.sign(moved))
        assert said["kind"] == ("up" if one["base"] is None or moved > 0 else "down" if moved else "same")
        assert not numbers(said["text"]) or sum(numbers(said["text"])) == moved
        up, down = re.match(r"Up (\d+)", said["text"]), re.match(r"Down (\d+)", said["text"])
        assert not up or int(up[1]) == moved
        assert not down or int(down[1]) == -moved
        if said["like"]:
            assert np.sign(one["because"]["grade"]) == sign
        assert ("moved ahead" in said["text"]) <= (moved < 0)
        assert ("Same place" in said["text"] or "even out" in said["text"]) <= (moved == 0)


@pytest.mark.parametrize("query", [QUESTION, "new york state tax"])
def test_sentences_of_real_sessions(page: Page, query: str) -> None:
    page.open(q=query)
    page.click("#right .card:nth-child(4) .thumb[title=relevant]")
    page.click("#right .card:nth-child(2) .thumb[title='not relevant']")
    for arrow, said in zip(page.texts("#right .moved > [aria-hidden]"), page.texts("#right .why"), strict=True):
        moved = {"▲": 1, "▼": -1}.get(arrow[0], 0) * int(re.sub(r"\D", "", arrow) or 0)
        if arrow == "new":
            assert said.startswith("Not among the first 100 of BM25")
        else:
            assert sum(numbers(said)[:2]) == moved, said
        if "not relevant" in said:
            assert moved < 0
        elif "you marked" in said:
            assert moved > 0 or arrow == "new"
