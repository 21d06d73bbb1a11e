"""Tests of the list of mutants that no test can notice."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_each_equivalent_mutant_is_a_mutant_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from equivalent_mutants import EQUIVALENT
    from mutations import Finder

    for path in {path for path, _ in EQUIVALENT}:
        source = (ROOT / path).read_bytes()
        changed_lines = {mutant.changed_line(source) for mutant in Finder(path, source).mutants}
        stale = {line for key_path, line in EQUIVALENT if key_path == path} - changed_lines
        assert not stale, f"{path}: rename or remove these lines in benchmarks/equivalent_mutants.py"
