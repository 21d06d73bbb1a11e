"""Measure the time of learning from judgements: ``python benchmarks/feedback.py [--rounds N] [--json]``.

Compares the closed form of the mask (algorithm 2) with torch's autograd, in alternating rounds, and times the query
vector and the expansion words of the default method. Ten judgements, 256 dimensions, a single thread.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from autograd_mask import autograd_mask

from resift.feedback.feedback import Feedback
from resift.feedback.mask import ITERATIONS, learn_mask
from resift.text import bag_of_words


def measure(rounds: int = 200, judgements: int = 10, dim: int = 256) -> dict[str, float]:
    """Return median times in milliseconds.

    ``ratio`` is the median of torch's time divided by that of the closed form, and ``difference`` the largest
    difference of both masks.
    """
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    both = rng.normal(size=(judgements, dim)).astype(np.float32)
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    relevant, irrelevant = both[: judgements // 2], both[judgements // 2 :]
    texts = [" ".join(f"w{word}" for word in rng.zipf(1.3, 200) if word < 10_000) for _ in both]
    query = rng.normal(size=dim).astype(np.float32)

    def learned() -> None:
        bags = [bag_of_words(text) for text in texts]
        feedback = Feedback.learn(relevant, irrelevant, bags=bags)
        feedback.transform_query(query)
        assert feedback.expansion_terms

    calls: dict[str, Callable[[], Any]] = {
        "mask_ms": lambda: learn_mask(relevant, irrelevant),
        "torch_ms": lambda: autograd_mask(relevant, irrelevant, ITERATIONS),
        "ridge_ms": lambda: Feedback.learn(relevant, irrelevant).transform_query(query),
        "default_ms": learned,
    }
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 5):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            if number >= 5:
                taken[name].append(1000 * (time.perf_counter() - started))
    medians = {name: float(np.median(values)) for name, values in taken.items()}
    ratio = float(np.median(np.array(taken["torch_ms"]) / np.array(taken["mask_ms"])))
    difference = float(np.abs(learn_mask(relevant, irrelevant) - autograd_mask(relevant, irrelevant, ITERATIONS)).max())
    return {**medians, "ratio": ratio, "difference": difference}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.rounds)
    if options.json:
        print(json.dumps(figures))
    else:
        for label, value in figures.items():
            print(f"{label:12}{value:10.4g}")
