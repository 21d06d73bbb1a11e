"""Start an OpenSearch node for tests from Maven artefacts. It needs Maven and Java 21 or later, but no containers.

    python tests/support/node.py start [--port 9200] [--version 2.19.1] | status | stop [--port 9200]

``stop`` stops all nodes that ``start`` has started, or only the node on the port. In Python, :func:`start` starts a
node, and :func:`start_cluster` starts several nodes of one cluster, which can be killed, frozen and restarted.

The assembled distribution is cached in a folder (``RESIFT_NODE_DIR``). Each node has its own folder for data, logs and
settings, so several nodes can run at the same time. The folder is deleted when the node stops. OpenSearch does not run
as root: if root calls this script, the node runs as another user.

Environment variables:

- ``RESIFT_NODE_USER``: The user of nodes that root starts (default: nobody).
- ``RESIFT_NODE_HEAP``: The heap of a node (default: 1g).
- ``RESIFT_NODE_TIMEOUT``: Seconds until a node must answer (default: 300).
- ``RESIFT_NODE_VERSION``: Version of OpenSearch (default: 3.6.0).
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
from collections.abc import Iterator
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
from node_assembly import run as run_command
from node_releases import release
from node_security import Certificates
from ports import free_ports

STAYS = 0  # the owner of a node that continues to run when the process that started it ends
MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30  # free bytes that the memory file system must have for the data of a node
# Options of Java for a quick node: compile only once, with few optimizations, do not verify classes, and take memory
# only when it is needed.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -XX:-AlwaysPreTouch"


@dataclass(frozen=True)
class Launch:
    """How the process of a node is started.

    Attributes:
        home: The folder of the distribution.
        java: The Java runtime.
        settings: Settings of the node.
        java_options: Further options of Java.
        certificates: The certificates for the security plugin, or None without this plugin.
        quick: Whether the node must start quickly. Java then compiles less, the data are in memory if possible, and
            OpenSearch's agent, which checks the rights of plugins at each file and connection, is missing. Such a node
            is not suitable for measurements of speed.
    """

    home: Path
    java: Java
    settings: dict[str, Any]
    java_options: str = ""
    certificates: Certificates | None = None
    quick: bool = False

    @property
    def options(self) -> str:
        """Further options of Java.

        A quick node has no agent. OpenSearch needs classes of the agent nevertheless, so they are added to the class
        path.
        """
        jars = sorted(self.home.glob("agent/opensearch-agent-bootstrap-*.jar")) if self.quick else []
        return " ".join([self.java_options, *(f"-Xbootclasspath/a:{jar}" for jar in jars)])


@dataclass
class Node:
    """A node and the folder with its data, logs and settings.

    Attributes:
        run: The folder.
        owner: The id of the process that started the node and must stop it, or STAYS.
        pid: The id of the node's process, which leads a process group.
        url: The address of the node, or "" before :meth:`wait`.
        process: The node's process if this process started it.
        how: How the process is started. None for a node of another process.
    """

    run: Path
    owner: int
    pid: int = 0
    url: str = ""
    process: subprocess.Popen[bytes] | None = None
    how: Launch | None = None

    def launch(self) -> None:
        """Start the node's process in a new process group, with the data of earlier processes in its folder."""
        assert self.how is not None
        (self.run / "logs/http.ports").unlink(missing_ok=True)
        self.process = _launch(self.how, self.run)
        self.pid = self.process.pid
        self.save()

    def wait(self, nodes: int = 1) -> None:
        """Wait until the node is healthy and its cluster has at least ``nodes`` nodes."""
        self.url = _wait_until_healthy(self, nodes)
        self.save()

    def kill(self) -> None:
        """End the process at once, as a power failure would. Its folder is not deleted."""
        os.killpg(self.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def freeze(self) -> None:
        """Pause the process: connections stay open, but are not answered, as by a machine that is swapping."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume after :meth:`freeze`."""
        os.killpg(self.pid, signal.SIGCONT)

    def save(self) -> None:
        """Write owner, process id and address to the folder, so that another process can stop the node."""
        state = {"owner": self.owner, "pid": self.pid, "url": self.url}
        (self.run / "node.json").write_text(json.dumps(state))

    def alive(self) -> bool:
        """Return whether the process runs. A later process with the same id does not count."""
        if self.process is not None:
            return self.process.poll() is None
        return str(self.run) in _command_line(self.pid)

    def stop(self) -> None:
        """Stop the process group, if necessary by SIGKILL after 30 seconds, and delete the node's folder."""
        for signal_number, patience in ((signal.SIGTERM, 30), (signal.SIGKILL, 10)):
            if self.pid and self.alive():
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, signal_number)
                    os.killpg(self.pid, signal.SIGCONT)  # a frozen process only ends when it resumes
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
    home: Path | None = None,
) -> Node:
    """Start a node, and wait until it is healthy. The distribution is assembled first if it is not in the cache.

    Args:
        port: The HTTP port. 0 means a free port.
        stays: Whether the node continues to run when this process ends.
        version: Version of OpenSearch, by default that of RESIFT_NODE_VERSION.
        heap: The heap, such as 768m, by default that of RESIFT_NODE_HEAP.
        quick: Whether the node must start quickly (see :class:`Launch`).
        certificates: Certificates for the security plugin. Only the administrator's certificate gives access, because
            the node has no users. None starts a node without the plugin.
        native: Whether the node has Resift's plugin (``plugin/native``).
        home: The folder of a distribution that is used instead of the assembled distribution.

    Raises:
        NodeUnavailable: If something is missing on this machine, or the node does not start.
    """
    alone = {"discovery.type": "single-node", "http.port": port, "transport.port": 0}
    return _start([alone], heap, quick, stays, version, certificates, native, home)[0]


