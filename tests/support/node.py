"""A real OpenSearch node for the tests, from Maven artefacts: needs Maven and Java >= 21, no Docker engine.

    python tests/support/node.py start [--port 9200] [--version 2.19.1] | status | stop [--port 9200]

``stop`` ends all nodes that were started so, or the one on the port. ``start(port=0)`` does the same as ``start`` from
Python, and ``start_cluster`` starts several nodes that form one cluster, each of which can be killed, frozen and
brought back. The assembled distribution stays in one folder between runs (``RESIFT_NODE_DIR``); every start has data,
logs and settings of its own, removed when the node stops, so several nodes may run side by side. OpenSearch refuses
root: root starts it as ``RESIFT_NODE_USER`` (nobody). ``RESIFT_NODE_HEAP`` (1g) is the node's heap,
``RESIFT_NODE_TIMEOUT`` (180) the seconds it may take to answer, ``RESIFT_NODE_VERSION`` (3.6.0) its
version.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from native_plugin import plugin_archive
from node_assembly import (
    Java,
    NodeUnavailable,
    assemble,
    cache_folder,
    environment,
    find_java,
    locked,
    node_user,
    tail,
    with_plugin,
)
from node_releases import release
from node_security import Certificates
from ports import free_ports

STAYS = 0  # the owner of a node that outlives the process that started it
MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30  # free bytes that it must have for a node's data
# what Java is told besides for a quick node: to compile quickly, nothing twice, and to believe what is in a class file
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"


@dataclass(frozen=True)
class Launch:
    """How a node's process is started: the distribution, Java, its settings, what Java is told besides, its
    certificates where it has the security plugin, and whether it is quick: it starts sooner and takes half as much of
    the CPU for an index, as it compiles quickly, has its data in memory, and has no agent that walks the stack at each
    file and connection for whether a plugin may open it. One whose speed is measured is not."""

    home: Path
    java: Java
    settings: dict[str, Any]
    java_options: str = ""
    certificates: Certificates | None = None
    quick: bool = False

    @property
    def options(self) -> str:
        """What Java is told besides, with the classes of the agent, which OpenSearch needs without the agent too."""
        jars = sorted(self.home.glob("agent/opensearch-agent-bootstrap-*.jar")) if self.quick else []
        return " ".join([self.java_options, *(f"-Xbootclasspath/a:{jar}" for jar in jars)])


@dataclass
class Node:
    """A node and the folder of its run. It must not outlive the process `owner`, unless that is STAYS."""

    run: Path
    owner: int
    pid: int = 0
    url: str = ""
    process: subprocess.Popen[bytes] | None = None
    how: Launch | None = None

    def launch(self) -> None:
        """Start its process, in a group of its own, with what its folder holds; it has data after :meth:`kill`."""
        assert self.how is not None
        (self.run / "logs/http.ports").unlink(missing_ok=True)
        self.process = _launch(self.how, self.run)
        self.pid = self.process.pid
        self.save()

    def wait(self, nodes: int = 1) -> None:
        """Wait until it is healthy, and sees so many nodes of its cluster."""
        self.url = _wait_until_healthy(self, nodes)
        self.save()

    def kill(self) -> None:
        """End it at once, as a power cut does; its folder stays."""
        os.killpg(self.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def freeze(self) -> None:
        """Have it answer nothing and lose no connection, as a machine that swaps or is paused."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on after :meth:`freeze`."""
        os.killpg(self.pid, signal.SIGCONT)

    def save(self) -> None:
        """Note the node in its folder, for `stop` in another process and for clearing up after a crash."""
        state = {"owner": self.owner, "pid": self.pid, "url": self.url}
        (self.run / "node.json").write_text(json.dumps(state))

    def alive(self) -> bool:
        """Whether its process runs, and is not a later one that was given the same number."""
        if self.process is not None:
            return self.process.poll() is None
        return str(self.run) in _command_line(self.pid)

    def stop(self) -> None:
        """End the node's process group, by force if it does not go by itself, and remove its folder."""
        for signal_number, patience in ((signal.SIGTERM, 30), (signal.SIGKILL, 10)):
            if self.pid and self.alive():
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, signal_number)
                    os.killpg(self.pid, signal.SIGCONT)  # one that is frozen ends when it goes on
                deadline = time.monotonic() + patience
                while self.alive() and time.monotonic() < deadline:
                    time.sleep(0.1)
        shutil.rmtree(self.run, ignore_errors=True)
        shutil.rmtree(_data_in_memory(self.run), ignore_errors=True)


