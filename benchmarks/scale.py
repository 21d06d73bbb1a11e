"""What a larger index costs: ``python benchmarks/scale.py [--documents 10000,100000,1000000] [--nodes 1]``.

Parts, by ``--only``: ``index`` (attaching, bytes, searches with 1, 4 and 16 clients at each size), ``vectors`` (bytes
and nDCG of float, half and byte numbers), ``memory`` (a worker over many searches) and ``replicas`` (two rerankers over
one index of sessions). Prints one JSON object a line, and draws docs/plots/scale-*.png; ``--redraw FILE`` draws from
such lines of an earlier run. Nodes are its own, of 1 GiB heap each. RESIFT_DATA names real texts; without it they are
made. Needs the extra ``bench``.
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
    """A cluster of so many nodes with everything installed, and a reranker of two workers."""
    folder = Path(tempfile.mkdtemp(prefix="resift-scale-"))
    with contextlib.ExitStack() as undone:
        undone.callback(shutil.rmtree, folder, ignore_errors=True)
        started = node.start_cluster(nodes, heap, quick=False)
        for one in started:
            undone.callback(one.stop)
        urls = [one.url for one in started]
        engine = OpenSearchEngine(",".join(urls), timeout=120)
        undone.callback(engine.close)
        reranker = ServiceProcess(folder, ",".join(urls), SESSIONS)
        undone.callback(reranker.kill)
        reranker.start()
        Installer(engine, Installation("resift", load_model(), tuple(FIELDS), reranker.url)).install()
        yield Target(folder, urls, engine, reranker)


def index(there: Target, sizes: Sequence[int], clients: Sequence[int], seconds: float) -> Iterator[dict[str, Any]]:
    """Each size, and on paper what a hundred million would take."""
    points: Points = []
    # a node that has just begun takes several times as long; what it does first is not counted
    scale_index.measure(there, short_documents(min(sizes)), clients[:1], 1.0)
    for size in sizes:
        documents = short_documents(size)
        points.append(scale_index.measure(there, documents, clients, seconds))
        yield points[-1]
    if len(points) > 1:
        yield on_paper(points[-2], points[-1])


def on_paper(smaller: dict[str, Any], larger: dict[str, Any]) -> dict[str, Any]:
    """What PAPER documents would take if attaching goes on growing as between the two largest sizes: not measured.

    Not latencies: nobody keeps so many in one shard, and each shard answers as one of its size does.
    """
    times = [point["attach seconds"] for point in (smaller, larger)]
    power = math.log(times[1] / times[0]) / math.log(larger["documents"] / smaller["documents"])
    factor = PAPER / larger["documents"]
    gigabytes = {name: round(larger[name] * PAPER / 1e9) for name in ("text bytes a document", "bytes a document")}
    # never better than in proportion: what is left of fixed costs shrinks with the size
    return {"on paper": PAPER, "attach hours": round(times[1] * factor ** max(1.0, power) / 3600, 1), "GB": gigabytes}


def draw(points: Points, folder: Path) -> None:
    """Curves over the number of documents: one figure of attaching, one of searching by the number of clients."""
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
    """Memory of the workers over searches."""
    points = [point for point in points if "MiB of a worker" in point]
    if not points:
        return
    figure, (axes,) = panels(1)
    axes.plot([one["searches"] for one in points], [max(one["MiB of a worker"]) for one in points], **style(0))
    axes.set(xlabel="searches, a tenth in a new session", ylabel="MiB that a worker has alone", ylim=(0, None))
    axes.grid(alpha=0.3)
    save(figure, folder / "scale-memory.png")


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", default="10000,100000,1000000")
    parser.add_argument("--clients", default="1,4,16")
    parser.add_argument("--seconds", type=float, default=5, help="of searching, for each way and number of clients")
    parser.add_argument("--searches", type=int, default=20_000, help="of the part memory")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--heap", default="1g")
    parser.add_argument("--only", default="index,vectors,memory,replicas")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/plots", help="where plots are drawn")
    parser.add_argument("--redraw", type=Path, help="lines that an earlier run printed")
    options = parser.parse_args()
    if options.redraw:
        draw(read(options.redraw), options.out)
        draw_memory(read(options.redraw), options.out)
        return
    parts = options.only.split(",")
    sizes, clients = ([int(one) for one in text.split(",")] for text in (options.documents, options.clients))
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
    """The parts that measure rerankers."""
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
