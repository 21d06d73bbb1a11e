"""Folders of JSON, words and arrays: written whole or not at all, checked by hash, and read into memory.

What was read does not change under a running process, whatever becomes of the files: a memory-mapped file that somebody
shortens ends the process that looks at it (SIGBUS). Processes that are forked share what was read before.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput, CorruptModel, ModelNotFound

FORMAT = 1
_CHUNK = 2**20
_NUMBERS = "fiu"  # kinds of dtypes: floats, and integers with and without a sign
# what content of another shape than expected leads to where it is read and put together
_MISREAD = (OSError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)


def content_hash(info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]) -> str:
    """16 hexadecimal digits of SHA-256 over settings, words and array contents."""
    digest = hashlib.sha256(json.dumps(info, sort_keys=True).encode())
    digest.update("\n".join(words).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()[:16]


def write_folder(
    folder: str | Path, name: str, info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]
) -> Path:
    """Save JSON, words and arrays as one folder, swapped in whole so that a reader never meets half of it.

    ``name`` is the JSON file's; words go to ``words.txt``, each array to a file of its own; the folder's path is
    returned. A folder that holds such a JSON file is replaced. Raises BadInput if it contains other files only, if it
    cannot be written (an earlier one stays as it was), or if a word cannot be a line of a file.
    """
    for word in words:
        if "\n" in word or "\r" in word or not _is_unicode(word):
            raise BadInput(f"{word!r} cannot be a line of {folder}", value=word, expected="Unicode text of one line")
    with replacing_folder(folder, name) as fresh:
        _write_files(fresh, name, info, words, arrays)
    return Path(folder)


@contextmanager
def replacing_folder(folder: str | Path, name: str) -> Iterator[Path]:
    """An empty folder that takes the place of ``folder`` once the block has filled it.

    A folder that holds a file of this ``name`` is replaced. Raises BadInput if it contains other files only, or if it
    cannot be written (an earlier one stays as it was).
    """
    target = Path(folder)
    try:
        if target.exists() and not (target / name).exists() and any(target.iterdir()):
            expected = f"a new folder, or one with a {name}"
            raise BadInput(f"{target} contains other files", value=str(target), expected=expected)
        target.parent.mkdir(parents=True, exist_ok=True)
        # beside the target, because a folder can only be renamed within its file system
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            fresh.chmod(0o755)  # mkdtemp's is for its owner alone
            yield fresh
            _swap(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        expected = "a folder that can be written, on a disk with space left"
        raise BadInput(f"{target} cannot be written: {error}", value=str(target), expected=expected) from error


def _is_unicode(text: str) -> bool:
    return text.encode("utf-8", "replace").decode() == text


def _write_files(
    folder: Path, name: str, info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]
) -> None:
    settings = {key: value for key, value in info.items() if key not in ("format", "hash", "arrays")}
    saved = {**settings, "format": FORMAT, "hash": content_hash(settings, words, arrays), "arrays": sorted(arrays)}
    (folder / name).write_text(json.dumps(saved, indent=2, ensure_ascii=False) + "\n", "utf-8")
    (folder / "words.txt").write_text("\n".join(words), "utf-8", newline="\n")
    for stem, array in arrays.items():
        np.save(folder / f"{stem}.npy", array, allow_pickle=False)


def _swap(fresh: Path, target: Path) -> None:
    """Rename ``fresh`` to ``target``; an earlier folder of that name is then at ``fresh``, to be deleted."""
    if not target.exists():
        fresh.rename(target)
        return
    # The earlier folder is deleted only when the new one is in its place: deleting takes time, and a process that is
    # killed meanwhile would leave neither of them.
    aside = fresh.with_name(f"{fresh.name}-old")
    target.rename(aside)
    try:
        fresh.rename(target)
    except OSError:
        aside.rename(target)
        raise
    aside.rename(fresh)


@contextmanager
def corrupt_model_errors(folder: str | Path) -> Iterator[None]:
    """Raise CorruptModel, which names ``folder`` and what is wrong, where its content cannot be put together."""
    try:
        yield
    except (ModelNotFound, CorruptModel):
        raise
    except BadInput as error:
        raise CorruptModel(f"{folder}: {error.message}", value=str(folder), expected=error.expected) from error
    except KeyError as error:
        raise CorruptModel(f"{folder} lacks {error}", value=str(folder), expected="what Resift saved") from error
    except _MISREAD as error:
        message = f"{folder} cannot be read: {error or type(error).__name__}"
        raise CorruptModel(message, value=str(folder), expected="what Resift saved") from error


def read_folder(folder: str | Path, name: str) -> tuple[dict[str, Any], list[str], dict[str, NDArray[Any]]]:
    """What :func:`write_folder` saved, its hash checked: (JSON without hash and format, words, arrays by name).

    The arrays are read-only, and hold finite numbers. Raises ModelNotFound if there is no such folder, and CorruptModel
    if it cannot be read, was changed since, or has another format.
    """
    path = Path(folder)
    if not (path / name).is_file():
        raise ModelNotFound(f"no {name} in {path}", value=str(path), expected="a folder that Resift saved")
    with corrupt_model_errors(path):
        info = json.loads((path / name).read_text("utf-8"))
        words = (path / "words.txt").read_text("utf-8").split("\n")
        version, recorded = info.pop("format"), info.pop("hash")
        if version != FORMAT:
            raise CorruptModel(f"{path} has format {version}", value=str(path), expected=f"format {FORMAT}")
        stems = info.pop("arrays")
        # Path(…).name: what the JSON names must not lead out of the folder
        arrays = {stem: _read_array(path / f"{Path(stem).name}.npy") for stem in stems}
        if content_hash(info, words, arrays) != recorded:
            raise CorruptModel(f"{path} was changed since it was saved", value=str(path), expected=f"hash {recorded}")
        for stem, array in arrays.items():
            if not _is_finite(array):
                raise CorruptModel(f"{path}: {stem} hold NaN or infinity", value=stem, expected="finite numbers")
    return info, words, arrays


def _read_array(path: Path) -> NDArray[Any]:
    """The array of a ``.npy`` file, read-only. Raises ValueError or OSError for anything but an array of numbers."""
    with path.open("rb") as file:
        try:
            array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
            if file.read(1):
                raise ValueError("it goes on behind its numbers")
        except Exception as error:  # NumPy parses the header as Python, and raises nearly anything on a damaged one
            raise ValueError(f"{path.name} is no array that NumPy saved: {error}") from error
    if array.dtype.kind not in _NUMBERS:
        raise ValueError(f"{path.name} holds {array.dtype}, expected numbers")
    array.flags.writeable = False
    return array


def _is_finite(array: NDArray[Any]) -> bool:
    # in parts, because isfinite makes an array of its own
    flat = array.reshape(-1, order="A")
    parts = range(0, len(flat) if array.dtype.kind == "f" else 0, _CHUNK)
    return all(bool(np.isfinite(flat[start : start + _CHUNK]).all()) for start in parts)
