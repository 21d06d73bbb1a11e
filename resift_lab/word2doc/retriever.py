"""A TF-IDF retriever of hashed unigrams and bigrams, as DrQA's (Chen et al. 2017), built as a stream onto disk.

Text is put into Unicode's NFD and lower case; a token is a run of letters, digits and marks, or another sign. Runs of
one or two tokens without stop words and signs fall by 32-bit MurmurHash3 into 2²⁴ bins. Both a document and a query
weigh log(1 + tf) · max(0, log((N - n + .5) / (n + .5))) in a bin, and score by their inner product.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import unicodedata
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.text import FUNCTION_WORDS
from resift_lab.corpus import probabilistic_idf

BINS = 2**24
ARRAYS = ("bins", "offsets", "postings", "values", "idf")
_TOKEN = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+|\S")
_CHUNK = 1_000_000
_COLUMNS = {"bin": np.int32, "document": np.int32, "count": np.float32}


def terms(text: str) -> list[str]:
    """A text's unigrams and bigrams.

    >>> terms("The cost of Naïve Bayes, in theory") == ["cost", "nai\\u0308ve", "bayes", "theory", "nai\\u0308ve bayes"]
    True
    """
    tokens = _TOKEN.findall(unicodedata.normalize("NFD", text).lower())
    # an empty token stays where a stop word or a sign was, so that no bigram reaches over it
    words = [token if token not in FUNCTION_WORDS and token[0].isalnum() else "" for token in tokens]
    bigrams = (f"{first} {second}" for first, second in pairwise(words) if first and second)
    return [*filter(None, words), *bigrams]


def murmur3(texts: Sequence[str], seed: int = 0) -> NDArray[np.uint32]:
    """32-bit MurmurHash3 (x86) of each text's UTF-8 bytes, (n,); all texts are hashed at once, four bytes at a time."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    lengths = np.array([len(each) for each in encoded], np.uint32)
    state = np.full(len(encoded), seed, np.uint32)
    if not len(encoded):
        return state
    blocks = _blocks(encoded)
    with np.errstate(over="ignore"):
        for number in range(blocks.shape[1]):
            mixed = _rotated(blocks[:, number] * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
            begin, end = 4 * number, 4 * (number + 1)
            is_full, is_tail = lengths >= end, (lengths > begin) & (lengths < end)
            changed = state ^ mixed
            state = np.where(is_full, _rotated(changed, 13) * np.uint32(5) + np.uint32(0xE6546B64), state)
            state = np.where(is_tail, changed, state)
        state ^= lengths
        state ^= state >> np.uint32(16)
        state *= np.uint32(0x85EBCA6B)
        state ^= state >> np.uint32(13)
        state *= np.uint32(0xC2B2AE35)
        state ^= state >> np.uint32(16)
    return state


def _blocks(encoded: Sequence[bytes]) -> NDArray[np.uint32]:
    """Each text's bytes as little-endian numbers of four, zeros filling up: (n, blocks of the longest)."""
    width = -(-max(1, *map(len, encoded)) // 4) * 4
    padded = np.zeros((len(encoded), width), np.uint8)
    for row, each in zip(padded, encoded, strict=True):
        row[: len(each)] = np.frombuffer(each, np.uint8)
    return padded.view("<u4").astype(np.uint32)


def _rotated(values: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
    return np.asarray((values << np.uint32(by)) | (values >> np.uint32(32 - by)))


def hashed_counts(text: str) -> tuple[NDArray[np.int64], Floats]:
    """The bins (m,) of a text's terms, ascending, and how many terms fall into each, (m,)."""
    counts = Counter(terms(text))
    hashed = (murmur3(list(counts)) % BINS).astype(np.int64)
    bins, rows = np.unique(hashed, return_inverse=True)
    return bins, np.bincount(rows, list(counts.values()), len(bins)).astype(np.float32)


class HashedRetriever:
    """Postings by bin.

    ``bins`` (B,): those in use, ascending; ``offsets`` (B + 1,): where each one's begin in ``postings`` (P,), rows of
    documents, and ``values`` (P,), their weights; ``idf`` (B,). The arrays may be memory-mapped.

    Raises BadInput for arrays that do not fit together.
    """

    def __init__(self, documents: int, arrays: dict[str, NDArray[Any]]) -> None:
        self.documents, self._arrays = documents, {name: arrays[name] for name in ARRAYS}
        self.bins, self.offsets, self.postings, self.values, self.idf = self._arrays.values()
        self._check()

    def _check(self) -> None:
        bins, postings = (len(self.bins),), (len(self.postings),)
        expected = {"bins": bins, "offsets": (bins[0] + 1,), "postings": postings, "values": postings, "idf": bins}
        shapes = {name: array.shape for name, array in self._arrays.items()}
        if shapes != expected:
            raise BadInput(f"postings of shapes {shapes}", expected=str(expected))
        integers = all(array.dtype.kind in "iu" for array in (self.bins, self.offsets, self.postings))
        if not integers or not len(self.bins) or (np.diff(self.bins) <= 0).any():
            raise BadInput("bins out of order", expected="ascending whole numbers")
        if self.offsets[0] != 0 or self.offsets[-1] != postings[0] or (np.diff(self.offsets) < 0).any():
            raise BadInput("offsets out of order", expected=f"0 to {postings[0]}, ascending")
        spans = _spans(postings[0])
        if any(self.postings[span].min() < 0 or self.postings[span].max() >= self.documents for span in spans):
            raise BadInput("a posting of no document", expected=f"rows below {self.documents}")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved, by name."""
        return self._arrays

    @classmethod
    def build(cls, texts: Iterable[str], folder: str | Path | None = None) -> HashedRetriever:
        """Read the texts once; their counts go to files in ``folder`` (a temporary one), not into memory.

        Memory holds the bins in use and a million counts at a time. The files are deleted with the retriever.
        Raises BadInput if the texts hold no word.
        """
        work = Path(tempfile.mkdtemp(prefix="resift-hashed-", dir=folder))
        documents = _write_columns(texts, work)
        if not _column(work, "bin").stat().st_size:
            raise BadInput("the corpus holds no word", expected="texts")
        columns: dict[str, Any] = {name: np.memmap(_column(work, name), kind, "r") for name, kind in _COLUMNS.items()}
        bins, frequency = _bins_in_use(columns["bin"])
        idf = probabilistic_idf(frequency, documents).astype(np.float32)
        offsets = np.concatenate([[0], np.cumsum(frequency)])
        postings, values = _sorted_by_bin(columns, bins, offsets, idf, work)
        arrays = {"bins": bins, "offsets": offsets, "postings": postings, "values": values, "idf": idf}
        retriever = cls(documents, arrays)
        weakref.finalize(retriever, shutil.rmtree, work, ignore_errors=True)
        return retriever

    def scores(self, query: str) -> Floats:
        """Inner product of the query with every document, (N,)."""
        bins, counts = hashed_counts(query)
        rows = np.searchsorted(self.bins, bins)
        known = (rows < len(self.bins)) & (np.asarray(self.bins)[np.minimum(rows, len(self.bins) - 1)] == bins)
        scores = np.zeros(self.documents, np.float32)
        for row, count in zip(rows[known], counts[known], strict=True):
            span = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
            scores[self.postings[span]] += self.values[span] * (np.log1p(count) * self.idf[row])
        return scores

    def best(self, query: str, count: int) -> NDArray[np.int64]:
        """Rows of at most ``count`` documents with a score above 0, best first, ties in the documents' order."""
        return best_rows(self.scores(query), count)


def best_rows(scores: Floats, count: int) -> NDArray[np.int64]:
    """Rows of at most ``count`` scores other than 0, largest first, ties in their order."""
    hits = np.flatnonzero(scores)
    return np.asarray(hits[np.argsort(-scores[hits], kind="stable")[:count]])


def _column(folder: Path, name: str) -> Path:
    return folder / f"{name}.bin"


def _write_columns(texts: Iterable[str], folder: Path) -> int:
    """A file each for the bins, documents and counts of all texts, end to end; how many texts there were."""
    documents = 0
    with ExitStack() as stack:
        files = {name: stack.enter_context(_column(folder, name).open("wb")) for name in _COLUMNS}
        for documents, text in enumerate(texts, 1):
            bins, counts = hashed_counts(text)
            values = {"bin": bins, "document": np.full(len(bins), documents - 1), "count": counts}
            for name, kind in _COLUMNS.items():
                values[name].astype(kind).tofile(files[name])
    return documents


def _spans(length: int) -> list[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, length, _CHUNK)]


def _bins_in_use(column: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The bins that occur, ascending (B,), and how many documents hold each (B,)."""
    spans = _spans(len(column))
    bins = np.unique(np.concatenate([np.unique(column[span]) for span in spans]))
    frequency = np.zeros(len(bins), np.int64)
    for span in spans:
        frequency += np.bincount(np.searchsorted(bins, column[span]), minlength=len(bins))
    return bins, frequency


def _sorted_by_bin(
    columns: dict[str, Any], bins: NDArray[np.int32], offsets: NDArray[np.int64], idf: Floats, folder: Path
) -> tuple[NDArray[np.int32], Floats]:
    """Documents and weights in the order of the bins, on disk: a counting sort, a chunk at a time."""
    size = (len(columns["bin"]),)
    postings = np.lib.format.open_memmap(folder / "postings.npy", "w+", np.int32, size)
    values = np.lib.format.open_memmap(folder / "values.npy", "w+", np.float32, size)
    free = offsets[:-1].copy()
    for span in _spans(len(columns["bin"])):
        rows = np.searchsorted(bins, columns["bin"][span])
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        first = np.searchsorted(rows, rows)
        target = free[rows] + np.arange(len(rows)) - first
        postings[target] = columns["document"][span][order]
        values[target] = np.log1p(columns["count"][span][order]) * idf[rows]
        free += np.bincount(rows, minlength=len(bins))
    return postings, values
