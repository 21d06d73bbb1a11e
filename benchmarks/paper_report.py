"""docs/results.md: tables in Markdown, with their plots."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import paper_plots
from paper_rows import WORK, Figure, Report, Row, Table

from resift.encoders.registry import load_model
from resift.lab.encoders.builders import build_model
from resift.vectors.table import WordVectors

MAP_DOCUMENTS = 2000


def percent(values: Sequence[float]) -> str:
    """Fractions × 100: their mean, and ± the standard deviation if there are several seeds."""
    mean = f"{100 * np.mean(values):.1f}"
    return mean if len(values) < 2 else f"{mean} ± {100 * np.std(values, ddof=1):.1f}"


def line(row: Row, columns: dict[str, Figure], reports: Sequence[Report]) -> str:
    """One line of a table in Markdown; without reports our figures are dashes."""
    cells = [row.name]
    for position, figure in enumerate(columns.values()):
        paper = row.paper[position] if position < len(row.paper) else None
        cells.append("–" if paper is None else f"{paper:.2f}")
        cells.append(percent([figure(report) for report in reports]) if reports else "–")
    commands = [f"`resift {command}`" for command in row.commands(row.seeds[0]) if command]
    seeds = f" (seeds {', '.join(map(str, row.seeds))})" if len(row.seeds) > 1 else ""
    cells.append("<br>".join(commands) + seeds)
    return f"| {' | '.join(cells)} |"


def section(table: Table, reports: dict[str, list[Report]], plots: Sequence[paper_plots.Plot]) -> str:
    """A table with its title, note and plots; ``reports`` by the rows' names."""
    head = ["", *(text for column in table.columns for text in (f"{column}, paper", f"{column}, ours")), "command"]
    lines = [f"## {table.title}", "", table.note, ""]
    lines += [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [line(row, table.columns, reports[row.name]) for row in table.rows]
    lines += [text for file, words in plots for text in ("", f"![{words}]({file.parent.name}/{file.name})")]
    return "\n".join(lines)


def plots(table: Table, reports: dict[str, list[Report]], folder: Path) -> list[paper_plots.Plot]:
    """Draw what a table's reports and models allow; the files."""
    return [*paper_plots.plots_of(table.title, reports, folder), *document_maps(table, folder)]


def document_maps(table: Table, folder: Path) -> list[paper_plots.Plot]:
    """A map of test documents before and after training, if the table is of classes and its model is there."""
    row = next((row for row in table.rows if table.corpus and row.name.startswith("RO-BoEW, ")), None)
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