def start(
    port: int = 0,
    stays: bool = False,
    version: str = "",
    heap: str = "",
    quick: bool = False,
    certificates: Certificates | None = None,
    native: bool = False,
) -> Node:
    """Start a node on `port` (0: a free one), assembled first if need be, and wait until it is healthy.

    It is stopped when this process ends, unless it `stays`. With `certificates` it has the security plugin, and no
    user yet but whoever has the administrator's. With ``native`` it has Resift's own plugin (``plugin/native``).
    """
    alone = {"discovery.type": "single-node", "http.port": port, "transport.port": 0}
    return _start([alone], heap, quick, stays, version, certificates, [native])[0]


def start_cluster(
    nodes: int = 3, heap: str = "768m", quick: bool = True, native: Sequence[bool] | None = None
) -> list[Node]:
    """Start nodes that form one cluster, as :func:`start` does; each keeps its ports when it is launched again.

    `native` says of each node whether it has Resift's own plugin.
    """
    ports = free_ports(2 * nodes)
    seeds = [f"127.0.0.1:{port}" for port in ports[nodes:]]
    names = [f"node-{number}" for number in range(nodes)]
    settings = [
        {
            "node.name": name,
            "http.port": http,
            "transport.port": transport,
            "discovery.seed_hosts": ",".join(seeds),
            "cluster.initial_cluster_manager_nodes": ",".join(names),
        }
        for name, http, transport in zip(names, ports[:nodes], ports[nodes:], strict=True)
    ]
    return _start(settings, heap, quick, native=native or [False] * nodes)


def _start(
    settings: list[dict[str, Any]],
    heap: str,
    quick: bool,
    stays: bool = False,
    version: str = "",
    certificates: Certificates | None = None,
    native: Sequence[bool] = (False,),
) -> list[Node]:
    """Nodes with these settings each, once they are healthy and see one another."""
    cache, nodes = cache_folder(), []
    wanted = release(version, secured=certificates is not None)
    plugin = plugin_archive(wanted.version) if any(native) else None
    java_options = (f"-Xms{heap} -Xmx{heap} " if heap else "") + (_QUICK if quick else "")
    with locked(cache):
        java = find_java(wanted)
        home = assemble(cache, wanted, java)
        extended = home if plugin is None else with_plugin(cache, home, plugin, java)
        _clear_up(cache)
        for own, has_plugin in zip(settings, native, strict=True):
            run = Path(tempfile.mkdtemp(prefix="run-", dir=cache))
            folder = extended if has_plugin else home
            nodes.append(Node(run, os.getpid(), how=Launch(folder, java, own, java_options, certificates, quick)))
            nodes[-1].save()
    try:
        for node in nodes:
            _prepare(node.how, node.run)
            node.launch()
        for node in nodes:
            node.wait(len(nodes))
            node.owner = STAYS if stays else node.owner
            node.save()
    except BaseException:
        for node in nodes:
            node.stop()
        raise
    for node in nodes:
        atexit.register(_stop_at_exit, node)
    return nodes


def running() -> list[Node]:
    """The nodes that were started to stay and still run."""
    return [node for node in _nodes(cache_folder()) if node.owner == STAYS and node.alive()]


def _nodes(cache: Path) -> Iterator[Node]:
    """Every node noted in the cache folder, running or not."""
    for state in cache.glob("run-*/node.json"):
        with suppress(OSError, ValueError):
            yield Node(state.parent, **json.loads(state.read_text()))


def _clear_up(cache: Path) -> None:
    """Stop nodes whose owner was killed before it could, and remove what stopped nodes left behind."""
    for node in _nodes(cache):
        if not (node.alive() if node.owner == STAYS else _command_line(node.owner)):
            node.stop()


def _stop_at_exit(node: Node) -> None:
    if node.owner == os.getpid():  # not in a fork of the process that started it
        node.stop()


def _command_line(pid: int) -> str:
    """The command line of a process, empty when there is no such process."""
    if Path("/proc/self/cmdline").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return ""
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True).stdout


def _data_in_memory(run: Path) -> Path:
    """The folder of a run's data, if they are in memory."""
    return MEMORY / f"resift-node-{run.name}"


