"""docs/results.md: tables in Markdown, with their plots."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
from collections.abc import Iterator, Sequence
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


def sections(tables: Sequence[tuple[Table, dict[str, list[Report]], Sequence[paper_plots.Plot]]]) -> Iterator[str]:
    """Each table with its title, note and plots; one with the commands of an earlier table does not repeat them."""
    shown: dict[tuple[str, str], str] = {}
    for table, reports, plots in tables:
        run = shared([row.commands(row.seeds[0])[1] for row in table.rows])
        rows = [line(row, table.columns, reports[row.name], run) for row in table.rows]
        lines = layout(table, rows, run, shown)
        lines += [text for file, words in plots for text in ("", f"![{words}]({file.parent.name}/{file.name})")]
        yield "\n".join(lines)


def layout(table: Table, rows: Sequence[list[str]], run: str, shown: dict[tuple[str, str], str]) -> list[str]:
    """Markdown, without the paper's columns that hold no figure; ``shown`` has the commands of earlier tables."""
    names = {
        f"/{table.corpus}": "/$name",
        f"--codewords {table.size} ": "--codewords $size ",
        f"boew:{table.size} ": "boew:$size ",
    }
    general = [run, *(row[-1] for row in rows)] if table.corpus else []
    for text, name in names.items():
        general = [f"{word} ".replace(text, name).rstrip() for word in general]
    keys = list(
        zip((re.sub(rf"(BoE?W|published), {table.size}\b", r"\1", row[0]) for row in rows), general[1:], strict=False)
    )
    earlier = {shown.get(key, "") for key in keys}
    variables = f"name={table.corpus}" + (f" size={table.size}" if table.size else "")
    head = ["", *(text for name in table.columns for text in (f"{name}, paper", name)), "command"]
    used = [i for i in range(len(head)) if not head[i].endswith(", paper") or any(row[i] != "–" for row in rows)]
    lines = [f"## {table.title}", "", *([table.note, ""] if table.note else [])]
    if len(earlier) == 1 and (same := earlier.pop()):
        lines += [f"The commands are those of {same}, with `{variables}`.", ""]
        used.pop()
    elif keys:
        rows = [[*row[:-1], command] for row, command in zip(rows, general[1:], strict=True)]
        shown.update(dict.fromkeys(keys, table.title.partition(" (")[0]))
        lines += ["```", variables, f'run="resift {general[0]}"', "```", ""]
    else:
        rows = without_repetition(rows)
        lines += ["```", f'run="resift {run}"', "```", ""]
    lines += [f"| {' | '.join(head[i] for i in used)} |", f"|{'---|' * len(used)}"]
    return lines + [f"| {' | '.join(row[i] for i in used)} |" for row in rows]


def without_repetition(rows: Sequence[list[str]]) -> list[list[str]]:
    """Rows with ``$k`` for the number that ends their names; a command that then is the one above is left out."""
    general = [list(row) for row in rows]
    for row in general:
        if size := re.search(r", (\d+)$", row[0]):
            row[-1] = re.sub(rf"(boew:|codewords |size ){size[1]}(?=[ `])", r"\1$k", row[-1])
    above = ["", *(row[-1] for row in general)]
    return [[*row[:-1], "" if row[-1] == command else row[-1]] for row, command in zip(general, above, strict=False)]


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
