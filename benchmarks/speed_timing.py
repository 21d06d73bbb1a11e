"""Timing that holds on a machine that others use too: short rounds in turn, ratios of each round, their median.

Encoders that run in one thread are timed by the processor's seconds, which do not count waiting for a turn.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Spread:
    """Median and quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of some values."""
        low, median, high = np.percentile(values, [25, 50, 75])
        return cls(float(median), float(low), float(high))


def seconds(work: Callable[..., Any], *arguments: Any) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def processor_seconds(work: Callable[..., Any], *arguments: Any) -> float:
    """How long one call keeps the processor busy, all threads together."""
    start = time.process_time()
    work(*arguments)
    return time.process_time() - start


def free_cores(blocks: Sequence[bytes] = (bytes(2**25),) * 2) -> float:
    """How much sooner two threads hash two blocks than one does: 2 where two cores are free just now."""
    with ThreadPoolExecutor(2) as pool:
        both = [seconds(lambda: list(pool.map(hashlib.sha256, blocks))) for _ in range(2)][1]  # the first one wakes up
    return sum(seconds(hashlib.sha256, block) for block in blocks) / both


def rates(
    functions: dict[str, Callable[[list[str]], Any]],
    texts: Sequence[str],
    rounds: int,
    share: float = 0.1,
    clock: Callable[..., float] = processor_seconds,
) -> dict[str, list[float]]:
    """Texts a second of each function in each round. All functions have a turn in every round, with a slice of the
    texts that is moved on by each and takes about ``share`` seconds by the ``clock``."""
    sizes, found = {}, {name: [] for name in functions}
    for name, function in functions.items():
        size = 1
        function([*texts[:2]])
        if clock(function, [*texts[:2]]) < share / 4:  # what is made at the first large batch is not to be timed
            function([*texts[:200]])
        while (taken := clock(function, [*texts[:size]])) < share and size < len(texts):
            size = min(len(texts), int(size * min(8, max(2, share / max(taken, 1e-6)))))
        sizes[name] = size
    for turn in range(rounds):
        for name, function in functions.items():
            size = sizes[name]
            start = turn * size % max(1, len(texts) - size + 1)
            found[name].append(size / clock(function, [*texts[start : start + size]]))
    return found


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Quotients round by round."""
    return Spread.of([a / b for a, b in zip(ours, theirs, strict=True)])
