"""benchmarks/pairs_settings.py chooses a setting on all collections but one."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def pairs_settings(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module benchmarks/pairs_settings.py."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("pairs_settings")


def figures(module: Any, sts: float, cranfield: float, others: float) -> dict[str, Any]:
    """Return the figures of a training: its mean of STS, and nDCG beside BM25 on Cranfield and on the others."""
    beside = dict.fromkeys(module.COLLECTIONS, others) | {"cranfield": cranfield}
    return {"sts": sts, "alone": beside, "beside": beside}


def choices(module: Any, output: str) -> dict[str, list[str]]:
    """Return the cells of each row that starts with a collection."""
    lines = [line.split() for line in output.splitlines()]
    return {cells[0]: cells[1:] for cells in lines if cells and cells[0] in module.COLLECTIONS}


def test_a_left_out_collection_has_no_part_in_its_choice(
    pairs_settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The setting "lucky" gains 20 points on Cranfield alone, and "better" gains 1 point on all others."""
    candidates = {
        "first": figures(pairs_settings, 70, 50, 50),
        "lucky": figures(pairs_settings, 70, 70, 50),
        "better": figures(pairs_settings, 70, 49, 51),
    }
    seeds = [figures(pairs_settings, 70, 50, value) for value in (49.5, 50.5)]
    pairs_settings.print_choices(candidates, seeds)
    rows = choices(pairs_settings, capsys.readouterr().out)
    assert rows["cranfield"] == ["better", "1.00", "-1.00", "1.00"]
    assert rows["cisi"] == ["lucky", "4.00", "0.00", "0.80"]


def test_settings_that_lose_on_sts_are_left_out(pairs_settings: Any) -> None:
    candidates = {name: figures(pairs_settings, sts, 50, 50) for name, sts in (("first", 70), ("a", 69.9), ("b", 70.1))}
    assert list(pairs_settings.without_losses(candidates)) == ["first", "b"]


def test_the_mean_of_several_seeds(pairs_settings: Any) -> None:
    mean = pairs_settings.average([figures(pairs_settings, 70, 40, 50), figures(pairs_settings, 72, 44, 51)])
    assert mean == figures(pairs_settings, 71, 42, 50.5)
