"""Tests of documents in data frames and other objects, of data frames as results, and of notebook output."""

from __future__ import annotations

import datetime
import decimal
import enum
import sys
import tracemalloc
import typing
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resift
import resift_lab
from resift import Index, Model
from resift.errors import BadInput, MissingExtra
from resift.ingest import parquet as parquet_rows
from resift.ingest.tables import rows_in

pandas, polars, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("polars"), pytest.importorskip("pyarrow")
parquet, dataset = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.dataset")
datasets, ir_measures = pytest.importorskip("datasets"), pytest.importorskip("ir_measures")

DAY = datetime.datetime(2026, 11, 25, 12, 30)
COLUMNS = {"id": ["a", "b"], "text": ["fire in the bush", "rain"], "n": [1, 2], "when": [DAY, DAY], "tags": [["x"], []]}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
EXPECTED = {"id": "a", "text": "fire in the bush", "n": 1, "when": "2026-11-25T12:30:00", "tags": ["x"]}


@dataclass
class Article:
    """A document as a dataclass."""

    id: str
    text: str
    n: int
    when: datetime.datetime
    tags: list[str]


class Tuple(typing.NamedTuple):
    """A document as a named tuple."""

    id: str
    text: str
    n: int
    when: datetime.datetime
    tags: list[str]


class Colour(enum.Enum):
    """An enumeration."""

    RED = "red"


