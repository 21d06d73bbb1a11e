"""Timing on shared machines: medians of ratios over short, alternating rounds.

Encoders in a single thread are timed by processor time, which does not include waiting for a core.
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
        """Return median and quartiles of some values."""
        low, median, high = np.percentile(values, [25, 50, 75])
        return cls(float(median), float(low), float(high))


def seconds(work: Callable[..., Any], *arguments: Any) -> float:
    """Call a function, and return the elapsed time in seconds."""
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def processor_seconds(work: Callable[..., Any], *arguments: Any) -> float:
    """Call a function, and return the processor time of all threads in seconds."""
    start = time.process_time()
    work(*arguments)
    return time.process_time() - start


def free_cores(blocks: Sequence[bytes] = (bytes(2**25),) * 2) -> float:
    """Estimate the number of free cores, up to 2, by the speed-up of hashing two blocks in two threads."""
    with ThreadPoolExecutor(2) as pool:
        # the first call starts the threads and is not used
        both = [seconds(lambda: list(pool.map(hashlib.sha256, blocks))) for _ in range(2)][1]
    return sum(seconds(hashlib.sha256, block) for block in blocks) / both


def rates(
    functions: dict[str, Callable[[list[str]], Any]],
    texts: Sequence[str],
    rounds: int,
    share: float = 0.1,
    clock: Callable[..., float] = processor_seconds,
) -> dict[str, list[float]]:
    """Return texts per second of each function in each round.

    Args:
        functions: The encoders, by name. All of them are called in each round.
        texts: Texts. Each round uses another slice.
        rounds: Number of rounds.
        share: Approximate seconds of a call, which determine the size of the slices.
        clock: Function that measures a call.
    """
    sizes, measured = {}, {name: [] for name in functions}
    for name, function in functions.items():
        size = 1
        function([*texts[:2]])
        if clock(function, [*texts[:2]]) < share / 4:  # warm-up, because the first large batch can be slow
            function([*texts[:200]])
        while (taken := clock(function, [*texts[:size]])) < share and size < len(texts):
            size = min(len(texts), int(size * min(8, max(2, share / max(taken, 1e-6)))))
        sizes[name] = size
    for turn in range(rounds):
        for name, function in functions.items():
            size = sizes[name]
            start = turn * size % max(1, len(texts) - size + 1)
            measured[name].append(size / clock(function, [*texts[start : start + size]]))
    return measured


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return median and quartiles of the ratios ``ours`` / ``theirs`` per round."""
    return Spread.of([a / b for a, b in zip(ours, theirs, strict=True)])
