"""What the design promises of the code's structure: rooms, who imports whom, sizes, and what the wheel holds."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "resift"
GROUND = "ground"  # the modules of resift/ itself, which every room stands on
ROOMS = [
    GROUND,
    "vectors",
    "encoders",
    "feedback",
    "query",
    "contracts",
    "sessions",
    "reviews",
    "rewriting",
    "ingest",
    "plugin",
    "embedded",
    "service",
    "reranker",
]
# a room may import all rooms that come before it in this list
MAY_IMPORT = {room: set(ROOMS[:place]) for place, room in enumerate(ROOMS)}
MAY_IMPORT["integrations"] = {*ROOMS, "library"} - {"reranker"}
JOINS_THE_PARTS = {"cli", "library", "__init__", "__main__"}
ONLY_IN = {
    "torch": "resift_lab/training",
    "sentence_transformers": "resift_lab/training",
    "flask": "resift/reranker",
    "opensearchpy": "resift/plugin",
    **dict.fromkeys(("haystack", "langchain_core", "llama_index", "mcp", "pydantic"), "resift/integrations"),
}
# by the setuptools at hand, as one that is fetched for the build would need a network
BUILD = "from setuptools import build_meta; build_meta.build_wheel('dist')"


PATHS = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    """The name that a file is imported by."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {module_name(path): path for path in PATHS}


def room_of(module: str) -> str:
    """The room that a module is in; the module's own name for those that stand in none."""
    parts = module.split(".")[1:]
    if not parts:
        return "__init__"
    if parts[0] in MAY_IMPORT or parts[0] in JOINS_THE_PARTS:
        return parts[0]
    return GROUND if len(parts) == 1 else parts[0]


@cache
def parsed(path: Path) -> list[ast.AST]:
    """All nodes of a module's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


@cache
def imports(path: Path) -> set[str]:
    """Every module that a file imports, at any depth of its code; of our own ones the most specific name."""
    names = set()
    for node in parsed(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                names.add(inner if inner in NAMES or module not in NAMES else module)
    return names


def inside(name: str, package: str) -> bool:
    """Whether a module is a package or in it."""
    return name == package or name.startswith(f"{package}.")


def test_a_room_imports_only_what_is_below_it() -> None:
    wrong = {}
    for name, path in NAMES.items():
        room = room_of(name)
        if room not in JOINS_THE_PARTS:
            wrong[name] = {room_of(used) for used in imports(path) & NAMES.keys()} - {room, *MAY_IMPORT[room]}
    assert {name: rooms for name, rooms in wrong.items() if rooms} == {}


def test_large_libraries_have_one_home() -> None:
    wrong = [
        (path, name)
        for path in PATHS
        for library, home in ONLY_IN.items()
        if not path.relative_to(ROOT).as_posix().startswith(f"{home}/")
        for name in imports(path)
        if inside(name, library)
    ]
    assert wrong == []


def test_there_are_no_circles() -> None:
    graph = {name: (imports(path) & NAMES.keys()) - {name} for name, path in NAMES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_placeholders_of_sql_have_no_numbers() -> None:
    """Python 3.14 takes no sequence of values for them."""
    numbered = [
        path.name for path in (PACKAGE / "embedded").glob("*.py") if re.search(r"\?\d", path.read_text("utf-8"))
    ]
    assert numbered == []


def test_serving_does_not_import_training_libraries() -> None:
    heavy = {"torch", "transformers", "sentence_transformers"}
    code = f"import sys, resift.cli.main, resift.reranker; print({heavy} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_the_wheel_holds_everything_is_small_and_tells_nothing_of_who_built_it(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(PACKAGE, tmp_path / "resift", ignore=ignored, copy_function=shutil.copyfile)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "dist").mkdir()
    own = {"umask": 0o077} if os.name == "posix" else {}
    subprocess.run([sys.executable, "-c", BUILD], cwd=tmp_path, check=True, capture_output=True, **own)
    command = [sys.executable, str(ROOT / ".ci" / "pack.py"), "dist"]
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.stat().st_size <= 12_000_000
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        held = archive.infolist()
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert {path.relative_to(ROOT).as_posix() for path in files} == {
        one.filename for one in held if not one.filename.startswith("resift-")
    }
    assert {(one.date_time, one.external_attr >> 16) for one in held} == {((2023, 11, 14, 22, 13, 20), 0o100644)}


@pytest.mark.parametrize("name", ["plugin", "ingest", "reranker"])
def test_names_at_the_top_lead_into_the_package(name: str) -> None:
    # a checkout without symbolic links has a file that holds the link's text
    link = ROOT / name
    assert link.resolve() == PACKAGE / name if link.is_symlink() else link.read_text("utf-8") == f"resift/{name}"


def test_every_version_is_in_the_changelog() -> None:
    from resift import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "docs/architecture.svg"])
def test_documents_name_modules_that_exist(document: str) -> None:
    named = set(re.findall(r"\b(?:[a-z]\w*/)+(?:\w+\.py)?", (ROOT / document).read_text("utf-8")))
    ours = {path for path in named if path.startswith(("resift/", *MAY_IMPORT))}
    assert ours
    assert not {path for path in ours if not ((ROOT / path).exists() or (ROOT / "resift" / path).exists())}