def _prepare(how: Launch, run: Path) -> None:
    """Give a run its own folders and settings; without the JVM options that write into the distribution."""
    shutil.copytree(how.home / "config", run / "config")
    for name in ("logs", "tmp"):
        (run / name).mkdir()
    in_memory = how.quick and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    data = _data_in_memory(run) if in_memory else run / "data"
    data.mkdir()
    if in_memory:
        (run / "data").symlink_to(data)
    unwanted = ["logs/", "HeapDump"] + ([] if how.java.has_vector_module else ["jdk.incubator.vector"])
    unwanted += ["-javaagent"] if how.quick else []
    options = run / "config/jvm.options"
    lines = options.read_text().splitlines()
    options.write_text("\n".join(line for line in lines if not any(word in line for word in unwanted)) + "\n")
    if how.certificates is not None:
        how.certificates.secure(run / "config")
    user = node_user()
    for path in [run, data, *run.rglob("*")] if user else []:
        os.chown(path, user["user"], user["group"])


def _launch(how: Launch, run: Path) -> subprocess.Popen[bytes]:
    """Start the process, in a group of its own; it writes the address that it got to logs/http.ports."""
    settings = {
        "path.data": (run / "data").resolve(),
        "path.logs": run / "logs",
        "path.repo": run / "tmp",  # for snapshots
        "node.portsfile": "true",
        "cluster.name": "resift-tests",
        "network.host": "127.0.0.1",
        "cluster.routing.allocation.disk.threshold_enabled": "false",
        **how.settings,
    }
    command = [str(how.home / "bin/opensearch"), *(f"-E{key}={value}" for key, value in settings.items())]
    inherited = environment(how.home, run / "config", how.java)
    own = {"OPENSEARCH_TMPDIR": str(run / "tmp"), "HOME": str(run)}
    own["OPENSEARCH_JAVA_OPTS"] = f"{inherited['OPENSEARCH_JAVA_OPTS']} {how.options}"  # the last heap counts
    with open(run / "console.log", "wb") as log:
        return subprocess.Popen(
            command,
            env=inherited | own,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **node_user(),
        )


def _wait_until_healthy(node: Node, nodes: int) -> str:
    """The node's URL, once it is healthy and sees so many nodes; where it never is, an error with its log's end."""
    patience = float(os.environ.get("RESIFT_NODE_TIMEOUT") or 180)
    certificates = node.how.certificates if node.how is not None else None
    scheme, context = ("http", None) if certificates is None else ("https", certificates.context())
    deadline = time.monotonic() + patience
    while node.alive() and time.monotonic() < deadline:
        with suppress(OSError, IndexError):
            url = f"{scheme}://" + (node.run / "logs/http.ports").read_text().split()[0]
            health = f"{url}/_cluster/health?wait_for_status=yellow&wait_for_nodes=%3E%3D{nodes}&timeout=5s"
            urllib.request.urlopen(health, timeout=10, context=context).close()
            return url
        time.sleep(0.2)
    what = f"did not answer in {patience:.0f} s" if node.alive() else "stopped while starting"
    log = tail((node.run / "console.log").read_text(errors="replace"))
    raise NodeUnavailable(f"OpenSearch {what}; the end of its log:\n{log}")


def _start_command(port: int, version: str) -> str:
    """Start a node to stay on `port`, unless one is there already; its URL."""
    for node in running():
        if node.url.endswith(f":{port}"):
            return node.url
    return start(port, stays=True, version=version).url


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit status is 1 for no node and 3 for `status` when none runs."""
    parser = argparse.ArgumentParser(description="Start, stop or show an OpenSearch node for the tests.")
    parser.add_argument("command", choices=["start", "stop", "status"])
    parser.add_argument("--port", type=int, help="to start on (default: 9200), or of the node to stop or show")
    parser.add_argument("--version", default="", help="of OpenSearch (default: RESIFT_NODE_VERSION, or 3.6.0)")
    options = parser.parse_args(arguments)
    if options.command == "start":
        try:
            print(_start_command(9200 if options.port is None else options.port, options.version))
        except NodeUnavailable as error:
            print(f"no OpenSearch node: {error}", file=sys.stderr)
            return 1
        return 0
    nodes = [node for node in running() if options.port is None or node.url.endswith(f":{options.port}")]
    for node in nodes:
        if options.command == "stop":
            node.stop()
        print(("stopped " if options.command == "stop" else "") + node.url)
    if not nodes:
        print("no node is running")
    return 3 if options.command == "status" and not nodes else 0


if __name__ == "__main__":
    raise SystemExit(main())
