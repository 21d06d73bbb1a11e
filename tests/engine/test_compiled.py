"""Compiled loops: numpy works while another process compiles, and nothing compiles where somebody waits."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from resift.vectors import compiled
from resift.vectors.compiled import CompiledModule, build

LOOPS = """
from resift.vectors.compiled import compiled

@compiled
def double(number):
    return 2 * number

def compile_all():
    double(1)
"""
BROKEN = LOOPS.replace("double(1)", "raise RuntimeError")
UNCACHED = "from numba import njit\n\n@njit\ndef double(number):\n    return 2 * number\n"
ENCODES = """
import sys
import numpy as np
from resift import Model, WordVectors
from resift.encoders import kernels as pooling
from resift.lab.vectors.tables import quantized
from resift.vectors import compiled, kernels as lookup

compiled.MIN_CHARACTERS = 0
exact = WordVectors(["fire", "a" * 20], np.ones((2, 3)))
small = quantized(exact)
for table in (exact, small, WordVectors.load(small.save(sys.argv[1]))):
    for options in (("mean", "cosine"), ("max", "jaccard"), ("mean", "cosine", np.arange(1, 7), None, 2)):
        encoded = Model("m", table, *options).encode(["Fire é", "a" * 20 + " b"])
        assert encoded.any(axis=1).all()
functions = {**vars(lookup), **vars(pooling)}
loops = {name: function.stats for name, function in functions.items() if hasattr(function, "stats")}
for name in ("_ids", "_fill", "pool_mean", "pool_max"):
    assert loops[name].cache_hits, name
for name, stats in loops.items():
    assert not stats.cache_misses, (name, stats)
"""


def written(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of this source that can be imported, in other processes too; its name."""
    name = f"loops_{folder.name.replace('-', '_')}"
    (folder / f"{name}.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(str(folder))
    return name


def wait_for_builds() -> None:
    """Until no process compiles."""
    for thread in threading.enumerate():
        if thread.name.startswith("compiling"):
            thread.join()


def test_another_process_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = CompiledModule(written(tmp_path, LOOPS, monkeypatch))
    assert module.load() is None
    wait_for_builds()
    loops = module.load()
    assert loops.double(2) == 4
    assert not loops.double.stats.cache_misses  # it came from the disk
    assert module.for_texts(["a" * compiled.MIN_CHARACTERS]) is loops
    assert module.for_texts(["a"]) is None
    assert CompiledModule(module.name).load() is loops


def test_a_changed_source_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = written(tmp_path, LOOPS, monkeypatch)
    assert build(name)
    assert build(name)
    (tmp_path / f"{name}.py").write_text(LOOPS + "\n", "utf-8")
    assert CompiledModule(name).load() is None
    wait_for_builds()


def test_a_failure_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = CompiledModule(written(tmp_path, BROKEN, monkeypatch))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert module.load() is None
            wait_for_builds()
    assert len(caplog.records) == 1
    assert "python -m resift.encoders" in caplog.text


def test_without_a_folder_for_the_code_numpy_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_build_elsewhere", None)
    name = written(tmp_path, UNCACHED, monkeypatch)
    assert CompiledModule(name).load() is None
    assert not build(name)


def test_without_numba_numpy_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert CompiledModule(written(tmp_path, LOOPS, monkeypatch)).load() is None


def test_everything_that_models_call_is_compiled_beforehand(tmp_path: Path) -> None:
    """After ``python -m resift.encoders`` a model of any table and pool finds all its loops on disk."""
    for command in (["-m", "resift.encoders"], ["-c", ENCODES, str(tmp_path / "table")]):
        subprocess.run([sys.executable, *command], check=True)
