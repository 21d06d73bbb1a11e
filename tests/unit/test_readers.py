"""Tests of reading documents: formats, ids, id columns, compressed and damaged input."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from resift.errors import BadInput
from resift.ingest import rows
from resift.ingest.readers import BadLine, Files, Record, guess_format, read_records


def records(data: str | bytes, format: str = "jsonl", id_column: str | None = None) -> list[Record | BadLine]:
    """Return the records of these bytes."""
    return list(read_records(io.BytesIO(data.encode() if isinstance(data, str) else data), format, id_column))


def test_a_beir_line_is_read_as_a_document() -> None:
    (record,) = records('{"_id": "d1", "title": "T", "text": "x", "metadata": {"a": 1}}\n')
    assert record == Record("-", 1, "d1", {"title": "T", "text": "x", "metadata": {"a": 1}})


def test_the_id_comes_from_id_or_the_named_column() -> None:
    (plain,) = records('{"id": 7, "text": "x"}')
    assert isinstance(plain, Record)
    assert (plain.id, plain.source) == ("7", {"id": 7, "text": "x"})
    (own,) = records('{"key": "k", "text": "x"}', id_column="key")
    assert isinstance(own, Record)
    assert own.id == "k"
    (missing,) = records('{"text": "x"}', id_column="key")
    assert isinstance(missing, BadLine)
    assert "'key'" in missing.reason


def test_documents_without_an_id_get_an_id_from_their_content() -> None:
    first, second, again = records('{"text": "x"}\n{"text": "y"}\n{"text": "x"}\n')
    assert isinstance(first, Record)
    assert isinstance(second, Record)
    assert isinstance(again, Record)
    assert first.id == again.id != second.id
    assert not first.has_own_id


def test_bad_lines_do_not_end_the_file() -> None:
    data = b'{"_id": "1"}\n{broken\n\n[1]\n"text"\n{"a": NaN}\n\xff\xfe\n{"_id": "2"}'
    items = records(data)
    assert [(type(item).__name__, item.line) for item in items] == [
        ("Record", 1),
        ("BadLine", 2),
        ("BadLine", 4),
        ("BadLine", 5),
        ("BadLine", 6),
        ("BadLine", 7),
        ("Record", 8),
    ]
    assert isinstance(items[1], BadLine)
    assert items[1].raw == "{broken"
    assert all(item.reason for item in items if isinstance(item, BadLine))


def test_deep_json_is_a_bad_line() -> None:
    (bad,) = records("[" * 100_000)
    assert isinstance(bad, BadLine)


@pytest.fixture
def small_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit lines to 50 bytes, and arrays to 200."""
    monkeypatch.setattr(rows, "MAX_LINE", 50)
    monkeypatch.setattr(rows, "MAX_ARRAY", 200)


@pytest.mark.usefixtures("small_lines")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_that_is_too_long_is_refused_and_the_others_are_read(place: int) -> None:
    lines = ['{"_id": "1"}', '{"_id": "2"}']
    lines.insert(place, json.dumps({"_id": "3", "text": "x" * 170}))
    items = records(gzip.compress("\n".join(lines).encode()))
    assert [item.line for item in items] == [1, 2, 3]
    bad = items.pop(place)
    assert isinstance(bad, BadLine)
    assert bad.reason == "the line has more than 50 bytes"
    assert [item.id for item in items if isinstance(item, Record)] == ["1", "2"]


@pytest.mark.usefixtures("small_lines")
def test_an_array_may_be_longer_than_a_line_but_not_of_any_length() -> None:
    documents = [{"_id": str(number)} for number in range(8)]
    assert [item.line for item in records(json.dumps(documents))] == [*range(1, 9)]
    (bad,) = records(json.dumps(documents * 3))
    assert isinstance(bad, BadLine)
    assert bad.reason == "the JSON value has more than 200 bytes; expected an array, or an object a line"


