"""Folders of JSON, words and arrays: written whole or not at all, checked by hash, memory-mapped."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput, CorruptModel, ModelNotFound

FORMAT = 1


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
    returned. A folder that holds such a JSON file is replaced; BadInput is raised if it holds other files only.
    """
    target = Path(folder)
    if target.exists() and not (target / name).exists() and any(target.iterdir()):
        raise BadInput(f"{target} holds other files", value=str(target), expected=f"a new folder, or one with a {name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    # beside the target, because a folder can only be renamed within its file system
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        fresh.chmod(0o755)  # mkdtemp's is for its owner alone
        settings = {key: value for key, value in info.items() if key not in ("format", "hash", "arrays")}
        saved = {
            **settings,
            "format": FORMAT,
            "hash": content_hash(settings, words, arrays),
            "arrays": sorted(arrays),
        }
        (fresh / name).write_text(json.dumps(saved, indent=2, ensure_ascii=False) + "\n", "utf-8")
        (fresh / "words.txt").write_text("\n".join(words), "utf-8", newline="\n")
        for stem, array in arrays.items():
            np.save(fresh / f"{stem}.npy", array, allow_pickle=False)
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return target


def read_folder(folder: str | Path, name: str) -> tuple[dict[str, Any], list[str], dict[str, NDArray[Any]]]:
    """What :func:`write_folder` saved, its hash checked: (JSON without hash and format, words, arrays by name).

    The arrays are memory-mapped and read-only. Raises ModelNotFound if there is no such folder, and CorruptModel if it
    cannot be read, was changed since, or has another format.
    """
    path = Path(folder)
    if not (path / name).is_file():
        raise ModelNotFound(f"no {name} in {path}", value=str(path), expected="a folder that Resift saved")
    try:
        info = json.loads((path / name).read_text("utf-8"))
        words = (path / "words.txt").read_text("utf-8").split("\n")
        arrays = {
            stem: np.load(path / f"{Path(stem).name}.npy", mmap_mode="r", allow_pickle=False)
            for stem in info.pop("arrays")
        }
        version, recorded = info.pop("format"), info.pop("hash")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptModel(f"{path} cannot be read: {error}", value=str(path)) from error
    if version != FORMAT:
        raise CorruptModel(f"{path} has format {version}", value=str(path), expected=f"format {FORMAT}")
    if content_hash(info, words, arrays) != recorded:
        raise CorruptModel(f"{path} was changed since it was saved", value=str(path), expected=f"hash {recorded}")
    return info, words, arrays
