"""Labels of documents: shares of classes, and the choice of held-out documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput

# The name of a class, or names of classes with weights (soft supervision).
Label = str | int | Mapping[str, float]


def class_shares(labels: Sequence[Label]) -> tuple[list[str], Floats]:
    """Convert the labels of documents to a matrix with the probability of each class for each document.

    Args:
        labels: The label of each of the N documents: the name of a class, or a mapping of class names to weights.

    Returns:
        The sorted names of the C classes, and the probabilities of the classes, shape (N, C), float32. Each row sums to
        1.

    Raises:
        BadInput: If a label is invalid, or there are fewer than two classes.

    >>> classes, probabilities = class_shares(["sport", {"sport": 1, "politics": 3}])
    >>> classes, probabilities.tolist()
    (['politics', 'sport'], [[0.0, 1.0], [0.75, 0.25]])
    """
    shares = [_shares_of(label, number) for number, label in enumerate(labels, 1)]
    classes = sorted({name for document in shares for name in document})
    if len(classes) < 2:
        raise BadInput(f"all documents have the class {classes}", value=classes, expected="two classes or more")
    columns = {name: column for column, name in enumerate(classes)}
    table = np.zeros((len(shares), len(classes)))
    for row, document in zip(table, shares, strict=True):
        for name, share in document.items():
            row[columns[name]] = share
    return classes, table.astype(np.float32)


def _shares_of(label: Label, number: int) -> dict[str, float]:
    """Convert the label of a document to the proportions of its classes, which sum to 1.

    For example, the label ``{"sports": 3, "politics": 1}`` becomes ``{"sports": 0.75, "politics": 0.25}``, and the
    label ``"sports"`` becomes ``{"sports": 1.0}``.

    Args:
        label: The name of a class, or a mapping of class names to weights.
        number: The position of the document, counted from 1, for the error message.

    Raises:
        BadInput: If the label is invalid.
    """
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


def hold_out(classes: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Choose random documents of each class to exclude from training, for evaluation.

    A document that is the only document of its class is never excluded.

    Args:
        classes: The class number of each of the N documents, shape (N,).
        share: The approximate share of each class to exclude, 0 to 0.5.
        seed: The seed of the choice.

    Returns:
        A Boolean array of shape (N,), True for the excluded documents.
    """
    chance = np.random.default_rng(seed).random(len(classes))
    order = np.lexsort((chance, classes))
    order = order[np.bincount(classes)[classes[order]] > 1]
    held_out = np.zeros(len(classes), bool)
    if share > 0:
        # Documents are in the order of their classes, so taking every n-th takes the same share of each class.
        held_out[order[:: max(2, round(1 / share))]] = True
    return held_out
