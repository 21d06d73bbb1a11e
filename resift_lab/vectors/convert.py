"""Conversion of third-party word vectors: word2vec, GloVe and fastText files (with gensim), and static models."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.encoders.tables import build_table
from resift.errors import BadInput, needs_extra
from resift.vectors.table import WordVectors
from resift_lab.vectors.model2vec import read_static

# Longest first line that is read, in bytes.
_LONGEST_HEADER = 2**20
# Suffixes of compressed files, and the largest ratio of their uncompressed to their compressed size that is assumed.
_COMPRESSED = (".gz", ".bz2", ".xz")
_MOST_COMPRESSION = 1000
# The first four bytes of fastText's binary format, as a little-endian integer.
_FASTTEXT_MAGIC = 793712314


def convert(
    source: str | Path, weighting: str | None = None, limit: int | None = None, extra_words: Iterable[str] = ()
) -> WordVectors:
    """Read a file of word vectors, or the folder of a static model, as a table of word vectors.

    A file may be in word2vec's format (text or binary), GloVe's, or fastText's (``.vec`` or ``.bin``).
    A name that ends in ``.bin`` means a binary file: fastText's if it starts with fastText's magic number, otherwise
    word2vec's. A text file may start with word2vec's header line or, like GloVe's, have no header. It may be compressed
    (.gz, .bz2, .xz). If the file repeats a word, the first vector of the word counts.

    A folder is read as a static model (:func:`resift_lab.vectors.model2vec.read_static`), whose rows belong to word
    pieces. The resulting table has the ``extra_words`` first, and then all words that consist of a single piece.

    Args:
        source: The path of the file or folder.
        weighting: The name of the formula that computes word weights from frequency ranks, see
            :func:`resift.encoders.tables.weights_by_rank`. None means ``zipf``. Must be None for a folder.
        limit: The maximum number of words to read from the file. None reads all words. Must be None for a folder.
        extra_words: Words that the table must contain, most frequent first. If the file lacks a word, it is added at
            the end of the table, with a vector from fastText's subwords (Bojanowski et al. 2017). The file must then be
            in fastText's ``.bin`` format, because other formats contain no subwords.

    Raises:
        BadInput: If the source does not exist, has another format, or lacks the subwords that the extra words need, or
            if ``weighting`` or ``limit`` is set for a folder.
        MissingExtra: If gensim is not installed, or, for a folder, safetensors or tokenizers.
    """
    path = Path(source)
    if path.is_dir():
        return _read_folder(path, weighting, limit, list(extra_words))
    if not path.is_file():
        raise BadInput(
            f"there is no file or folder {path}",
            value=str(path),
            expected="a word2vec, GloVe or fastText file, or the folder of a static model",
        )
    weighting = weighting or "zipf"
    try:
        keyed = _read_with_gensim(path, limit)
    except (ValueError, EOFError, NotImplementedError, IndexError, TypeError, struct.error) as error:
        raise BadInput(
            f"{path} cannot be read as a word2vec, GloVe or fastText file: {error}",
            value=str(path),
            expected="a file in word2vec's, GloVe's or fastText's format",
        ) from error
    # For each repetition of a word in a binary file, gensim leaves None and a row of zeros at the end.
    words = [word for word in keyed.index_to_key[:limit] if word is not None]
    rows = keyed.vectors[: len(words)]
    known = set(words)
    if new := [word for word in dict.fromkeys(extra_words) if word not in known]:
        if not getattr(keyed, "bucket", 0):
            raise BadInput(
                f"{path} has no subwords, which vectors for the words of a corpus need",
                value=str(path),
                expected="fastText's .bin format",
            )
        words, rows = words + new, np.vstack([rows, *(keyed.get_vector(word) for word in new)])
    return build_table(words, rows, weighting, {"source": path.name, "weighting": weighting})


def _read_folder(folder: Path, weighting: str | None, limit: int | None, words: list[str]) -> WordVectors:
    for name, value in (("weighting", weighting), ("limit", limit)):
        if value is not None:
            raise BadInput(
                f"a {name} is set for the static model {folder}",
                value=value,
                expected=f"no {name}, because a static model is read unchanged",
            )
    return read_static(folder, words)


def _read_with_gensim(path: Path, limit: int | None) -> Any:
    """Read a word2vec, GloVe or fastText file. gensim reads the binary formats.

    Args:
        path: The path of the file. Its name and its first line determine the format.
        limit: The maximum number of words to read, or None for all words. It is ignored for fastText's ``.bin`` format.

    Returns:
        An object of gensim's class ``KeyedVectors``.

    Raises:
        ValueError: If a line is malformed, or the file is too small for the numbers in its header.
        MissingExtra: If gensim is not installed.
    """
    with needs_extra("lab", "Reading word2vec, GloVe or fastText files"):
        from gensim.models import KeyedVectors
        from gensim.models.fasttext import load_facebook_vectors
        from gensim.utils import open as open_any

    if ".bin" in path.suffixes:
        with open_any(str(path), "rb") as handle:
            first_line = handle.readline(_LONGEST_HEADER)
        if first_line.startswith(_FASTTEXT_MAGIC.to_bytes(4, "little")):
            return load_facebook_vectors(str(path))
        _check_size(path, first_line.split(), 4)
        return KeyedVectors.load_word2vec_format(str(path), binary=True, limit=limit)
    with open_any(str(path), "rb") as handle:
        fields = handle.readline(_LONGEST_HEADER).split()
    if has_header := len(fields) == 2:
        _check_size(path, fields, 2)
    if len([float(number) for number in fields[1:]]) < 1:
        raise ValueError("the first line is neither a header nor a vector")
    dim = int(fields[1]) if has_header else len(fields) - 1
    rows: dict[str, NDArray[np.float32]] = {}
    with open_any(str(path), "rb") as lines:
        for word, row in _text_rows(islice(lines, has_header, None), dim, 1 + has_header):
            if len(rows) == limit:
                break
            rows.setdefault(word, row)
    keyed = KeyedVectors(dim)
    keyed.add_vectors(list(rows), np.array(list(rows.values()), np.float32).reshape(len(rows), dim))
    return keyed


def _text_rows(lines: Iterable[bytes], dim: int, first_line: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Read the words and vectors of a file in a text format.

    gensim splits a line at each space, and cannot read files whose words contain spaces, such as GloVe's ``840B``.
    Here, the last ``dim`` numbers of a line are the vector, and the text before them is the word.

    Args:
        lines: The lines of the file, without the header. Empty lines are skipped.
        dim: The number of dimensions.
        first_line: The line number of the first line, for error messages.

    Yields:
        A word and its vector of shape (``dim``,).

    Raises:
        ValueError: If a line has no word, or does not end in ``dim`` numbers.
    """
    for number, line in enumerate(lines, first_line):
        if not (stripped := line.rstrip()):
            continue
        word, *values = stripped.rsplit(b" ", dim)
        if len(values) != dim:
            raise ValueError(f"line {number} has {len(values)} numbers, but the vectors have {dim} dimensions")
        try:
            row = np.array([float(value) for value in values], np.float32)
        except ValueError as error:
            raise ValueError(f"line {number} does not end in {dim} numbers: {error}") from error
        yield word.decode("utf-8", "replace"), row


def _check_size(path: Path, header: list[bytes], bytes_per_number: int) -> None:
    """Check that a file of word vectors is large enough for the numbers of words and dimensions in its header.

    Without this check, gensim would allocate memory for all vectors before it notices that the file is too short.

    Args:
        path: The path of the file.
        header: The number of words and the number of dimensions, as text.
        bytes_per_number: The minimum size of a number in the file, in bytes.

    Raises:
        ValueError: If the file is too small, or a number in the header is invalid.
    """
    words, dim = (int(number) for number in header)
    size = path.stat().st_size * (1 if path.suffix not in _COMPRESSED else _MOST_COMPRESSION)
    if words < 0 or dim < 1 or words * dim * bytes_per_number > size:
        raise ValueError(f"the header announces {words} words of {dim} dimensions, too many for the file's size")
