"""Labels of documents: classes and shares of them, and which documents are held back to judge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput

Label = str | int | Mapping[str, float]


def class_shares(labels: Sequence[Label]) -> tuple[list[str], Floats]:
    """The classes, sorted, and each document's shares of them, (N, C) float32, rows summing to 1.

    A label is the name of a class, or names with weights (soft supervision). Raises BadInput, with the document's
    number, for anything else, and if there are fewer than two classes.
    """
    shares = [_shares_of(label, number) for number, label in enumerate(labels, 1)]
    classes = sorted({name for each in shares for name in each})
    if len(classes) < 2:
        raise BadInput(f"all documents are of class {classes}", value=classes, expected="two classes or more")
    columns = {name: column for column, name in enumerate(classes)}
    table = np.zeros((len(shares), len(classes)))
    for row, each in zip(table, shares, strict=True):
        for name, share in each.items():
            row[columns[name]] = share
    return classes, table.astype(np.float32)


def _shares_of(label: Label, number: int) -> dict[str, float]:
    """One document's share of each class it has any of; ``number`` counts documents from 1."""
    try:
        if label is None:
            raise ValueError
        weights = {str(k): float(v) for k, v in label.items()} if isinstance(label, Mapping) else {str(label): 1.0}
        total = sum(weights.values())
        if "" in weights or min(weights.values()) < 0 or not 0 < total < math.inf:
            raise ValueError
    except (TypeError, ValueError):
        raise BadInput(
            f"document {number} has the label {label!r}", value=label, expected="a class, or classes with weights"
        ) from None
    return {name: weight / total for name, weight in weights.items() if weight}


def hold_back(classes: NDArray[np.int64], part: float, seed: int) -> NDArray[np.bool_]:
    """Which documents judge, (N,): about ``part`` of each class, drawn by chance, but never a class's only one.

    ``classes`` (N,) are the numbers of the documents' classes, ``part`` is from 0 to 0.5.
    """
    chance = np.random.default_rng(seed).random(len(classes))
    order = np.lexsort((chance, classes))
    order = order[np.bincount(classes)[classes[order]] > 1]
    held = np.zeros(len(classes), bool)
    if part > 0:
        # every so many of the documents in the order of their classes, so that each class gives its part
        held[order[:: max(2, round(1 / part))]] = True
    return held
