"""Tests of standard input that is not JSON, which is expected unless --format names another format."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from resift.cli.main import main


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("index - --index docs", "--format csv, tsv or text"),
        ("train self --corpus - --out out", "a file that ends in .csv, .tsv or .txt"),
        (
            "train queries --corpus - --teacher http://[::1]:1/v1 --out out",
            "a file that ends in .csv, .tsv or .txt",
        ),
        ("train word2doc --corpus - --out out", "a file that ends in .csv, .tsv or .txt"),
        ("vectors train - --out out", "a file that ends in .csv, .tsv or .txt"),
    ],
)
def test_a_table_is_not_taken_for_json_without_a_word(command: str, expected: str) -> None:
    result = CliRunner().invoke(main, command.split(), input="name,price\nbrass hose,3\ngarden hose,4\n")
    assert result.exit_code == 2, result.output
    assert "no documents in -" in result.stderr
    assert f"expected: JSON on standard input, or {expected}" in result.stderr
    assert not list(Path().glob("out*"))
