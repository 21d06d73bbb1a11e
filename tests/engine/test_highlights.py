"""Tests of the embedded engine's highlights: fragments and their words."""

from __future__ import annotations

from pathlib import Path

import pytest

from resift import Model
from resift.contracts.documents import Document
from resift.embedded.engine import SqliteEngine


@pytest.mark.parametrize(
    ("place", "start", "end"),
    [
        (0, "", "w39…"),
        (5, "", "w39…"),
        (6, "…w1 ", "w40…"),
        (64, "…w59 ", "w98…"),
        (65, "…w60 ", "w99."),
        (99, "…w94 ", "."),
    ],
)
def test_a_passage_says_where_the_text_goes_on(tmp_path: Path, model: Model, place: int, start: str, end: str) -> None:
    words = ["fire" if number == place else f"w{number}" for number in range(100)]
    engine = SqliteEngine(str(tmp_path / "engine.db"))
    engine.create("docs", ["text"], model)
    assert engine.bulk("docs", [Document("1", {"text": " ".join(words) + "."}, None)]) == []
    body = {"query": {"match": {"text": "fire"}}, "highlight": {"fields": {"text": {}}}}
    ((shown,),) = (hit["highlight"]["text"] for hit in engine.search("docs", body).hits)
    engine.close()
    assert shown.startswith(start or ("<em>fire" if place == 0 else "w0"))
    assert shown.endswith(end)
    assert "<em>fire</em>" in shown
    assert len(shown.split()) == min(40, 100 - max(0, place - 5))


def test_a_passage_has_most_different_words_of_the_query(tmp_path: Path, model: Model) -> None:
    filler = " water" * 60
    text = f"gun fire fire fire fire{filler} soldier of the army, gun in hand, under fire{filler} gun gun gun gun gun"
    engine = SqliteEngine(str(tmp_path / "engine.db"))
    engine.create("docs", ["text"], model)
    assert engine.bulk("docs", [Document("1", {"text": text}, None)]) == []
    body = {"query": {"match": {"text": "gun fire soldier"}}, "highlight": {"fields": {"text": {}}}}
    ((shown,),) = (hit["highlight"]["text"] for hit in engine.search("docs", body).hits)
    engine.close()
    assert "<em>soldier</em> of the army, <em>gun</em> in hand, under <em>fire</em>" in shown


def test_a_long_text_that_is_all_hits(tmp_path: Path, model: Model) -> None:
    # An algorithm that compares each match with all others took minutes.
    text = "a river " * 50_000 + "bush_fire " * 50_000 + "rain"
    engine = SqliteEngine(str(tmp_path / "engine.db"))
    engine.create("docs", ["text"], model)
    assert engine.bulk("docs", [Document("1", {"text": text}, None)]) == []
    body = {"query": {"match": {"text": "bush.fire"}}, "highlight": {"fields": {"text": {}}}}
    ((shown,),) = (hit["highlight"]["text"] for hit in engine.search("docs", body).hits)
    engine.close()
    assert shown.startswith("…river a river a river a river a river <em>bush")
    assert shown.endswith(" <em>bush</em>_<em>fire</em> <em>bush</em>…")
    assert shown.count("<em>") == 35
