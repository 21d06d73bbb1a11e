"""The structure of the code: rooms, imports between them, and the contents of the wheel."""

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
PACKAGES = [ROOT / "resift", ROOT / "resift_lab"]
MODULES = "modules"  # the modules directly in resift/
# A room may import the rooms that come before it in this list.
ROOMS = [
    MODULES,
    "vectors",
    "encoders",
    "feedback",
    "query",
    "contracts",
    "rewriting",
    "sessions",
    "reviews",
    "ingest",
    "plugin",
    "embedded",
    "service",
    "reranker",
]
MAY_IMPORT = {room: set(ROOMS[:place]) for place, room in enumerate(ROOMS)}
MAY_IMPORT["integrations"] = {*ROOMS, "library"} - {"reranker"}
# These join the rooms and may import all of them.
FACES = {"cli", "library", "__init__", "__main__"}
ONLY_IN = {
    "torch": "resift_lab/training",
    "sentence_transformers": "resift_lab/training",
    "flask": "resift/reranker",
    "opensearchpy": "resift/plugin",
    **dict.fromkeys(("haystack", "langchain_core", "llama_index", "mcp", "pydantic"), "resift/integrations"),
}
# The installed setuptools builds the wheel, because an isolated build would need a network.
BUILD = "from setuptools import build_meta; build_meta.build_wheel('dist')"
PATHS = sorted(path for package in PACKAGES for path in package.rglob("*.py"))


def module_name(path: Path) -> str:
    """Return the name by which a file is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {module_name(path): path for path in PATHS}
PRODUCT = {name: path for name, path in NAMES.items() if name.split(".")[0] == "resift"}


def room_of(module: str) -> str:
    """Return the room of a module of ``resift``."""
    parts = module.split(".")[1:]
    if not parts:
        return "__init__"
    if parts[0] in MAY_IMPORT or parts[0] in FACES:
        return parts[0]
    return MODULES if len(parts) == 1 else parts[0]


@cache
def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, anywhere in its code.

    ``from package import module`` counts as ``package.module``.
    """
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                names.add(inner if inner in NAMES or module not in NAMES else module)
    return names


def is_inside(name: str, package: str) -> bool:
    """Return whether a module is a package or is part of it."""
    return name == package or name.startswith(f"{package}.")


def test_a_package_imports_only_lower_packages() -> None:
    wrong = {}
    for name, path in PRODUCT.items():
        room = room_of(name)
        if room not in FACES:
            wrong[name] = {room_of(used) for used in imports(path) & PRODUCT.keys()} - {room, *MAY_IMPORT[room]}
    assert {name: rooms for name, rooms in wrong.items() if rooms} == {}


def test_the_product_does_not_import_the_laboratory() -> None:
    wrong = [(name, used) for name, path in PRODUCT.items() for used in imports(path) if is_inside(used, "resift_lab")]
    assert wrong == []


