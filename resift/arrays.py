"""Arrays and batches: the types that every room uses, and how many items are worked at together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput

Floats = NDArray[np.float32]
BATCH = 4096  # texts that are encoded together
_MAX_CHARACTERS = 4 * 2**20


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of at most ``size`` items, in order."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def text_batches(
    texts: Iterable[str], size: int = BATCH, most_characters: int = _MAX_CHARACTERS
) -> Iterator[list[str]]:
    """Lists of at most ``size`` texts, in order, each full once it has ``most_characters`` or more.

    Raises BadInput if ``texts`` is one string, or an item is not a string.
    """
    if isinstance(texts, str):
        raise BadInput("one string was given", value=texts, expected="a list of texts")
    batch: list[str] = []
    characters = 0
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise BadInput(f"text {position} is a {type(text).__name__}", value=text, expected="a string")
        batch.append(text)
        characters += len(text)
        if len(batch) == size or characters > most_characters:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
