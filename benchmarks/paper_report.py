"""docs/results/: tables in Markdown, with their plots."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import paper_plots
from paper_rows import WORK, Figure, Report, Row, Table

from resift.encoders.builders import build_model
from resift.encoders.registry import load_model
from resift.vectors.table import WordVectors

MAP_DOCUMENTS = 2000
# what a table's title has: its page; all others are of the bag of embedded words
PAGES = {
    "Effect": "sizes",
    "Muffo": "sfbow",
    "Retrieval": "retrieval",
    "Cakaloglu": "emboost",
    "word2doc": "word2doc",
}


def percent(values: Sequence[float]) -> str:
    """Fractions × 100: their mean, and ± the standard deviation if there are several seeds."""
    mean = f"{100 * np.mean(values):.1f}"
    return mean if len(values) < 2 else f"{mean} ±{100 * np.std(values, ddof=1):.1f}"


def cells(row: Row, columns: dict[str, Figure], reports: Sequence[Report]) -> list[str]:
    """A row's name, and for each column our figure (– where none was run), with the paper's in brackets."""
    found = [row.name]
    for position, figure in enumerate(columns.values()):
        paper = row.paper[position] if position < len(row.paper) else None
        ours = percent([figure(report) for report in reports]) if reports else "–"
        found.append(ours if paper is None else f"{ours} ({paper:.2f})")
    return found


def page_of(title: str) -> str:
    """The page of docs/results/ that a table stands on, by its title."""
    return next((page for words, page in PAGES.items() if words in title), "boew")


Filled = tuple[Table, Sequence[list[str]], Sequence[paper_plots.Plot]]  # a table, its cells, and its plots


def pages(tables: Iterable[Filled], folder: Path) -> dict[str, str]:
    """The tables of each page, in Markdown; plots go to ``folder``. Titles that differ after a colon alone make one."""
    found: dict[str, list[str]] = {}
    for title, group in itertools.groupby(tables, lambda one: one[0].title.partition(": ")[0]):
        found.setdefault(page_of(title), []).append(section(list(group), folder))
    return {page: "\n\n".join(sections) for page, sections in found.items()}


def section(together: Sequence[Filled], folder: Path) -> str:
    """A table with its title, note and plots, or its figures as dots; several as one, with a column for each."""
    table, rows, _ = together[0]
    title, head = table.title, list(table.columns)
    if len(together) > 1:
        title, head = table.title.partition(": ")[0], [other.corpus for other, _, _ in together]
        aligned = zip(*(rows for _, rows, _ in together), strict=True)
        rows = [[same[0][0], *(", ".join(row[1:]) for row in same)] for same in aligned]
    drawn = [plot for _, _, plots in together for plot in plots]
    if not drawn and len(rows) > 2:
        drawn = [paper_plots.dots(title, head, rows, folder)]
    lines = [f"## {title}", "", *([table.note, ""] if table.note else [])]
    lines += [f"| | {' | '.join(head)} |", f"|{'---|' * (len(head) + 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    for file, words in drawn:
        lines += ["", f"![{words}](../{file.parent.name}/{file.name})"]
    return "\n".join(lines)


def plots(table: Table, reports: dict[str, list[Report]], folder: Path) -> list[paper_plots.Plot]:
    """Draw what a table's reports and models allow; the files."""
    return [*paper_plots.plots_of(table.title, reports, folder), *document_maps(table, folder)]


def document_maps(table: Table, folder: Path) -> list[paper_plots.Plot]:
    """A map of test documents before and after training, if the table is of classes and its model is there."""
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
    """Documents drawn by chance (seed 0) from JSON lines; of ``count``, those that have a text."""
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as handle:
        documents = [json.loads(line) for line in handle]
    chosen = np.random.default_rng(0).permutation(len(documents))[:count]
    return [documents[i] for i in chosen if documents[i]["text"].strip()]