def test_the_laboratory_imports_public_names_only() -> None:
    private = []
    for path in sorted((ROOT / "resift_lab").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and is_inside(node.module or "", "resift"):
                private += [(path.name, alias.name) for alias in node.names if alias.name.startswith("_")]
    assert private == []


# Modules that do I/O, or know who does. Rewriting must not depend on them.
DOES_IO = {
    *(f"resift.{room}" for room in ("sessions", "reviews", "ingest", "plugin", "embedded", "service", "reranker")),
    *("resift.contracts.engine", "resift.contracts.session_store", "resift.contracts.ubi"),
    *("resift.encoders", "resift.files", "resift.client", "resift.library", "resift.cli", "resift_lab"),
    *("opensearchpy", "sqlite3", "flask", "http", "urllib", "urllib3", "socket", "requests", "asyncio", "subprocess"),
    *("threading", "time", "tempfile", "os", "shutil", "logging"),
}


def imported_by(name: str) -> dict[str, str]:
    """Return every module that a module needs, directly or through another module, and the module that imports it.

    The package ``resift`` itself is left out: it offers the names of the library, and imports them when they are used.
    """
    importers = {name: ""}
    pending = [name]
    while pending:
        importer = pending.pop()
        for used in imports(NAMES[importer]) - importers.keys() - {"resift"}:
            importers[used] = importer
            if used in NAMES:
                pending.append(used)
    return importers


@pytest.mark.parametrize("name", [name for name in NAMES if is_inside(name, "resift.rewriting")])
def test_rewriting_imports_nothing_that_does_io(name: str) -> None:
    importers = imported_by(name)
    assert {used: by for used, by in importers.items() if any(is_inside(used, module) for module in DOES_IO)} == {}


def test_each_large_library_is_imported_by_a_single_package() -> None:
    wrong = [
        (path, name)
        for path in PATHS
        for library, home in ONLY_IN.items()
        if not path.relative_to(ROOT).as_posix().startswith(f"{home}/")
        for name in imports(path)
        if is_inside(name, library)
    ]
    assert wrong == []


def test_there_are_no_import_cycles() -> None:
    graph = {name: (imports(path) & NAMES.keys()) - {name} for name, path in NAMES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_sql_placeholders_are_not_numbered() -> None:
    """Python 3.14 rejects a sequence of values for numbered placeholders."""
    embedded = ROOT / "resift" / "embedded"
    numbered = [path.name for path in embedded.glob("*.py") if re.search(r"\?\d", path.read_text("utf-8"))]
    assert numbered == []


def test_serving_does_not_import_training_libraries() -> None:
    heavy = {"torch", "transformers", "sentence_transformers"}
    code = f"import sys, resift.cli.main, resift.reranker; print({heavy} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_the_wheel_is_complete_small_and_reproducible(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for package in PACKAGES:
        shutil.copytree(package, tmp_path / package.name, ignore=ignored, copy_function=shutil.copyfile)
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "dist").mkdir()
    umask = {"umask": 0o077} if os.name == "posix" else {}
    subprocess.run([sys.executable, "-c", BUILD], cwd=tmp_path, check=True, capture_output=True, **umask)
    command = [sys.executable, str(ROOT / ".ci" / "pack.py"), "dist"]
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.stat().st_size <= 16_000_000
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        entries = archive.infolist()
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in package.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and ROOT / "resift" / "plugin" / "native" not in path.parents
    }
    assert files == {entry.filename for entry in entries if not entry.filename.startswith("resift-")}
    # Neither the time of the build nor the builder's file modes are part of the wheel.
    assert {(entry.date_time, entry.external_attr >> 16) for entry in entries} == {
        ((2023, 11, 14, 22, 13, 20), 0o100644)
    }


@pytest.mark.parametrize("name", ["plugin", "ingest", "reranker"])
def test_folders_at_the_top_are_links_into_the_package(name: str) -> None:
    # In a checkout without symbolic links, the file contains the target of the link.
    link = ROOT / name
    target = ROOT / "resift" / name
    assert link.resolve() == target if link.is_symlink() else link.read_text("utf-8") == f"resift/{name}"


def test_changelog_and_citation_name_this_version() -> None:
    from resift import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_the_plugin_for_opensearch_has_the_same_version() -> None:
    from resift import __version__

    assert f"<version>{__version__}</version>" in (ROOT / "resift/plugin/native/pom.xml").read_text("utf-8")


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "docs/architecture.svg"])
def test_documents_name_existing_modules(document: str) -> None:
    paths = set(re.findall(r"\b(?:[a-z]\w*/)+(?:\w+\.py)?", (ROOT / document).read_text("utf-8")))
    named = {path for path in paths if path.startswith(("resift/", "resift_lab/", *MAY_IMPORT))}
    assert named
    assert not {path for path in named if not ((ROOT / path).exists() or (ROOT / "resift" / path).exists())}
