"""Folders of a JSON file, a word list and arrays: written atomically, checked by hash, and read into memory.

The files are not memory-mapped: a process that reads a memory-mapped file is killed (SIGBUS) if the file is truncated.
Processes that are forked after reading share the memory.
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
"""Version of the folder format."""

_CHUNK = 2**20
_NUMERIC_KINDS = "fiu"  # dtype kinds: floats, signed and unsigned integers

# Exceptions that unexpected content of saved files can cause
_READ_ERRORS = (OSError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)


def content_hash(info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]) -> str:
    """Return a hash that identifies the contents of a model.

    Args:
        info: The settings of the model.
        words: The words of the model.
        arrays: The arrays of the model, by name.

    Returns:
        The first 16 hexadecimal digits of a SHA-256 hash.
    """
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
    """Save settings, words and arrays as a folder.

    The complete folder replaces an existing folder at once, so that readers never see an incomplete folder.

    Args:
        folder: Path of the folder. An existing folder is replaced if it contains a file with this ``name``.
        name: Name of the JSON file.
        info: Settings, saved in the JSON file.
        words: The words, saved in ``words.txt``.
        arrays: The arrays, each saved in a file ``<key>.npy``.

    Returns:
        The path of the folder.

    Raises:
        BadInput: If the folder contains only other files, if it cannot be written, or if a word contains a line break
            or is not valid Unicode. An existing folder then stays unchanged.
    """
    for word in words:
        if "\n" in word or "\r" in word or not _is_unicode(word):
            message = f"{word!r} cannot be saved as a line of a file"
            raise BadInput(message, value=word, expected="Unicode text without line breaks")
    with replacing_folder(folder, name) as new_folder:
        _write_files(new_folder, name, info, words, arrays)
    return Path(folder)


@contextmanager
def replacing_folder(folder: str | Path, name: str) -> Iterator[Path]:
    """Return a context manager that creates an empty folder, which replaces ``folder`` when the ``with`` block ends.

    If the block raises an exception, the new folder is deleted and an existing folder stays unchanged.

    Args:
        folder: The path of the folder. An existing folder is replaced only if it contains a file called ``name``.
        name: The name of a file that identifies folders written by Resift.

    Yields:
        The path of the new, empty folder.

    Raises:
        BadInput: If the folder contains only other files, or cannot be written.
    """
    target = Path(folder)
    try:
        if target.exists() and not (target / name).exists() and any(target.iterdir()):
            expected = f"a new folder, or one with a {name}"
            raise BadInput(f"{target} contains other files", value=str(target), expected=expected)
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the same parent folder, because a folder can only be renamed within a file system.
        new_folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            new_folder.chmod(0o755)  # mkdtemp creates folders that only their owner may read
            yield new_folder
            _move_or_exchange(new_folder, target)
        finally:
            shutil.rmtree(new_folder, ignore_errors=True)
    except OSError as error:
        expected = "a folder that can be written, on a disk with space left"
        raise BadInput(f"{target} cannot be written: {error}", value=str(target), expected=expected) from error


def _is_unicode(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8, which is not possible for lone surrogates."""
    return text.encode("utf-8", "replace").decode() == text


