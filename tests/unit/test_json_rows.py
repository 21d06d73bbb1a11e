"""Tests of JSON in all layouts: lines, an array, a multi-line object, and other encodings."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resift.errors import BadInput
from resift.ingest.readers import BadLine, Record, read_records
from resift.ingest.rows import BadRow, rows_of


def numbered_rows(text: str) -> list[tuple[int, Any]]:
    """Return the rows of a text with their line numbers."""
    return list(rows_of(io.BytesIO(text.encode("utf-8", "surrogatepass")), "json", "-"))


def reasons(text: str) -> list[Any]:
    """Return the rows of a text, with the reason in place of each bad row."""
    return [row.reason if isinstance(row, BadRow) else row for _, row in numbered_rows(text)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=6)


@given(OBJECTS, st.sampled_from([None, 0, 2]), st.booleans())
def test_every_layout_gives_the_same_objects(objects: list[dict[str, Any]], indent: int | None, ascii: bool) -> None:
    array = json.dumps(objects, indent=indent, ensure_ascii=ascii)
    assert [row for _, row in numbered_rows(array)] == objects
    texts = [json.dumps(document, ensure_ascii=ascii) for document in [{"text": "one two three four"}, *objects]]
    assert [row for _, row in numbered_rows("\n".join(texts))][1:] == objects


def test_objects_of_an_array_are_numbered_by_position_and_lines_by_line_number() -> None:
    assert numbered_rows('\n[\n  {"a": 1},\n  {"a": [\n 2]}]\n') == [(1, {"a": 1}), (2, {"a": [2]})]
    assert numbered_rows('\n{"a": 1}\n\n{"a": 2}') == [(2, {"a": 1}), (4, {"a": 2})]


def test_a_malformed_array_is_a_single_error() -> None:
    assert reasons('[{"a": 1}, 2]') == [{"a": 1}, "a number, expected an object"]
    for text in ('[{"a": 1}, {"a": 2', '[{"a": 1}, {broken}]', '[{"a": 1}]\n{"a": 2}', '{\n"a": 1}\n{"a": 2}', "[NaN]"):
        ((line, fault),) = numbered_rows(f"\n{text}")
        assert line == 2
        assert fault.raw.strip() == text
        assert fault.reason.startswith("not JSON: ")
        assert fault.reason.endswith("expected an array, or an object a line")
    assert len(numbered_rows("[" * 100_000)) == 1


def test_documents_are_read_from_bulk_requests() -> None:
    bulk = (
        '{"index": {"_index": "a", "_id": "1"}}\n{"t": "x"}\n{"create": {}}\n{"t": "y"}\n{"index": {"_id": 3}}\n'
        '{broken\n{"t": "z"}\n{"index": {"_id": "4"}}\n{"index": {"name": "a document"}}\n{"index": {"_id": "5"}}'
    )
    documents = numbered_rows(bulk)
    assert [line for line, _ in documents] == [2, 4, 6, 7, 9, 10]
    assert documents[0][1] == {"_id": "1", "t": "x"}
    assert [documents[place][1] for place in (1, 3)] == [{"t": "y"}, {"t": "z"}]
    assert documents[4][1] == {"_id": "4", "index": {"name": "a document"}}
    assert reasons(bulk)[-1] == "a bulk action without a document"


def test_documents_are_read_from_hits() -> None:
    hit = {"_index": "a", "_id": "1", "_score": 1.0, "_source": {"t": "x"}}
    document = {"_id": "1", "t": "x"}
    assert (
        [row for _, row in numbered_rows(json.dumps(hit))]
        == [row for _, row in numbered_rows(json.dumps([hit]))]
        == [document]
    )
    other = {"_id": "2", "_source": {"t": "x"}}
    assert [row for _, row in numbered_rows(json.dumps(other))] == [other]


def test_a_document_with_a_list_of_objects_is_a_single_document() -> None:
    document = {"title": "Of mice and men", "text": "A few words", "authors": [{"name": "John"}]}
    assert reasons(json.dumps(document)) == reasons(json.dumps(document, indent=1)) == [document]
    assert reasons('{"list": [{"a": 1}]}\n{"list": [{"a": 2}]}') == [{"list": [{"a": 1}]}, {"list": [{"a": 2}]}]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("format", ["json", "csv", "tsv", "text"])
def test_other_encodings_are_refused_with_one_error(encoding: str, format: str) -> None:
    with pytest.raises(BadInput, match="letter is not UTF-8 text"):
        list(read_records(io.BytesIO('[{"text": "é 日本語"}]'.encode(encoding)), format, name="letter"))


@pytest.mark.parametrize("data", [bytes(100), bytes(range(256)), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0"])
@pytest.mark.parametrize("format", ["jsonl", "csv", "text"])
def test_binary_files_are_refused(data: bytes, format: str) -> None:
    with pytest.raises(BadInput, match="photo is not UTF-8 text"):
        list(read_records(io.BytesIO(data), format, name="photo"))


@pytest.mark.parametrize(("format", "text"), [("csv", "id,text\n1,café\n2,tea\n"), ("text", "café\ntea")])
def test_text_that_is_not_utf8_is_refused(format: str, text: str) -> None:
    bad, good = read_records(io.BytesIO(text.encode("latin-1")), format)
    assert isinstance(bad, BadLine)
    assert "not UTF-8" in bad.reason
    assert "caf�" in bad.raw
    assert isinstance(good, Record)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_csv_is_guessed_from_its_header(delimiter: str) -> None:
    data = f"id{delimiter}text\n1{delimiter}a b\n"
    (record,) = read_records(io.BytesIO(data.encode()), "csv")
    assert isinstance(record, Record)
    assert record.source == {"id": "1", "text": "a b"}
