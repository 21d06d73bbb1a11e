"""Measure large indices: ``python benchmarks/scale.py [--documents 10000,100000,1000000] [--nodes 1]``.

``--only`` selects parts:

- ``index``: time of attaching, bytes, and searches with 1, 4 and 16 clients at each size.
- ``vectors``: bytes and nDCG of float, half and byte vectors.
- ``memory``: memory of a worker over many searches.
- ``replicas``: two services with the same session index.

Prints a JSON object per line, and draws docs/plots/scale-*.png. ``--redraw FILE`` draws the plots from the lines of an
earlier run. The benchmark starts its own nodes with 1 GiB heap each. Texts come from RESIFT_DATA, or are generated if
it is not set. Needs the extra ``dev``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import scale_index
import scale_serving
import scale_vectors
from plotting import logarithmic, panels, save, style
from scale_data import short_documents
from scale_index import Target
from served_reranker import ServiceProcess
from speed_cluster import FIELDS, ROOT
from speed_growth import Points, printed, read

from resift import load_model
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine

sys.path.insert(0, str(ROOT / "tests" / "support"))
import node

PAPER = 10**8
SESSIONS = "resift_sessions_scale"


@contextlib.contextmanager
def target(nodes: int, heap: str) -> Iterator[Target]:
    """Start a cluster and a service with two workers, and install Resift."""
    folder = Path(tempfile.mkdtemp(prefix="resift-scale-"))
    with contextlib.ExitStack() as undone:
        undone.callback(shutil.rmtree, folder, ignore_errors=True)
        started = node.start_cluster(nodes, heap, quick=False)
        for started_node in started:
            undone.callback(started_node.stop)
        urls = [started_node.url for started_node in started]
        engine = OpenSearchEngine(",".join(urls), timeout=120)
        undone.callback(engine.close)
        reranker = ServiceProcess(folder, ",".join(urls), SESSIONS)
        undone.callback(reranker.kill)
        reranker.start()
        Installer(engine, Installation("resift", load_model(), tuple(FIELDS), reranker.url)).install()
        yield Target(folder, urls, engine, reranker)


def index(there: Target, sizes: Sequence[int], clients: Sequence[int], seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the measurements of each size, and an extrapolation to a hundred million documents."""
    points: Points = []
    # warm-up, because a new node is several times slower
    scale_index.measure(there, short_documents(min(sizes)), clients[:1], 1.0)
    for size in sizes:
        documents = short_documents(size)
        points.append(scale_index.measure(there, documents, clients, seconds))
        yield points[-1]
    if len(points) > 1:
        yield extrapolate(points[-2], points[-1])


def extrapolate(smaller: dict[str, Any], larger: dict[str, Any]) -> dict[str, Any]:
    """Extrapolate time and bytes to PAPER documents from the growth between the two largest sizes.

    Latencies are not extrapolated, because an index of this size has several shards, and the latency of a shard depends
    on its own size.
    """
    times = [point["attach seconds"] for point in (smaller, larger)]
    power = math.log(times[1] / times[0]) / math.log(larger["documents"] / smaller["documents"])
    factor = PAPER / larger["documents"]
    gigabytes = {name: round(larger[name] * PAPER / 1e9) for name in ("text bytes a document", "bytes a document")}
    # The time grows at least in proportion to the size. A measured exponent below 1 comes from fixed costs, whose share
    # decreases with the size.
    return {"on paper": PAPER, "attach hours": round(times[1] * factor ** max(1.0, power) / 3600, 1), "GB": gigabytes}


def draw(points: Points, folder: Path) -> None:
    """Draw plots of attaching and of searching against the number of documents."""
    points = [point for point in points if "documents" in point]
    if not points:
        return
    sizes = [point["documents"] for point in points]
    figure, (time, room) = panels(2, 5.5)
    time.plot(sizes, [point["attach seconds"] for point in points], **style(0))
    for number, (name, label) in enumerate({"bytes a document": "attached", "text bytes a document": "before"}.items()):
        values = [point[name] * point["documents"] / 2**20 for point in points]
        room.plot(sizes, values, label=label, **style(number))
    time.set(xlabel="documents", title="resift attach, seconds")
    room.set(xlabel="documents", title="size of the index, MiB")
    room.legend()
    for axes in (time, room):
        logarithmic(axes)
        axes.grid(alpha=0.3)
    save(figure, folder / "scale-attaching.png")
    counts = list(points[0]["p50 ms"]["plain"])
    figure, all_axes = panels(len(counts), 4.6)
    for clients, axes in zip(counts, all_axes, strict=True):
        for number, (way, what) in enumerate(scale_index.WAYS.items()):
            axes.plot(sizes, [point["p50 ms"][way][clients] for point in points], label=what, **style(number))
        axes.set(xlabel="documents", title=f"{clients} client{'s' if clients != '1' else ''} at a time")
        logarithmic(axes, "x")
        axes.set_ylim(0, None)
        axes.grid(alpha=0.3)
    all_axes[0].set_ylabel("p50, ms")
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    save(figure, folder / "scale-searching.png")


def draw_memory(points: Points, folder: Path) -> None:
    """Draw a plot of the workers' memory against the number of searches."""
    points = [point for point in points if "MiB of a worker" in point]
    if not points:
        return
    figure, (axes,) = panels(1)
    axes.plot([point["searches"] for point in points], [max(point["MiB of a worker"]) for point in points], **style(0))
    axes.set(xlabel="searches, a tenth in a new session", ylabel="MiB that a worker has alone", ylim=(0, None))
    axes.grid(alpha=0.3)
    save(figure, folder / "scale-memory.png")


def main() -> None:
    """Measure the selected parts, print the results, and draw the plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", default="10000,100000,1000000")
    parser.add_argument("--clients", default="1,4,16")
    parser.add_argument("--seconds", type=float, default=5, help="duration of each search measurement")
    parser.add_argument("--searches", type=int, default=20_000, help="number of searches in the part memory")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--heap", default="1g")
    parser.add_argument("--only", default="index,vectors,memory,replicas")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/plots", help="folder for the plots")
    parser.add_argument("--redraw", type=Path, help="file with the output of an earlier run")
    options = parser.parse_args()
    if options.redraw:
        draw(read(options.redraw), options.out)
        draw_memory(read(options.redraw), options.out)
        return
    parts = options.only.split(",")
    sizes, clients = ([int(number) for number in text.split(",")] for text in (options.documents, options.clients))
    if "vectors" in parts and os.environ.get("RESIFT_DATA"):
        printed(scale_vectors.quality(Path(os.environ["RESIFT_DATA"])))
    with target(options.nodes, options.heap) as there:
        if "vectors" in parts:
            printed(scale_vectors.bytes_of_kinds(there.urls[0], short_documents(min(sizes[0], 20_000))))
        if "index" in parts:
            points = printed(index(there, sizes, clients, options.seconds))
            draw(points, options.out)
        if "memory" in parts or "replicas" in parts:
            serve(there, parts, options.searches, options.out)


def serve(there: Target, parts: Sequence[str], searches: int, out: Path) -> None:
    """Run the parts that measure services."""
    rows = scale_serving.filled(there.engine, there.folder)
    if "replicas" in parts:
        other = ServiceProcess(there.folder, there.reranker.engine, SESSIONS)
        other.start()
        print(json.dumps(scale_serving.replicas([there.reranker, other])), flush=True)
        other.kill()
    if "memory" in parts:
        draw_memory(printed(scale_serving.memory(there.reranker, rows, searches)), out)


if __name__ == "__main__":
    main()
