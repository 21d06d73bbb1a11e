"""Measure scaling: ``python benchmarks/speed_growth.py [--documents 1000000] [--out docs/plots] [--redraw FILE]``.

Measures how these depend on the size of their input:

- encoding, on the number of documents, and on the number of dimensions (compared with the limits of the machine),
- scoring, on the number of hits,
- ``/v1/search``, on the number of concurrent clients, if OpenSearch is available.

Prints a JSON object per point. ``--redraw`` draws the plots from the output of an earlier run. Needs the extra ``dev``.
For a million sessions see benchmarks/sessions.py.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import speed_peers as peers
import speed_search as search
from plotting import logarithmic, panels, save, style
from speed_cluster import Setup, opensearch_url, set_up
from speed_data import documents, messages
from speed_timing import Spread, processor_seconds, rates

from resift import Model, WordVectors, load_model
from resift.encoders.tables import quantize_table

Points = list[dict[str, Any]]


def over_documents(model: Model, texts: Sequence[str], most: int) -> Iterator[dict[str, Any]]:
    """Yield documents per second and peak memory in MiB, for streams of increasing length."""
    model.encode(texts[:1000])
    for count in (10**power for power in range(3, 7) if 10**power <= most):
        stream = itertools.islice(itertools.cycle(texts), count)
        taken = processor_seconds(lambda: sum(len(block) for block in model.encode_batches(stream)))  # noqa: B023
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        yield {"documents": count, "a second": round(count / taken), "peak MiB": round(peak)}


def over_dimensions(model: Model, texts: Sequence[str], rounds: int) -> Iterator[dict[str, Any]]:
    """Yield documents per second for tables of random numbers, and the limits by memory bandwidth and by scanning."""
    words, rng = model.table.words, np.random.default_rng(0)
    ids, offsets = model.table.ids(texts[:2000])
    tokens, memory = len(ids) / (len(offsets) - 1), bandwidth()
    scan = Spread.of(rates({"scan": peers.scan_and_hash()}, texts, rounds)["scan"]).median
    for dim in (16, 32, 64, 128, 256, 512, 1024):
        dense = WordVectors(words, rng.normal(size=(len(words), dim)).astype(np.float32))
        tables = {"float32": dense, "int8": quantize_table(dense)}
        encoders = {f"mean, {kind}": Model("", table, "mean", "cosine") for kind, table in tables.items()}
        encoders["max, int8"] = Model("", tables["int8"], "max", "jaccard")
        measured_rates = rates({name: encoder.encode for name, encoder in encoders.items()}, texts, rounds)
        medians = {name: round(Spread.of(values).median) for name, values in measured_rates.items()}
        limits = {
            f"memory, {kind}": round(memory / (tokens * dim * size)) for kind, size in (("float32", 4), ("int8", 1))
        }
        yield {"dimensions": dim, **medians, **limits, "scan and hash": round(scan)}


def bandwidth() -> float:
    """Return the memory bandwidth of a thread in bytes per second."""
    block = np.ones(2**26, np.float32)
    return block.nbytes / min(processor_seconds(block.max) for _ in range(7))


def over_hits(model: Model) -> Iterator[dict[str, Any]]:
    """Yield the microseconds of comparing a query with vectors, with and without a mask, by both similarities."""
    rng = np.random.default_rng(0)
    for hits in (10, 30, 100, 300, 1000, 3000, 10_000):
        query, mask = rng.random((2, model.dim), np.float32)
        rows = rng.random((hits, model.dim), np.float32)
        point: dict[str, Any] = {"hits": hits}
        for similarity in ("cosine", "jaccard"):
            compared = Model("", model.table, "mean", similarity)
            for name, weights in (("", None), (", masked", mask)):
                taken = [processor_seconds(_thrice, compared.score, query, rows, weights) * 1e6 / 3 for _ in range(40)]
                point[similarity + name] = round(float(np.median(taken)), 1)
        yield point


def _thrice(function: Any, *arguments: Any) -> None:
    for _ in range(3):
        function(*arguments)


def over_clients(setup: Setup, most: int) -> Iterator[dict[str, Any]]:
    """Yield p50 and p99 of searches in a session in ms, and searches per second."""
    for clients in (2**power for power in range(7) if 2**power <= most):
        p50, p99, rate = search.concurrent(setup, clients, max(10, 200 // clients))
        yield {"clients": clients, "p50 ms": round(p50, 1), "p99 ms": round(p99, 1), "a second": round(rate)}


def printed(points: Iterator[dict[str, Any]]) -> Points:
    """Print the points as they arrive, and return them."""
    measured_points = []
    for point in points:
        print(json.dumps(point), flush=True)
        measured_points.append(point)
    return measured_points


def read(file: Path) -> Points:
    """Read the points from the output of an earlier run. Other lines are ignored."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.startswith("{")]


def draw(points: Points, file: Path, x: str, titles: dict[str, dict[str, str]], start: bool = False) -> None:
    """Draw a panel of lines for each title, with logarithmic axes.

    Args:
        points: Measurements, by name. Points without one of the needed measurements are omitted.
        file: File of the plot.
        x: Name of the measurement on the x axis.
        titles: Title of each panel → name of the measurement of each line → label of the line. Lines whose label starts
            with "limit" are dotted.
        start: Whether the y axis is linear and starts at 0.
    """
    points = [point for point in points if x in point and all(key in point for keys in titles.values() for key in keys)]
    if not points:
        return
    figure, axes = panels(len(titles), 5.5 if len(titles) > 1 else 7)
    for panel, (title, lines) in zip(axes, titles.items(), strict=True):
        for number, (key, label) in enumerate(lines.items()):
            dotted = {"linestyle": ":", "marker": ""} if label.startswith("limit") else {}
            panel.plot(
                [point[x] for point in points], [point[key] for point in points], label=label, **style(number) | dotted
            )
        panel.set(xlabel=x, title=title)
        logarithmic(panel, "x" if start else "xy")
        if start:
            panel.set_ylim(0, None)
        panel.grid(alpha=0.3)
        if len(lines) > 1:
            panel.legend(fontsize="small")
    save(figure, file)


def draw_all(points: Points, out: Path) -> None:
    """Draw the plots for which there are points."""
    rate = "documents encoded a second, one thread"
    both = {rate: {"a second": ""}, "most memory that was used, MiB": {"peak MiB": ""}}
    draw(points, out / "speed-documents.png", "documents", both, start=True)
    lines = {"mean, int8": "mean, int8", "mean, float32": "mean, float32", "max, int8": "maximum, int8"}
    limits = {"memory, int8": "limit: memory, int8", "memory, float32": "limit: memory, float32"}
    limits["scan and hash"] = "limit: scan and hash"
    draw(points, out / "speed-dimensions.png", "dimensions", {rate: lines | limits})
    lines = {"cosine": "cosine", "cosine, masked": "cosine, masked"}
    lines |= {"jaccard": "fuzzy Jaccard", "jaccard, masked": "fuzzy Jaccard, masked"}
    draw(points, out / "speed-hits.png", "hits", {"microseconds to compare a query with the hits": lines})
    times = {"p50 ms": "half of the searches", "p99 ms": "99 of 100"}
    titles = {"milliseconds to the answer, at most": times, "searches a second": {"a second": ""}}
    draw(points, out / "speed-clients.png", "clients", titles)


def measured(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure and yield all points."""
    texts, _ = documents(18_846)
    model = load_model()
    yield from over_documents(model, texts, options.documents)
    yield from over_dimensions(model, texts, options.rounds)
    yield from over_hits(model)
    try:
        with set_up(opensearch_url(), model, messages(3000)) as setup:
            yield from over_clients(setup, options.clients)
    except peers.Missing as error:
        print(f"searches were not measured: {error}")


def main() -> None:
    """Measure and print the points, and draw the plots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("docs/plots"))
    parser.add_argument("--redraw", type=Path, help="file with the output of an earlier run")
    options = parser.parse_args()
    draw_all(read(options.redraw) if options.redraw else printed(measured(options)), options.out)


if __name__ == "__main__":
    main()
