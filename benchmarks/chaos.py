"""Kill and freeze nodes and services under load: ``python benchmarks/chaos.py [--short]``, or ``make chaos``.

The setup is a cluster of three nodes, an index with Resift and its default search pipeline, a copy of the index without
Resift (the twin), and two Resift services with their sessions in the cluster. Clients search, write and mark with the
same frequency on the index and on the twin, while nodes and services fail in turn. Prints latencies and errors of each
kind of client, and a verdict. The exit status is 1 if a line of the verdict fails, and 2 if no OpenSearch node can be
started. The steps take four minutes with three nodes, or half a minute with two nodes (``--short``), in addition to the
start of the nodes. ``restart.py`` measures many clients at a service that has restarted.
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
from chaos_load import CALM, FIRST, GUARDED, NODES, SERVICE, Client, Indexing, Log, clients
from chaos_verdict import Counts, Line, latencies, verdict
from scale_data import short_documents

LATER_COUNT = 6000  # number of documents in the index LATER, which is attached during the benchmark
# Environment variables that the benchmark itself uses.
BENCHMARK_VARIABLES = ("RESIFT_NODE", "RESIFT_DATA", "OPENSEARCH_JAVA_HOME")


@dataclass(frozen=True)
class Step:
    """A fault that lasts for some seconds and is then repaired.

    Attributes:
        kind: Kind of the fault, a constant of chaos_load.
        title: Description of the fault.
        seconds: Duration of the fault.
        breaks: Function that causes the fault, and returns the function that repairs it.
    """

    kind: str
    title: str
    seconds: float
    breaks: Callable[[Cluster], Callable[[], None]]


def cause_no_fault(cluster: Cluster) -> Callable[[], None]:
    """Cause no fault, and return a function without an effect."""
    return lambda: None


def kill_node(cluster: Cluster, manager: bool = False) -> Callable[[], None]:
    """Kill the cluster manager or another node, and return a function that restarts it."""
    node = cluster.manager() if manager else cluster.another()
    node.kill()

    def back() -> None:
        node.launch()
        node.wait(len(cluster.nodes))

    return back


def freeze_node(cluster: Cluster, manager: bool = False) -> Callable[[], None]:
    """Freeze the cluster manager or another node, and return a function that resumes it."""
    node = cluster.manager() if manager else cluster.another()
    node.freeze()
    return node.thaw


def kill_service(cluster: Cluster) -> Callable[[], None]:
    """Kill the service that the search pipeline calls, and return a function that restarts it."""
    cluster.services[0].kill()
    return cluster.services[0].start


def freeze_service(cluster: Cluster) -> Callable[[], None]:
    """Freeze the service that the search pipeline calls, and return a function that resumes it."""
    cluster.services[0].freeze()
    return cluster.services[0].thaw


def kill_worker(cluster: Cluster) -> Callable[[], None]:
    """Kill one of the two worker processes of the service, and return a function without an effect.

    The main process of the service restarts the worker.
    """
    cluster.services[0].kill_worker()
    return lambda: None


def while_guarded(breaks: Callable[[Cluster], Callable[[], None]]) -> Callable[[Cluster], Callable[[], None]]:
    """Return a function that causes the same fault while ``resift guard`` is running."""

    def broken(cluster: Cluster) -> Callable[[], None]:
        command = [sys.executable, "-m", "resift", "guard", "--engine", cluster.address, "--name", NAME]
        guard = subprocess.Popen(command, cwd=cluster.folder, stdout=subprocess.DEVNULL)
        time.sleep(4)
        mend = breaks(cluster)

        def back() -> None:
            mend()
            time.sleep(3)  # time for the guard to notice that the service is available again
            guard.terminate()
            guard.wait(30)

        return back

    return broken


def kill_attaching(cluster: Cluster) -> Callable[[], None]:
    """Kill ``resift attach`` while it attaches an index, start it again, and kill a node.

    Returns:
        A function that restarts the node.
    """
    process = cluster.attach(LATER)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(4)
    process.kill()
    cluster.attaching.append(cluster.attach(LATER))
    return kill_node(cluster)


def kill_node_and_service(cluster: Cluster) -> Callable[[], None]:
    """Kill a node and the service at the same time, and return a function that restarts both."""
    start_node, start_service = kill_node(cluster), kill_service(cluster)

    def back() -> None:
        start_service()
        start_node()

    return back


LONG = [
    Step(CALM, "no fault", 20, cause_no_fault),
    Step(SERVICE, "a worker process of the pipeline's service is killed", 10, kill_worker),
    Step(SERVICE, "the pipeline's service is killed", 15, kill_service),
    Step(SERVICE, "the pipeline's service is frozen", 15, freeze_service),
    Step(GUARDED, "the service is killed while resift guard runs", 12, while_guarded(kill_service)),
    Step(GUARDED, "the service is frozen while resift guard runs", 12, while_guarded(freeze_service)),
    Step(CALM, "no fault", 10, cause_no_fault),
    # a killed node is missing for longer than these durations, because it takes a while to start
    Step(NODES, "a node and resift attach are killed, and attach is run again", 8, kill_attaching),
    Step(NODES, "the cluster manager is killed", 8, lambda cluster: kill_node(cluster, manager=True)),
    Step(NODES, "a node is frozen", 38, freeze_node),
    Step(NODES, "the cluster manager is frozen", 38, lambda cluster: freeze_node(cluster, manager=True)),
    Step(NODES, "a node and the service are killed", 8, kill_node_and_service),
    Step(NODES, "both have restarted", 12, cause_no_fault),  # the first requests of a new node are slow
    Step(CALM, "no fault", 20, cause_no_fault),
]
SHORT = [
    Step(CALM, "no fault", 4, cause_no_fault),
    Step(SERVICE, "the pipeline's service is killed", 4, kill_service),
    Step(SERVICE, "the pipeline's service is frozen", 4, freeze_service),
    Step(CALM, "no fault", 3, cause_no_fault),
    Step(
        NODES,
        "a node is killed, and does not come back",
        8,
        lambda cluster: (kill_node(cluster), cause_no_fault(cluster))[1],
    ),
]


def run(steps: list[Step], say: Callable[[str], None] = print) -> list[Line]:
    """Run the steps and return the lines of the verdict."""
    log = Log()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - log.began:6.1f} s  {text}")

    documents = short_documents(8000)
    nodes = 2 if steps is SHORT else 3
    with set_up(documents[:FIRST], documents[:LATER_COUNT], nodes) as cluster:
        tell(f"{nodes} nodes, two services, {FIRST} documents in the index and in its twin")
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
                run_step(step, cluster, log, working, counts)
        tell("the clients have ended; waiting for resift index")
        status = indexing.end()
        tell(f"resift index ended with status {status}: {indexing.last_line()}")
        for process in cluster.attaching:
            process.wait(300)
        counts.finish(cluster, log)
        for line in latencies(log):
            say(line)
        return verdict(cluster, log, indexing, status, counts, short=steps is SHORT)


def run_step(step: Step, cluster: Cluster, log: Log, working: list[Client], counts: Counts) -> None:
    """Cause the fault of a step, wait, repair it, and wait until the cluster has recovered."""
    watched = step.kind != NODES  # killed nodes lose their counters, and frozen nodes do not report them
    if watched:
        with pause_clients(working):
            counts.begin(cluster, log)
    log.kind = step.kind
    back = step.breaks(cluster)
    time.sleep(step.seconds)
    if watched and step.kind != CALM:
        with pause_clients(working):
            counts.end_of_pipeline(cluster, log)
    back()
    if "does not come back" not in step.title:
        cluster.recover()
        time.sleep(2)
    log.kind = CALM


@contextlib.contextmanager
def pause_clients(working: list[Client]) -> Iterator[None]:
    """Pause all clients, without any request in progress, for the duration of the block."""
    for client in working:
        client.pause()
    try:
        yield
    finally:
        for client in working:
            client.go_on()


def main() -> None:
    """Print the steps and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    steps = SHORT if parser.parse_args().short else LONG
    for name in [name for name in os.environ if name.startswith(("RESIFT_", "OPENSEARCH_"))]:
        # the commands must not use a key, a model or a cluster of the user
        if not name.startswith(BENCHMARK_VARIABLES):
            del os.environ[name]
    try:
        lines = run(steps, lambda text: print(text, flush=True))
    except node.NodeUnavailable as error:
        print(f"cannot start an OpenSearch node: {str(error).splitlines()[0]}", file=sys.stderr)
        sys.exit(2)
    print("\nverdict")
    for line in lines:
        print(line)
    sys.exit(0 if all(line.holds for line in lines) else 1)


if __name__ == "__main__":
    main()
