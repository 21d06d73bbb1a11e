"""benchmarks/papers.py rewrites only the values and plots of the rows that it ran."""

from __future__ import annotations

import importlib
import re
import shutil
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
    """A folder of documentation whose page on sentences has values and a plot, and whose other pages have no table."""
    for name in ("results", "plots"):
        (tmp_path / name).mkdir()
    introductions = (ROOT / "benchmarks" / "papers.md").read_text("utf-8")
    for name in re.findall(r"<!-- page: (.+) -->", introductions):
        (tmp_path / "results" / f"{name}.md").write_text("# A page\n", "utf-8")
    table = f"## {SENTENCES}\n\n| | accuracy |\n|---|---|\n| mean | 12.3 |\n| SFBoW | 45.6 ±0.1 |\n| DynaMax | 7.8 |\n"
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
    assert "| mean | 12.3 |\n| SFBoW | 45.6 ±0.1 |\n| DynaMax | 7.8 |\n" in page
    assert (docs / "plots" / "sentences.png").read_bytes() == b"an earlier plot"
    assert "| DynaMax | 50.0 |" in (docs / "results" / "word2doc.md").read_text("utf-8")
    assert [path.name for path in (docs / "plots").glob("keywords*")] == ["keywords.png"]


def test_a_selected_row_replaces_its_value_in_the_table_and_in_the_plot(papers: Any, docs: Path) -> None:
    papers.update(tables(), "2021): SFBoW", False, docs)
    page = (docs / "results" / "sfbow.md").read_text("utf-8")
    assert "| mean | 12.3 |\n| SFBoW | 50.0 |\n| DynaMax | 7.8 |\n" in page
    assert "![The table as a dot plot. Highest values: accuracy 50.0 (SFBoW).](../plots/sentences.png)" in page
    assert (docs / "plots" / "sentences.png").read_bytes().startswith(b"\x89PNG")
    assert "Keywords (word2doc)" not in (docs / "results" / "word2doc.md").read_text("utf-8")


def test_rows_without_any_value_are_left_out(papers: Any, docs: Path) -> None:
    papers.update(tables(), "(word2doc): SFBoW", False, docs)
    page = (docs / "results" / "word2doc.md").read_text("utf-8")
    assert page.endswith("## Keywords (word2doc)\n\n| | accuracy |\n|---|---|\n| SFBoW | 50.0 |\n")


def test_the_values_of_the_paper_are_in_a_row_below_ours(papers: Any, docs: Path) -> None:
    rows = importlib.import_module("paper_rows")
    columns = {"accuracy": rows.metric("accuracy")}
    compared = rows.Row("SFBoW", "eval", paper=(64.55,), differs="fastText 300d")
    table = rows.Table(SENTENCES, "", columns, (rows.Row("mean", "eval"), compared))
    for row in ("SFBoW", "mean"):  # the second time, the value of SFBoW is read from the page
        papers.update([table], f"2021): {row}", False, docs)
        page = (docs / "results" / "sfbow.md").read_text("utf-8")
        assert "| SFBoW | 50.0 |\n| *in the paper (fastText 300d)* | 64.55 |\n" in page
    assert "| mean | 50.0 |\n| SFBoW |" in page


def test_tables_of_several_corpora_become_a_table_for_each_measure(
    papers: Any, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = importlib.import_module("paper_rows")
    columns = {"nDCG": rows.metric("ndcg"), "MAP": rows.metric("map")}
    corpora = [
        rows.Table(f"Retrieval: {name}", "A note.", columns, (rows.Row("bm25", "eval"), rows.Row("lsi", "eval")), name)
        for name in ("cisi", "medline")
    ]
    report = {"ndcg": 0.5, "map": 0.25}
    monkeypatch.setattr(papers, "report_of", lambda row, seed, may_run: report if may_run else None)
    for only in ("cisi: bm25", "medline: lsi"):  # the second time, the values of cisi are read from the page
        papers.update(corpora, only, False, docs)
    assert (
        (docs / "results" / "retrieval.md")
        .read_text("utf-8")
        .endswith(
            "## Retrieval\n\nA note.\n\n"
            "### nDCG\n\n| | cisi | medline |\n|---|---|---|\n| bm25 | 50.0 | – |\n| lsi | – | 50.0 |\n\n"
            "### MAP\n\n| | cisi | medline |\n|---|---|---|\n| bm25 | 25.0 | – |\n| lsi | – | 25.0 |\n"
        )
    )


def test_writing_the_pages_again_from_their_values_changes_nothing(papers: Any, tmp_path: Path) -> None:
    """Check that notes, rows, and the alternative texts of dot plots agree with the values of the tables."""
    shutil.copytree(ROOT / "docs" / "results", tmp_path / "results")
    papers.update(papers.tables(), "no row has this name", True, tmp_path)
    for page in (ROOT / "docs" / "results").glob("*.md"):
        assert (tmp_path / "results" / page.name).read_text("utf-8") == page.read_text("utf-8"), page.name


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "results").glob("*.md")), ids=lambda page: page.stem)
def test_each_cell_has_one_value(page: Path) -> None:
    for line in page.read_text("utf-8").splitlines():
        if line.startswith("|"):
            for cell in line.strip("|").split("|"):
                cell = re.sub(r"±[\d.]+", "", cell)
                assert len(re.findall(r"\d\.\d", cell)) < 2 or re.search(r"[A-Za-z]{2}", cell), line
