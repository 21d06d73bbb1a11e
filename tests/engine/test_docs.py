"""Tests of the documentation: links, commands, settings and error codes exist."""

from __future__ import annotations

import ast
import importlib.util
import json
import posixpath
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import click
import pytest

import resift.reranker.request_log as http_errors
from resift.cli.main import main
from resift.errors import ResiftError
from resift.plugin.opensearch.client import ClientSettings
from resift.reranker import Config
from resift.schema import fields_of

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *DOCS]
SHOWN = [page for page in PAGES if page.name != "CHANGELOG.md"]  # the changelog also names former commands and settings
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_VARIABLE = re.compile(r"\b(?:RESIFT|OPENSEARCH)_[A-Z_]*[A-Z]\b")
# variables of tests, benchmarks and `make node`
_OF_DEVELOPERS = re.compile(r"RESIFT_(DATA|ST|TEST_\w+|NODE_VERSION|REQUIRE_\w+)")


def by_page(pages: list[Path]) -> pytest.MarkDecorator:
    """Parametrize a test by pages, with their names as ids."""
    return pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    """Return a page without its code blocks."""
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text("utf-8")))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub creates them."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", _FENCE.sub("", page.read_text("utf-8")), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        number = sum(1 for one in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", one))
        found.add(f"{slug}-{number}" if number else slug)
    return found


@by_page(PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    for _, _, target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or file.suffix != ".md" or anchor in anchors(file), target


def test_links_of_the_website_lead_to_its_files() -> None:
    """The hook of MkDocs rewrites links, so that `make docs` builds without a warning."""
    pytest.importorskip("mkdocs")
    specification = importlib.util.spec_from_file_location("hook", ROOT / "docs" / "site.py")
    assert specification
    assert specification.loader
    hook = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hook)
    own = {path.relative_to(ROOT / "docs").as_posix(): path for path in (ROOT / "docs").rglob("*") if path.is_file()}
    files = {name: path for name, path in own.items() if name != "README.md"}
    files |= {name: ROOT / path for path, name in hook.OUTSIDE.items()}
    for name, path in files.items():
        if path.suffix == ".md":
            page = SimpleNamespace(file=SimpleNamespace(src_uri=name))
            for _, _, link in _LINK.findall(hook.on_page_markdown(_FENCE.sub("", path.read_text("utf-8")), page)):
                target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link.partition("#")[0]))
                assert "://" in link or link.startswith("#") or target in {*files, "options.md"}, (name, link)


@by_page(PAGES)
def test_pictures_are_described(page: Path) -> None:
    for picture, text, target in _LINK.findall(page.read_text("utf-8")):
        assert not picture or len(text.split()) > 5, f"{target}: {text!r} says too little"


def test_drawings_are_whole_and_described() -> None:
    for file in (ROOT / "docs").glob("*.svg"):
        drawing = ElementTree.parse(file).getroot()
        assert drawing.find("{http://www.w3.org/2000/svg}title") is not None, file


@by_page([page for page in DOCS if page.name != "README.md"])
def test_each_page_is_listed(page: Path) -> None:
    """Check that each page is in the list of its folder, and in the navigation of the website."""
    assert f"({page.name})" in (page.parent / "README.md").read_text("utf-8")
    path = page.relative_to(ROOT / "docs").as_posix()
    assert re.search(rf"[ :]{re.escape(path)}$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)


def test_the_readme_names_the_papers_on_its_first_screen() -> None:
    first = "\n".join((ROOT / "README.md").read_text("utf-8").splitlines()[:40])
    names = ("BoEW", "RO-BoEW", "RN-BoF", "word2doc", "EmBoost", "ConvRR", "SFBoW", "DynaMax", "docs/papers.md")
    assert [name for name in names if name not in first] == []


def test_the_readme_costs_what_the_plugins_page_says() -> None:
    measured = (ROOT / "resift" / "plugin" / "native" / "README.md").read_text("utf-8").partition("## Cost")[2]
    rows = {row[0]: row[1:] for row in (line.strip("| ").split(" | ") for line in measured.splitlines() if "|" in line)}
    names = {"our plugin": "plugin", "ML Commons": "`ml_inference`", "without a session": "no session"}
    costs = (ROOT / "README.md").read_text("utf-8").partition("## What it costs")[2].partition("\n\n## ")[0]
    shown = [line.strip("| ").split(" | ") for line in costs.splitlines() if line.startswith(("| our", "| ML"))]
    assert len(shown) == 4
    for name, *figures in shown:
        route, session = name.split(", ")
        row = rows[f"{names[route]}, {names.get(session, session)}"]
        assert figures == [figure.partition(" ")[0] for figure in row], name


def test_the_readme_gains_what_the_protocol_says() -> None:
    protocol = (ROOT / "docs" / "feedback.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ([25]) \| (.*) \|$", protocol, re.MULTILINE)
    measured = {(name, marks): [cell.partition(" ")[0] for cell in row.split(" | ")] for name, marks, row in rows}
    gains = (ROOT / "README.md").read_text("utf-8").partition("## What it gains")[2].partition("\n\n## ")[0]
    shown = {row[0]: row[1:] for line in gains.splitlines() if len(row := line.strip("| ").split(" | ")) > 1}
    names = {"a shop's products": "chorus"}
    # the rows below the headings, whose first cell is empty
    collections = [name for name, row in shown.items() if len(row) == 4]
    assert len(collections) == 8
    for name in collections:
        two, five = (measured[names.get(name, name.lower()), marks][2:4] for marks in ("2", "5"))
        assert shown[name] == [*two, *five], name


def command_lines(page: Path) -> Iterator[str]:
    """Yield the ``resift`` commands in a page, including those after a pipe or a variable."""
    text = page.read_text("utf-8")
    for _, _, block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r" \| | && | \|\| |\$\(", line):
                part = re.sub(r"^ *(docker compose exec (-T )?reranker )?([A-Z_]+=\S* )*", "", part)
                if re.match(r"resift( |$)", part):
                    yield re.split(r" #| < | > |  would|\)? ?&$", part)[0]
    for code in re.findall(r"`([A-Z_=…]* ?resift [a-z][^`\n]*)`", _FENCE.sub("", text)):
        code = re.sub(r"^[A-Z_]+=\S* ", "", code)
        yield f"{code} VALUE" if re.search(r" --[\w-]+$", code) else code  # in running text, options need no values


