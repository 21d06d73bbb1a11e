"""Errors: what a person reads who prints one, and what clients get."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import filled as filled

import resift
from resift.cli.main import main
from resift.errors import BadInput, EngineError, ResiftError

ERRORS: list[tuple[str, Any, str | None, str]] = [
    ("alpha is 3", 3, "0 to 1", "alpha is 3 (expected 0 to 1)"),
    ("malformed query", ["a", 1], "a text", "malformed query (got \"['a', 1]\"; expected a text)"),
    ("--split 60,40", "60,40", "three numbers", "--split 60,40 (expected three numbers)"),
    ("fields are title,text", ["title", "text"], None, "fields are title,text"),
    ("3 documents are marked", 13, None, "3 documents are marked (got 13)"),
    ("no address", "", "a URL", "no address (got ''; expected a URL)"),
    ("no index, expected one", None, "expected one", "no index, expected one"),
    ("too long", "x" * 300, None, f"too long (got '{'x' * 200}… (300 characters)')"),
    ("the engine is away", None, None, "the engine is away"),
]


@pytest.mark.parametrize(("message", "value", "expected", "printed"), ERRORS)
def test_a_printed_error_has_value_and_expectation_once(
    message: str, value: Any, expected: str | None, printed: str
) -> None:
    for kind in (ResiftError, BadInput, EngineError):
        error = kind(message, value=value, expected=expected)
        assert str(error) == printed
        assert error.to_dict()["message"] == message


def test_each_door_says_it_once(here: object, client: FlaskClient, filled: str) -> None:
    with pytest.raises(resift.ResiftError) as caught, resift.open("docs.db") as library:
        library.index("docs", fields=["text"]).search("fire", alpha=3)
    assert str(caught.value) == "alpha is 3 (expected a number from 0 to 1)"
    shown = CliRunner().invoke(main, ["search", "docs", "fire", "--engine", "localhost:9200"]).output
    assert shown.count("expected") == shown.count("./localhost:9200") == 1
    error = client.post("/v1/search", json={"index": filled, "query": "fire", "alpha": 3}).get_json()["error"]
    assert error["message"].count("expected") == 0
    assert (error["value"], error["expected"]) == (3, "a number from 0 to 1")
