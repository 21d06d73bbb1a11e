"""Identifiers say what they hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Words that tell a reader nothing about the value (CONTRIBUTING.md, "Rules").
VAGUE = {
    "asked",
    "found",
    "given",
    "held",
    "kept",
    "made",
    "one",
    "others",
    "said",
    "those",
    "told",
    "wanted",
}


def identifiers(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each variable, argument, attribute, function and class that a module defines."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name


@pytest.mark.parametrize("package", ["resift", "resift_lab"])
def test_identifiers_are_not_vague(package: str) -> None:
    vague = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, name in identifiers(path)
        if name.strip("_").lower() in VAGUE
    ]
    assert vague == []
