"""A TF-IDF retriever of hashed unigrams and bigrams, as in DrQA (Chen et al. 2017), which word2doc uses.

Text is converted to Unicode's NFD and to lower case. A token is a run of letters, digits and combining marks, or any
other single character that is not a space. Terms are the tokens and the pairs of adjacent tokens, without stop words
and punctuation. A 32-bit MurmurHash3 maps each term to a bin out of 2²⁴.

A bin with the term frequency tf has the weight log(1 + tf) · max(0, log((N - n + 0.5) / (n + 0.5))), in documents and
queries alike. N is the number of documents, and n the number of documents that contain the bin. The score of a document
is the inner product of its weights with the query's.

Source:
    word2doc (thesis, 2018), section 2.2.3, equation 2.5. The maximum with 0 is not in this equation, but in DrQA.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.text import FUNCTION_WORDS

BINS = 2**24
"""Number of hash bins."""

CHUNK = 1_000_000
"""Number of postings that are processed at a time."""

ARRAYS = ("bins", "offsets", "postings", "values", "idf")
"""Names of a retriever's arrays, in the order of its attributes."""

_TOKEN = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+|\S")


def unigrams_and_bigrams(text: str) -> list[str]:
    r"""Return the unigrams of a text, and then its bigrams, without stop words and punctuation.

    >>> found = unigrams_and_bigrams("The cost of Naïve Bayes, in theory")
    >>> found == ["cost", "nai\u0308ve", "bayes", "theory", "nai\u0308ve bayes"]
    True
    """
    tokens = _TOKEN.findall(unicodedata.normalize("NFD", text).lower())
    # An empty string replaces each stop word and punctuation mark, so that no bigram spans it.
    words = [token if token not in FUNCTION_WORDS and token[0].isalnum() else "" for token in tokens]
    bigrams = (f"{first} {second}" for first, second in pairwise(words) if first and second)
    return [*filter(None, words), *bigrams]


