"""docs/results.md: tables in Markdown, with their plots."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import paper_plots
from paper_rows import WORK, Figure, Report, Row, Table, model_folder
from paper_tables import refined

from resift.encoders.registry import load_model
from resift.lab.encoders.builders import build_model
from resift.vectors.table import WordVectors

MAP_DOCUMENTS = 2000
REFINED = model_folder(refined(), 0)


def percent(values: Sequence[float]) -> str:
    """Fractions × 100: their mean, and ± the standard deviation if there are several seeds."""
    mean = f"{100 * np.mean(values):.1f}"
    return mean if len(values) < 2 else f"{mean} ± {100 * np.std(values, ddof=1):.1f}"


def line(row: Row, columns: dict[str, Figure], reports: Sequence[Report], run: str) -> list[str]:
    """The cells of a row: its name, the paper's figure and ours for each column (dashes for none), its command."""
    cells = [row.name]
    for position, figure in enumerate(columns.values()):
        paper = row.paper[position] if position < len(row.paper) else None
        cells.append("–" if paper is None else f"{paper:.2f}")
        cells.append(percent([figure(report) for report in reports]) if reports else "–")
    return [*cells, command(*row.commands(row.seeds[0]), run)]


def shared(evaluations: Sequence[str]) -> str:
    """The words that all evaluation commands of a table begin with."""
    columns = zip(*(evaluation.split() for evaluation in evaluations), strict=False)
    words = [column[0] for column in itertools.takewhile(lambda column: len(set(column)) == 1, columns)]
    return " ".join(words[:-1] if words[-1].startswith("--") else words)


def command(train: str, evaluate: str, run: str) -> str:
    """A row's commands in the shell variables that the page explains, without what is the same in every row."""
    names = {run: "$run", REFINED: "$refined", f"--vectors {WORK}/vectors/glove.6B.50d": "$glove"}
    if (model := train.rpartition(" --out ")[2]) not in ("", REFINED):
        names[model] = "$model"
    for text, name in names.items():
        train, evaluate = train.replace(text, name), evaluate.replace(text, name)
    trained = [f"`resift {train}`"] if train and not train.startswith("vectors refine") else []
    if trained and re.fullmatch(r"\$run --(model|vectors) \$model( --seed 0)?", evaluate):
        return trained[0]
    return "<br>".join([*trained, f"`{evaluate}`"])


def section(table: Table, reports: dict[str, list[Report]], plots: Sequence[paper_plots.Plot]) -> str:
    """A table with its title, note and plots; ``reports`` by the rows' names."""
    run = shared([row.commands(row.seeds[0])[1] for row in table.rows])
    rows = [line(row, table.columns, reports[row.name], run) for row in table.rows]
    lines = layout(table.title, table.note, run, list(table.columns), rows)
    lines += [text for file, words in plots for text in ("", f"![{words}]({file.parent.name}/{file.name})")]
    return "\n".join(lines)


def layout(title: str, note: str, run: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of Markdown, without the paper's columns that hold no figure."""
    head = ["", *(text for name in columns for text in (f"{name}, paper", name)), "command"]
    shown = [i for i in range(len(head)) if not head[i].endswith(", paper") or any(row[i] != "–" for row in rows)]
    lines = [f"## {title}", "", note, "", "```", f'run="resift {run}"', "```", ""]
    lines += [f"| {' | '.join(head[i] for i in shown)} |", f"|{'---|' * len(shown)}"]
    return lines + [f"| {' | '.join(row[i] for i in shown)} |" for row in rows]


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
