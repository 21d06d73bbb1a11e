"""Compare speed with other packages: ``python benchmarks/speed.py [--quick] [--floors SHARE] [--json FILE]``.

Prints ratios of speed or time, as medians and quartiles over alternating rounds. The exit status is 1 if a ratio is
worse than its limit ("floor") times SHARE. ``--quick`` measures only ratios with a limit. If a package or OpenSearch is
not installed, the comparison is reported as not measured and does not fail. OpenSearch runs at OPENSEARCH_URL, or in a
node of tests/support/node.py. Needs the extra ``dev``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import speed_engine as engine
import speed_peers as peers
import speed_search as search
from speed_cluster import Setup, opensearch_url, set_up
from speed_data import documents, messages, pieces
from speed_timing import Spread, free_cores, processor_seconds, rates, ratio, seconds

from resift import Model, load_model
from resift.feedback.mask import learn_mask
from resift.vectors.compiled import load_loops

QUERY = "fire of the army in sydney"


@dataclass(frozen=True)
class Row:
    """The result of comparing Resift with another package.

    Attributes:
        name: Name of the comparison.
        ratio: Median and quartiles of the ratio of speed or time.
        floor: Limit of the ratio, 0 without a limit. A lower limit, or an upper limit for a cost.
        aim: Target of the ratio.
        note: Absolute values, as text.
        cost: Whether smaller ratios are better.
    """

    name: str
    ratio: Spread
    floor: float
    aim: float
    note: str = ""
    cost: bool = False

    def state(self, share: float) -> str:
        """Compare the ratio with its limit and its target.

        Args:
            share: Factor by which the limit is relaxed.

        Returns:
            "BELOW" if the limit is missed, "reached" if the target is reached, otherwise "ok". "" without a limit.
        """
        value, sign = self.ratio.median, -1 if self.cost else 1
        if not self.floor:
            return ""
        floor = self.floor / share if self.cost else self.floor * share
        if sign * value < sign * floor:
            return "BELOW"
        return "reached" if sign * value >= sign * self.aim else "ok"

    def __str__(self) -> str:
        sign = "≤" if self.cost else "≥"
        spread = f"{self.ratio.median:8.3g}  ({self.ratio.low:.3g} to {self.ratio.high:.3g})"
        bounds = f"{sign} {self.floor:<7.3g} {sign} {self.aim:<7.3g}" if self.floor else " " * 19
        return f"{self.name:58} {spread:32} {bounds} {self.note}"


Rows = Iterator[Row]


def warm_up(model: Model, texts: Sequence[str]) -> None:
    """Load the compiled loops before measuring. Print a message if they are not available."""
    model.encode([*texts[:500]])
    if load_loops() is None:
        print("compiled loops are not available: Resift uses NumPy")


def compare_encoding(model: Model, texts: Sequence[str], rounds: int, quick: bool) -> Rows:
    """Compare encoding of batches in a single thread, in rounds that alternate with each other package."""
    cases: list[tuple[str, Callable[[], peers.Encode], float, float]] = [
        ("batch encode / model2vec, words", lambda: peers.model2vec(model)[0], 10, 25),
        ("batch encode / model2vec, word pieces", lambda: peers.model2vec_wordpiece(model), 10, 25),
        ("batch encode / fse average (words given)", lambda: peers.fse(model, texts), 3, 8),
        ("batch encode / TF-IDF + SVD", lambda: peers.tfidf_svd(texts[:1500]), 5, 12),
        ("batch encode / Doc2Vec", lambda: peers.doc2vec(texts[:500]), 0, 0),
        ("batch encode / MiniLM", peers.minilm, 1000, 3000),
        ("batch encode / ours without numba", lambda: peers.without_numba(model), 0, 0),
        ("batch encode / pure scan and hash", peers.scan_and_hash, 1 / 8, 1 / 3),
    ]
    for name, make_encode, floor, aim in cases:
        if quick and not floor:
            continue
        with unless_missing(name):
            speeds = rates({"ours": model.encode, "theirs": make_encode()}, texts, rounds)
            note = f"{np.median(speeds['ours']):.0f} / {np.median(speeds['theirs']):.0f} documents a second"
            yield Row(name, ratio(speeds["ours"], speeds["theirs"]), floor, aim, note)


def compare_threads(model: Model, texts: Sequence[str], rounds: int, quick: bool) -> Rows:
    """Compare two threads with a single thread by wall-clock time, in rounds during which two cores are free."""
    name = "two threads / one"
    with unless_missing(name):
        if len(os.sched_getaffinity(0)) < 2:
            raise peers.Missing("one core")
        many_texts = [*texts] * max(1, 16_384 // len(texts))
        halves = [many_texts[: len(many_texts) // 2], many_texts[len(many_texts) // 2 :]]
        with ThreadPoolExecutor(2) as pool:
            functions = (lambda: list(pool.map(model.encode, halves)), lambda: list(map(model.encode, halves)))
            times = undisturbed_times(functions, max(5, rounds // 3))
        yield Row(name, ratio(times[1], times[0]), 1.6, 1.9)
        if len(texts) > 10_000:  # fewer, and model2vec does not use its threads
            model2vec_times = undisturbed_times((lambda: model.encode(texts), peers.model2vec_default(model, texts)), 3)
            note = (
                " / ".join(f"{len(texts) / np.median(seconds_of_way):.0f}" for seconds_of_way in model2vec_times)
                + " documents a second"
            )
            yield Row(
                "one thread / model2vec's default, all cores", ratio(model2vec_times[1], model2vec_times[0]), 0, 0, note
            )


def undisturbed_times(functions: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    """Measure functions in rounds, and drop the rounds before or after which two cores were not free.

    Args:
        functions: The functions to measure.
        rounds: Maximum number of rounds to measure, after a first round that is dropped.

    Returns:
        The seconds of each round, for each function.

    Raises:
        Missing: If two cores were free in fewer than three rounds.
    """
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(1 + 4 * rounds):
        free_before = free_cores()
        round_times = [seconds(function) for function in functions]
        if min(free_before, free_cores()) > 1.8 and len(times[0]) < 1 + rounds:
            for values, value in zip(times, round_times, strict=True):
                values.append(value)
    if len(times[0]) < 1 + min(3, rounds):
        raise peers.Missing("two cores were never free")
    return [values[1:] for values in times]


def compare_queries(model: Model, texts: Sequence[str], rounds: int, quick: bool) -> Rows:
    """Compare encoding of a single query. Each round is the mean of a hundred calls."""
    name = "one query: model2vec / ours"
    with unless_missing(name):
        _, static = peers.model2vec(model)
        assert np.allclose(static(QUERY), model.encode_one(QUERY), atol=1e-3)
        calls = {
            "ours": lambda: [model.encode_one(QUERY) for _ in range(100)],
            "theirs": lambda: [static(QUERY) for _ in range(100)],
        }
        times: dict[str, list[float]] = {package: [] for package in calls}
        for _ in range(10 * rounds):
            for package, call in calls.items():
                times[package].append(processor_seconds(call) * 1e4)
        ours, theirs = (times[package][10:] for package in calls)
        note = f"{np.median(ours):.1f} / {np.median(theirs):.1f} µs"
        yield Row(name, ratio(theirs, ours), 8, 15, note)


def compare_masks(model: Model, texts: Sequence[str], rounds: int, quick: bool) -> Rows:
    """Compare learning a mask (ten documents, ten steps of Adam) with PyTorch's autograd, ten masks per round."""
    name = "mask update: torch autograd / ours"
    with unless_missing(name):
        peers.needs("torch")
        import torch
        from autograd_mask import autograd_mask

        # Other threads of torch would wait in a loop while Resift computes, and their time would count as Resift's.
        torch.set_num_threads(1)
        relevant, irrelevant = np.split(model.encode(texts[:10]), 2)
        functions = (
            lambda: learn_mask(relevant, irrelevant, iterations=10),
            lambda: autograd_mask(relevant, irrelevant, 10),
        )
        assert np.allclose(*(function() for function in functions), atol=1e-5)
        rounds_of_ten = [lambda function=function: [function() for _ in range(10)] for function in functions]
        times = [[processor_seconds(turn) * 1e2 for turn in rounds_of_ten] for _ in range(2 + 2 * rounds)][2:]
        ours, theirs = zip(*times, strict=True)
        yield Row(name, ratio(theirs, ours), 10, 30, f"{np.median(ours):.2f} / {np.median(theirs):.2f} ms")


