"""A TF-IDF retriever of hashed unigrams and bigrams, as DrQA's (Chen et al. 2017), built as a stream onto disk.

Text is put into Unicode's NFD and lower case; a token is a run of letters, digits and marks, or another sign. Runs of
one or two tokens without stop words and signs fall by 32-bit MurmurHash3 into 2²⁴ bins. Both a document and a query
weigh log(1 + tf) · max(0, log((N - n + .5) / (n + .5))) in a bin, and score by their inner product.
"""

from __future__ import annotations

import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats, batched
from resift.errors import BadInput
from resift.stop_words import FUNCTION_WORDS

BINS = 2**24
ARRAYS = ("bins", "offsets", "postings", "values", "idf")
_TOKEN = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+|\S")
_CHUNK = 1_000_000


def grams(text: str) -> list[str]:
    """A text's unigrams and bigrams.

    >>> grams("The cost of Naïve Bayes, in theory") == ["cost", "nai\\u0308ve", "bayes", "theory", "nai\\u0308ve bayes"]
    True
    """
    tokens = _TOKEN.findall(unicodedata.normalize("NFD", text).lower())
    kept = [token if token not in FUNCTION_WORDS and token[0].isalnum() else "" for token in tokens]
    pairs = (f"{first} {second}" for first, second in pairwise(kept) if first and second)
    return [*filter(None, kept), *pairs]


def murmur3(texts: Sequence[str], seed: int = 0) -> NDArray[np.uint32]:
    """32-bit MurmurHash3 (x86) of each text's UTF-8 bytes, (n,)."""
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    lengths = np.array([len(each) for each in raw], np.uint32)
    found = np.full(len(raw), seed, np.uint32)
    if not len(raw):
        return found
    width = -(-max(1, int(lengths.max())) // 4) * 4
    table = np.zeros((len(raw), width), np.uint8)
    for line, each in zip(table, raw, strict=True):
        line[: len(each)] = np.frombuffer(each, np.uint8)
    blocks = table.view("<u4").astype(np.uint32)
    with np.errstate(over="ignore"):
        for place in range(width // 4):
            mixed = blocks[:, place] * np.uint32(0xCC9E2D51)
            mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
            full, tail = lengths >= 4 * (place + 1), (lengths > 4 * place) & (lengths < 4 * (place + 1))
            state = found ^ mixed
            found = np.where(full, _rotated(state, 13) * np.uint32(5) + np.uint32(0xE6546B64), found)
            found = np.where(tail, state, found)
        found ^= lengths
        found ^= found >> np.uint32(16)
        found *= np.uint32(0x85EBCA6B)
        found ^= found >> np.uint32(13)
        found *= np.uint32(0xC2B2AE35)
        found ^= found >> np.uint32(16)
    return found


def _rotated(values: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
    return np.asarray((values << np.uint32(by)) | (values >> np.uint32(32 - by)))


def counts(text: str) -> tuple[NDArray[np.int64], Floats]:
    """Bins of a text, and how often each is hit."""
    found = Counter(grams(text))
    hashed = (murmur3(list(found)) % BINS).astype(np.int64)
    bins, places = np.unique(hashed, return_inverse=True)
    return bins, np.bincount(places, list(found.values()), len(bins)).astype(np.float32)


class HashedRetriever:
    """Postings by bin: ``bins`` (B,) those in use, ``offsets`` (B + 1,) where each one's begin in ``postings`` (P,)
    documents and ``values`` (P,) their weights; ``idf`` (B,). The arrays may be memory-mapped."""

    def __init__(self, documents: int, arrays: dict[str, NDArray[Any]]) -> None:
        self.documents, self._arrays = documents, {name: arrays[name] for name in ARRAYS}
        self.bins, self.offsets, self.postings, self.values, self.idf = self._arrays.values()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved."""
        return self._arrays

    @classmethod
    def build(cls, texts: Iterable[str], folder: str | Path | None = None) -> HashedRetriever:
        """Read texts once; counts go to files in ``folder`` (a temporary one), not into memory. BadInput without words.

        Memory holds the bins in use and a million counts at a time.
        """
        where = Path(tempfile.mkdtemp(prefix="resift-hashed-", dir=folder))
        names = {"bin": np.int32, "document": np.int32, "count": np.float32}
        paths = {name: where / f"{name}.bin" for name in names}
        documents = 0
        with paths["bin"].open("wb") as bins, paths["document"].open("wb") as places, paths["count"].open("wb") as tf:
            for batch in batched(texts, 1000):
                for text in batch:
                    found, number = counts(text)
                    found.astype(np.int32).tofile(bins)
                    np.full(len(found), documents, np.int32).tofile(places)
                    number.tofile(tf)
                    documents += 1
        if not paths["bin"].stat().st_size:
            raise BadInput("the corpus holds no word", expected="texts")
        raw = {name: np.memmap(paths[name], kind, "r") for name, kind in names.items()}
        spans = [slice(start, start + _CHUNK) for start in range(0, len(raw["bin"]), _CHUNK)]
        used = np.unique(np.concatenate([np.unique(raw["bin"][span]) for span in spans]))
        holding = np.zeros(len(used), np.int64)
        for span in spans:
            holding += np.bincount(np.searchsorted(used, raw["bin"][span]), minlength=len(used))
        idf = np.maximum(np.log((documents - holding + 0.5) / (holding + 0.5)), 0).astype(np.float32)
        offsets = np.concatenate([[0], np.cumsum(holding)])
        postings = np.lib.format.open_memmap(where / "postings.npy", "w+", np.int32, (len(raw["bin"]),))
        values = np.lib.format.open_memmap(where / "values.npy", "w+", np.float32, (len(raw["bin"]),))
        free = offsets[:-1].copy()
        for span in spans:
            rows = np.searchsorted(used, raw["bin"][span])
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
            first = np.searchsorted(rows, rows)
            target = free[rows] + np.arange(len(rows)) - first
            postings[target] = raw["document"][span][order]
            values[target] = np.log1p(raw["count"][span][order]) * idf[rows]
            free += np.bincount(rows, minlength=len(used))
        arrays = {"bins": used, "offsets": offsets, "postings": postings, "values": values, "idf": idf}
        return cls(documents, arrays)

    def scores(self, query: str) -> Floats:
        """Inner product of the query with every document, (N,)."""
        bins, number = counts(query)
        rows = np.searchsorted(self.bins, bins)
        known = (rows < len(self.bins)) & (np.asarray(self.bins)[np.minimum(rows, len(self.bins) - 1)] == bins)
        found = np.zeros(self.documents, np.float32)
        for row, tf in zip(rows[known], number[known], strict=True):
            span = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
            found[self.postings[span]] += self.values[span] * (np.log1p(tf) * self.idf[row])
        return found

    def best(self, query: str, count: int) -> NDArray[np.int64]:
        """At most ``count`` documents with a score above 0, best first, ties by place."""
        return best_of(self.scores(query), count)


def best_of(scores: Floats, count: int) -> NDArray[np.int64]:
    """Places of at most ``count`` scores above 0, best first, ties by place."""
    hit = np.flatnonzero(scores)
    return np.asarray(hit[np.argsort(-scores[hit], kind="stable")[:count]])
