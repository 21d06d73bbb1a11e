"""Static word vectors from a sentence encoder: each word is encoded alone, once, and looked up ever after.

The recipe: one forward pass a word (special tokens and pooling as the model has them), rows to length 1, the
mean taken off, then principal components. The first d // 100 of a d-dimensional model are dropped ("all but
the top", Mu and Viswanath 2018: they hold what most words share); the next ``dim`` are kept, unscaled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import batched
from resift.errors import BadInput, MissingExtra
from resift.text import tokenize
from resift.vectors.table import WordVectors

TINY = np.finfo(np.float32).tiny


def read_words(path: str | Path) -> Iterator[str]:
    """Words of a UTF-8 text file, one a line; of a line with several columns, the first."""
    try:
        with Path(path).open(encoding="utf-8", newline="\n") as handle:
            for line in handle:
                if columns := line.split(maxsplit=1):
                    yield columns[0]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}", value=str(path), expected="a UTF-8 text file") from error


def principal(rows: NDArray[Any], dim: int, drop: int = 0) -> NDArray[np.float32]:
    """Centred ``rows`` (n, d) on ``dim`` principal components after the first ``drop``: (n, dim) float32.

    Components come by falling variance, each with the sign that makes its largest loading positive.
    """
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, drop : drop + dim]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), np.arange(dim)] < 0, -1, 1)
    return np.asarray(centred @ axes, np.float32)


def rounded(rows: NDArray[np.float32], levels: int) -> NDArray[np.float32]:
    """Rows (n, d) rounded to ``levels`` steps either side of 0, a row's largest value being the last."""
    steps = np.maximum(np.abs(rows).max(axis=1, keepdims=True), TINY) / np.float32(levels)
    return np.asarray(np.rint(rows / steps) * steps, np.float32)


def distill(
    model_folder: str | Path,
    words: Iterable[str],
    dim: int = 256,
    weighting: str = "zipf",
    *,
    limit: int | None = None,
    levels: int | None = 31,
    batch: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> WordVectors:
    """Word vectors (V, dim) float32 from a local sentence-transformers folder, made as the module describes.

    ``words`` come most frequent first; those that the tokeniser would split are left out, and ``limit``
    counts the rest. ``levels`` rounds each row to so many steps either side of 0, which int8 holds and zip
    files compress; None keeps rows as they are. ``progress`` is told how many of how many words are done. The
    same call on the same machine gives the same bytes.

    Raises MissingExtra without sentence-transformers, and BadInput where the folder holds no such model, no
    word is usable, or ``dim`` is more than the model or the number of words allows.
    """
    usable: dict[str, None] = {}
    for word in words:
        found = tokenize(word)
        if len(found) == 1 and len(found[0]) == len(word):
            usable.setdefault(found[0])
            if len(usable) == limit:
                break
    if not usable:
        raise BadInput("no usable word to distill", expected="words of letters or digits")
    model, encoded = load(model_folder), []
    for chunk in batched(usable, 8192):
        encoded.append(model.encode(chunk, batch_size=batch, convert_to_numpy=True, show_progress_bar=False))
        if progress:
            progress(sum(map(len, encoded)), len(usable))
    rows = np.concatenate(encoded).astype(np.float32, copy=False)
    drop = rows.shape[1] // 100
    most = min(rows.shape[1] - drop, len(rows) - 1)
    if not 1 <= dim <= most:
        raise BadInput(f"{dim} dimensions from {len(rows)} words", value=dim, expected=f"1 to {most}")
    rows = principal(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), TINY), dim, drop)
    card = Path(model_folder) / "README.md"
    licence = re.search(r"^license:\s*(\S+)", card.read_text("utf-8") if card.is_file() else "", re.MULTILINE)
    info = {
        "source": Path(model_folder).resolve().name,
        "licence": licence and licence[1],
        "recipe": f"one pass a word, l2, centred, principal components {drop + 1} to {drop + dim}",
        "levels": levels,
        "weighting": weighting,
        "words": len(usable),
    }
    return WordVectors.build(usable, rounded(rows, levels) if levels else rows, weighting, info)


def load(folder: str | Path) -> Any:
    """The SentenceTransformer of a local folder, on the CPU; nothing is fetched."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtra("distilling needs sentence-transformers: pip install 'resift[distill]'") from error
    try:
        if not any(Path(folder, name).is_file() for name in ("modules.json", "config.json")):
            raise FileNotFoundError("no modules.json or config.json")
        return SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    except Exception as error:  # its loaders raise nearly anything on a damaged folder
        raise BadInput(f"{folder}: {error}", expected="a sentence-transformers folder") from error
