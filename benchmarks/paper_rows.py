"""Rows and tables of docs/results/: the commands of each row, and the metrics that are shown."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORK = Path(".resift/papers")
SEEDS = (0, 1, 2)

Report = dict[str, Any]
Figure = Callable[[Report], float]


def model_folder(train: str, seed: int) -> str:
    """Return the folder of the model that a training command creates."""
    return f"{WORK}/models/{hashlib.sha256(train.encode()).hexdigest()[:8]}-{seed}"


@dataclass(frozen=True)
class Row:
    """A row of a table.

    The placeholders ``{seed}`` and ``{model}`` in commands stand for the seed and the folder of the trained model.

    Attributes:
        name: Name of the row.
        evaluate: Command of the evaluation.
        train: Command of the training, "" without training.
        paper: Published values in percent, by column. None stands for a missing value. Missing values at the end can be
            omitted.
        seeds: Seeds to run.
        differs: What the paper has instead, if its values belong to other data, vectors or settings.
    """

    name: str
    evaluate: str
    train: str = ""
    paper: tuple[float | None, ...] = ()
    seeds: Sequence[int] = (0,)
    differs: str = ""

    def commands(self, seed: int) -> tuple[str, str]:
        """Return the commands of training ("" without training) and of evaluation, for a seed."""
        model = model_folder(self.train, seed)
        train, evaluate = (text.format(seed=seed, model=model) for text in (self.train, self.evaluate))
        return train and f"{train} --out {model}", evaluate


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: Title of the table.
        note: Text below the title.
        columns: For each heading the function that reads the value, a fraction, from a report.
        rows: Rows of the table.
        corpus: Name of the documents.
        size: Number of codewords. 0 if the table has no map of documents.
    """

    title: str
    note: str
    columns: dict[str, Figure]
    rows: tuple[Row, ...]
    corpus: str = ""
    size: int = 0


@dataclass(frozen=True)
class PartRow:
    """A row as a page shows it.

    Attributes:
        name: Name of the row.
        values: Our values, a text for each column. – stands for a missing value.
        paper: The values of the paper, a text for each column. Empty if the paper has none.
        differs: The data, vectors or settings of the paper, if they differ from ours.
    """

    name: str
    values: Sequence[str]
    paper: Sequence[str] = ()
    differs: str = ""

    def has_values(self) -> bool:
        """Return whether any of our values is a number."""
        return any(character.isdigit() for value in self.values for character in value)

    def lines(self) -> list[str]:
        """Return the row in Markdown, followed by a row with the values of the paper if there are any."""
        rows = [[self.name, *self.values]]
        if self.paper:
            rows.append([f"*in the paper ({self.differs})*" if self.differs else "*in the paper*", *self.paper])
        return [f"| {' | '.join(row)} |" for row in rows]


@dataclass(frozen=True)
class Part:
    """A table as a page shows it. Every cell contains a single value.

    Attributes:
        title: Title of the table.
        head: Headings of the columns, without the first column, which contains the names of the rows.
        rows: Rows of the table.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[PartRow]

    def markdown(self) -> str:
        """Return the table in Markdown, without its title."""
        lines = [f"| | {' | '.join(self.head)} |", f"|{'---|' * (len(self.head) + 1)}"]
        return "\n".join([*lines, *(line for row in self.rows for line in row.lines())])


def metric(*path: str) -> Figure:
    """Return a function that reads the value at a path of keys in a report."""

    def figure(report: Report) -> float:
        value: Any = report
        for key in path:
            value = value[key]
        return float(value)

    return figure
