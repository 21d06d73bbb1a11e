"""Where self-supervised training starts: words counted in a corpus, and rows for them from two sources.

One is a table of word vectors, the other the corpus itself: latent semantic indexing (Deerwester et al. 1990), the
singular vectors of its tf-idf matrix. Both are centred, given the same weight and set side by side, so that the inner
product of two texts is the mean of what both sources say.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.text import tokenize
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Ids = NDArray[np.int32]

_NOISE = 0.3
_EPSILON = 1e-9


class Corpus:
    """Documents as rows of a vocabulary: the words that occur at least ``least`` times in all, most frequent first.

    ``documents``: an array of rows for each text, in the order of its words; ``idf`` (V,): log((N + 1) / (n + .5)),
    n being the number of documents that hold the word, .05 at least. Raises BadInput where no word is left.
    """

    def __init__(self, texts: Iterable[Sequence[str]], least: int = 2) -> None:
        texts = list(texts)
        frequency = Counter(chain.from_iterable(texts))
        if not frequency:
            raise BadInput("the corpus holds no word", expected="texts")
        self.words = [word for word, count in frequency.most_common() if count >= least]
        if not self.words:
            raise BadInput(f"no word occurs {least} times", value=least, expected="a larger corpus or smaller count")
        self.index = {word: row for row, word in enumerate(self.words)}
        self.documents: list[Ids] = [
            np.array([self.index[word] for word in text if word in self.index], np.int32) for text in texts
        ]
        self.frequency = np.array([frequency[word] for word in self.words], np.float64)
        self.counts = bags(self.documents, len(self.words))
        holding = np.bincount(self.counts.indices, minlength=len(self.words))
        self.idf = np.maximum(np.log((len(texts) + 1) / (holding + 0.5)), 0.05).astype(np.float32)

    def means(self, rows: Floats, weights: Floats) -> Floats:
        """Weighted mean of ``rows`` (V, D) over each document's words, (N, D); zeros for an empty document."""
        total = np.maximum(self.counts @ weights, _EPSILON)[:, None]
        return np.asarray((self.counts @ (rows * weights[:, None])) / total, np.float32)


def words_of(texts: Iterable[Any], limit: int, seed: int) -> list[list[str]]:
    """Words of at most ``limit`` texts, drawn evenly from all (reservoir sampling) and left in their order.

    Raises BadInput where an item is not a string.
    """
    rng = np.random.default_rng(seed)
    kept: dict[int, list[str]] = {}
    slots: list[int] = []
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise BadInput(f"text {position} is a {type(text).__name__}", value=text, expected="a string")
        if len(slots) < limit:
            slots.append(position)
        elif (slot := int(rng.integers(position + 1))) < limit:
            del kept[slots[slot]]
            slots[slot] = position
        else:
            continue
        kept[position] = list(map(sys.intern, tokenize(text)))
    return [kept[position] for position in sorted(kept)]


def bags(documents: Sequence[Ids], width: int) -> csr_matrix:
    """How often each word occurs, (n, width) float32."""
    from scipy.sparse import csr_matrix

    ends = np.cumsum([0, *map(len, documents)])
    ids = np.concatenate(documents) if len(documents) else np.zeros(0, np.int32)
    counts = csr_matrix((np.ones(len(ids), np.float32), ids, ends), shape=(len(documents), width))
    counts.sum_duplicates()
    return counts


def from_vectors(corpus: Corpus, vectors: WordVectors, seed: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Rows (V, D) of the corpus' words at length 1, and which of them the table knows (V,).

    A word that the table lacks gets the mean of the documents that hold it, plus a little noise that tells it from
    others of the same documents. Raises BadInput where the table knows none.
    """
    found = np.array([vectors.index[word] for word in corpus.words])
    known = found >= 0
    if not known.any():
        raise BadInput(
            f"none of the corpus' {len(found)} words has a vector", value=corpus.words[0], expected="vectors that fit"
        )
    rows = np.zeros((len(found), vectors.dim), np.float32)
    rows[known] = unit_rows(vectors.rows()[found[known]])
    documents = unit_rows(corpus.means(rows, corpus.idf))
    holds = corpus.counts[:, ~known].astype(bool).astype(np.float32)
    context = unit_rows(holds.T @ (documents - documents.mean(axis=0)))
    noise = unit_rows(np.random.default_rng(seed).normal(size=context.shape))
    rows[~known] = (1 - _NOISE) * context + _NOISE * noise
    return rows, known


def from_corpus(corpus: Corpus, dim: int, seed: int) -> Floats:
    """Rows (V, at most ``dim``): right singular vectors of the tf-idf matrix, (1 + log tf) · idf at length 1.

    Each is divided by the fourth root of its singular value, which keeps the first from drowning the rest.
    """
    from scipy.sparse import diags
    from scipy.sparse.linalg import svds

    matrix = corpus.counts.copy()
    matrix.data = (1 + np.log(matrix.data)) * corpus.idf[matrix.indices]
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    matrix = (diags(1 / np.maximum(norms, _EPSILON)) @ matrix).astype(np.float64)
    if (size := min(matrix.shape)) <= 4 * dim:
        _, values, axes = np.linalg.svd(matrix.toarray(), full_matrices=False)
    else:
        start = np.random.default_rng(seed).normal(size=size)
        _, values, axes = svds(matrix, k=dim, v0=start)
    best = np.argsort(-values, kind="stable")[:dim]
    best = best[values[best] > 1e-6 * values.max(initial=0)]
    return np.asarray(axes[best].T / values[best] ** 0.25, np.float32)


def side_by_side(corpus: Corpus, parts: Sequence[Floats]) -> Floats:
    """Tables ``parts`` (V, D_i) centred, with documents of the same mean square length, joined to (V, sum D_i).

    A word of the corpus, drawn by frequency, has length 1 in the mean square.
    """
    joined = []
    for part in parts:
        means = corpus.means(part, corpus.idf)
        centre = means.mean(axis=0)
        spread = np.sqrt(((means - centre) ** 2).sum(axis=1).mean())
        joined.append((part - centre) / max(float(spread), _EPSILON))
    rows = np.hstack(joined)
    length = np.sqrt(np.average((rows**2).sum(axis=1), weights=corpus.frequency))
    return np.asarray(rows / max(float(length), _EPSILON), np.float32)


def rotated(corpus: Corpus, rows: Floats, weights: Floats, dim: int) -> tuple[Floats, Floats]:
    """Rows centred on the documents' mean and turned to the ``dim`` principal axes of the documents at length 1.

    ``rows`` (V, D); gives (V, dim), zeros filling up where D is smaller, and the axes (D, dim).
    """
    means = corpus.means(rows, weights)
    centre = means.mean(axis=0)
    units = unit_rows(means - centre).astype(np.float64)
    _, axes = np.linalg.eigh(units.T @ units)
    axes = axes[:, ::-1][:, :dim]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)
    return np.asarray((rows - centre) @ axes, np.float32), np.asarray(axes, np.float32)