def murmur3(texts: Sequence[str], seed: int = 0) -> NDArray[np.uint32]:
    """Hash texts with the 32-bit MurmurHash3 (x86).

    All texts are hashed at the same time, four bytes per step.

    Args:
        texts: The n texts, which are encoded as UTF-8.
        seed: The seed of the hash function.

    Returns:
        Hashes of shape (n,).
    """
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    lengths = np.array([len(content) for content in encoded], np.uint32)
    state = np.full(len(encoded), seed, np.uint32)
    if not len(encoded):
        return state
    blocks = _four_byte_blocks(encoded)
    with np.errstate(over="ignore"):
        for number in range(blocks.shape[1]):
            mixed = _rotated_left(blocks[:, number] * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
            begin, end = 4 * number, 4 * (number + 1)
            is_full, is_tail = lengths >= end, (lengths > begin) & (lengths < end)
            changed = state ^ mixed
            state = np.where(is_full, _rotated_left(changed, 13) * np.uint32(5) + np.uint32(0xE6546B64), state)
            state = np.where(is_tail, changed, state)
        state ^= lengths
        state ^= state >> np.uint32(16)
        state *= np.uint32(0x85EBCA6B)
        state ^= state >> np.uint32(13)
        state *= np.uint32(0xC2B2AE35)
        state ^= state >> np.uint32(16)
    return state


def _four_byte_blocks(encoded: Sequence[bytes]) -> NDArray[np.uint32]:
    """Convert texts to rows of little-endian 32-bit numbers, padded with zeros.

    Args:
        encoded: The bytes of the n texts.

    Returns:
        An array of shape (n, B), where B is the number of 4-byte blocks of the longest text.
    """
    width = -(-max(1, *map(len, encoded)) // 4) * 4
    padded = np.zeros((len(encoded), width), np.uint8)
    for row, content in zip(padded, encoded, strict=True):
        row[: len(content)] = np.frombuffer(content, np.uint8)
    return padded.view("<u4").astype(np.uint32)


def _rotated_left(values: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    """Rotate the bits of 32-bit numbers to the left: the highest bits become the lowest bits."""
    return np.asarray((values << np.uint32(bits)) | (values >> np.uint32(32 - bits)))


def hashed_counts(text: str) -> tuple[NDArray[np.int64], Floats]:
    """Hash the terms of a text into bins, and count the terms in each bin.

    Args:
        text: The text to split into terms.

    Returns:
        The m bins that contain a term, in ascending order, shape (m,), and the number of terms in each bin, shape (m,).
    """
    counts = Counter(unigrams_and_bigrams(text))
    hashed = (murmur3(list(counts)) % BINS).astype(np.int64)
    bins, rows = np.unique(hashed, return_inverse=True)
    return bins, np.bincount(rows, list(counts.values()), len(bins)).astype(np.float32)


class HashedRetriever:
    """A TF-IDF search in documents, by an inverted index of hashed terms.

    A bin is a hash value, which stands for all terms with this hash. A posting of a bin names a document that contains
    the bin, and the weight of the bin in the document. The postings of all bins are joined end to end.

    Args:
        n_documents: The number N of documents.
        arrays: The arrays ``bins``, ``offsets``, ``postings``, ``values`` and ``idf``, see the attributes. They may be
            memory-mapped.

    Attributes:
        n_documents: The number N of documents.
        bins: The B bins that occur in the documents, ascending, shape (B,).
        offsets: The position of each bin's first posting, and the number P of all postings, shape (B + 1,).
        postings: The document numbers of the postings, shape (P,).
        values: The weights of the postings, shape (P,).
        idf: The inverse document frequency of each bin, shape (B,).

    Raises:
        BadInput: If the shapes of the arrays do not match, or a bin, offset or document number is invalid.
    """

    def __init__(self, n_documents: int, arrays: dict[str, NDArray[Any]]) -> None:
        self.n_documents, self._arrays = n_documents, {name: arrays[name] for name in ARRAYS}
        self.bins, self.offsets, self.postings, self.values, self.idf = self._arrays.values()
        self._check()

    def _check(self) -> None:
        """Raise ``BadInput`` if the arrays do not form a valid inverted index."""
        bins, postings = (len(self.bins),), (len(self.postings),)
        expected = {"bins": bins, "offsets": (bins[0] + 1,), "postings": postings, "values": postings, "idf": bins}
        shapes = {name: array.shape for name, array in self._arrays.items()}
        if shapes != expected:
            raise BadInput(f"the arrays have the shapes {shapes}", expected=str(expected))
        integers = all(array.dtype.kind in "iu" for array in (self.bins, self.offsets, self.postings))
        if not integers or not len(self.bins) or (np.diff(self.bins) <= 0).any():
            raise BadInput("the bins are out of order", expected="ascending whole numbers")
        if self.offsets[0] != 0 or self.offsets[-1] != postings[0] or (np.diff(self.offsets) < 0).any():
            raise BadInput("the offsets are out of order", expected=f"ascending numbers from 0 to {postings[0]}")
        parts = chunk_slices(postings[0])
        if any(self.postings[span].min() < 0 or self.postings[span].max() >= self.n_documents for span in parts):
            raise BadInput("a posting names no document", expected=f"numbers from 0 to {self.n_documents - 1}")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save, by name."""
        return self._arrays

    def scores(self, query: str) -> Floats:
        """Return the TF-IDF score of each document for a query.

        The score is the inner product of two vectors of term weights, one for the query and one for the document.

        Args:
            query: The text of the query.

        Returns:
            Scores of shape (N,) for N documents, float32.
        """
        bins, counts = hashed_counts(query)
        rows = np.searchsorted(self.bins, bins)
        known = (rows < len(self.bins)) & (np.asarray(self.bins)[np.minimum(rows, len(self.bins) - 1)] == bins)
        scores = np.zeros(self.n_documents, np.float32)
        for row, count in zip(rows[known], counts[known], strict=True):
            span = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
            scores[self.postings[span]] += self.values[span] * (np.log1p(count) * self.idf[row])
        return scores

    def best_documents(self, query: str, count: int) -> NDArray[np.int64]:
        """Return the documents with the highest scores for a query, except documents with score 0.

        Documents with equal scores are sorted by position.

        Args:
            query: The text of the query.
            count: The maximum number of documents.

        Returns:
            The positions of the documents, best first.
        """
        return best_positions(self.scores(query), count)


def best_positions(scores: Floats, count: int) -> NDArray[np.int64]:
    """Return the positions of the highest scores, highest first. Scores of 0 are left out.

    Equal scores are sorted by position.

    Args:
        scores: The scores of N documents, shape (N,).
        count: The maximum number of positions.
    """
    hits = np.flatnonzero(scores)
    return np.asarray(hits[np.argsort(-scores[hits], kind="stable")[:count]])


def chunk_slices(length: int) -> list[slice]:
    """Divide a large array into slices that are small enough to process in memory.

    Args:
        length: The length of the array.

    Returns:
        Slices of at most ``CHUNK`` positions, which together cover the array.
    """
    return [slice(start, start + CHUNK) for start in range(0, length, CHUNK)]
