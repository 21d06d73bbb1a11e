"""Word vectors of others: word2vec, GloVe and fastText files read with gensim, and folders of static models."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from resift.encoders.tables import build_table
from resift.errors import BadInput, needs_extra
from resift.vectors.table import WordVectors
from resift_lab.vectors.model2vec import read_static

_LONGEST_HEADER = 2**20
_COMPRESSED, _MOST_COMPRESSION = (".gz", ".bz2", ".xz"), 1000


def convert(
    source: str | Path, weighting: str | None = None, limit: int | None = None, extra_words: Iterable[str] = ()
) -> WordVectors:
    """Read a word2vec (text or binary), GloVe or fastText (``.vec`` or ``.bin``) file with gensim, or a static model.

    Names ending in ``.bin`` are binary: fastText's if they carry its magic number, else word2vec's. Text files may
    have word2vec's header line or, like GloVe's, none, and may be compressed (.gz, .bz2, .xz). ``limit`` keeps that
    many words. ``extra_words``, most frequent first, follow where they are new: fastText's subwords give each a row
    (Bojanowski et al. 2017). ``weighting``: see :func:`resift.encoders.tables.weights_by_rank`; ``zipf`` if None.

    A folder is a static model (:func:`resift_lab.vectors.model2vec.read_static`), whose rows are for pieces of words:
    the table has the ``extra_words`` first, and then all words that are one piece.

    Raises BadInput if the source does not exist, is in another format, or has no subwords for the extra words, or if
    a setting is not for a folder, and MissingExtra without gensim, or for a folder safetensors or tokenizers.
    """
    path = Path(source)
    if path.is_dir():
        return _of_folder(path, weighting, limit, list(extra_words))
    if not path.is_file():
        raise BadInput(
            f"no file {path}",
            value=str(path),
            expected="a word2vec, GloVe or fastText file, or a static model's folder",
        )
    weighting = weighting or "zipf"
    try:
        keyed = _read_keyed(path, limit)
    except (ValueError, EOFError, NotImplementedError, IndexError, TypeError, struct.error) as error:
        raise BadInput(
            f"{path} is not a word2vec, GloVe or fastText file: {error}",
            value=str(path),
            expected="one of these formats",
        ) from error
    words = keyed.index_to_key[:limit]
    rows = keyed.vectors[: len(words)]
    known = set(words)
    if new := [word for word in dict.fromkeys(extra_words) if word not in known]:
        if not getattr(keyed, "bucket", 0):
            raise BadInput(f"{path} has no subwords", value=str(path), expected="fastText's .bin for words of a corpus")
        words, rows = words + new, np.vstack([rows, *(keyed.get_vector(word) for word in new)])
    return build_table(words, rows, weighting, {"source": path.name, "weighting": weighting})


def _of_folder(folder: Path, weighting: str | None, limit: int | None, words: list[str]) -> WordVectors:
    for name, value in (("weighting", weighting), ("limit", limit)):
        if value is not None:
            expected = f"no {name}: its rows stay as they are"
            raise BadInput(f"a {name} for the static model {folder}", value=value, expected=expected)
    return read_static(folder, words)


def _read_keyed(path: Path, limit: int | None) -> Any:
    with needs_extra("lab", "Reading the word vectors of others"):
        from gensim.models import KeyedVectors
        from gensim.models.fasttext import load_facebook_vectors
        from gensim.utils import open as open_any

    if ".bin" in path.suffixes:
        with open_any(str(path), "rb") as handle:
            first = handle.readline(_LONGEST_HEADER)
        if first.startswith((793712314).to_bytes(4, "little")):
            return load_facebook_vectors(str(path))
        _check_size(path, first.split(), 4)
        return KeyedVectors.load_word2vec_format(str(path), binary=True, limit=limit)
    with open_any(str(path), "rb") as handle:
        first = handle.readline(_LONGEST_HEADER).split()
    no_header = len(first) != 2
    if not no_header:
        _check_size(path, first, 2)
    if len([float(number) for number in first[1:]]) < 1:
        raise ValueError("its first line is no header and no vector")
    return KeyedVectors.load_word2vec_format(
        str(path), binary=False, limit=limit, no_header=no_header, unicode_errors="replace"
    )


def _check_size(path: Path, header: list[bytes], least: int) -> None:
    """Raise ValueError if a file is too small for the words and dimensions that its header names.

    Each number takes ``least`` bytes at least. gensim would ask for the memory of them all first.
    """
    words, dim = (int(number) for number in header)
    size = path.stat().st_size * (1 if path.suffix not in _COMPRESSED else _MOST_COMPRESSION)
    if words < 0 or dim < 1 or words * dim * least > size:
        raise ValueError(f"its header says {words} words of {dim} dimensions, too many for a file of its size")