def compare_indexing(model: Model, texts: Sequence[str], rounds: int, quick: bool) -> Rows:
    """Compare indexing in OpenSearch with and without vectors. Ratios are of time, so smaller ratios are better."""
    with unless_missing("indexing on OpenSearch"):
        url = opensearch_url()
        if not quick:
            yield from pipeline_rows(engine.pipeline_seconds(url, texts[:1000], max(3, rounds // 3)))
        count = 4000
        with_vectors, text_only = engine.bulk_seconds(url, texts[:count], max(3, rounds // 5))
        note = f"{count / np.median(with_vectors):.0f} / {count / np.median(text_only):.0f} documents a second"
        name = "index with vectors, 64-d / text only, seconds"
        yield Row(name, ratio(with_vectors, text_only), 2, 1.3, note, True)


def compare_searches(model: Model, texts: Sequence[str], rounds: int, quick: bool) -> Rows:
    """Compare searches in OpenSearch, on 6,000 messages and on 400,000 short documents."""
    with unless_missing("searching on OpenSearch"):
        url, few_documents = opensearch_url(), messages(6000)
        with set_up(url, model, few_documents) as setup:
            yield from search_rows(setup, f"{len(few_documents)} documents", few_documents, rounds, quick)
            percentiles = [search.concurrent(setup, 16, 20) for _ in range(3)]
            note = f"{np.median([p50 for p50, _, _ in percentiles]):.0f} ms p50"
            spread = Spread.of([p99 / p50 for p50, p99, _ in percentiles])
            yield Row("/v1/search, 16 clients, p99 / p50", spread, 4, 2.5, note, True)
            yield Row("memory of a worker of its own, MiB", Spread.of([engine.memory(setup)]), 120, 60, "", True)
        if quick:
            return
        many_documents = pieces(400_000)
        with set_up(url, model, many_documents, graph=False) as setup:
            yield from search_rows(setup, f"{len(many_documents)} short documents", many_documents, rounds, quick)


def search_rows(setup: Setup, description: str, documents: list[tuple[str, str]], rounds: int, quick: bool) -> Rows:
    """Compare ways of searching with a plain search, with warm and with cold caches. The floor is 1.5 times the aim.

    Args:
        setup: The cluster, the index and the service.
        description: Description of the documents, for the notes.
        documents: Titles and texts of the documents.
        rounds: Number of rounds.
        quick: Whether to measure only ratios with a limit.
    """
    is_small = len(documents) < 10_000
    aims = {"search": 1.2, "session": 1.9, "pipeline": 2.4, "pipeline session": 2.7}
    aims |= {} if is_small else {"session": 1.6, "pipeline": 2.5, "pipeline session": 2.0}
    # no hybrid search on many documents, because without an HNSW index it would compare all vectors
    possible = [way for way in search.WAYS if way != "hybrid" or is_small]
    ways = ["plain", *(aims if quick else possible)]
    measured = {"warm": lambda: search.warm(setup, rounds, ways)}
    if not quick:
        # The ways "direct…" are omitted, because they need a body that was rewritten before.
        cold_ways = [way for way in ways if not way.startswith("direct")]
        measured["cold"] = lambda: search.cold(setup, max(5, rounds // 3), cold_ways, documents)
    for state, measure in measured.items():
        times = measure()
        for way in [*times][1:]:
            note = f"{np.median(times[way]):.1f} / {np.median(times['plain']):.1f} ms, {description}"
            aim = aims.get(way, 0.0) if state == "warm" else 0.0
            yield Row(f"{search.WAYS[way]}, {state}", ratio(times[way], times["plain"]), 1.5 * aim, aim, note, True)


def pipeline_rows(parts: dict[str, list[float]]) -> Rows:
    """Yield the costs of vectors that an ingest pipeline computes, relative to indexing the text only.

    Args:
        parts: Seconds for a thousand documents in each round, by the way of indexing.
    """
    for way, description in engine.PARTS.items():
        note = " / ".join(f"{np.median(parts[name]) * 1000:.0f}" for name in (way, "text")) + " µs a document"
        yield Row(f"64-d: {description} / text only", ratio(parts[way], parts["text"]), 0, 0, note, True)


@contextmanager
def unless_missing(name: str) -> Iterator[None]:
    """Print that a comparison was not measured, if the block raises ``Missing`` because a package is not installed.

    Args:
        name: Name of the comparison.
    """
    try:
        yield
    except peers.Missing as error:
        print(f"{name:58} not measured: {error}", flush=True)


def main() -> None:
    """Run the comparisons, and print each row as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--floors", type=float, default=1.0, metavar="SHARE")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="parts whose name contains TEXT: encoding, indexing, …"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    started, rounds = time.perf_counter(), 9 if options.quick else 25
    texts, description = documents(4000 if options.quick else 18_846)
    model = load_model()
    warm_up(model, texts)
    print(f"{description}: {len(texts)}, mean {np.mean([len(text) for text in texts]):.0f} characters")
    print(f"{'ratio':58} {'median (quartiles)':32} {'floor':9} {'aim':9}")
    rows: list[Row] = []
    for part in (compare_encoding, compare_threads, compare_queries, compare_masks, compare_searches, compare_indexing):
        for row in part(model, texts, rounds, options.quick) if options.only in part.__name__ else ():
            rows.append(row)
            print(f"{row}  {row.state(options.floors)}", flush=True)
    print(f"{time.perf_counter() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    too_slow = [row.name for row in rows if row.state(options.floors) == "BELOW"]
    if too_slow:
        sys.exit(f"worse than the floor: {', '.join(too_slow)}")


if __name__ == "__main__":
    main()
