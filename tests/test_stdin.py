"""`resift index -` that ends on an error: what was read of stdin, which nobody can read again, is in a file."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from resift import Model
from resift.cli.main import main
from resift.ingest.fields import SAMPLE

DOCUMENTS = [{"_id": str(number), "name": f"hose {number}", "price": number} for number in range(1, 4)]
LINES = "".join(json.dumps(document) + "\n" for document in DOCUMENTS)


def index(*arguments: str, status: int, input: str = LINES) -> Result:
    """Run `resift index`, which must end with this status."""
    result = CliRunner().invoke(main, ["index", *arguments], input=input)
    assert result.exit_code == status, result.output
    return result


def letters(name: str = "docs.dead.jsonl") -> list[dict[str, Any]]:
    """The entries of a dead-letter file."""
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


@pytest.mark.usefixtures("here")
def test_fields_that_no_document_has() -> None:
    result = index("-", "--index", "docs", "--fields", "text", status=2)
    assert "read up to line 3 of -, and nothing behind it: 3 documents are in docs.dead.jsonl" in result.stderr
    assert "no document of - has a text in text" in result.stderr
    found = letters()
    assert [letter["document"] for letter in found] == DOCUMENTS
    assert [letter["line"] for letter in found] == [1, 2, 3]
    assert {letter["status"] for letter in found} == {400}
    assert "has a text in text" in found[0]["reason"]
    again = index("docs.dead.jsonl", "--index", "docs", "--fields", "name", status=0)
    assert "3 documents in index docs" in again.stdout


@pytest.mark.usefixtures("here")
def test_an_index_of_other_fields_or_of_another_model(model: Model) -> None:
    index("-", "--index", "docs", "--fields", "text", status=0, input='{"text": "fire"}')
    index("-", "--index", "docs", status=3)
    assert len(letters()) == 3
    model.save("small")
    refused = index("-", "--index", "docs", "--model", "small", "--map", "name=text", status=2)
    assert "holds vectors of model" in refused.stderr
    assert "3 documents are in docs.dead.1.jsonl" in refused.stderr
    assert [letter["document"]["text"] for letter in letters("docs.dead.1.jsonl")] == ["hose 1", "hose 2", "hose 3"]


@pytest.mark.usefixtures("here")
def test_what_holds_no_text_and_lines_that_are_no_documents() -> None:
    index("-", "--index", "docs", status=2, input='{"price": 3}\n{broken\n')
    assert [letter["document"] for letter in letters()] == [
        {"_id": letters()[0]["document"]["_id"], "price": 3},
        "{broken",
    ]
    assert "nothing behind it: 1 documents" in index("-", "--index", "docs", status=2, input="[1]").stderr
    assert letters("docs.dead.1.jsonl")[0]["document"] == "1"


@pytest.mark.usefixtures("here")
def test_only_what_was_read_and_only_of_streams() -> None:
    many = LINES * SAMPLE
    result = index("-", "--index", "docs", "--fields", "text", status=2, input=many)
    assert f"read up to line {SAMPLE} of -" in result.stderr
    assert len(letters()) == SAMPLE
    Path("docs.jsonl").write_text(LINES)
    result = index("docs.jsonl", "--index", "docs", "--fields", "text", status=2)
    assert "read up to" not in result.stderr
    assert not Path("docs.dead.1.jsonl").exists()


@pytest.mark.usefixtures("here")
def test_a_named_pipe_is_a_stream() -> None:
    os.mkfifo("pipe.jsonl")
    writer = threading.Thread(target=Path("pipe.jsonl").write_text, args=(LINES,))
    writer.start()
    index("pipe.jsonl", "--index", "docs", "--fields", "text", status=2)
    writer.join()
    assert [letter["document"] for letter in letters()] == DOCUMENTS


@pytest.mark.usefixtures("here")
def test_nothing_is_kept_of_what_was_indexed() -> None:
    index("-", "--index", "docs", status=0)
    assert not list(Path().glob("*.dead*"))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("index - --index docs", "--format csv, tsv or text"),
        ("encode - --out out.npy", "--format csv, tsv or text"),
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
    assert f"expected: JSON, which standard input is taken for; or {expected}" in result.stderr
    assert not list(Path().glob("out*"))
