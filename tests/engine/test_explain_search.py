"""``resift explain-search``: what a search becomes is shown as the engine is asked, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import resift as library
from resift.cli.main import main
from resift.library import Hit

NEWS = [
    {"id": "1", "title": "Bushfire near Sydney", "text": "Crews fight the fire in the forest."},
    {"id": "2", "title": "Shots across the border", "text": "Soldiers returned fire in the mountains."},
    {"id": "3", "title": "Rain in the forest", "text": "It rained for days."},
]


def explained(*arguments: str, input: Any = None, status: int = 0) -> Result:
    """What the command prints of the index ``news``; ``input`` is a body on standard input."""
    given = None if input is None else json.dumps(input)
    result = CliRunner().invoke(main, ["explain-search", "news", *arguments], input=given)
    assert result.exit_code == status, result.output
    return result


def report(*arguments: str, input: Any = None) -> dict[str, Any]:
    """The same as JSON."""
    found: dict[str, Any] = json.loads(explained(*arguments, "--json", input=input).stdout)
    return found


@pytest.fixture(autouse=True)
def marked(here: Path) -> None:
    """The index, and a session ``anna`` with two marks for a query."""
    with library.open("resift.db") as opened:
        news = opened.index("news", fields=["title", "text"])
        news.add(NEWS)
        anna = news.session("anna")
        anna.search("fire")
        anna.mark(relevant=["2"], irrelevant=["1"])


def test_a_text_is_widened_by_the_sessions_words() -> None:
    found = report("fire", "--session", "anna")
    asked = {"query": "fire", "fields": ["title", "text"], "lenient": True, "tie_breaker": 0.3}
    assert found["before"]["query"] == {"multi_match": asked}
    widened = found["after"]["query"]["bool"]["must"][0]["bool"]
    assert widened["should"][0] == found["before"]["query"]
    assert widened["minimum_should_match"] == 1
    text = " ".join(found["notes"])
    assert "soldiers" in text
    assert "in the first 400 hits of each shard" in text
    assert "Judged documents: 2; in later searches: keep." in text


def test_the_body_shown_is_the_one_that_is_searched() -> None:
    found = report("fire", "--session", "anna")
    with library.open("resift.db") as opened:
        searched = opened.index("news").session("anna").search("fire")
        rewritten = opened.engine.search("news", found["after"]).hits
    assert [(hit["_id"], hit["_score"]) for hit in rewritten] == [(hit.id, hit.score) for hit in searched]


def test_a_body_is_asked_as_through_a_pipeline() -> None:
    ext = {"ml_inference": {"session": "anna", "query": "fire", "judged": "hide"}}
    found = report("--body", "-", input={"query": {"match_all": {}}, "size": 3, "ext": ext})
    assert found["before"]["size"] == found["after"]["size"] == 3
    assert found["after"]["query"]["bool"]["must"] == [{"match_all": {}}]
    assert {"ids": {"values": ["2", "1"]}} in found["after"]["query"]["bool"]["must_not"]
    assert "Judged documents: 2; in later searches: hide." in found["notes"]


def test_a_body_whose_session_is_misspelt_or_has_no_marks_is_told_so() -> None:
    body = {"query": {"match": {"title": "fire"}}, "ext": {"ml_inference": {"sessionId": "anna", "alpha": 0.5}}}
    (note,) = [note for note in report("--body", "-", input=body)["notes"] if note.startswith("Note")]
    assert note.startswith("Note: Resift reads no 'sessionId' in ext.ml_inference (window, alpha, widen, ")
    body["ext"] = {"ml_inference": {"session": "bob"}}
    assert "session bob has no marks" in explained("--body", "-", input=body).stderr
    body["ext"] = {"ml_inference": {"session": "anna"}}
    assert "no marks" not in explained("--body", "-", input=body).stderr


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"query": {"match": {"title": "fire"}}, "sort": ["title"]}, "the search has 'sort'"),
        ({"query": {"match": {"title": "fire"}}, "size": 0}, "no hits were asked for"),
        ({"query": {"term": {"title": "fire"}}}, "the query has no text"),
    ],
)
def test_what_is_left_alone_says_why(body: dict[str, Any], reason: str) -> None:
    found = report("--body", "-", input=body)
    assert found["after"] == found["before"]
    assert found["notes"] == [f"Left as it was: {reason}."]


def test_the_text_is_shortened_and_told_apart(here: Path) -> None:
    shown = explained("fire", "--session", "anna").stdout
    before, after = shown.removeprefix("before\n").split("\nafter\n")
    assert json.loads(before)["size"] == 10
    assert '"(256 numbers)"' in after
    assert "characters)" in after
    assert "has no marks" in explained("fire", "--session", "bob").stderr
    assert "Judged documents: 2, none of which concerns this query" in explained("rain", "--session", "anna").stdout


@pytest.mark.parametrize(
    ("arguments", "input", "message"),
    [
        ([], None, "not one search"),
        (["fire", "--body", "-"], {}, "not one search"),
        (["--body", "-"], [], "holds no object"),
        (["--body", "-"], {"query": 3}, "malformed query"),
        (["--body", "-"], {"query": {"match_all": {}}, "ext": {"ml_inference": {"alpha": 2}}}, "alpha is 2"),
        (["--body", "missing.json"], None, "missing.json"),
    ],
)
def test_what_is_no_search_is_one_message(arguments: list[str], input: Any, message: str) -> None:
    assert message in explained(*arguments, input=input, status=2).stderr


@pytest.mark.parametrize(
    ("score", "shown"),
    [(None, "-"), (5.4364, "5.436"), (1682.2, "1682"), (12345, "1.2e4"), (1.448e26, "1.4e26"), (0.00001234, "1.2e-5")],
)
def test_scores_have_few_digits(score: float | None, shown: str) -> None:
    assert Hit({"_id": "1", "_score": score}).rounded_score == shown


def test_a_text_that_is_too_long_says_what_is_asked_of_it() -> None:
    found = report(" ".join(f"w{number}" for number in range(600)) + 4 * " fire")
    assert "fire" in found["before"]["query"]["multi_match"]["query"].split()
    assert found["notes"][-1] == "Note: the query is too long for the engine: its 100 most telling words count."