def start_cluster(nodes: int = 3, heap: str = "768m", quick: bool = True, home: Path | None = None) -> list[Node]:
    """Start nodes that form one cluster, and wait until they are healthy. Each node has the same ports after a restart.

    Args:
        nodes: Number of nodes.
        heap: The heap of each node.
        quick: Whether the nodes must start quickly (see :class:`Launch`).
        home: The folder of a distribution that is used instead of the assembled distribution.

    Raises:
        NodeUnavailable: If something is missing on this machine, or a node does not start.
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
    return _start(settings, heap, quick, own_home=home)


def _start(
    settings: list[dict[str, Any]],
    heap: str,
    quick: bool,
    stays: bool = False,
    version: str = "",
    certificates: Certificates | None = None,
    native: bool = False,
    own_home: Path | None = None,
) -> list[Node]:
    """Start a node with each of these settings, and wait until the nodes are healthy and form a cluster."""
    cache, nodes = cache_folder(), []
    chosen = release(version, secured=certificates is not None)
    plugin = plugin_archive(chosen.version) if native else None
    java_options = (f"-Xms{heap} -Xmx{heap} " if heap else "") + (_QUICK if quick else "")
    with locked(cache):
        java = find_java(chosen)
        home = own_home or assemble(cache, chosen)
        if plugin is not None:
            home = with_plugin(cache, home, plugin)
        _clear_up(cache)
        for own in settings:
            run = Path(tempfile.mkdtemp(prefix="run-", dir=cache))
            nodes.append(Node(run, os.getpid(), how=Launch(home, java, own, java_options, certificates, quick)))
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
    """Return the running nodes that were started with ``stays``."""
    return [node for node in _nodes(cache_folder()) if node.owner == STAYS and node.alive()]


def _nodes(cache: Path) -> Iterator[Node]:
    """Yield each node with a state file in the cache folder, whether it runs or not."""
    for state in cache.glob("run-*/node.json"):
        with suppress(OSError, ValueError):
            yield Node(state.parent, **json.loads(state.read_text()))


def _clear_up(cache: Path) -> None:
    """Stop nodes whose owner ended without stopping them, and delete the folders of nodes that no longer run."""
    for node in _nodes(cache):
        if not (node.alive() if node.owner == STAYS else _command_line(node.owner)):
            node.stop()


def _stop_at_exit(node: Node) -> None:
    if node.owner == os.getpid():  # a fork of the process that started the node must not stop it
        node.stop()


def _command_line(pid: int) -> str:
    """Return the command line of a process, or "" if the process does not exist."""
    if Path("/proc/self/cmdline").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return ""
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True).stdout


def _data_in_memory(run: Path) -> Path:
    """Return the folder for a node's data in the memory file system."""
    return MEMORY / f"resift-node-{run.name}"