@pytest.mark.usefixtures("small_lines")
@pytest.mark.parametrize("long", ["2," + "b" * 120, '2,"' + "b\n" * 60 + "b"])
def test_a_table_row_that_is_too_long_is_refused(long: str) -> None:
    first, bad, *_, last = records(f"id,text\n1,a\n{long}\n3,c\n", "csv")
    assert [item.id for item in (first, last) if isinstance(item, Record)] == ["1", "3"]
    assert isinstance(bad, BadLine)
    assert bad.reason == "malformed table: the row has more than 50 characters"


@pytest.mark.usefixtures("small_lines")
def test_a_line_of_text_that_is_too_long_is_refused() -> None:
    first, bad, last = records(f"a\n{'b' * 120}\nc\n", "text")
    assert isinstance(bad, BadLine)
    assert [item.id for item in (first, last) if isinstance(item, Record)] == ["1", "3"]


def test_compressed_lines_with_a_byte_order_mark_are_read() -> None:
    data = '\ufeff{"_id": "1", "text": "é"}\n'.encode()
    (record,) = records(gzip.compress(data))
    assert isinstance(record, Record)
    assert record.source == {"text": "é"}


def test_damaged_gzip_is_refused() -> None:
    data = gzip.compress(b'{"_id": "1"}\n' * 1000)
    for damaged in (data[: len(data) // 2], data[:-8] + bytes(8), data[:20] + bytes(9) + data[29:]):
        with pytest.raises(BadInput, match="- is damaged"):
            records(damaged)


def test_csv_rows_with_wrong_column_counts_are_bad_lines() -> None:
    data = 'id,title,text\n1,T,"two\nlines, one field"\n2,only two\n3,a,b,c\n4,x,y\n'
    record, short, long, last = records(data, "csv")
    assert isinstance(record, Record)
    assert record.source == {"id": "1", "title": "T", "text": "two\nlines, one field"}
    assert isinstance(short, BadLine)
    assert isinstance(long, BadLine)
    assert "3 columns" in long.reason
    assert isinstance(last, Record)
    assert last.id == "4"
    assert [r.id for r in records("id\ttext\n1\ta,b\n", "tsv") if isinstance(r, Record)] == ["1"]


def test_a_malformed_row_is_reported_completely() -> None:
    first, broken, good, rest = records('id,text\n1,a\n2,"27" wide"\n3,"b"\n4,"open\n5,c\n', "csv")
    assert isinstance(broken, BadLine)
    assert (broken.line, broken.raw) == (3, '2,"27" wide"\n')
    assert isinstance(rest, BadLine)
    assert (rest.line, rest.raw) == (6, '4,"open\n5,c\n')
    assert [record.id for record in (first, good) if isinstance(record, Record)] == ["1", "3"]


def test_columns_without_a_name_are_named_by_their_position() -> None:
    (record,) = records(",title,text,\n0,Fire,It burns.,\n", "csv")  # row numbers, and an extra comma
    assert isinstance(record, Record)
    assert record.source == {"column 1": 0, "title": "Fire", "text": "It burns."}


def test_spaces_after_delimiters_are_removed() -> None:
    (record,) = records('id, title , text\n1, Fire, "It burns, they say."\n', "csv")
    assert isinstance(record, Record)
    assert record.source == {"id": "1", "title": "Fire", "text": "It burns, they say."}


@pytest.mark.parametrize("before", ["\n", "\r\n\r\n", "\ufeff\n"])
def test_empty_lines_before_the_header_are_skipped(before: str) -> None:
    (record,) = records(f"{before}id;text\n1;a, b\n", "csv")
    assert isinstance(record, Record)
    assert record.source == {"id": "1", "text": "a, b"}
    assert records(before, "csv") == []


def test_empty_lines_are_not_documents() -> None:
    items = records("id;text\n1;a\n;\n  \n \t ; \n;;;\n2;b\n;c\n", "csv")
    assert [(record.line, record.source) for record in items if isinstance(record, Record)] == [
        (2, {"id": "1", "text": "a"}),
        (7, {"id": "2", "text": "b"}),
        (8, {"text": "c"}),
    ]
    assert len(items) == 3


def test_an_empty_cell_has_no_value() -> None:
    # OpenSearch refuses "" in a field whose first values were dates.
    (record,) = records("id,text,closed\n1,a,\n", "csv")
    assert isinstance(record, Record)
    assert record.source == {"id": "1", "text": "a"}


def test_columns_of_numbers_are_read_as_numbers() -> None:
    header = "id,price,count,code,version,note,mixed\n"
    first, second, third = records(
        f"{header}1,9.50,3,007,1.9,5,1.5\n2,12.25,,012,1.10,n/a,-2e3\n03,7.00,4,1,1.2,6,8\n", "csv"
    )
    assert isinstance(first, Record)
    assert isinstance(second, Record)
    assert isinstance(third, Record)
    assert first.source == {
        "id": "1",
        "price": 9.5,
        "count": 3,
        "code": "007",
        "version": "1.9",
        "note": "5",
        "mixed": 1.5,
    }
    assert {name: second.source.get(name) for name in ("price", "count", "note", "mixed")} == {
        "price": 12.25,
        "count": None,
        "note": "n/a",
        "mixed": -2000.0,
    }
    assert third.id == "03"


def test_an_id_is_not_read_as_a_number() -> None:
    (record,) = records("nr,text\n1.10,a\n", "csv", "nr")
    assert isinstance(record, Record)
    assert record.id == "1.10"


def test_an_object_is_refused_as_an_id() -> None:
    (record,) = records('{"id": {"a": 1}, "text": "b"}\n')
    assert isinstance(record, BadLine)
    assert record.reason == "the id in 'id' is not a text or a number"


def test_two_columns_with_the_same_name_are_refused() -> None:
    with pytest.raises(BadInput, match="two columns have the name 'text'"):
        records("id,text,text\n1,a,b\n", "csv")


def test_a_missing_id_column_is_reported_for_each_line() -> None:
    (record,) = records("nr,text\n1,a\n", "csv", "number")
    assert isinstance(record, BadLine)
    assert record.reason == "no id in column 'number'; the columns are nr, text"


def test_each_line_of_plain_text_is_a_document() -> None:
    items = records("first\n\n  third \n", "text")
    assert [(r.id, r.source) for r in items if isinstance(r, Record)] == [
        ("1", {"text": "first"}),
        ("3", {"text": "third"}),
    ]


def test_dead_letters_can_be_read_again() -> None:
    line = {"file": "x", "line": 9, "status": 400, "reason": "r", "document": {"_id": "d", "text": "t"}}
    (record,) = records(json.dumps(line))
    assert isinstance(record, Record)
    assert (record.id, record.source) == ("d", {"text": "t"})


def test_files_are_read_one_after_another(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"_id": "1"}\n{"_id": "2"}\n')
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"_id,text\n3,x\n"))
    files = Files([str(tmp_path / "a.jsonl"), str(tmp_path / "b.csv.gz")])
    items = [(Path(record.file).name, record.line, record.id) for record in files if isinstance(record, Record)]
    assert items == [("a.jsonl", 1, "1"), ("a.jsonl", 2, "2"), ("b.csv.gz", 2, "3")]
    assert files.position == files.total
    with pytest.raises(BadInput, match=r"missing\.jsonl"):
        Files([str(tmp_path / "missing.jsonl")])


@pytest.mark.parametrize(
    ("name", "format"), [("a.jsonl.gz", "jsonl"), ("b.csv", "csv"), ("c.tsv.gz", "tsv"), ("d.txt", "text")]
)
def test_the_extension_determines_the_format(name: str, format: str) -> None:
    assert guess_format(name) == format
    with pytest.raises(BadInput, match="cannot determine") as caught:
        guess_format(f"{name}.parquet")
    assert "--format" in str(caught.value.expected)
