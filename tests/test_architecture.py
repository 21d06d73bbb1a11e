"""What the design promises of the code's structure: who imports whom, and what the wheel holds."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "resift": "resift",
    "plugin": "resift.plugin",
    "ingest": "resift.ingest",
    "reranker": "resift.reranker",
}
FORBIDDEN = {
    "resift": {"resift.plugin", "resift.ingest", "resift.reranker"},
    "plugin": {"resift.ingest", "resift.reranker"},
    "ingest": {"resift.reranker"},
    "reranker": {"resift.ingest"},
}
ONLY_IN = {
    "torch": "resift/training",
    "sentence_transformers": "resift/training",
    "flask": "reranker",
    "opensearchpy": "plugin",
}


def modules() -> list[Path]:
    """All modules of the product, each once."""
    found = [path for folder in ("plugin", "ingest", "reranker") for path in (ROOT / folder).rglob("*.py")]
    return sorted([*found, *own_files("resift", "*.py")])


def own_files(folder: str, pattern: str) -> list[Path]:
    """Files below a folder, those behind the symbolic links left out, which serve the type checkers."""
    found = (ROOT / folder).rglob(pattern)
    return [path for path in found if not any(parent.is_symlink() for parent in path.parents)]


def imports(path: Path) -> set[str]:
    """Every module name that a file imports, at any depth of its code."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def inside(name: str, package: str) -> bool:
    """Whether a module is a package or in it."""
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports(path: Path) -> None:
    place = path.relative_to(ROOT)
    names = imports(path)
    if place.parts[:2] != ("resift", "cli") and place.as_posix() != "resift/__main__.py":
        for package in FORBIDDEN[place.parts[0]]:
            assert not {name for name in names if inside(name, package)}
    for library, home in ONLY_IN.items():
        if not place.as_posix().startswith(f"{home}/"):
            assert not {name for name in names if inside(name, library)}


def test_serving_does_not_import_training_libraries() -> None:
    heavy = {"torch", "transformers", "sentence_transformers"}
    code = f"import sys, resift.cli.main, resift.reranker; print({heavy} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_the_wheel_holds_everything_and_is_small(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size <= 12 * 2**20
    held = set(zipfile.ZipFile(wheel).namelist())
    for folder, package in PACKAGES.items():
        files = own_files(folder, "*")
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts and not (ROOT / "resift" / file.name).is_symlink():
                inner = file.relative_to(ROOT / folder).as_posix()
                assert f"{package.replace('.', '/')}/{inner}" in held
    assert not {name for name in held if name.startswith(("plugin/", "ingest/", "reranker/", "tests/"))}


def test_every_version_is_in_the_changelog() -> None:
    from resift import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
