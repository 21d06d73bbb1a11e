"""Columns of tables that hold numbers: which do, and that both engines compare them by their size."""

from __future__ import annotations

import gzip
import json
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from resift.cli.main import main
from resift.contracts.engine import Engine
from resift.errors import IndexNotFound
from resift.ingest import number_columns
from resift.ingest.number_columns import NumberColumns
from resift.ingest.readers import Columns, Files, Record
from resift.ingest.rows import table_rows
from resift.plugin.connect import open_engine
from resift.plugin.opensearch.engine import OpenSearchEngine

CATALOGUE = """id,name,description,price,stock,zip,added
1,Oak table,A table of oak for six people.,249.00,4,04109,2024-01-05
2,Desk lamp,A lamp of brass that bends.,59.90,120,10115,2024-02-11
3,Beech chair,A chair of beech without arms.,,15,80331,2023-11-30
4,Sofa,A sofa for two that folds out.,1099.00,7,50667,2024-03-01
"""


def read_from(path: Path, columns: Columns | None = None, texts: tuple[str, ...] = ()) -> dict[str, list[Any]]:
    """The values of each column of numbers of a file."""
    files = Files([str(path)], columns=columns or Columns())
    numbers = NumberColumns(files, texts)
    values: dict[str, list[Any]] = {name: [] for name in numbers.names}
    for record in files:
        if isinstance(record, Record):
            numbers.convert(record)
            for name in numbers.names:
                values[name] += [record.source[name]] if name in record.source else []
    return values


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["10", "9", "-3", "0"], [10, 9, -3, 0]),
        (["9.50", "10.00", "100"], [9.5, 10.0, 100.0]),
        (["10.0", "9.25", "0.125"], [10.0, 9.25, 0.125]),
        (["1e-05", "2.5e-07", "1.0"], [1e-05, 2.5e-07, 1.0]),
        ([" 7 ", "8"], [7, 8]),
        (["5", "", "6"], [5, 6]),
        (["1.1", "1.10", "1.9"], None),  # versions
        (["01067", "80331"], None),
        (["10", "ten"], None),
        (["+4930", "4930"], None),
        (["1,5", "2,5"], None),
        (["1E5", "2E5"], None),
        (["9e+999", "1"], None),
        (["1234567890123456", "1"], None),
        (["nan", "1"], None),
        (["1.2.3", "1"], None),
        (["٣", "٤"], None),
        (["true", "false"], None),
        (["2024-01-05"], None),
        (["1_000"], None),
        ([""], None),
    ],
)
def test_a_column_is_of_numbers_if_every_cell_is_one_and_none_becomes_another(
    tmp_path: Path, cells: list[str], numbers: list[float] | None
) -> None:
    path = tmp_path / "one.tsv"
    path.write_text("text\tx\n" + "".join(f"a\t{cell}\n" for cell in cells))
    found = read_from(path)
    assert found == ({} if numbers is None else {"x": numbers})
    assert [type(one) for one in found.get("x", [])] == [type(one) for one in numbers or []]


def test_a_cell_far_down_makes_the_column_one_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("text,x\n" + "a,5\n" * 3000 + "a,none\n")
    assert read_from(path) == {}


def test_points_may_stand_between_thousands_where_semicolons_separate(tmp_path: Path) -> None:
    path = tmp_path / "places.csv"
    path.write_text("text;people;share;price\na;1.234;0.125;2.50\nb;900;0.25;3.75\n")
    assert read_from(path) == {"share": [0.125, 0.25], "price": [2.5, 3.75]}
    path.write_text(path.read_text().replace(";", ","))
    assert read_from(path)["people"] == [1.234, 900.0]


def test_ids_and_texts_stay_texts_whatever_they_are_called(tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    path.write_text("nr,name,year\n1,2001,1968\n2,1984,1984\n")
    columns = Columns("nr", {"nr": "number", "name": "title", "year": "released"})
    assert read_from(path, columns, ("title",)) == {"released": [1968, 1984]}
    assert read_from(path, texts=("name", "year")) == {"nr": [1, 2]}


def test_all_tables_of_a_run_are_looked_at_and_other_files_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress("text,x,y\r\na,1,2\r\nbroken\r\n".encode("utf-16")))
    (tmp_path / "b.tsv").write_text("text\tx\ty\na\t3\tfour\n", "utf-8-sig")
    (tmp_path / "c.jsonl").write_text('{"text": "a", "x": "5"}\n')
    files = Files([str(tmp_path / name) for name in ("a.csv.gz", "b.tsv", "c.jsonl")])
    numbers = NumberColumns(files, ["text"])
    assert numbers.names == ["x"]
    records = [record for record in files if isinstance(record, Record)]
    for record in records:
        numbers.convert(record)
    assert [record.source["x"] for record in records] == [1, 3, "5"]


