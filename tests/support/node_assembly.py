"""Assemble OpenSearch with the plugins that Resift uses from Maven artefacts, for node.py."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node_releases import Artefact, Module, NodeUnavailable, Release

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>resift</groupId><artifactId>node</artifactId><version>1</version><packaging>pom</packaging>
<build><plugins><plugin><artifactId>maven-dependency-plugin</artifactId><version>3.8.1</version>
<configuration><artifactItems>{items}</artifactItems></configuration></plugin></plugins></build></project>"""
ITEM = """<artifactItem><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
<type>{}</type></artifactItem>"""

_JAVA_17 = 61  # version number of class files for Java 17
# Options of Java for a program that ends soon: compile only once, with few optimizations.
_SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class Java:
    """A Java runtime that the node's user can run.

    Attributes:
        home: Its folder.
        version: Its major version, such as 21.
        has_vector_module: Whether it has the module jdk.incubator.vector, which OpenSearch uses if it exists.
    """

    home: Path
    version: int
    has_vector_module: bool


def cache_folder() -> Path:
    """Return the folder for distributions and nodes: RESIFT_NODE_DIR, or a default. It is created if it does not exist.

    Root's default is in /var/tmp, because the node's user must be able to read it.

    Raises:
        NodeUnavailable: If the folder belongs to another user.
    """
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    default = Path("/var/tmp") if os.geteuid() == 0 else user_cache
    folder = Path(os.environ.get("RESIFT_NODE_DIR") or default / "resift-node").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise NodeUnavailable(f"{folder} is another user's: set RESIFT_NODE_DIR to a folder of your own")
    if os.geteuid() == 0:
        folder.chmod(0o755)
    return folder


