"""The float array type and batching helpers that all packages use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput

Floats = NDArray[np.float32]

BATCH = 4096
"""Default number of texts that are encoded together."""

_MAX_CHARACTERS = 4 * 2**20


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Split items into lists of at most ``size`` items, and yield the lists in order."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def text_batches(texts: Iterable[str], size: int = BATCH, max_characters: int = _MAX_CHARACTERS) -> Iterator[list[str]]:
    """Split texts into batches that are limited in number and total length, and yield the batches in order.

    Args:
        texts: The texts. The iterable is read batch by batch.
        size: The maximum number of texts in a batch.
        max_characters: The total length at which a batch ends. Texts are not split, so the last text of a batch may
            make the batch longer.

    Raises:
        BadInput: If ``texts`` is a single string, or an item is not a string.
    """
    if isinstance(texts, str):
        raise BadInput("texts is a single string", value=texts, expected="a list of texts")
    batch: list[str] = []
    characters = 0
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise BadInput(f"text {position} is a {type(text).__name__}", value=text, expected="a string")
        batch.append(text)
        characters += len(text)
        if len(batch) == size or characters > max_characters:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
