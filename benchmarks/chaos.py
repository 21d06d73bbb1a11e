"""Nodes and rerankers are killed and frozen under load: ``python benchmarks/chaos.py [--short]``, or ``make chaos``.

A cluster of three nodes, an index with Resift and its default search pipeline, a twin of it without, two rerankers with
their sessions in the cluster. Clients search, write and mark in one rhythm on both while one thing after the other
breaks. Prints what each kind of client met, and a verdict line by line; the exit status is 1 if one of them fails, and
2 where no node can be had. The steps take four minutes, those of ``--short`` half a minute, with two nodes; starting
nodes comes on top.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from chaos_cluster import LATER, NAME, Cluster, node, set_up
from chaos_load import CALM, FIRST, GUARDED, NODES, RERANKER, Client, Indexing, Log, clients
from chaos_verdict import Counts, Line, latencies, verdict
from scale_data import short_documents

LATER_COUNT = 6000
OURS = ("RESIFT_NODE", "RESIFT_DATA", "OPENSEARCH_JAVA_HOME")  # settings of the nodes, and of their documents


@dataclass(frozen=True)
class Step:
    """Something that breaks for some seconds and is mended then; ``kind`` tells what may be blamed on it."""

    kind: str
    title: str
    seconds: float
    breaks: Callable[[Cluster], Callable[[], None]]


def nothing(cluster: Cluster) -> Callable[[], None]:
    """Leave all as it is."""
    return lambda: None


def killed_node(cluster: Cluster, manager: bool = False) -> Callable[[], None]:
    """End a node at once."""
    one = cluster.manager() if manager else cluster.another()
    one.kill()

    def back() -> None:
        one.launch()
        one.wait(len(cluster.nodes))

    return back


def frozen_node(cluster: Cluster, manager: bool = False) -> Callable[[], None]:
    """Have a node answer nothing."""
    one = cluster.manager() if manager else cluster.another()
    one.freeze()
    return one.thaw


def killed_reranker(cluster: Cluster) -> Callable[[], None]:
    """End the reranker that the pipeline asks."""
    cluster.rerankers[0].kill()
    return cluster.rerankers[0].start


def frozen_reranker(cluster: Cluster) -> Callable[[], None]:
    """Have it answer nothing."""
    cluster.rerankers[0].freeze()
    return cluster.rerankers[0].thaw


def killed_worker(cluster: Cluster) -> Callable[[], None]:
    """End one of its two processes."""
    cluster.rerankers[0].kill_worker()
    return lambda: None


def guarded(breaks: Callable[[Cluster], Callable[[], None]]) -> Callable[[Cluster], Callable[[], None]]:
    """The same while ``resift guard`` watches."""

    def broken(cluster: Cluster) -> Callable[[], None]:
        command = [sys.executable, "-m", "resift", "guard", "--engine", cluster.address, "--name", NAME]
        guard = subprocess.Popen(command, cwd=cluster.folder, stdout=subprocess.DEVNULL)
        time.sleep(4)
        mend = breaks(cluster)

        def back() -> None:
            mend()
            time.sleep(3)  # in which the guard sees that it is back
            guard.terminate()
            guard.wait(30)

        return back

    return broken


def killed_attaching(cluster: Cluster) -> Callable[[], None]:
    """End a node while an index is attached, and ``resift attach`` itself, which is run again."""
    process = cluster.attach(LATER)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(4)
    process.kill()
    cluster.attaching.append(cluster.attach(LATER))
    return killed_node(cluster)


def both(cluster: Cluster) -> Callable[[], None]:
    """End a node and the reranker at the same time."""
    node_back, reranker_back = killed_node(cluster), killed_reranker(cluster)

    def back() -> None:
        reranker_back()
        node_back()

    return back


LONG = [
    Step(CALM, "all is well", 20, nothing),
    Step(RERANKER, "one process of the pipeline's reranker is killed", 10, killed_worker),
    Step(RERANKER, "the pipeline's reranker is killed", 15, killed_reranker),
    Step(RERANKER, "it is frozen", 15, frozen_reranker),
    Step(GUARDED, "it is killed while resift guard watches", 12, guarded(killed_reranker)),
    Step(GUARDED, "it is frozen while resift guard watches", 12, guarded(frozen_reranker)),
    Step(CALM, "all is well", 10, nothing),
    # what is killed is away for longer than so many seconds: a node takes a while to be there again
    Step(NODES, "a node and resift attach are killed, and attach is run again", 8, killed_attaching),
    Step(NODES, "the cluster's manager is killed", 8, lambda cluster: killed_node(cluster, manager=True)),
    Step(NODES, "a node is frozen", 38, frozen_node),
    Step(NODES, "the cluster's manager is frozen", 38, lambda cluster: frozen_node(cluster, manager=True)),
    Step(NODES, "a node and the reranker are killed", 8, both),
    Step(NODES, "both are there again", 12, nothing),  # to nodes that just began the first requests take long
    Step(CALM, "all is well", 20, nothing),
]
SHORT = [
    Step(CALM, "all is well", 4, nothing),
    Step(RERANKER, "the pipeline's reranker is killed", 4, killed_reranker),
    Step(RERANKER, "it is frozen", 4, frozen_reranker),
    Step(CALM, "all is well", 3, nothing),
    Step(
        NODES,
        "a node is killed, and does not come back",
        8,
        lambda cluster: (killed_node(cluster), nothing(cluster))[1],
    ),
]


def run(steps: list[Step], say: Callable[[str], None] = print) -> list[Line]:
    """Go through the steps; the lines of the verdict."""
    log = Log()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - log.began:6.1f} s  {text}")

    documents = short_documents(8000)
    nodes = 2 if steps is SHORT else 3
    with set_up(documents[:FIRST], documents[:LATER_COUNT], nodes) as cluster:
        tell(f"{nodes} nodes, two rerankers, {FIRST} documents on either side")
        texts = itertools.cycle(documents[FIRST:])
        counts = Counts()
        indexing = Indexing(cluster, iter(texts), 30)
        working = clients(cluster, log, texts)
        with ExitStack() as ended:
            for client in working:
                ended.callback(client.end)
                client.start()
            for step in steps:
                tell(f"[{step.kind}] {step.title}")
                go_through(step, cluster, log, working, counts)
        tell("the clients have ended; resift index gets to its end")
        status = indexing.end()
        tell(f"it ended with {status}: {indexing.said()}")
        for process in cluster.attaching:
            process.wait(300)
        counts.finish(cluster, log)
        for line in latencies(log):
            say(line)
        return verdict(cluster, log, indexing, status, counts, short=steps is SHORT)


def go_through(step: Step, cluster: Cluster, log: Log, working: list[Client], counts: Counts) -> None:
    """Break, wait, mend, and wait until all is there again."""
    watched = step.kind != NODES  # a node forgets what it counted when it is killed, and a frozen one does not tell
    if watched:
        with paused(working):
            counts.begin(cluster, log)
    log.kind = step.kind
    back = step.breaks(cluster)
    time.sleep(step.seconds)
    if watched and step.kind != CALM:
        with paused(working):
            counts.end_of_pipeline(cluster, log)
    back()
    if "does not come back" not in step.title:
        cluster.recover()
        time.sleep(2)
    log.kind = CALM


@contextlib.contextmanager
def paused(working: list[Client]) -> Iterator[None]:
    """Nothing is under way meanwhile."""
    for client in working:
        client.pause()
    try:
        yield
    finally:
        for client in working:
            client.go_on()


def main() -> None:
    """Print what happens and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    steps = SHORT if parser.parse_args().short else LONG
    for name in [name for name in os.environ if name.startswith(("RESIFT_", "OPENSEARCH_"))]:
        if not name.startswith(OURS):  # the commands that it runs are to know of no key, model or cluster of the user's
            del os.environ[name]
    try:
        lines = run(steps, lambda text: print(text, flush=True))
    except node.NodeUnavailable as error:
        print(f"no OpenSearch node: {str(error).splitlines()[0]}", file=sys.stderr)
        sys.exit(2)
    print("\nverdict")
    for line in lines:
        print(line)
    sys.exit(0 if all(line.holds for line in lines) else 1)


if __name__ == "__main__":
    main()
