"""An untrained model of bags of vectors, and documents with such bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from resift.encoders.bags import BagModel

FIELD = "patches"
REGIONS, WIDTH = 2, 5


def bag_model(seed: int = 0) -> BagModel:
    """Return a model with random parameters: 2 regions of vectors of 5 numbers, 3 codewords each, 8 dimensions."""
    chance = np.random.default_rng(seed)
    codebooks, widths = chance.normal(size=(REGIONS, 3, WIDTH)), chance.uniform(0.1, 0.3, size=(REGIONS, 3))
    return BagModel("rn-bof:3,8", FIELD, codebooks, widths, chance.normal(size=(REGIONS * 3, 8)))


def random_bag(seed: int) -> list[list[list[float]]]:
    """Return a bag whose regions have 1 to 4 vectors, rounded as in JSON."""
    chance = np.random.default_rng(seed)
    return [chance.normal(size=(chance.integers(1, 5), WIDTH)).round(3).tolist() for _ in range(REGIONS)]


def pictures(count: int) -> dict[str, dict[str, Any]]:
    """Return documents with a title and a bag, by id."""
    return {str(n): {"title": f"picture {n} of a bush fire", FIELD: random_bag(n)} for n in range(count)}


NUMBERS = [0.5] * WIDTH
MALFORMED: dict[str, tuple[Any, str]] = {
    "empty": ([], "the bag is empty"),
    "empty-vectors": ([[], []], "vector 0 has 0 numbers"),
    "ragged": ([[NUMBERS], [NUMBERS, NUMBERS[1:]]], "region 1, vector 1 has 4 numbers (expected 5"),
    "wide": ([[[*NUMBERS, 1]], [[*NUMBERS, 2]]], "the vectors have 6 numbers (expected 5 numbers)"),
    "flat": ([NUMBERS, NUMBERS], "the bag has 1 region (expected 2 regions)"),
    "words": ([[NUMBERS], [[*NUMBERS[1:], "x"]]], "region 1, vector 0 contains 'x' (expected finite numbers)"),
    "null": ([[NUMBERS], [[*NUMBERS[1:], None]]], "region 1, vector 0 contains 'None' (expected finite numbers)"),
    "large": ([[NUMBERS], [[*NUMBERS[1:], 1e300]]], "region 1, vector 0 contains '1e+300' (expected finite numbers)"),
    "number": (7, "the bag is 7 (expected a list of vectors"),
    "vector": (NUMBERS, "vector 0 is '0.5' (expected a list of vectors"),
}
"""Malformed bags by id, each with a part of the error message."""