def test_what_is_damaged_is_left_to_its_reader(tmp_path: Path) -> None:
    whole = gzip.compress(b"text,x\n" + b"".join(b"word %d,%d\n" % (n * 7919, n) for n in range(20_000)))
    (tmp_path / "a.csv.gz").write_bytes(whole[: len(whole) // 2])
    assert NumberColumns(Files([str(tmp_path / "a.csv.gz")]), ["text"]).names == ["x"]
    (tmp_path / "b.csv").write_text("text,x,x\na,1,2\n")
    assert NumberColumns(Files([str(tmp_path / "b.csv")]), ["text"]).names == []


def test_a_file_that_changed_meanwhile_keeps_its_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,x\na,1\n")
    numbers = NumberColumns(Files([str(path)]), ["text"])
    record = Record(str(path), 2, "1", {"text": "a", "x": "1.5"})
    numbers.convert(record)
    assert record.source["x"] == "1.5"


def test_nothing_is_indexed_by_what_was_only_half_looked_at(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column whose first cells are numbers would be one of numbers in the index for good."""

    def interrupted(*arguments: Any) -> Iterator[Any]:
        for line, row in table_rows(*arguments):
            os.kill(os.getpid(), signal.SIGTERM)
            yield line, row

    (here / "a.csv").write_text("id,text,x\n1,a fire,1\n2,a rain,2\n3,a wind,three\n")
    monkeypatch.setattr(number_columns, "table_rows", interrupted)
    said = index("a.csv", "--index", "docs", "--engine", "own.db", "--fields", "text", status=143).stderr
    assert "ended by SIGTERM; nothing was indexed" in said
    with pytest.raises(IndexNotFound), closing(open_engine("own.db")) as engine:
        engine.info("docs")


@pytest.fixture
def name(engine_url: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of an index that no other test uses, in either engine; it is dropped."""
    monkeypatch.setenv("RESIFT_ENGINE", engine_url)
    found = f"resift-test-{uuid.uuid4().hex[:8]}"
    yield found
    engine = open_engine(engine_url)
    engine.drop_if_exists(found)
    engine.close()


def index(*arguments: str, status: int = 0, input: str | None = None) -> Result:
    """What ``resift index`` does, which must end with this status."""
    result = CliRunner().invoke(main, ["index", *arguments], input=input)
    assert result.exit_code == status, result.output
    return result


def found(engine: Engine, name: str, query: dict[str, Any]) -> list[str]:
    """The ids of the documents that a query finds."""
    engine.refresh(name)
    return sorted(hit["_id"] for hit in engine.search(name, {"query": query}).hits)


def test_both_engines_compare_numbers_of_a_table_by_their_size(name: str, engine_url: str, here: Path) -> None:
    (here / "products.csv").write_text(CATALOGUE)
    said = index("products.csv", "--index", name).stderr
    assert "numbers: price, stock (every cell of these columns is one)" in said
    engine = open_engine(engine_url)
    assert found(engine, name, {"range": {"price": {"gte": 59.9, "lt": 1000}}}) == ["1", "2"]
    assert found(engine, name, {"range": {"stock": {"gt": 9}}}) == ["2", "3"]
    assert found(engine, name, {"term": {"stock": 120}}) == found(engine, name, {"term": {"stock": "120"}}) == ["2"]
    assert found(engine, name, {"term": {"zip": "04109"}}) == ["1"]
    assert found(engine, name, {"range": {"added": {"gte": "2024-02-01"}}}) == ["2", "4"]
    counted = engine.value_counts(name, {"range": {"stock": {"gt": 5}}}, ["price", "added"], 5)
    # OpenSearch keeps 32 bits of a number, of which 59.9 is another one
    assert sorted(value for value, _ in counted["price"]) == [59.9, 1099.0]
    assert sorted(value[:10] for value, _ in counted["added"]) == ["2023-11-30", "2024-02-11", "2024-03-01"]
    assert engine.get(name, "4")[0] == {
        "id": "4",
        "name": "Sofa",
        "description": "A sofa for two that folds out.",
        "price": 1099.0,
        "stock": 7,
        "zip": "50667",
        "added": "2024-03-01",
    }
    if isinstance(engine, OpenSearchEngine):
        body = {"sort": [{"price": "desc"}], "aggs": {"mean": {"avg": {"field": "price"}}}}
        answer = engine.search(name, body).response
        assert [hit["_id"] for hit in answer["hits"]["hits"]] == ["4", "1", "2", "3"]
        assert answer["aggregations"]["mean"]["value"] == pytest.approx(469.3)
    engine.close()


def test_what_is_text_in_an_index_stays_text(name: str, engine_url: str, here: Path) -> None:
    (here / "one.jsonl").write_text(json.dumps({"id": "9", "name": "Oak bench", "price": "12.50", "stock": 3}))
    index("one.jsonl", "--index", name, "--fields", "name")
    (here / "products.csv").write_text(CATALOGUE)
    assert "numbers: stock (" in index("products.csv", "--index", name).stderr
    engine = open_engine(engine_url)
    assert engine.get(name, "4")[0]["price"] == "1099.00"
    assert found(engine, name, {"term": {"price": "59.90"}}) == ["2"]
    assert found(engine, name, {"range": {"stock": {"gt": 9}}}) == ["2", "3"]
    engine.close()


def test_decimals_behind_whole_numbers_are_told(name: str, engine_url: str, here: Path) -> None:
    """OpenSearch maps a field by its first value, and cuts later ones to it without a word."""
    (here / "one.csv").write_text("id,name,price,stock\n1,An oak table,5,1\n")
    (here / "two.csv").write_text("id,name,price,stock\n2,An oak chair,5.5,2\n")
    assert "warning" not in index("one.csv", "--index", name).stderr
    with closing(open_engine(engine_url)) as engine:
        engine.refresh(name)
    warned = "warning: price may be mapped as whole numbers" in index("two.csv", "--index", name).stderr
    assert warned == engine_url.startswith("http")


@pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)
def test_a_table_that_is_a_stream_is_of_texts(name: str, engine_url: str, here: Path) -> None:
    assert "numbers" not in index("-", "--format", "csv", "--index", name, input=CATALOGUE).stderr
    engine = open_engine(engine_url)
    assert engine.get(name, "4")[0]["price"] == "1099.00"
    engine.close()
