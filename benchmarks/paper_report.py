"""Tables and plots of docs/results/ in Markdown."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import paper_plots
from paper_rows import WORK, Report, Row, Table

from resift.encoders.builders import build_model
from resift.encoders.registry import load_model
from resift.vectors.table import WordVectors

DIFFERS = "the paper has"  # heading of the column that says how rows differ from the paper
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


Cells = dict[tuple[str, str, str], str]
"""Values of docs/results/ by the title of the table (without its part in brackets), the row and the column."""


def short_title(title: str) -> str:
    """Return a title without its part in brackets, which names the paper, and without its corpus."""
    return title.partition(" (")[0]


def present_cells(folder: Path) -> Cells:
    """Read the values of all tables in a folder of Markdown pages, without the values of papers in brackets."""
    values: Cells = {}
    for page in folder.glob("*.md"):
        title, head = "", list[str]()
        for line in page.read_text("utf-8").splitlines():
            texts = [text.strip() for text in line.strip("|").split("|")]
            if line.startswith("## "):
                title = short_title(line.removeprefix("## "))
            if not line.startswith("|"):
                head = []
            elif not head:
                head = texts
            elif not line.startswith("|---"):
                for column, text in zip(head[1:], texts[1:], strict=True):
                    values[title, texts[0], column] = text.partition(" (")[0]
    return values


def cells(row: Row, table: Table, reports: Sequence[Report], present: Cells) -> list[str]:
    """Return the cells of a row: its name, and for each column the value, with the paper's value in brackets.

    Without a report, a value is the present value of the page, or – if the page has none.
    """
    texts = [row.name]
    for position, figure in enumerate(table.columns.values()):
        paper = row.paper[position] if position < len(row.paper) else None
        earlier = earlier_cell(present, table, row.name, position)
        ours = percent([figure(report) for report in reports]) if reports else earlier
        texts.append(ours if paper is None else f"{ours} ({paper:.2f})")
    return texts


def earlier_cell(present: Cells, table: Table, row: str, position: int) -> str:
    """Return the value of a row in a column of the present page, or – if the page has none.

    Combined tables have a column for each corpus, whose cells contain all values of the corpus.
    """
    column = list(table.columns)[position]
    if combined := present.get((table.title.partition(": ")[0], row, table.corpus)):
        return combined.split(", ")[position]
    return present.get((short_title(table.title), row, column), "–")


def page_of(title: str) -> str:
    """Return the name of the page in docs/results/ that contains the table with this title."""
    return next((page for words, page in PAGES.items() if words in title), "boew")


# a table, its cells, and its plots in Markdown (None if the present table of the page remains)
Filled = tuple[Table, Sequence[list[str]], Sequence[str] | None]


def pages(tables: Iterable[Filled], folder: Path) -> dict[str, str]:
    """Return the tables of each page in Markdown, and draw dot plots in ``folder``.

    Consecutive tables whose titles differ only after a colon are combined. A table without new results is copied from
    the present page in ``folder``/../results, or left out if the page does not contain it.
    """
    sections_by_page: dict[str, list[str]] = {}
    for title, group in itertools.groupby(tables, lambda filled: filled[0].title.partition(": ")[0]):
        together = list(group)
        page = page_of(title)
        if any(plots is not None for _, _, plots in together):
            text = section(together, folder)
        else:
            text = present_section(folder.parent / "results" / f"{page}.md", section_title(together))
        sections_by_page.setdefault(page, []).append(text)
    return {page: "\n\n".join(filter(None, sections)) for page, sections in sections_by_page.items()}


def section_title(together: Sequence[Filled]) -> str:
    """Return the title of a table, or the common title of several tables that are combined."""
    title = together[0][0].title
    return title.partition(": ")[0] if len(together) > 1 else title


def present_section(page: Path, title: str) -> str:
    """Return the table with this title in a page, with its note and plots, or "" if the page does not contain it."""
    _, heading, text = f"\n{page.read_text('utf-8')}".partition(f"\n## {title}\n")
    return (heading + text.partition("\n## ")[0]).strip()


def section(together: Sequence[Filled], folder: Path) -> str:
    """Return a table with its title, note and plots in Markdown.

    A table without plots gets a dot plot. Several tables are combined into a table with a column for each. Rows without
    any value are left out. If a row differs from the paper, a last column says how.
    """
    table, rows, _ = together[0]
    title, head = section_title(together), list(table.columns)
    if len(together) > 1:
        head = [other.corpus for other, _, _ in together]
        aligned = zip(*(rows for _, rows, _ in together), strict=True)
        rows = [[same[0][0], *(", ".join(row[1:]) for row in same)] for same in aligned]
    rows = [row for row in rows if any(character.isdigit() for cell in row[1:] for character in cell)]
    drawn = [plot for _, _, plots in together for plot in plots or ()]
    if not drawn and len(rows) > 2:
        drawn = [image(paper_plots.dots(title, head, rows, folder))]
    differs = {row.name: row.differs for row in table.rows}
    if any(differs.values()):
        head, rows = [*head, DIFFERS], [[*row, differs[row[0]]] for row in rows]
    lines = [f"## {title}", "", *([table.note, ""] if table.note else [])]
    lines += [f"| | {' | '.join(head)} |", f"|{'---|' * (len(head) + 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    for line in drawn:
        lines += ["", line]
    return "\n".join(lines)


def image(plot: paper_plots.Plot) -> str:
    """Return a plot with its alternative text in Markdown."""
    file, words = plot
    return f"![{words}](../{file.parent.name}/{file.name})"


def plots(table: Table, reports: dict[str, list[Report]], folder: Path) -> list[str]:
    """Draw the plots of a table, and return them in Markdown.

    A plot is drawn only if all rows that it shows have reports. Otherwise the plots of the present page remain.
    """
    if not paper_plots.is_drawable(table.title, reports):
        return present_plots(folder.parent / "results" / f"{page_of(table.title)}.md", table.title)
    drawn = [*paper_plots.plots_of(table.title, reports, folder), *document_maps(table, folder)]
    return [image(plot) for plot in drawn]


def present_plots(page: Path, title: str) -> list[str]:
    """Return the plots of a table in the present page, as lines of Markdown. Dot plots are left out."""
    lines = present_section(page, title).splitlines()
    return [line for line in lines if line.startswith("![") and not line.startswith("![The table as a dot plot")]


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