@contextmanager
def locked(cache: Path) -> Iterator[None]:
    """Lock the cache folder, so that only one process at a time changes it."""
    cache.mkdir(exist_ok=True)
    with open(cache / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def node_user() -> dict[str, Any]:
    """Return arguments that let ``subprocess`` run a process as the node's user. They are only needed for root.

    Raises:
        NodeUnavailable: If the user does not exist.
    """
    if os.geteuid() != 0:
        return {}
    name = os.environ.get("RESIFT_NODE_USER") or "nobody"
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        message = f"OpenSearch refuses root and there is no user {name!r}: set RESIFT_NODE_USER"
        raise NodeUnavailable(message) from None
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def find_java(release: Release) -> Java:
    """Return the first complete Java runtime whose version the release supports.

    OPENSEARCH_JAVA_HOME, JAVA_HOME, the PATH and /usr/lib/jvm are searched, in this order.

    Raises:
        NodeUnavailable: If there is no such runtime.
    """
    for home in java_homes():
        java = _probe_java(home)
        if java is not None and java.version in release.java:
            return java
    oldest, newest = release.java[0], release.java[-1]
    raise NodeUnavailable(
        f"OpenSearch {release.version} needs Java >= {oldest}{f' and <= {newest}' if newest < 99 else ''}, complete "
        "(not a trimmed runtime) and where the node's user can run it; none was found: install a JDK, or set "
        "OPENSEARCH_JAVA_HOME to one"
    )


def assemble(cache: Path, release: Release) -> Path:
    """Return the folder of a release with its plugins. It is assembled if it is not in the cache folder.

    The distribution is assembled in a temporary folder, which is renamed at the end. The folder is therefore complete
    if it exists.

    Args:
        cache: The cache folder.
        release: The release.

    Raises:
        NodeUnavailable: If the artefacts cannot be fetched.
    """
    stamp = hashlib.sha256(repr(release).encode()).hexdigest()[:8]
    home = cache / f"opensearch-{release.version}-{stamp}"
    if home.exists():
        return home
    for interrupted in cache.glob("assembling-*"):
        shutil.rmtree(interrupted)
    with tempfile.TemporaryDirectory(prefix="assembling-", dir=cache) as scratch:
        artefacts = release.artefacts()
        copies = fetch(artefacts, Path(scratch), f"OpenSearch {release.version}")
        files = dict(zip(artefacts, copies, strict=True))
        shutil.unpack_archive(files[release.distribution], scratch)
        built = Path(scratch) / f"opensearch-{release.version}"
        _let_everyone_run(built)
        for module in release.modules:
            jars = [files[jar] for jar in release.jars(module)]
            if module.distribution is not None:
                jars += _unpack_module(files[module.distribution], module.name, Path(scratch))
            _add_module(built, release, module, jars)
        for archive in release.archives:
            _install_plugin(built, files[archive])
        _let_everyone_run(built)
        built.rename(home)
    return home


def with_plugin(cache: Path, home: Path, archive: Path) -> Path:
    """Return a copy of a distribution in which another plugin is installed.

    Args:
        cache: The folder for the copy, which consists of hard links.
        home: The distribution.
        archive: The plugin's archive. Its name identifies its contents.
    """
    extended = cache / f"{home.name}-{archive.stem}"
    if extended.exists():
        return extended
    with tempfile.TemporaryDirectory(prefix="assembling-", dir=cache) as scratch:
        copy = Path(scratch) / home.name
        shutil.copytree(home, copy, copy_function=os.link)
        _install_plugin(copy, archive)
        _let_everyone_run(copy)
        copy.rename(extended)
    return extended


def fetch(artefacts: Sequence[Artefact], folder: Path, name: str) -> list[Path]:
    """Copy Maven artefacts into a folder.

    Args:
        artefacts: Group, name, version and type of each artefact.
        folder: An existing folder for the copies.
        name: What the artefacts are, for the error message.

    Returns:
        The path of each copy, in the order of ``artefacts``.

    Raises:
        NodeUnavailable: If Maven is not installed, or cannot fetch the artefacts.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise NodeUnavailable(f"`mvn` is missing: install Maven, which fetches {name}")
    items = "".join(ITEM.format(*artefact) for artefact in artefacts)
    (folder / "pom.xml").write_text(POM.format(items=items))
    command = [maven, "-q", "-B", "-Dstyle.color=never", "dependency:copy", f"-DoutputDirectory={folder}"]
    run(command, f"Maven could not fetch {name}", cwd=folder, env=maven_environment())
    return [folder / f"{artefact}-{version}.{type}" for _, artefact, version, type in artefacts]


def maven_environment() -> dict[str, str]:
    """Return the environment variables for Maven. If MAVEN_OPTS is not set, Maven takes less CPU time than usual."""
    return {"MAVEN_OPTS": _SHORT, **os.environ}


def environment(home: Path, config: Path, java: Java) -> dict[str, str]:
    """Return the environment variables for the scripts of a distribution."""
    heap = os.environ.get("RESIFT_NODE_HEAP") or "1g"
    ignored = ("JAVA_OPTS", "JAVA_TOOL_OPTIONS")
    inherited = {name: value for name, value in os.environ.items() if name not in ignored}
    return inherited | {
        "OPENSEARCH_HOME": str(home),
        "OPENSEARCH_PATH_CONF": str(config),
        "OPENSEARCH_JAVA_HOME": str(java.home),
        "OPENSEARCH_JAVA_OPTS": f"-Xms{heap} -Xmx{heap}",
    }


def tail(text: str, lines: int = 25) -> str:
    """Return the last lines of a log without stack frames."""
    messages = [line for line in text.strip().splitlines() if not line.lstrip().startswith("at ")]
    return "\n".join(messages[-lines:])


def _unpack_module(archive: Path, name: str, folder: Path) -> list[Path]:
    """Unpack the jars of a module from the archive of another distribution, and return their paths."""
    with zipfile.ZipFile(archive) as distribution:
        jars = [path for path in distribution.namelist() if re.fullmatch(rf"[^/]+/modules/{name}/[^/]+\.jar", path)]
        unpacked = [Path(distribution.extract(path, folder)) for path in jars]
    for jar in unpacked:
        _lower_version(jar)
    return unpacked


def _lower_version(jar: Path) -> None:
    """Make Java 17 and older versions of OpenSearch load the classes in a jar.

    They would refuse classes for a later version, even if these use nothing that is new in it.
    """
    with zipfile.ZipFile(jar) as original:
        contents = {path: original.read(path) for path in original.namelist()}
    del contents["META-INF/MANIFEST.MF"]  # names the versions of Java and OpenSearch
    with zipfile.ZipFile(jar, "w") as changed:
        for path, content in contents.items():
            is_class = path.endswith(".class")
            changed.writestr(path, content[:6] + _JAVA_17.to_bytes(2, "big") + content[8:] if is_class else content)


def _add_module(home: Path, release: Release, module: Module, jars: list[Path]) -> None:
    """Add a module to the distribution, with the descriptor and the permissions that its archive would contain."""
    folder = home / "modules" / module.name
    folder.mkdir()
    for jar in jars:
        shutil.copy(jar, folder)
    descriptor = {
        "description": module.name,
        "version": release.version,
        "name": module.name,
        "classname": module.main,
        "java.version": release.java[0],
        "opensearch.version": release.version,
        "custom.foldername": "",
        "extended.plugins": module.extends,
        "has.native.controller": "false",
    }
    (folder / "plugin-descriptor.properties").write_text("".join(f"{key}={descriptor[key]}\n" for key in descriptor))
    if module.permissions:
        grants = "".join(f"  permission {permission};\n" for permission in module.permissions)
        (folder / "plugin-security.policy").write_text(f"grant {{\n{grants}}};\n")


def _install_plugin(home: Path, archive: Path) -> None:
    """Unpack the archive of a plugin as ``bin/opensearch-plugin install`` does.

    That program also compares the classes of all jars, which takes several seconds of CPU time. OpenSearch repeats this
    check at each start.
    """
    folder = home / "plugins" / ".unpacked"
    shutil.unpack_archive(archive, folder)
    descriptor = (folder / "plugin-descriptor.properties").read_text("utf-8")
    (name,) = re.findall(r"^name=(.+?)\s*$", descriptor, re.MULTILINE)
    for part in ("bin", "config"):
        if (folder / part).exists():
            (folder / part).rename(home / part / name)
    folder.rename(folder.with_name(name))


def run(command: list[str], failure: str, **options: Any) -> str:
    """Run a command, wait until it ends, and return its output.

    Args:
        command: The command and its arguments.
        failure: The start of the error message.
        options: Further arguments of ``subprocess.run``.

    Raises:
        NodeUnavailable: If the command fails. The message contains the end of its output.
    """
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise NodeUnavailable(f"{failure}:\n{tail(done.stdout + done.stderr)}")
    return done.stdout


def java_homes() -> Iterator[Path]:
    """Yield folders that may contain a Java, in the order in which they are tried."""
    for name in ("OPENSEARCH_JAVA_HOME", "JAVA_HOME"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    yield from sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)


def _probe_java(home: Path) -> Java | None:
    """Return the Java runtime in a folder. None if it is missing or incomplete, or if the node's user cannot run it."""
    command = [str(home / "bin/java"), "--list-modules"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=60, **node_user())
        complete = _has_thai_data(home)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    version = re.search(r"^java\.base@(\d+)", listed.stdout, re.MULTILINE)
    if version is None or not complete:
        return None
    return Java(home, int(version[1]), "jdk.incubator.vector" in listed.stdout)


def _has_thai_data(home: Path) -> bool:
    """Return whether Java can split Thai words. Reduced runtimes cannot, and OpenSearch then cannot create an index."""
    with (
        open(home / "lib/modules", "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image,
    ):
        return image.find(b"BreakIteratorData_th") >= 0


def _let_everyone_run(folder: Path) -> None:
    """Make all files readable and all programs executable for each user. Archives do not contain these permissions."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            runs = path.is_dir() or path.parent.name == "bin"
            path.chmod(0o755 if runs else 0o644)
