"""Rows and tables of docs/results/: which commands give a line, and what of their report is shown."""

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
    """Where the model of a training command is stored."""
    return f"{WORK}/models/{hashlib.sha256(train.encode()).hexdigest()[:8]}-{seed}"


@dataclass(frozen=True)
class Row:
    """A line of a table. ``{seed}`` and ``{model}`` in the commands are the seed and the trained model's folder.

    ``paper`` holds the published figures in percent, column by column; None, or none at all, where there is none.
    """

    name: str
    evaluate: str
    train: str = ""
    paper: tuple[float | None, ...] = ()
    seeds: Sequence[int] = (0,)

    def commands(self, seed: int) -> tuple[str, str]:
        """The commands of training ("" if there is none) and of evaluation."""
        model = model_folder(self.train, seed)
        train, evaluate = (text.format(seed=seed, model=model) for text in (self.train, self.evaluate))
        return train and f"{train} --out {model}", evaluate


@dataclass(frozen=True)
class Table:
    """Rows with the same columns: heading → the figure of a report, a fraction.

    ``corpus`` names the documents, for tables that share their commands; ``size`` is the number of codewords.
    """

    title: str
    note: str
    columns: dict[str, Figure]
    rows: tuple[Row, ...]
    corpus: str = ""
    size: int = 0


def metric(*path: str) -> Figure:
    """The figure that stands at a path of keys in a report."""

    def figure(report: Report) -> float:
        value: Any = report
        for key in path:
            value = value[key]
        return float(value)

    return figure
