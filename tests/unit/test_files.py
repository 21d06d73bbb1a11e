"""Tests of atomic and private file writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from resift.errors import BadInput
from resift.files import atomic_write, replace_private


def test_a_file_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")
    path.chmod(0o640)
    with atomic_write(path) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("cause", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("before", [["out"], []])
def test_an_interrupted_write_leaves_no_files(tmp_path: Path, cause: type[BaseException], before: list[str]) -> None:
    for name in before:
        (tmp_path / name).write_bytes(b"before")

    def fail() -> None:
        with atomic_write(tmp_path / "out") as file:
            file.write(b"half")
            raise cause

    with pytest.raises(cause):
        fail()
    assert os.listdir(tmp_path) == before
    assert [(tmp_path / name).read_bytes() for name in before] == [b"before"] * len(before)


def test_a_symbolic_link_is_preserved(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("out")
    replace_private(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out").read_text() == "text"
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600


def test_a_device_is_written_directly(tmp_path: Path) -> None:
    with atomic_write("/dev/null") as file:
        file.write(b"text")
    assert Path("/dev/null").is_char_device()


def test_a_file_name_may_have_the_maximum_length(tmp_path: Path) -> None:
    replace_private(tmp_path / ("é" * 127), "text")
    assert os.listdir(tmp_path) == ["é" * 127]


def test_a_missing_folder_raises_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be written"), atomic_write(tmp_path / "nowhere" / "out"):
        pass


def test_a_write_beyond_the_file_size_limit_leaves_the_previous_file(tmp_path: Path) -> None:
    code = (
        "import sys; from resift.files import atomic_write\n"
        "with atomic_write('x') as file: file.write(bytes(int(sys.argv[1])))"
    )

    def write(blocks: str, size: int) -> subprocess.CompletedProcess[str]:
        command = f'ulimit -f {blocks}; exec {sys.executable} -c "{code}" {size}'
        return subprocess.run(command, shell=True, cwd=tmp_path, text=True, capture_output=True)

    assert write("unlimited", 10).returncode == 0
    failed = write("64", 10_000_000)
    assert failed.returncode != 0
    assert "x cannot be written" in failed.stderr
    assert (tmp_path / "x").read_bytes() == bytes(10)
    assert os.listdir(tmp_path) == ["x"]
