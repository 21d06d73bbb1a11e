"""Static word vectors from a sentence encoder: each word is encoded alone, once, and looked up ever after.

The recipe: one forward pass for each word (special tokens and pooling as the model has them), rows to length 1, the
mean taken off, then principal components. The first d // 100 of a d-dimensional model are dropped ("all but the top",
Mu and Viswanath 2018: they hold what most words share); the next ``dim`` are kept, unscaled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from resift.arrays import Floats, batched
from resift.encoders.tables import build_table
from resift.errors import BadInput, MissingExtra
from resift.text import tokenize
from resift.vectors.table import WordVectors
from resift_lab.training.principal import principal_components
from resift_lab.training.progress import Progress

TINY = np.finfo(np.float32).tiny
_CHUNK = 8192  # words between two reports of progress


def read_words(path: str | Path) -> Iterator[str]:
    """Words of a UTF-8 text file, one a line; of a line with several columns, the first.

    Raises BadInput if it cannot be read, or holds none.
    """
    words = False
    try:
        with Path(path).open(encoding="utf-8", newline="\n") as handle:
            for line in handle:
                if columns := line.split(maxsplit=1):
                    words = True
                    yield columns[0]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}", value=str(path), expected="a UTF-8 text file") from error
    if not words:
        raise BadInput(f"{path} holds no word", value=str(path), expected="a word a line")


def rounded(rows: Floats, levels: int) -> Floats:
    """Rows (n, d) rounded to ``levels`` steps on either side of 0, a row's largest value being the last step."""
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
    progress: Progress | None = None,
) -> WordVectors:
    """Word vectors (V, ``dim``) float32 from a local sentence-transformers folder, made as the module describes.

    ``words`` come most frequent first; those that the tokeniser would split are left out, and ``limit`` counts the
    rest. ``levels`` rounds each row to so many steps on either side of 0, which int8 holds and zip files compress; None
    keeps rows as they are. ``progress`` is called with the numbers of words done and of all. The same call on the same
    machine gives the same bytes.

    Raises MissingExtra without sentence-transformers, and BadInput if the folder holds no such model, no word is
    usable, or ``dim`` is more than the model or the number of words allows.
    """
    usable = _usable(words, limit)
    rows = _encoded(usable, load(model_folder), batch, progress)
    drop = rows.shape[1] // 100
    largest = min(rows.shape[1] - drop, len(rows) - 1)
    if not 1 <= dim <= largest:
        raise BadInput(f"{dim} dimensions from {len(rows)} words", value=dim, expected=f"1 to {largest}")
    rows = principal_components(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), TINY), dim, drop)
    info = {
        "source": Path(model_folder).resolve().name,
        "licence": _licence(model_folder),
        "recipe": f"one pass a word, l2, centred, principal components {drop + 1} to {drop + dim}",
        "levels": levels,
        "weighting": weighting,
        "words": len(usable),
    }
    return build_table(usable, rounded(rows, levels) if levels else rows, weighting, info)


def _usable(words: Iterable[str], limit: int | None) -> list[str]:
    """The first ``limit`` different words that the tokeniser leaves whole."""
    usable: dict[str, None] = {}
    for word in words:
        tokens = tokenize(word)
        if len(tokens) == 1 and len(tokens[0]) == len(word):
            usable.setdefault(tokens[0])
            if len(usable) == limit:
                break
    if not usable:
        raise BadInput("no usable word to distill", expected="words of letters or digits")
    return list(usable)


def _encoded(words: Sequence[str], model: Any, batch: int, progress: Progress | None) -> Floats:
    """A row of the model for each word, (V, d)."""
    parts: list[Floats] = []
    for chunk in batched(words, _CHUNK):
        parts.append(model.encode(chunk, batch_size=batch, convert_to_numpy=True, show_progress_bar=False))
        if progress:
            progress(sum(map(len, parts)), len(words))
    return np.concatenate(parts).astype(np.float32, copy=False)


def _licence(model_folder: str | Path) -> str | None:
    """The licence that the model's card names."""
    card = Path(model_folder) / "README.md"
    match = re.search(r"^license:\s*(\S+)", card.read_text("utf-8") if card.is_file() else "", re.MULTILINE)
    return match and match[1]


def load(folder: str | Path) -> Any:
    """The SentenceTransformer of a local folder, on the CPU; nothing is downloaded.

    Raises MissingExtra without sentence-transformers, and BadInput if the folder holds no such model.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        # not by needs_extra, which would name the package as Python spells it
        raise MissingExtra("distilling needs sentence-transformers: pip install 'resift[lab]'") from error
    try:
        if not any(Path(folder, name).is_file() for name in ("modules.json", "config.json")):
            raise FileNotFoundError("no modules.json or config.json")
        return SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    except Exception as error:  # its loaders raise nearly anything on a damaged folder
        raise BadInput(f"{folder}: {error}", expected="a sentence-transformers folder") from error
