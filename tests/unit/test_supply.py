"""Where Resift's parts come from: locks with hashes that agree with pyproject.toml, and images by digest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = sorted(path.name for path in ROOT.glob("requirements*.lock"))
DIGEST = re.compile(r"\S+:[\w.-]+@sha256:[0-9a-f]{64}\b")


def locked_requirements(lock: str) -> list[str]:
    """Return the requirements of a lock file with their hashes, each as a line."""
    lines = [line for line in (ROOT / lock).read_text("utf-8").splitlines() if not line.startswith("#")]
    return "\n".join(lines).replace("\\\n", "").splitlines()


def locked_versions(lock: str) -> dict[str, set[str]]:
    """Return the versions of each package in a lock file. A package has several if they depend on Python's version."""
    versions: dict[str, set[str]] = {}
    for block in locked_requirements(lock):
        (pin,) = (requirement := Requirement(block.split(" --hash")[0])).specifier
        versions.setdefault(canonicalize_name(requirement.name), set()).add(pin.version)
    return versions


def project_settings() -> dict[str, Any]:
    """Return the content of pyproject.toml."""
    tomllib = pytest.importorskip("tomllib")
    content: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return content


@pytest.mark.parametrize("lock", LOCKS)
def test_each_locked_file_has_a_hash(lock: str) -> None:
    for block in locked_requirements(lock):
        assert re.fullmatch(r"[\w.-]+==[\w.+!-]+( ; [^#]*?)?( +--hash=sha256:[0-9a-f]{64})+", block), block


def test_the_locks_agree_with_each_other() -> None:
    everything = locked_versions("requirements.lock")
    assert len(LOCKS) == 4
    for lock in LOCKS:
        assert {
            name for name, versions in locked_versions(lock).items() if not versions <= everything.get(name, versions)
        } == set()
    assert set(locked_versions("requirements-core.lock")) < set(everything)


@pytest.mark.parametrize(
    ("lock", "extras", "groups"),
    [
        ("requirements.lock", None, ["build"]),
        ("requirements-core.lock", [], ["build"]),
        ("requirements-review.lock", ["review"], ["build"]),
        ("requirements-release.lock", [], ["build", "release"]),
    ],
)
def test_a_lock_contains_the_required_packages(lock: str, extras: list[str] | None, groups: list[str]) -> None:
    content, pins = project_settings(), locked_versions(lock)
    optional = content["project"]["optional-dependencies"]
    required = [requirement for group in groups for requirement in content["dependency-groups"][group]]
    required += [requirement for extra in (optional if extras is None else extras) for requirement in optional[extra]]
    if "release" not in groups:
        required += content["project"]["dependencies"]
    for requirement in map(Requirement, required):
        versions = pins.get(canonicalize_name(requirement.name), set())
        assert requirement.name == "resift" or versions, f"{requirement} is not in {lock}: make lock"
        assert all(requirement.specifier.contains(version, prereleases=True) for version in versions), (
            str(requirement),
            versions,
        )


@pytest.mark.parametrize("name", ["Dockerfile", "Makefile"])
def test_pip_installs_locked_packages_only(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    calls = re.findall(r"^(?!PIP :=).*?(?:pip install|\$\(PIP\)) (.*)$", text, re.MULTILINE)
    assert len(calls) > 1
    for call in calls:
        assert "--require-hashes -r" in call or {"--no-deps", "--no-build-isolation"} <= set(call.split()), call


def test_images_are_named_by_digest() -> None:
    # others of the Dockerfile are its own stages
    texts = [(ROOT / name).read_text("utf-8") for name in ("Dockerfile", "deploy/opensearch/Dockerfile")]
    images = [image for text in texts for image in re.findall(r"^FROM (\S+[:@]\S+)", text, re.MULTILINE)]
    images += re.findall(r"^ *image: (.*)$", (ROOT / "docker-compose.yml").read_text("utf-8"), re.MULTILINE)
    assert len(images) == 2
    for image in images:
        assert DIGEST.search(image), image


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_package_index(lock: str) -> None:
    """Whoever installs has an index of their own, by pip's configuration."""
    assert not re.search(r"https?:|--(extra-)?index-url|--find-links", (ROOT / lock).read_text("utf-8"))