def _prepare(how: Launch, run: Path) -> None:
    """Create the folders and the settings of a node.

    JVM options that would write into the distribution are removed. So are options for which Java has no module, and the
    agent of a quick node.
    """
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
    """Start the process of a node in a new process group. The process writes its address to logs/http.ports."""
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
    inherited = environment(how.home, run / "config", how.java)
    own = {"OPENSEARCH_TMPDIR": str(run / "tmp"), "HOME": str(run)}
    own["OPENSEARCH_JAVA_OPTS"] = f"{inherited['OPENSEARCH_JAVA_OPTS']} {how.options}"  # Java uses the last heap size
    command = _java_command(how, run, inherited | own)
    with open(run / "console.log", "wb") as log:
        return subprocess.Popen(
            [*command, *(f"-E{key}={value}" for key, value in settings.items())],
            env=inherited | own,
            cwd=how.home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **node_user(),
        )


# Commands by the folder of OpenSearch, the folder of Java and the options. "{run}" stands for the folder of the node.
_commands: dict[tuple[Path, Path, str], list[str]] = {}


def _java_command(how: Launch, run: Path, variables: dict[str, str]) -> list[str]:
    """Return the command that bin/opensearch would run.

    bin/opensearch starts Java three times before it starts the node: for the password of the keystore, for the options
    in jvm.options, and for the defaults of Java. That takes two seconds of CPU time. The tests' nodes have no password.
    The options are the same for all nodes that are started in the same way, so they are computed once.

    Args:
        how: How the node is started.
        run: The folder of the node.
        variables: The environment variables of the node.

    Raises:
        NodeUnavailable: If the options cannot be read.
    """
    key = (how.home, how.java.home, variables["OPENSEARCH_JAVA_OPTS"])
    if key not in _commands:
        java = [str(how.java.home / "bin/java"), "-Xshare:auto"]
        classes = ["-cp", str(how.home / "lib/*")]
        parser = [*java, *classes, "org.opensearch.tools.launchers.JvmOptionsParser", str(run / "config")]
        options = run_command(
            parser, "the options of Java could not be read", env=variables, cwd=how.home, **node_user()
        )
        properties = {
            "path.home": how.home,
            "path.conf": run / "config",
            "distribution.type": "zip",
            "bundled_jdk": "false",
        }
        words = [*java, *options.split(), *(f"-Dopensearch.{name}={value}" for name, value in properties.items())]
        words += [*classes, "org.opensearch.bootstrap.OpenSearch"]
        _commands[key] = [word.replace(str(run), "{run}") for word in words]
    return [word.replace("{run}", str(run)) for word in _commands[key]]


def _wait_until_healthy(node: Node, nodes: int) -> str:
    """Return the URL of a node when it is healthy and its cluster has at least ``nodes`` nodes.

    Raises:
        NodeUnavailable: If the node stops or is not healthy in time. The message contains the end of the log.
    """
    patience = float(os.environ.get("RESIFT_NODE_TIMEOUT") or 300)
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
    """Return the URL of the running node on a port. Start a node if there is none."""
    for node in running():
        if node.url.endswith(f":{port}"):
            return node.url
    return start(port, stays=True, version=version).url


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Exit status 1 means that no node could be started, and 3 that no node runs (``status``)."""
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