def command_lines_in_blocks(page: Path) -> list[str]:
    """Return the lines of code blocks that begin with ``resift``."""
    blocks = (block for _, language, block in _FENCE.findall(page.read_text("utf-8")) if language in ("", "sh"))
    return [line for block in blocks for line in block.splitlines() if line.startswith("resift ")]


def parsed(line: str) -> None:
    """Let Click parse a command line without running it. Raises click.ClickException if it is invalid."""
    words = shlex.split(line)[1:]
    command: click.Command = main
    context = click.Context(command, info_name="resift")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"no command {words[0]!r} in {line!r}")
        command, words, context = found, words[1:], click.Context(found, parent=context, info_name=words[0])
    values, _, _ = command.make_parser(context).parse_args(words)
    for parameter in command.params:
        for value in _listed(values.get(parameter.name or "")):
            if isinstance(parameter.type, click.Choice) and isinstance(value, str) and "|" not in value:
                parameter.type.convert(value, parameter, context)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


@by_page(SHOWN)
def test_commands_can_be_typed(page: Path) -> None:
    for line in command_lines(page):
        try:
            parsed(line)
        except (click.ClickException, ValueError) as error:
            pytest.fail(f"{line}: {getattr(error, 'message', error)}")


@by_page([page for page in SHOWN if page.parent in (ROOT, ROOT / "docs") and any(command_lines_in_blocks(page))])
def test_commands_are_run_by_a_test(page: Path) -> None:
    """Check that a test names the page, because it runs the page's commands."""
    tests = [file for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__)]
    name = re.compile(rf'["/]{re.escape(page.name)}\b')
    assert any(name.search(file.read_text("utf-8")) for file in tests)


def test_commands_of_the_papers_rows_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("paper_tables").tables()
    rows = [row for table in tables for row in table.rows]
    assert len(rows) > 150
    for row in rows:
        for command in filter(None, row.commands(0)):
            parsed(f"resift {command}")


def test_a_command_that_does_not_exist_is_noticed() -> None:
    for line in ("resift indx news.jsonl", "resift search news fire --sise 3", "resift keys create a --scopes"):
        with pytest.raises(click.ClickException):
            parsed(line)


@by_page(SHOWN)
def test_json_can_be_sent(page: Path) -> None:
    text = page.read_text("utf-8")
    bodies = [block for _, language, block in _FENCE.findall(text) if language == "json"]
    for _, _, block in _FENCE.findall(text):
        bodies += re.findall(r"(?:--json|-d|--data) +'((?:[^']|'\"\$\w+\"')*)'", block)
    for body in bodies:
        json.loads(re.sub(r"'\"\$\w+\"'", "[0]", body))


@by_page(SHOWN)
def test_python_is_python(page: Path) -> None:
    for _, language, block in _FENCE.findall(page.read_text("utf-8")):
        if language == "python":
            ast.parse(block)


def variables_of_the_code() -> set[str]:
    """Return the environment variables that Resift reads."""
    found = {f"RESIFT_{name.upper()}" for kind in (Config, ClientSettings) for name in fields_of(kind)}
    for file in [*ROOT.glob("resift/**/*.py"), *ROOT.glob("resift_lab/**/*.py")]:
        found |= set(_VARIABLE.findall(file.read_text("utf-8")))
    return found


def test_documented_settings_are_the_existing_settings() -> None:
    read = variables_of_the_code()
    shown = {name for page in SHOWN for name in _VARIABLE.findall(page.read_text("utf-8"))}
    assert read - shown == set(), "not documented"
    assert {name for name in shown - read if not _OF_DEVELOPERS.fullmatch(name)} == set(), "read by nothing"


def all_errors(kind: type[ResiftError] = ResiftError) -> Iterator[type[ResiftError]]:
    """Yield an error class and its subclasses."""
    yield kind
    for subclass in kind.__subclasses__():
        yield from all_errors(subclass)


def test_every_error_code_is_explained() -> None:
    text = (ROOT / "docs" / "codes.md").read_text("utf-8")
    codes = {error.code for error in all_errors() if error.__module__.startswith("resift")}
    assert codes - set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set()
    assert {code for code in http_errors._CODES.values() if f"`{code}`" not in text} == set()
