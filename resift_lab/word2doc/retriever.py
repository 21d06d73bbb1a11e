"""Build word2doc's retriever from texts, with little memory.

The term counts are written to temporary files, and at most a million counts are in memory at a time.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.hashed_retriever import HashedRetriever, chunk_slices, hashed_counts
from resift.errors import BadInput
from resift_lab.corpus import probabilistic_idf

# Columns of the temporary files, with their types: a row for each bin of each document.
_COLUMNS = {"bin": np.int32, "document": np.int32, "count": np.float32}


def build_retriever(texts: Iterable[str], folder: str | Path | None = None) -> HashedRetriever:
    """Build word2doc's TF-IDF retriever from the texts of documents, with little memory.

    The index of the retriever is in temporary files, which are deleted when the retriever is garbage-collected.

    Args:
        texts: The texts of the documents, which are read only once.
        folder: The folder for the temporary files, or None for the system's temporary folder.

    Raises:
        BadInput: If the texts contain no word.
    """
    work = Path(tempfile.mkdtemp(prefix="resift-hashed-", dir=folder))
    documents = _write_columns(texts, work)
    if not _column(work, "bin").stat().st_size:
        raise BadInput("the corpus contains no word", expected="texts with words")
    columns: dict[str, Any] = {name: np.memmap(_column(work, name), kind, "r") for name, kind in _COLUMNS.items()}
    bins, frequency = _bins_in_use(columns["bin"])
    idf = probabilistic_idf(frequency, documents).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(frequency)])
    postings, values = _sorted_by_bin(columns, bins, offsets, idf, work)
    arrays = {"bins": bins, "offsets": offsets, "postings": postings, "values": values, "idf": idf}
    retriever = HashedRetriever(documents, arrays)
    weakref.finalize(retriever, shutil.rmtree, work, ignore_errors=True)
    return retriever


def _column(folder: Path, name: str) -> Path:
    return folder / f"{name}.bin"


def _write_columns(texts: Iterable[str], folder: Path) -> int:
    """Count the terms of each text, and write the counts to three binary files, which the caller sorts later.

    Terms are not stored themselves: each term is hashed to a bin, and terms in the same bin are counted together. The
    files are the columns of a table with a row for each non-empty bin of each text: the number of the bin, the position
    of the text and the count.

    Args:
        texts: The texts, which are read only once.
        folder: The folder for the files.

    Returns:
        The number of texts.
    """
    documents = 0
    with ExitStack() as stack:
        files = {name: stack.enter_context(_column(folder, name).open("wb")) for name in _COLUMNS}
        for documents, text in enumerate(texts, 1):
            bins, counts = hashed_counts(text)
            values = {"bin": bins, "document": np.full(len(bins), documents - 1), "count": counts}
            for name, kind in _COLUMNS.items():
                values[name].astype(kind).tofile(files[name])
    return documents


def _bins_in_use(column: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the bins that occur in the postings, and the number of postings of each bin.

    A bin is a hash value that represents a term. A posting is an entry of the inverted index: a bin that occurs in a
    document.

    Args:
        column: The bin of each posting, in any order.

    Returns:
        The B distinct bins in ascending order, shape (B,), and the number of documents that contain each bin, shape
        (B,).
    """
    parts = chunk_slices(len(column))
    bins = np.unique(np.concatenate([np.unique(column[span]) for span in parts]))
    frequency = np.zeros(len(bins), np.int64)
    for span in parts:
        frequency += np.bincount(np.searchsorted(bins, column[span]), minlength=len(bins))
    return bins, frequency


def _sorted_by_bin(
    columns: dict[str, Any], bins: NDArray[np.int32], offsets: NDArray[np.int64], idf: Floats, folder: Path
) -> tuple[NDArray[np.int32], Floats]:
    """Sort postings by bin and write them to disk, with a counting sort that needs little memory.

    A bin is a hash value that represents a term. A posting is an entry of the inverted index: a bin that occurs in a
    document.

    Args:
        columns: The memory-mapped files that :func:`_write_columns` wrote, by name.
        bins: The B bins that occur in the postings, ascending, shape (B,).
        offsets: The position of each bin's first posting, shape (B + 1,).
        idf: The inverse document frequency of each bin, shape (B,).
        folder: The folder for the sorted files.

    Returns:
        The document numbers of the P postings, shape (P,), and their weights, shape (P,), memory-mapped.
    """
    size = (len(columns["bin"]),)
    postings = np.lib.format.open_memmap(folder / "postings.npy", "w+", np.int32, size)
    values = np.lib.format.open_memmap(folder / "values.npy", "w+", np.float32, size)
    free = offsets[:-1].copy()
    for span in chunk_slices(len(columns["bin"])):
        rows = np.searchsorted(bins, columns["bin"][span])
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        first = np.searchsorted(rows, rows)
        target = free[rows] + np.arange(len(rows)) - first
        postings[target] = columns["document"][span][order]
        values[target] = np.log1p(columns["count"][span][order]) * idf[rows]
        free += np.bincount(rows, minlength=len(bins))
    return postings, values
