"""benchmarks/papers.py rewrites only the tables and plots of the rows that it ran."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SENTENCES = "Sentences (Muffo et al. 2021)"
KEYWORDS = "Keywords (word2doc)"


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module benchmarks/papers.py, whose commands report an accuracy of 0.5 without running."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module = importlib.import_module("papers")
    monkeypatch.setattr(module, "report_of", lambda row, seed, may_run: {"accuracy": 0.5} if may_run else None)
    return module


@pytest.fixture
def docs(tmp_path: Path, papers: Any) -> Path:
    """A folder of documentation whose page on sentences has a value and a plot, and whose other pages have no table."""
    for name in ("results", "plots"):
        (tmp_path / name).mkdir()
    introductions = (ROOT / "benchmarks" / "papers.md").read_text("utf-8")
    for name in re.findall(r"<!-- page: (.+) -->", introductions):
        (tmp_path / "results" / f"{name}.md").write_text("# A page\n", "utf-8")
    plot = "![The table as a dot plot.](../plots/sentences.png)"
    table = f"## {SENTENCES}\n\n| | accuracy |\n|---|---|\n| mean | 12.3 |\n\n{plot}\n"
    (tmp_path / "results" / "sfbow.md").write_text(f"# A page\n\n{table}", "utf-8")
    (tmp_path / "plots" / "sentences.png").write_bytes(b"an earlier plot")
    return tmp_path


def tables() -> list[Any]:
    """Return a table on the page "sfbow" and a table on the page "word2doc", with three rows each."""
    rows = importlib.import_module("paper_rows")
    columns = {"accuracy": rows.metric("accuracy")}
    names = ("mean", "SFBoW", "DynaMax")
    return [
        rows.Table(title, "", columns, tuple(rows.Row(name, "eval") for name in names))
        for title in (SENTENCES, KEYWORDS)
    ]


def test_a_table_without_a_selected_row_keeps_its_values_and_its_plot(papers: Any, docs: Path) -> None:
    papers.update(tables(), "keywords", False, docs)
    page = (docs / "results" / "sfbow.md").read_text("utf-8")
    assert f"## {SENTENCES}\n\n| | accuracy |\n|---|---|\n| mean | 12.3 |\n\n![The table" in page
    assert "SFBoW |" not in page
    assert (docs / "plots" / "sentences.png").read_bytes() == b"an earlier plot"
    assert "| DynaMax | 50.0 |" in (docs / "results" / "word2doc.md").read_text("utf-8")
    assert [path.name for path in (docs / "plots").glob("keywords*")] == ["keywords.png"]


def test_a_selected_row_is_added_to_the_values_of_its_table(papers: Any, docs: Path) -> None:
    papers.update(tables(), "2021): SFBoW", False, docs)
    page = (docs / "results" / "sfbow.md").read_text("utf-8")
    assert "| mean | 12.3 |\n| SFBoW | 50.0 |\n" in page
    assert "DynaMax" not in page  # a row without any value is left out
    assert "Keywords (word2doc)" not in (docs / "results" / "word2doc.md").read_text("utf-8")


def test_nothing_changes_if_no_row_has_a_result(papers: Any, docs: Path) -> None:
    before = (docs / "results" / "sfbow.md").read_text("utf-8").partition("## ")[2]
    papers.update(tables(), "", True, docs)
    assert (docs / "results" / "sfbow.md").read_text("utf-8").partition("## ")[2] == before


def test_a_last_column_says_what_the_paper_has_instead(papers: Any, docs: Path) -> None:
    rows = importlib.import_module("paper_rows")
    columns = {"accuracy": rows.metric("accuracy")}
    compared = rows.Row("SFBoW", "eval", paper=(64.55,), differs="fastText 300d")
    table = rows.Table(SENTENCES, "", columns, (rows.Row("mean", "eval"), compared))
    papers.update([table], "2021): SFBoW", False, docs)
    page = (docs / "results" / "sfbow.md").read_text("utf-8")
    assert "| | accuracy | the paper has |\n|---|---|---|\n| mean | 12.3 |  |\n" in page
    assert "| SFBoW | 50.0 (64.55) | fastText 300d |" in page
    # the page is read again when another row of the table runs
    papers.update([table], "2021): mean", False, docs)
    page = (docs / "results" / "sfbow.md").read_text("utf-8")
    assert "| mean | 50.0 |  |\n| SFBoW | 50.0 (64.55) | fastText 300d |" in page
