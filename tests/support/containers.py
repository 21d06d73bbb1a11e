"""Container engines for tests, and images assembled from this machine if no registry is available."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from node_assembly import assemble, cache_folder, find_java, locked
from node_releases import release

_LIBRARIES = "ca-certificates,curl,libbz2-1.0,libexpat1,libffi8,liblzma5,libncursesw6,libreadline8,libsqlite3-0,libssl3"
# The official image has settings as environment variables with dots. Shells do not pass on variables with dots.
_ENTRYPOINT = """#!/bin/sh
set -- $(tr '\\0' '\\n' < /proc/$$/environ | sed -n 's/^\\([a-z_]*\\.[a-z_.]*=.*\\)$/-E\\1/p')
exec bin/opensearch -Enetwork.host=0.0.0.0 -Ecluster.routing.allocation.disk.threshold_enabled=false "$@"
"""


class NoContainers(Exception):
    """No containers can be started. The message explains why."""


@dataclass
class Containers:
    """A container engine (``docker`` or ``podman``), its compose command, and their environment."""

    command: str
    compose: list[str]
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, check: bool = True, timeout: float = 900) -> str:
        """Run the engine, and return its output.

        Raises:
            NoContainers: If the engine reports an error.
        """
        return self._run([self.command, *arguments], check, timeout)

    def composed(self, folder: Path, *arguments: str) -> str:
        """Run the compose command in the folder of a ``docker-compose.yml``, and return its output."""
        return self._run([*self.compose, "-f", str(folder / "docker-compose.yml"), *arguments], True, 1800)

    def has(self, image: str) -> bool:
        """Return whether an image exists locally or in its registry."""
        commands = [
            ["image", "inspect", image],
            *([["pull", "-q", image]] if not image.startswith("localhost/") else []),
        ]
        for command in commands:
            with suppress(NoContainers, subprocess.TimeoutExpired):
                self.run(*command, timeout=600)
                return True
        return False

    def of_service(self, folder: Path, service: str) -> str:
        """Return the id of the only container of a service."""
        labels = {"project": folder.name, "service": service}
        filters = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()]
        return self.run("ps", "-a", "-q", *filters).strip()

    def wait_until_healthy(self, container: str, seconds: float = 1200) -> None:
        """Wait until a container's health check succeeds. If podman has no systemd to run it, this function runs it."""
        deadline = time.monotonic() + seconds
        while not self._is_healthy(container):
            state = json.loads(self.run("inspect", container))[0]["State"]
            if time.monotonic() > deadline or state["Status"] == "exited":
                raise NoContainers(self.run("logs", "--tail", "30", container, check=False))
            time.sleep(2)

    def _is_healthy(self, container: str) -> bool:
        if self.command == "podman":
            done = subprocess.run(["podman", "healthcheck", "run", container], capture_output=True, env=self._all())
            return done.returncode == 0
        return self.run("inspect", "--format", "{{.State.Health.Status}}", container).strip() == "healthy"

    def _run(self, command: list[str], check: bool, timeout: float) -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=self._all(), timeout=timeout)
        if check and done.returncode:
            raise NoContainers(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout + ("" if check else done.stderr)

    def _all(self) -> dict[str, str]:
        return {**os.environ, **self.environment}


def find_containers(scratch: Path) -> Containers:
    """Return the container engine of this machine.

    Raises:
        NoContainers: If there is no engine with a compose command.
    """
    reasons = []
    for command, compose in (("docker", ["docker", "compose"]), ("podman", ["podman-compose"])):
        containers = Containers(command, compose)
        if shutil.which(command) is None or shutil.which(compose[0]) is None:
            reasons.append(f"{command}: not installed")
            continue
        if command == "podman":
            containers.environment = {"BUILDAH_FORMAT": "docker", "CONTAINERS_CONF": str(_configured(scratch))}
        try:
            containers.run("ps", timeout=60)
            return containers
        except (NoContainers, subprocess.TimeoutExpired) as error:
            reasons.append(f"{command}: {str(error).splitlines()[-1]}")
    raise NoContainers("; ".join(reasons))


def _configured(scratch: Path) -> Path:
    """Write a configuration of podman for machines with fixed limits, or with cgroups v1."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    lines = ["[containers]", f'default_ulimits = ["nofile={files}:{files}", "nproc=32768:32768"]']
    lines += ["[network]", 'network_backend = "netavark"', "[engine]", 'cgroup_manager = "cgroupfs"']
    lines += ['events_logger = "file"', *(['runtime = "runc"'] if shutil.which("runc") else [])]
    file = scratch / "containers.conf"
    file.write_text("\n".join(lines) + "\n")
    return file


def python_image(containers: Containers, official: str) -> str:
    """Return the name of the official image python:X.Y-slim, or of an equivalent image.

    The equivalent image is built from Debian packages and this machine's Python of the same version (pyenv).

    Raises:
        NoContainers: If neither is possible.
    """
    version = re.findall(r"python:(\d+\.\d+)-slim", official)[0]
    own = f"localhost/python:{version}-local"
    if existing := next(filter(containers.has, (official, own)), None):
        return existing
    homes = sorted(Path.home().glob(f".pyenv/versions/{version}.*"))
    if not homes:
        raise NoContainers(f"{official} cannot be pulled, and pyenv has no Python {version}")
    with tempfile.TemporaryDirectory(dir=cache_folder()) as made:
        root = _debian(Path(made) / "root")
        for name in ("bin", "lib"):
            shutil.copytree(homes[-1] / name, root / "usr/local" / name, symlinks=True, dirs_exist_ok=True)
        library = root / f"usr/local/lib/python{version}"
        for unwanted in [*library.glob("config-*"), *library.rglob("test"), *library.rglob("tests")]:
            shutil.rmtree(unwanted, ignore_errors=True)
        for unwanted in [*library.rglob("*.pyc"), *library.rglob("*.a"), *library.glob("site-packages/*.pth")]:
            unwanted.unlink(missing_ok=True)
        subprocess.run(["strip", "--strip-unneeded", *map(str, (root / "usr/local/lib").rglob("*.so*"))], check=False)
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc/ssl/certs/ca-certificates.crt")
        subprocess.run(["chroot", str(root), "ldconfig"], check=True)
        certificates = "ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt"
        return _imported(containers, root, own, certificates)


def opensearch_image(containers: Containers, official: str) -> str:
    """Return the name of the official OpenSearch image, or of an image built from Maven artefacts and a Java."""
    newest = release()
    own = f"localhost/opensearch:{newest.version}-local"
    if existing := next(filter(containers.has, (official, own)), None):
        return existing
    with locked(cache_folder()):
        java = find_java(newest)
        home = assemble(cache_folder(), newest)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as made:
        root = _debian(Path(made) / "root")
        there = root / "usr/share/opensearch"
        shutil.copytree(home, there, symlinks=True)
        shutil.copytree(java.home, root / "opt/java", symlinks=True, ignore=shutil.ignore_patterns("jmods", "src.zip"))
        (there / "data").mkdir()
        (there / "opensearch-docker-entrypoint.sh").write_text(_ENTRYPOINT)
        (there / "opensearch-docker-entrypoint.sh").chmod(0o755)
        for path in (there, *(there / name for name in ("data", "logs", "config")), *there.glob("config/*")):
            os.chown(path, 1000, 1000)
        changes = ["ENV OPENSEARCH_JAVA_HOME=/opt/java", "USER 1000", "WORKDIR /usr/share/opensearch"]
        entry = 'ENTRYPOINT ["/usr/share/opensearch/opensearch-docker-entrypoint.sh"]'
        return _imported(containers, root, own, *changes, entry)


def _debian(root: Path) -> Path:
    """Install a minimal Debian in a folder, with the libraries that Python needs."""
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise NoContainers("no registry of images answers, and there is no debootstrap, or nobody who may use it")
    archive = cache_folder() / "debian.tar"
    if not archive.exists():
        command = ["debootstrap", "--variant=minbase", f"--include={_LIBRARIES}", "bookworm", str(root)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise NoContainers(f"debootstrap: {done.stdout[-500:]}")
        for unwanted in ("var/cache/apt", "var/lib/apt/lists"):
            shutil.rmtree(root / unwanted)
        subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
        return root
    root.mkdir()
    subprocess.run(["tar", "-C", str(root), "-xf", str(archive)], check=True)
    return root


def _imported(containers: Containers, root: Path, name: str, *changes: str) -> str:
    """Create an image from a folder."""
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        archive = Path(folder) / "root.tar"
        subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
        containers.run("import", *(f"--change={change}" for change in changes), str(archive), name)
    return name
