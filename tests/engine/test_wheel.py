"""The wheel that goes to PyPI: small, and the same bytes wherever and whenever it is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_BYTES = 12_000_000
BUILD = "from setuptools import build_meta; build_meta.build_wheel('dist')"


@pytest.mark.skipif(os.name != "posix", reason="there is no umask")
def test_the_wheel_is_small_and_tells_nothing_of_who_built_it(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "resift", tmp_path / "resift", ignore=ignored, copy_function=shutil.copyfile)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "dist").mkdir()
    subprocess.run([sys.executable, "-c", BUILD], cwd=tmp_path, check=True, capture_output=True, umask=0o077)
    command = [sys.executable, str(ROOT / ".ci" / "pack.py"), "dist"]
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    (path,) = (tmp_path / "dist").glob("*.whl")
    assert path.stat().st_size <= MOST_BYTES
    with zipfile.ZipFile(path) as wheel:
        assert wheel.testzip() is None
        files = wheel.infolist()
    names = [file.filename for file in files]
    assert {"resift/py.typed", "resift/data/resift-en/vectors.npy", "resift/reranker/openapi.json"} <= set(names)
    assert [name for name in names if not name.startswith(("resift/", "resift-"))] == []
    assert {(file.date_time, file.external_attr >> 16) for file in files} == {((2023, 11, 14, 22, 13, 20), 0o100644)}
