"""``resift search --explain``: what the engine is asked is shown as it is asked, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import resift as library
from resift.cli.main import main
from resift.library import Hit
from resift.service.bodies import Search

NEWS = [
    {"id": "1", "title": "Bushfire near Sydney", "text": "Crews fight the fire in the forest."},
    {"id": "2", "title": "Shots across the border", "text": "Soldiers returned fire in the mountains."},
    {"id": "3", "title": "Rain in the forest", "text": "It rained for days."},
]


def explained(query: str, *arguments: str) -> Result:
    """What the command prints of a search of the index ``news``."""
    result = CliRunner().invoke(main, ["search", "news", query, "--explain", *arguments])
    assert result.exit_code == 0, result.output
    return result


def body_of(query: str, *arguments: str) -> dict[str, Any]:
    """The whole body that the engine would be asked."""
    found: dict[str, Any] = json.loads(explained(query, *arguments, "--json").stdout)
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
    asked = {"query": "fire", "fields": ["title", "text"], "lenient": True, "tie_breaker": 0.3}
    widened = body_of("fire", "--session", "anna", "--size", "3")
    assert widened["size"] == 3
    clause = widened["query"]["bool"]["must"][0]["bool"]
    assert (clause["should"][0], clause["minimum_should_match"]) == ({"multi_match": asked}, 1)
    assert "soldiers" in json.dumps(clause["should"])
    told = explained("fire", "--session", "anna").stderr
    assert "session anna: judgements 2, steps 1" in told
    assert "also asked: " in told
    assert "has no marks" in explained("fire", "--session", "bob").stderr


def test_the_explained_body_is_the_searched_body() -> None:
    body = body_of("fire", "--session", "anna")
    with library.open("resift.db") as opened:
        searched = opened.index("news").session("anna").search("fire")
        rewritten = opened.engine.search("news", body).hits
    assert [(hit["_id"], hit["_score"]) for hit in rewritten] == [(hit.id, hit.score) for hit in searched]


def test_words_of_marks_for_earlier_queries_are_named() -> None:
    told = explained("those mountains", "--session", "anna").stderr
    words = told.partition("words of earlier marks: ")[2].splitlines()[0].split(", ")
    assert {"soldiers", "mountains"} <= set(words)
    with library.open("resift.db") as opened:
        found = opened.index("news").session("anna").search("those mountains")
    assert found.response["resift"]["carried"] == words
    for own_or_complete in ("fire", "rain in the forest for days"):
        assert "words of earlier marks" not in explained(own_or_complete, "--session", "anna").stderr


def test_a_session_without_effect_is_explained() -> None:
    unused = "the session's marks do not count for this query\n"
    assert explained("rain in the forest for days", "--session", "anna").stderr.endswith(f"\n{unused}")
    lexical = explained("rain in the forest for days", "--session", "anna", "--method", "dynamax").stderr
    assert lexical.endswith(f"\nnot rewritten: there is nothing to add: {unused}")
    assert "do not count" not in explained("fire", "--session", "anna").stderr
    with library.open("resift.db") as opened:
        service = opened.service
        answer = service.search(Search(index="news", query="fire", session="misspelt", method="dynamax"))
    assert answer.resift["reason"] == "there is nothing to add: the session has no marks"


def test_omissions_are_explained_and_long_values_are_shortened() -> None:
    assert "not rewritten: no hits are requested" in explained("fire", "--size", "0").stderr
    assert explained("fire", "--method", "dynamax").stderr == "not rewritten: there is nothing to add\n"
    long = explained(" ".join(f"w{number}" for number in range(600)) + 4 * " fire")
    assert "the query is too long for the engine: only its 100 most distinctive words count" in long.stderr
    assert "characters)" in long.stdout
    assert '"(256 numbers)"' in explained("fire", "--session", "anna").stdout


@pytest.mark.parametrize(
    ("score", "shown"),
    [(None, "-"), (5.4364, "5.436"), (1682.2, "1682"), (12345, "1.2e4"), (1.448e26, "1.4e26"), (0.00001234, "1.2e-5")],
)
def test_scores_have_few_digits(score: float | None, shown: str) -> None:
    assert Hit({"_id": "1", "_score": score}).rounded_score == shown