def _write_files(
    folder: Path, name: str, info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write settings, words and arrays to the files of a new folder.

    Args:
        folder: The path of the folder, which is empty.
        name: The name of the JSON file for the settings.
        info: The settings.
        words: The words.
        arrays: The arrays. The file names are their keys.
    """
    settings = {key: value for key, value in info.items() if key not in ("format", "hash", "arrays")}
    saved = {**settings, "format": FORMAT, "hash": content_hash(settings, words, arrays), "arrays": sorted(arrays)}
    (folder / name).write_text(json.dumps(saved, indent=2, ensure_ascii=False) + "\n", "utf-8")
    (folder / "words.txt").write_text("\n".join(words), "utf-8", newline="\n")
    for stem, array in arrays.items():
        np.save(folder / f"{stem}.npy", array, allow_pickle=False)


def _move_or_exchange(new_folder: Path, target: Path) -> None:
    """Move a folder to another path. If there is already a folder at this path, exchange the two folders.

    After an exchange, the old folder is at the path ``new_folder``, where the caller can delete it.

    Args:
        new_folder: The folder to move.
        target: The new path of the folder.
    """
    if not target.exists():
        new_folder.rename(target)
        return
    # The existing folder is renamed, not deleted. Deleting takes time, and a process that is killed meanwhile would
    # leave neither folder.
    aside = new_folder.with_name(f"{new_folder.name}-old")
    target.rename(aside)
    try:
        new_folder.rename(target)
    except OSError:
        aside.rename(target)
        raise
    aside.rename(new_folder)


@contextmanager
def corrupt_model_errors(folder: str | Path) -> Iterator[None]:
    """Return a context manager that converts errors caused by unexpected file contents to CorruptModel.

    Args:
        folder: The path of the folder with the files, for the error message.
    """
    try:
        yield
    except (ModelNotFound, CorruptModel):
        raise
    except BadInput as error:
        raise CorruptModel(f"{folder}: {error.message}", value=str(folder), expected=error.expected) from error
    except KeyError as error:
        message = f"{folder} is incomplete: {error} is missing"
        raise CorruptModel(message, value=str(folder), expected="files that Resift saved") from error
    except _READ_ERRORS as error:
        message = f"{folder} cannot be read: {error or type(error).__name__}"
        raise CorruptModel(message, value=str(folder), expected="files that Resift saved") from error


def read_folder(folder: str | Path, name: str) -> tuple[dict[str, Any], list[str], dict[str, NDArray[Any]]]:
    """Read a folder that :func:`write_folder` wrote, and check its hash.

    Args:
        folder: The path of the folder.
        name: The name of the JSON file with the settings.

    Returns:
        The settings, the words, and the arrays by name. The arrays are read-only and contain only finite numbers.

    Raises:
        ModelNotFound: If the folder has no JSON file of this name.
        CorruptModel: If the folder cannot be read, was changed after it was saved, or has a different format.
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
        # Path(stem).name drops any "../" in the JSON file, so that only files in this folder are read.
        arrays = {stem: _read_array(path / f"{Path(stem).name}.npy") for stem in stems}
        if content_hash(info, words, arrays) != recorded:
            raise CorruptModel(f"{path} was changed after it was saved", value=str(path), expected=f"hash {recorded}")
        for stem, array in arrays.items():
            if not _is_finite(array):
                raise CorruptModel(f"{path}: {stem} contains NaN or infinity", value=stem, expected="finite numbers")
    return info, words, arrays


def _read_array(path: Path) -> NDArray[Any]:
    """Read an array from a ``.npy`` file. The array is read-only.

    Args:
        path: The path of the file.

    Raises:
        ValueError: If the file does not contain an array of numbers.
        OSError: If the file cannot be read.
    """
    with path.open("rb") as file:
        try:
            array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
            if file.read(1):
                raise ValueError("the file is longer than the array")
        except Exception as error:  # NumPy parses the header as Python, so a damaged header can raise any exception
            raise ValueError(f"{path.name} is not an array that NumPy saved: {error}") from error
    if array.dtype.kind not in _NUMERIC_KINDS:
        raise ValueError(f"{path.name} has dtype {array.dtype}, expected numbers")
    array.flags.writeable = False
    return array


def _is_finite(array: NDArray[Any]) -> bool:
    """Return whether an array contains neither NaN nor infinity."""
    if array.dtype.kind != "f":
        return True
    # In chunks, because isfinite creates an array as long as its input.
    flat = array.reshape(-1, order="A")
    return all(bool(np.isfinite(flat[start : start + _CHUNK]).all()) for start in range(0, len(flat), _CHUNK))
