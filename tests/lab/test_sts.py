"""Semantic textual similarity: averages over tasks and files, intervals and significance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from evaluation_fixtures import loaded, run

from resift_lab.evaluation.sts import StsTask, correlations, intervals, p_values

pytestmark = pytest.mark.usefixtures("here")


def test_sts_averages(here: Path, pairs: str, folder: str) -> None:
    (here / "plain.tsv").write_text("score\tsentence2\tsentence1\n5\tfire\tfire\n0\tfire\tgun\n4\tarmy\tsoldier\n")
    report = loaded("sts", pairs, "plain.tsv", "--vectors", folder)
    assert set(report["files"]) == {"own", "plain"}
    assert set(report["tasks"]) == {"own/a", "own/b", "plain/plain"}
    assert report["pairs"] == 43
    tasks = report["tasks"].values()
    weights = [task["pairs"] for task in tasks]
    assert report["spearman"] == pytest.approx(np.average([task["spearman"] for task in tasks], weights=weights))
    files = report["files"].values()
    weights = [file["pairs"] for file in files]
    assert report["spearman_all"] == pytest.approx(np.average([f["spearman_all"] for f in files], weights=weights))
    plain = report["files"]["plain"]
    assert plain["spearman"] == plain["spearman_all"]
    low, high = report["intervals"]["spearman"]
    assert low <= report["spearman"] <= high
    table = run("sts", pairs, "plain.tsv", "--vectors", folder)
    assert "own/a" in table


def test_tasks_with_a_single_pair_have_no_correlation() -> None:
    tasks = [StsTask("f", "one", np.array([0.5]), np.array([1.0])), StsTask("f", "two", np.arange(9.0), np.arange(9.0))]
    found = correlations(tasks)
    assert found["spearman"] == pytest.approx(1)
    assert found["pairs"] == 10
    assert found["tasks"]["f/one"]["spearman"] is None
    assert intervals(tasks, 0)["pearson"] == pytest.approx((1, 1))


def test_significance_of_correlations() -> None:
    rng = np.random.default_rng(0)
    gold = rng.random(200)
    good, poor = gold + 0.1 * rng.random(200), gold + 5 * rng.random(200)
    first, second = [StsTask("f", "t", good, gold)], [StsTask("f", "t", poor, gold)]
    assert p_values(first, second, 0)["spearman"] < 0.01
    assert p_values(first, first, 0) == {"spearman": 1, "pearson": 1}
    rescaled = [StsTask("f", "t", 3 * good - 7, gold)]
    assert p_values(first, rescaled, 0) == {"spearman": 1, "pearson": 1}


def test_unusable_pairs_are_refused(here: Path, pairs: str, folder: str) -> None:
    (here / "one.tsv").write_text("score\tsentence1\tsentence2\n1\ta\tb\n")
    assert "no task has two pairs" in run("sts", "one.tsv", "--vectors", folder, status=2)
    assert "two files of the same name" in run("sts", pairs, pairs, "--vectors", folder, status=2)
    assert "missing.tsv cannot be read" in run("sts", "missing.tsv", "--vectors", folder, status=2)
