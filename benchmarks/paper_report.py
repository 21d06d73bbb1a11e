"""Tables and plots of docs/results/ in Markdown."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import paper_plots
from paper_rows import WORK, Part, PartRow, Report, Row, Table

from resift.encoders.builders import build_model
from resift.encoders.registry import load_model
from resift.vectors.table import WordVectors

MAP_DOCUMENTS = 2000  # number of documents in a t-SNE map
# a word in a table's title → the page of the table; all other tables are on the page "boew"
PAGES = {
    "Effect": "sizes",
    "Muffo": "sfbow",
    "Retrieval": "retrieval",
    "Cakaloglu": "emboost",
    "word2doc": "word2doc",
}


def percent(values: Sequence[float]) -> str:
    """Format the mean of fractions × 100, with ± the standard deviation if there are several seeds."""
    mean = f"{100 * np.mean(values):.1f}"
    return mean if len(values) < 2 else f"{mean} ±{100 * np.std(values, ddof=1):.1f}"


PresentCells = dict[tuple[str, str, str, str], str]
"""Values that the pages in docs/results/ have now.

A key consists of the title of the table (without its part in brackets), the subtitle, the row and the column.
"""


def short_title(title: str) -> str:
    """Return a title without its part in brackets, which names the paper."""
    return title.partition(" (")[0]


def present_cells(folder: Path) -> PresentCells:
    """Read the values of all tables in the Markdown pages of a folder."""
    values: PresentCells = {}
    for page in folder.glob("*.md"):
        title, subtitle, head = "", "", list[str]()
        for line in page.read_text("utf-8").splitlines():
            texts = [text.strip() for text in line.strip("|").split("|")]
            if line.startswith("## "):
                title, subtitle = short_title(line.removeprefix("## ")), ""
            elif line.startswith("### "):
                subtitle = line.removeprefix("### ")
            if not line.startswith("|"):
                head = []
            elif not head:
                head = texts
            elif not line.startswith("|---"):
                for column, text in zip(head[1:], texts[1:], strict=True):
                    values[title, subtitle, texts[0], column] = text
    return values


def cells(row: Row, table: Table, reports: Sequence[Report], present: PresentCells) -> list[str]:
    """Return the values of a row, a cell for each column.

    Without a report, a value is the present value of the page, or – if the page has none.
    """
    if reports:
        return [percent([figure(report) for report in reports]) for figure in table.columns.values()]
    return [earlier_cell(present, table, row.name, column) for column in table.columns]


def earlier_cell(present: PresentCells, table: Table, row: str, column: str) -> str:
    """Return the value of a row in a column of the present page, or – if the page has none.

    The page shows combined tables as a table for each measure, with a column for each corpus.
    """
    if combined := present.get((table.title.partition(": ")[0], column, row, table.corpus)):
        return combined
    return present.get((short_title(table.title), "", row, column), "–")


def page_of(title: str) -> str:
    """Return the name of the page in docs/results/ that contains the table with this title."""
    return next((page for words, page in PAGES.items() if words in title), "boew")


@dataclass(frozen=True)
class Filled:
    """A table with its values.

    Attributes:
        table: The table.
        rows: The values of each row of the table, a text for each column.
        reports: The reports of each row by its name, with a report for each seed. Empty if no row of the table was
            selected.
        selected: Whether a row of the table was selected to run. The plots of the table are then drawn again.
    """

    table: Table
    rows: Sequence[list[str]]
    reports: dict[str, list[Report]]
    selected: bool


def pages(tables: Iterable[Filled], docs: Path) -> dict[str, str]:
    """Return the tables of each page in Markdown, and draw the plots of selected tables.

    Consecutive tables whose titles differ only after a colon are combined. Tables without any value are left out.

    Args:
        tables: The tables, in the order of the pages.
        docs: The folder of the documentation, with the folders ``results`` and ``plots``.
    """
    sections_by_page: dict[str, list[str]] = {}
    for title, group in itertools.groupby(tables, lambda filled: filled.table.title.partition(": ")[0]):
        sections_by_page.setdefault(page_of(title), []).append(section(list(group), docs))
    return {page: "\n\n".join(filter(None, sections)) for page, sections in sections_by_page.items()}


def section(together: Sequence[Filled], docs: Path) -> str:
    """Return a table with its title, note and plots in Markdown, or "" if it has no values.

    Several tables are combined: the section then has a table for each measure, with a column for each corpus, and a
    plot of the first measure.
    """
    table = together[0].table
    parts = list(parts_by_measure(together)) if len(together) > 1 else [part_of_table(together[0])]
    if not parts[0].rows:
        return ""
    title = table.title.partition(": ")[0] if len(together) > 1 else table.title
    blocks = [f"## {title}", *([table.note] if table.note else [])]
    for number, part in enumerate(parts):
        blocks += [f"### {part.title}"] if len(together) > 1 else []
        blocks.append(part.markdown())
        blocks += plots(title, part, together, docs) if number == 0 else []
    return "\n\n".join(blocks)


def part_of_table(filled: Filled) -> Part:
    """Return a table as a page shows it: the rows that have a value, with the values of the paper."""
    rows = zip(filled.table.rows, filled.rows, strict=True)
    every = [PartRow(row.name, values, paper_values(row, len(values)), row.differs) for row, values in rows]
    return Part(filled.table.title, list(filled.table.columns), [row for row in every if row.has_values()])


def parts_by_measure(together: Sequence[Filled]) -> Iterator[Part]:
    """Yield a table for each measure, with a column for each of several tables that have the same rows.

    The values of the paper are left out.
    """
    corpora = [filled.table.corpus for filled in together]
    by_name = [{row.name: row for row in part_of_table(filled).rows} for filled in together]
    names = [row.name for row in together[0].table.rows if any(row.name in rows for rows in by_name)]
    for column, measure in enumerate(together[0].table.columns):
        rows = []
        for name in names:
            same = [rows_of_corpus.get(name) for rows_of_corpus in by_name]
            rows.append(PartRow(name, [row.values[column] if row else "–" for row in same]))
        yield Part(measure, corpora, rows)


def paper_values(row: Row, columns: int) -> list[str]:
    """Return the values of the paper for each column, or an empty list if the paper has none."""
    if not row.paper:
        return []
    padded = (*row.paper, *(None for _ in range(columns - len(row.paper))))
    return ["–" if value is None else f"{value:.2f}" for value in padded]


def plots(title: str, part: Part, together: Sequence[Filled], docs: Path) -> list[str]:
    """Return the plots below a table in Markdown, and draw those that changed.

    Dot plots and the plot of the sizes show values of the table, and are drawn again if the table is selected. Curves
    and maps of documents are drawn from reports, and remain as they are unless all rows that they show have reports.

    Args:
        title: The title of the section.
        part: The first table of the section.
        together: The tables that the section combines.
        docs: The folder of the documentation, with the folders ``results`` and ``plots``.
    """
    folder, selected = docs / "plots", any(filled.selected for filled in together)
    if title.startswith("Effect of"):
        return [image(paper_plots.sweeps(part, folder, selected))]
    reports = together[0].reports
    if len(together) == 1 and any(reports.values()) and paper_plots.is_drawable(reports):
        drawn = [*paper_plots.plots_of(title, reports, folder), *document_maps(together[0].table, folder)]
        lines = [image(plot) for plot in drawn]
    else:
        lines = present_plots(docs / "results" / f"{page_of(title)}.md", title)
    if not lines and len(part.rows) > 2:
        lines = [image(paper_plots.dots(title, part, folder, selected))]
    return lines


def image(plot: paper_plots.Plot) -> str:
    """Return a plot with its alternative text in Markdown."""
    file, words = plot
    return f"![{words}](../{file.parent.name}/{file.name})"


def present_plots(page: Path, title: str) -> list[str]:
    """Return the plots of a table in the present page, as lines of Markdown. Dot plots are left out."""
    _, _, text = f"\n{page.read_text('utf-8')}".partition(f"\n## {title}\n")
    lines = text.partition("\n## ")[0].splitlines()
    return [line for line in lines if line.startswith("![") and not line.startswith(f"![{paper_plots.DOT_PLOT}")]


def document_maps(table: Table, folder: Path) -> list[paper_plots.Plot]:
    """Draw a map of test documents before and after training, if the table has a trained RO-BoEW model."""
    row = next((row for row in table.rows if table.size and row.name.startswith("RO-BoEW, ")), None)
    model = Path(row.commands(0)[0].rpartition(" ")[2]) if row else Path()
    if not row or not (model / "model.json").exists():
        return []
    documents = sample(Path(os.environ["RESIFT_DATA"], f"{table.corpus}.test.jsonl.gz"), MAP_DOCUMENTS)
    untrained = row.name.removeprefix("RO-")
    vectors = WordVectors.load(WORK / "vectors" / "glove.6B.50d")
    encoders = {
        untrained: build_model(untrained.lower().replace(", ", ":"), vectors),
        row.name: load_model(model),
    }
    rows = [encoder.encode([document["text"] for document in documents]) for encoder in encoders.values()]
    path = folder / f"map-{table.corpus}.png"
    return [paper_plots.document_map(rows, [document["label"] for document in documents], list(encoders), path)]


def sample(file: Path, count: int) -> list[dict[str, str]]:
    """Draw ``count`` documents at random (seed 0) from a JSON Lines file, and return those that have a text."""
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as handle:
        documents = [json.loads(line) for line in handle]
    positions = np.random.default_rng(0).permutation(len(documents))[:count]
    return [documents[i] for i in positions if documents[i]["text"].strip()]