@pytest.fixture(scope="module")
def news(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """Return an empty index of an embedded engine."""
    with resift.open(tmp_path_factory.mktemp("tables") / "docs.db", model) as library:
        library.service.words.enabled = False  # related words would be sampled while searches are compared
        yield library.index("news", ["text"])


def written(folder: Path) -> Path:
    """Return a Parquet file."""
    parquet.write_table(pyarrow.table(COLUMNS), folder / "news.parquet")
    return folder / "news.parquet"


KINDS: dict[str, Callable[[Path], Any]] = {
    "pandas": lambda _: pandas.DataFrame(COLUMNS),
    "pandas with a named index": lambda _: pandas.DataFrame(COLUMNS).set_index("id"),
    "pandas over Arrow": lambda _: pandas.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
    "pandas rows": lambda _: (row for _, row in pandas.DataFrame(COLUMNS).iterrows()),
    "polars": lambda _: polars.DataFrame(COLUMNS),
    "Arrow table": lambda _: pyarrow.table(COLUMNS),
    "Arrow batch": lambda _: pyarrow.RecordBatch.from_pydict(COLUMNS),
    "Arrow reader": lambda _: pyarrow.table(COLUMNS).to_reader(),
    "Arrow data set": lambda folder: dataset.dataset(written(folder)),
    "Parquet file": written,
    "Hugging Face": lambda _: datasets.Dataset.from_dict(COLUMNS),
    "Hugging Face numpy": lambda _: datasets.Dataset.from_dict(COLUMNS).with_format("numpy"),
    "dataclasses": lambda _: [Article(**row) for row in ROWS],
    "named tuples": lambda _: [Tuple(**row) for row in ROWS],
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_table_is_indexed(kind: str, news: Index, tmp_path: Path) -> None:
    added = news.add(KINDS[kind](tmp_path))
    assert (added.indexed, added.refused) == (2, [])
    assert news.get("a") == EXPECTED
    assert news.delete(["a", "b"]) == 2


def test_each_kind_of_value_becomes_what_json_has(news: Index) -> None:
    id = uuid.uuid4()
    values = {
        "integer": (np.int64(3), 3),
        "float": (np.float32(0.5), 0.5),
        "bool": (np.bool_(True), True),
        "text": (np.str_("so"), "so"),
        "array": (np.array([[1, 2]], np.int8), [[1, 2]]),
        "day": (datetime.date(2026, 1, 2), "2026-01-02"),
        "days": (np.array(["2026-01-02"], "M8[ns]"), ["2026-01-02T00:00:00"]),
        "stamp": (pandas.Timestamp(DAY, tz="UTC"), "2026-11-25T12:30:00+00:00"),
        "never": (pandas.NaT, None),
        "unknown": (pandas.NA, None),
        "uuid": (id, str(id)),
        "price": (decimal.Decimal("4.50"), 4.5),
        "colour": (Colour.RED, "red"),
        "inner": (
            {"of": (np.int64(1), Article("a", "b", 1, DAY, []))},
            {"of": [1, {**EXPECTED, "text": "b", "tags": []}]},
        ),
    }
    added = news.add([{"_id": id, "text": "gun", **{name: given for name, (given, _) in values.items()}}])
    assert (added.indexed, added.refused) == (1, [])
    assert news.get(str(id)) == {"text": "gun", **{name: expected for name, (_, expected) in values.items()}}


def test_missing_cells_are_left_out_and_the_index_is_the_id(news: Index) -> None:
    frame = pandas.DataFrame({"text": ["one", None], "n": [np.nan, 2], "when": [pandas.NaT, DAY]}, index=[7, 8])
    assert news.add(frame.rename_axis("sku")).indexed == 2
    assert news.get(7) == {"sku": 7, "text": "one"}
    assert news.get(8) == {"sku": 8, "n": 2, "when": EXPECTED["when"]}
    many = pandas.DataFrame({"text": [f"word {i}" for i in range(1200)]})
    assert news.add(many).indexed == news.add(polars.from_pandas(many)).indexed == 1200


def test_documents_without_text_and_numbers_that_json_lacks_are_reported(news: Index) -> None:
    with pytest.warns(UserWarning, match="no document has text in text: text queries cannot"):
        assert news.add(pandas.DataFrame({"body": ["fire", "rain"]})).indexed == 2
    numbers = [float("nan"), np.float32("-inf"), decimal.Decimal("nan")]
    with pytest.warns(UserWarning, match="no document was indexed"):
        refused = news.add([{"text": "a", "n": [one]} for one in numbers]).refused
    shown = [one.reason.partition(", ")[0] for one in refused]
    assert shown == [f"field 'n' contains {one}" for one in ("nan", "-inf", "nan")]
    assert {one.reason.partition(": ")[2] for one in refused} == {"omit it or use None"}


def test_ids_are_whole_where_a_table_has_them_as_decimals(news: Index) -> None:
    assert news.add(pandas.DataFrame({"id": [11, 12.5, None], "text": ["a", "b", "c"]})).indexed == 3
    assert news.add([{"id": decimal.Decimal(13), "text": "d"}]).indexed == 1
    assert [news.get(id)["text"] for id in (11, "12.5", 13)] == ["a", "b", "d"]


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "lazy": (lambda _: polars.LazyFrame(COLUMNS), r"is a LazyFrame .*documents.collect\(\)"),
    "series": (lambda _: pandas.Series(["a"]), r"is a Series .*documents.to_frame\(\)"),
    "splits": (lambda _: datasets.DatasetDict(), r"is a DatasetDict .*documents\['train'\]"),
    "one document": (lambda _: {"text": "a"}, r"is a dict .*expected \[documents\]"),
    "a name": (lambda _: "news.parquet", r"is a str .*pathlib.Path\(documents\)"),
    "levels": (lambda _: pandas.DataFrame(COLUMNS).set_index(["id", "n"]), r"levels \['id', 'n'\].*reset_index\(\)"),
    "same ids": (lambda _: pandas.DataFrame({"text": "a"}, pandas.Index(["x", "x"], name="k")), "'x' more than once"),
    "no names": (lambda _: pandas.DataFrame([["a"]]), "a column has the name 0"),
    "twice": (lambda _: pandas.DataFrame([["a", "b"]], columns=["t", "t"]), "two columns have the name 't'"),
    "Arrow twice": (lambda _: pyarrow.table([[1], [2]], names=["t", "t"]), "two columns have the name 't'"),
    "no file": (lambda folder: folder / "none.parquet", "none.parquet cannot be read"),
    "no rows": (lambda _: 3, "documents is a int .*a pandas or polars frame"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_objects_without_documents_raise_a_helpful_error(kind: str, news: Index, tmp_path: Path) -> None:
    given, reason = REFUSED[kind]
    with pytest.raises(BadInput, match=reason):
        news.add(given(tmp_path))


def test_a_damaged_file_and_an_empty_frame_are_no_silence(news: Index, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"no Parquet at all")
    with pytest.raises(BadInput, match="expected a Parquet file"):
        news.add(tmp_path / "bad.parquet")
    (tmp_path / "news.csv").write_text("id,text\nc,peace\n")
    assert (news.add(tmp_path / "news.csv").indexed, news.get("c")["text"]) == (1, "peace")
    with pytest.warns(UserWarning, match="no document was indexed"):
        assert news.add(pandas.DataFrame(COLUMNS)[:0]).indexed == 0
    circle: dict[str, Any] = {"id": "c", "text": "peace"}
    circle["self"] = circle
    added = news.add([circle, {"id": "d", "text": "war"}])
    assert (added.indexed, added.refused[0].reason) == (1, "not JSON: nested too deeply, or within itself")
    durations = pandas.DataFrame({"text": ["a"], "took": [pandas.Timedelta(1, "h")]})
    with pytest.warns(UserWarning, match="all 1 were refused, the first for: field 'took' contains a Timedelta"):
        news.add(durations)


def test_a_small_parquet_file_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a kilobyte contains a text of two megabytes in a thousand rows, or 400,000 times in a row."""
    monkeypatch.setattr(parquet_rows, "MAX_LINE", 10**6)
    indices = pyarrow.array([0] * 1000 + [1] + [0] * 400_000, pyarrow.int32())
    texts = pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(["x" * 2_000_000, "fire"]))
    lists = pyarrow.ListArray.from_arrays([0, 1, 400_001], texts[1000:])
    path, refused = tmp_path / "bomb.parquet", "the row has more than 1000000 bytes"
    for table, rows in (
        ({"text": texts[:1500]}, [*[refused] * 1000, {"text": "fire"}, *[refused] * 499]),
        ({"tags": lists}, [{"tags": ["fire"]}, refused]),
    ):
        parquet.write_table(pyarrow.table(table), path, compression="zstd")
        assert path.stat().st_size < 5000
        tracemalloc.start()
        before = pyarrow.total_allocated_bytes()
        for row, expected in zip(rows_in(path), rows, strict=True):
            assert (row if isinstance(row, dict) else row.reason) == expected
            assert pyarrow.total_allocated_bytes() - before < 50_000_000
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
        tracemalloc.stop()


def test_results_are_tables_with_nothing_of_theirs_as_html(news: Index) -> None:
    news.add([{"id": "<b>", "text": "fire <script>alert(1)</script>", "n": 1}, {"id": "y", "text": "gun fire"}])
    hits = news.search("fire")
    frame = hits.to_pandas()
    assert list(frame.columns)[:3] == ["_id", "_score", "id"]
    assert list(frame["_id"]) == [hit.id for hit in hits]
    assert list(frame["_score"]) == [hit.score for hit in hits]
    assert list(news.search("zzz").to_pandas().columns) == ["_id", "_score"]
    told = news.session("anna").mark(relevant=["<b>"], query="fire <i>", explain=True)
    with pytest.warns(UserWarning, match="no document was indexed"):
        refused = news.add(["<script>"])
    for shown in (hits, told, refused):
        html = shown._repr_html_()
        assert "&lt;" in html
        assert [tag for tag in ("<script", "<b>", "<i>") if tag in html] == []


def test_evaluate_says_that_scipy_is_missing_before_it_searches(news: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    news.add([{"id": "1", "text": "smoke"}])
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    monkeypatch.setattr(Index, "search", lambda *_, **options: pytest.fail("searched"))
    with pytest.raises(MissingExtra, match=r"needs scipy: pip install 'resift\[lab\]'"):
        resift_lab.evaluate(news, {"1": "smoke"}, {"1": {"1": 1}})


def test_evaluate_agrees_with_ir_measures(news: Index) -> None:
    news.add({"id": f"e{i}", "text": f"smoke {'bush ' * (i % 4)}river {'water ' * (i % 3)}"} for i in range(30))
    queries = {"1": "smoke bush", "2": "water river", "3": "bush"}
    qrels: dict[str, dict[str, int]] = {"1": {"e3": 2, "e7": 1, "e1": 0}, "2": {"e5": 1, "none": 3}, "3": {"e1": 0}}
    found = resift_lab.evaluate(news, queries, qrels)
    run = {query: {hit.id: -rank for rank, hit in enumerate(news.search(queries[query], 100))} for query in ("1", "2")}
    measures = [ir_measures.parse_measure(name) for name in found.values]
    expected = {(one.query_id, str(one.measure)): one.value for one in ir_measures.iter_calc(measures, qrels, run)}
    for name, values in found.values.items():
        assert values == pytest.approx([expected[query, name] for query in found.queries])
    assert (found.queries, found.skipped, next(iter(found.to_pandas()))) == (["1", "2"], 1, "measure")
    assert repr(found).startswith("2 queries, 1 without a relevant document\nnDCG@10 ")
    assert "<td>R@100</td>" in found._repr_html_()
    with pytest.raises(BadInput, match="no query has a relevant document"):
        resift_lab.evaluate(news, queries, {"3": {"e1": 0}})
    with pytest.raises(BadInput, match="qrels has a query '9'"):
        resift_lab.evaluate(news, queries, {"9": {"e1": 1}})
    with pytest.raises(BadInput, match=r"qrels holds no judgements: '>' not supported .*document id → a number"):
        resift_lab.evaluate(news, queries, {"1": {"e3": "yes"}})  # type: ignore[dict-item]
    with pytest.raises(BadInput, match=r"index is 'news' .expected resift.open\(URL\).index\(NAME\)"):
        resift_lab.evaluate("news", queries, qrels)
    for takes_a_name in (resift_lab.tune, resift_lab.prove):
        with pytest.raises(BadInput, match=r"index is <.*expected the name of the index"):
            takes_a_name(news)  # type: ignore[operator]
    for searched in (news, news.session("anna")):
        with pytest.raises(BadInput, match=r"such as 'none' .expected its own ids, such as '.+'"):
            resift_lab.evaluate(searched, queries, {"1": {"none": 3, "e1": 0}})


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_what_takes_long_shows_a_bar_where_tqdm_is_installed(
    news: Index, has_tqdm: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr("resift.notebook._DELAY", 0)
    if not has_tqdm:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    news.add(pandas.DataFrame({"id": range(3), "text": ["fire", "smoke", None]}))
    resift_lab.evaluate(news, {"q": "fire"}, {"q": {"0": 1}})
    shown = capsys.readouterr().err
    assert ("adding to news: 100%" in shown, "searching: 100%" in shown) == (has_tqdm, has_tqdm), shown
    assert bool(shown) == has_tqdm
    told: list[tuple[int, int]] = []
    resift_lab.evaluate(news, {"q": "fire"}, {"q": {"0": 1}}, progress=lambda *so_far: told.append(so_far))
    assert (told, capsys.readouterr().err) == ([(1, 1)], "")
