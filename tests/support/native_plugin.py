"""Build Resift's plugin for OpenSearch (``plugin/native``) with Maven.

    python tests/support/native_plugin.py [--version 3.6.0]

The command writes ``build/native/resift-VERSION.zip``, which ``bin/opensearch-plugin install`` accepts. It needs Maven
and a JDK: 21 or later for OpenSearch 3, 17 or later for OpenSearch 2. Archives are cached, so that Maven runs only
after a change of the source.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from node_assembly import cache_folder, java_homes, locked, maven_environment, run
from node_releases import NEWEST, NodeUnavailable

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "resift" / "plugin" / "native"
_UNIQUE = ("pom.xml", "src")  # everything that the archive depends on


def plugin_archive(version: str) -> Path:
    """Return the path of the plugin's archive for a version of OpenSearch. Build it first if it is not in the cache.

    Args:
        version: A version of OpenSearch, such as 3.6.0.

    Raises:
        NodeUnavailable: If Maven or a JDK is missing, or the build fails.
    """
    with locked(cache_folder() / "native"):
        archive = cache_folder() / "native" / f"resift-{version}-{_source_hash()}.zip"
        if not archive.exists():
            _build(version, archive)
        return archive


def _source_hash() -> str:
    """Return a hash of the source's paths and contents."""
    files = sorted(path for name in _UNIQUE for path in [SOURCE / name, *(SOURCE / name).rglob("*")] if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(SOURCE).as_posix()}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _build(version: str, archive: Path) -> None:
    """Compile, run the unit tests and pack the archive."""
    maven = shutil.which("mvn")
    if maven is None:
        raise NodeUnavailable("`mvn` is missing: install Maven, which builds the plugin")
    jdk = _find_jdk(17 if version.startswith("2.") else 21)
    with tempfile.TemporaryDirectory(prefix="native-") as folder:
        options = [f"-Dopensearch.version={version}", f"-Dbuild.folder={folder}", *_profile(version)]
        command = [maven, "-q", "-B", "-Dstyle.color=never", "-f", str(SOURCE / "pom.xml"), *options, "package"]
        run(command, "Maven could not build the plugin", env={**maven_environment(), "JAVA_HOME": str(jdk)})
        complete = archive.with_suffix(".new")
        shutil.copyfile(Path(folder) / f"resift-{version}.zip", complete)
        complete.rename(archive)


def _profile(version: str) -> list[str]:
    """Return the option that selects the profile of the POM for a version."""
    major, minor = (int(number) for number in version.split(".")[:2])
    if major < 3:
        return ["-Popensearch-2"]
    return ["-Popensearch-3.0"] if (major, minor) < (3, 3) else []


def _find_jdk(oldest: int) -> Path:
    """Return the folder of a JDK that is not older than a version of Java."""
    for home in java_homes():
        try:
            printed = subprocess.run(
                [home / "bin/javac", "-version"], capture_output=True, text=True, check=True
            ).stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        version = re.search(r"\d+", printed)
        if version and int(version[0]) >= oldest:
            return home
    raise NodeUnavailable(f"the plugin needs a JDK >= {oldest}: install one, or set JAVA_HOME to it")


def main(arguments: list[str] | None = None) -> int:
    """Build the archive, and copy it to ``build/native``."""
    parser = argparse.ArgumentParser(description="Build Resift's plugin for OpenSearch.")
    parser.add_argument("--version", default=NEWEST, help=f"version of OpenSearch (default: {NEWEST})")
    version = parser.parse_args(arguments).version
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        parser.error(f"{version!r} is not a version such as {NEWEST}")
    try:
        archive = plugin_archive(version)
    except NodeUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    copy = ROOT / "build" / "native" / f"resift-{version}.zip"
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(archive, copy)
    print(copy.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
