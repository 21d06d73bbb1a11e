"""Encoders: every model is a word table, a pool, a mask, maybe a head, and a similarity, run by one kernel.

By the names that :func:`resift.encoders.builders.build_model` and the trainings give them:

================  =========================================  =====  ==========
name              row of a word                              pool   similarity
================  =========================================  =====  ==========
``mean``          its vector                                 mean   cosine
``boew:K[,σ]``    softmax(-‖x - v_k‖ / σ²) over K codewords  mean   cosine
``ro-boew:K``     the same, trained, with a trained mask     mean   cosine
``rn-bof:K,R``    softmax(-‖x - v_k‖ / σ_k), trained, and a  mean   cosine
                  trained head to R dimensions
``sfbow``         its vector (identity universe)             max    jaccard
``sfbow:U``       its products with the rows of a universe   max    jaccard
================  =========================================  =====  ==========

Memberships are computed once a word when the model is built, so that encoding a text only gathers rows. EmBoost's
networks are in :mod:`resift.encoders.residual`, queries of another model's documents in :mod:`resift.encoders.queries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import BATCH, Floats, text_batches
from resift.errors import BadInput, DimensionMismatch
from resift.text import tokenize
from resift.vectors.compiled import loops_for_texts
from resift.vectors.folder import content_hash, write_folder
from resift.vectors.similarity import SIMILARITIES, unit_rows
from resift.vectors.table import LOOPS_MODULE, WordVectors

# chosen on Cranfield, CISI and mtrag-govt; the weights of trained models are chosen where these are made
DEFAULT_ALPHA, ADAPTED_MAX_ALPHA = 0.5, 0.75
MODEL_FILE = "model.json"
FREQUENT_WORDS = 20_000  # words that explanations name
_BLOCK, _GATHER = 512, 4096
_LONG = 20_000  # characters


class Model:
    """Encodes texts into vectors and compares them.

    ``table``: the word table, (V, K) memberships with a weight a word; ``pool``: ``mean``, sum(w·u) / sum(w)
    (Passalis and Tefas 2018, eq. 3, with word weights), or ``max``, the fuzzy union max(w·u) clipped at 0 (Muffo et
    al. 2021, eq. 6, for sets of words); ``mask``: weights of the dimensions (Passalis and Tefas, eq. 4).
    With ``segments`` S > 1 a text's words fall into S consecutive parts of equal length (give or take a word), which
    are pooled each by itself and joined; ``head``: (S·K, R), after which a vector is relu(headᵀ s), R long (Passalis
    and Tefas 2017, Neural bag-of-features, eq. 8 and section 3.2.3); both want pool ``mean``. Vectors for cosine have
    length 1. Words without a row are skipped; a text without any known word has the zero vector, which is similar to
    nothing.

    ``alpha``: weight of the similarity against the engine's score in a window of hits, 0 to 1, unless a search names
    one; ``max_alpha``: the weight that a session comes near to once much was judged, if it is larger. Both are chosen
    by whoever trains a model, are saved with it, and are no part of its hash, since they do not change a vector.

    ``field`` is None but of models for queries alone (:mod:`resift.encoders.queries`), whose documents have the vectors
    of another model there.

    Raises BadInput for another pool or similarity, segments or a head that want pool ``mean``, or an alpha out of its
    range, and DimensionMismatch if mask or head do not have a row for each of the table's dimensions in each segment.
    """

    kind = "pooled"
    field: str | None = None

    def __init__(
        self,
        name: str,
        table: WordVectors,
        pool: str,
        similarity: str,
        mask: NDArray[Any] | None = None,
        head: NDArray[Any] | None = None,
        segments: int = 1,
        alpha: float = DEFAULT_ALPHA,
        max_alpha: float = DEFAULT_ALPHA,
    ) -> None:
        if pool not in ("mean", "max") or similarity not in SIMILARITIES:
            raise BadInput(f"pool {pool!r}, similarity {similarity!r}", expected="mean | max, cosine | jaccard")
        if segments < 1 or (pool == "max" and (segments > 1 or head is not None)):
            raise BadInput(f"{segments} segments, pool {pool!r}", expected="1 or more, and with a head: pool mean")
        self.name, self.table, self.pool, self.similarity, self.segments = name, table, pool, similarity, segments
        self.alpha, self.max_alpha = alpha, max_alpha
        for setting, value in (("alpha", alpha), ("max_alpha", max_alpha)):
            if not 0 <= value <= 1:
                raise BadInput(f"{setting} is {value}", value=value, expected="0 to 1")
        width = segments * table.dim
        self.mask = np.ones(width, np.float32) if mask is None else np.asarray(mask, np.float32)
        self.head = None if head is None else np.asarray(head, np.float32)
        shapes = [self.mask.shape, *([] if self.head is None else [self.head.shape[:-1]])]
        if any(shape != (width,) for shape in shapes) or not self.dim:
            raise DimensionMismatch(f"mask and head of {shapes} weights", expected=f"{width}, segments times codewords")

    @property
    def dim(self) -> int:
        """Number of dimensions of a vector: R with a head, else S·K."""
        return int(self.mask.size if self.head is None else self.head.shape[1])

    @property
    def space_type(self) -> str:
        """The k-NN space that finds this model's candidates; both take zero vectors."""
        return "innerproduct" if self.similarity == "cosine" else "l2"

    def require_documents(self) -> None:
        """Raise BadInput unless this is a model of documents too, and not of queries alone."""

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits that identify settings, words and table."""
        return content_hash(self._info(), self.table.words, self._arrays())

    @cached_property
    def _matrix(self) -> NDArray[Any]:
        """The table as the kernels take it, read-only: int8 as it is, others in float32."""
        kind = np.int8 if self.table.matrix.dtype == np.int8 else np.float32
        matrix = np.ascontiguousarray(self.table.matrix, kind).view(np.ndarray)
        matrix.flags.writeable = False
        return matrix

    @cached_property
    def _factors(self) -> Floats:
        """What a row of the matrix is multiplied by, (V,): its word's weight, and its scale if it has one."""
        scales = 1 if self.table.scales is None else self.table.scales
        return np.asarray(self.table.weights * scales, np.float32)

    @cached_property
    def _divisors(self) -> Floats:
        """What a mean is divided by, (V,): the sum of these over the words."""
        return np.array(self.table.weights)

    @cached_property
    def is_plain_mean(self) -> bool:
        """Whether a vector is the words' mean brought to length 1, and no more."""
        whole = self.pool == "mean" and self.segments == 1 and self.head is None and self.similarity == "cosine"
        return whole and bool((self.mask == 1).all())

    def encode(self, texts: Iterable[str], batch_size: int = BATCH) -> Floats:
        """Vectors of the texts, shape (n, dim), float32. ``texts`` may be any iterable, and is read batch by batch.

        With numba several threads may encode at the same time. Raises BadInput where an item is not a string.
        """
        batches = list(self.encode_batches(texts, batch_size))
        return np.concatenate(batches) if batches else np.zeros((0, self.dim), np.float32)

    def encode_batches(self, texts: Iterable[str], batch_size: int = BATCH) -> Iterator[Floats]:
        """The same, one (at most ``batch_size``, dim) array after another; a batch of long texts is shorter."""
        return map(self._encode, text_batches(texts, batch_size))

    def encode_one(self, text: str) -> Floats:
        """The vector of one text, shape (dim,), float32; for queries, faster than a batch of one.

        Raises BadInput where ``text`` is not a string.
        """
        vector = self._encode_short(text)
        return self.encode([text]).reshape(self.dim) if vector is None else vector

    def _encode_short(self, text: str) -> Floats | None:
        """The vector of one text without the ways of a batch; None where the text or the model needs these."""
        # of a long text all rows at once would take a thousand times its memory
        if not self.is_plain_mean or not isinstance(text, str) or len(text) > _LONG:
            return None
        rows = [row for row in map(self.table.index.__getitem__, tokenize(text)) if row >= 0]
        if not rows:
            return np.zeros(self.dim, np.float32)
        ids = np.array(rows)
        vector: Floats = self._factors[ids].dot(self._matrix.take(ids, 0))
        vector *= 1 / (sqrt(vector.dot(vector)) or 1)
        return vector

    def _encode(self, texts: Sequence[str]) -> Floats:
        pooled = self._pool(texts).reshape(len(texts), -1)
        vectors = pooled if self.is_plain_mean else self._finish(pooled)
        return unit_rows(vectors) if self.similarity == "cosine" else vectors

    def _pool(self, texts: Sequence[str]) -> Floats:
        """Pooled rows of each text's parts, (n · S, K)."""
        ids, offsets = self.table.ids(texts)
        starts = self.part_starts(offsets)
        pooled = np.empty((len(starts) - 1, self.table.dim), np.float32)
        if self.pool == "mean":
            loops = loops_for_texts(texts, LOOPS_MODULE)
            mean = pool_mean if loops is None else loops.pool_mean
            mean(ids, starts, self._matrix, self._factors, self._divisors, pooled)
        else:
            pool_max(ids, starts, self._matrix, self._factors, pooled)
        return pooled

    def part_starts(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each part of each text starts, and the end: (n · S + 1,)."""
        if self.segments == 1:
            return offsets
        lengths = np.diff(offsets)[:, None]
        # minus the floor of a negative number: rounded up, so that the longer parts come first
        starts = offsets[:-1, None] - (-np.arange(self.segments) * lengths // self.segments)
        return np.append(starts.ravel(), offsets[-1])

    def _finish(self, pooled: Floats) -> Floats:
        """Pooled parts (n, S·K) weighed by the mask and put through the head."""
        masked = pooled * self.mask
        return np.asarray(masked if self.head is None else np.maximum(masked @ self.head, 0))

    def score(self, query: NDArray[Any], documents: NDArray[Any], mask: NDArray[Any] | None = None) -> Floats:
        """Similarity of ``query`` (dim,) with each of ``documents`` (n, dim), all weighted by ``mask`` (dim,); (n,).

        Raises DimensionMismatch if query or documents have another number of dimensions than the model.
        """
        for vectors in (query, documents):
            if np.shape(vectors)[-1] != self.dim:
                raise DimensionMismatch(
                    f"a vector has {np.shape(vectors)[-1]} dimensions",
                    value=np.shape(vectors)[-1],
                    expected=str(self.dim),
                )
        if mask is not None:
            query = query * mask
        # in blocks, whose intermediate results stay in the processor's caches
        scores = np.empty(len(documents), np.float32)
        for start in range(0, len(documents), _BLOCK):
            block = documents[start : start + _BLOCK]
            scores[start : start + _BLOCK] = SIMILARITIES[self.similarity](
                query, block if mask is None else block * mask
            )
        return scores

    def known_share(self, text: str) -> float:
        """:func:`known_share` of a query."""
        return known_share(self.table, self.alpha, self.max_alpha, text)

    @property
    def document_known_share(self) -> Callable[[str], float] | None:
        """Which part of a document's words, 0 to 1, has a row; None if the model was learned from such documents."""
        return None if self.max_alpha > self.alpha else self.known_share

    def nearest_words(self, vector: NDArray[Any], count: int = 5) -> list[str]:
        """The frequent words (first 20,000) whose rows are most similar (cosine) to ``vector`` (dim,), best first."""
        scores = self._units @ np.asarray(vector, np.float32)
        best = np.argpartition(-scores, min(count, len(scores) - 1))[:count]
        return [self.table.words[row] for row in best[np.argsort(-scores[best], kind="stable")]]

    @cached_property
    def _units(self) -> Floats:
        return self.word_vectors(slice(FREQUENT_WORDS))

    def word_vectors(self, ids: Any) -> Floats:
        """Vectors of texts of one word, whose rows in the table are ``ids`` (n,): (n, dim), of length 1."""
        return unit_rows(self._finish(np.tile(self.table.rows(ids), self.segments)))

    def _info(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "pool": self.pool,
            "similarity": self.similarity,
            "tokenizer": "words-1",
            "unknown_words": "skip",
            "vectors": self.table.info,
            **({"segments": self.segments} if self.segments > 1 else {}),
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        head = {} if self.head is None else {"head": self.head}
        return {**self.table.arrays(), "mask": self.mask, **head}

    def save(self, folder: str | Path) -> Path:
        """Write the model as a folder of JSON, words and arrays, whole or not at all; its path.

        Raises BadInput if the folder holds other files.
        """
        settings = {"kind": self.kind, "alpha": self.alpha, "max_alpha": self.max_alpha}
        return write_folder(folder, MODEL_FILE, {**self._info(), **settings}, self.table.words, self._arrays())

    @classmethod
    def restore(cls, info: dict[str, Any], table: WordVectors, arrays: dict[str, NDArray[Any]]) -> Model:
        """A saved model from the settings, the word table and the arrays of its folder."""
        return cls(
            info["name"],
            table,
            info["pool"],
            info["similarity"],
            arrays["mask"],
            arrays.get("head"),
            info.get("segments", 1),
            info.get("alpha", DEFAULT_ALPHA),
            info.get("max_alpha", DEFAULT_ALPHA),
        )


def known_share(table: WordVectors, alpha: float, max_alpha: float, text: str) -> float:
    """The part of a query's weight, 0 to 1, by which its vector is trusted: that of the words with a row in a model's
    ``table``.

    Of a model that was learned from documents, whose ``max_alpha`` is larger than its ``alpha``, it is that of the
    words without a digit, each as much as it is rare. What such a model lacks, hardly any document has; but whoever
    asks for "U2278DE" or "18/45" means exactly that, and to vectors a neighbour of it is as good. Of a text without
    words it is 1.
    """
    words = tokenize(text)
    if max_alpha > alpha:
        words = list(dict.fromkeys(words))
        weights, trusted = list(map(table.idf, words)), [not any(map(str.isdigit, word)) for word in words]
    else:
        rows = [table.index[word] for word in words]
        weights = [table.unknown_weight if row < 0 else float(table.weights[row]) for row in rows]
        trusted = [row >= 0 for row in rows]
    pairs = list(zip(weights, trusted, strict=True))
    total = sum(weight for weight, _ in pairs)
    return sum(weight for weight, is_trusted in pairs if is_trusted) / total if total > 0 else 1.0


def pool_mean(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    matrix: NDArray[Any],
    factors: Floats,
    divisors: Floats,
    out: Floats,
) -> None:
    """Σ factor · row / Σ divisor of each part's words, written to ``out`` (n, K); 0 where the ``divisors`` (V,) are.

    Part i is ``ids[offsets[i]:offsets[i + 1]]``, rows of ``matrix`` (V, K). ``factors`` (V,) float32 are what a row is
    multiplied by: its word's weight, and its scale where the matrix is int8. Compiled: :mod:`resift.vectors.kernels`.
    """
    out[:] = 0
    for row, (start, end) in enumerate(pairwise(offsets)):
        total = divisors[ids[start:end]].sum()
        for some in _split(ids[start:end]) if total > 0 else ():
            out[row] += (factors[some] / total) @ matrix[some].astype(np.float32)


def pool_max(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], matrix: NDArray[Any], factors: Floats, out: Floats
) -> None:
    """The largest of factor · row over each part's words, not below 0, written to ``out`` (n, K)."""
    out[:] = 0
    for row, (start, end) in enumerate(pairwise(offsets)):
        for some in _split(ids[start:end]):
            np.maximum(out[row], (factors[some, None] * matrix[some]).max(axis=0), out=out[row])


def _split(ids: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    """Parts of a long text, so that its gathered rows stay small."""
    return (ids[start : start + _GATHER] for start in range(0, len(ids), _GATHER))
