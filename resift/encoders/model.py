"""Encode texts as vectors with tables of word vectors.

A model consists of a word table, a pooling method, optional trained layers, and a similarity measure. The same code
runs all of these models, which :func:`resift.encoders.builders.build_model` and the trainings create:

================  ==================================================  =======  ==========
name              row of a word                                       pooling  similarity
================  ==================================================  =======  ==========
``mean``          its vector                                          mean     cosine
``boew:K[,σ]``    memberships in K codewords, softmax(-‖x - v_k‖/σ²)  mean     cosine
``ro-boew:K``     as ``boew``, with trained codewords, and with a     mean     cosine
                  trained mask
``rn-bof:K,R``    memberships softmax(-‖x - v_k‖/σ_k), with trained   mean     cosine
                  codewords and σ_k, and a trained head to R
                  dimensions
``sfbow``         its vector, as memberships in the identity          max      jaccard
                  universe
``sfbow:U``       its products with the rows of the universe U        max      jaccard
================  ==================================================  =======  ==========

The memberships of each word are computed when the model is built, so encoding a text only gathers rows. Other kinds of
models are in :mod:`resift.encoders.residual`, :mod:`resift.encoders.queries`, :mod:`resift.encoders.bags`,
:mod:`resift.encoders.word2doc` and :mod:`resift.encoders.class_model`.

Source: Passalis and Tefas 2018, section 3.1, eqs. 1 and 2, for BoEW and RO-BoEW. Passalis and Tefas 2017,
section 3.2.1, eq. 6, for RN-BoF. Muffo et al. 2021, section 3.2, for SFBoW.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import BATCH, Floats, text_batches
from resift.encoders.known_words import known_share
from resift.encoders.pooling import pool_max, pool_mean
from resift.errors import BadInput, DimensionMismatch
from resift.text import tokenize
from resift.vectors.compiled import loops_for_texts
from resift.vectors.folder import content_hash, write_folder
from resift.vectors.similarity import SIMILARITIES, unit_rows
from resift.vectors.table import WordVectors
from resift.vectors.weights import DEFAULT_ALPHA, Alphas

MODEL_FILE = "model.json"
"""Name of the JSON file in a model's folder."""

FREQUENT_WORDS = 20_000
"""Number of most frequent words that :meth:`Model.nearest_words` searches."""

_SCORED_ROWS = 512  # rows scored at a time, so that intermediate results stay in the processor's caches
_MAX_SHORT_TEXT = 20_000  # characters of a text whose rows are gathered at once


@dataclass(frozen=True)
class Layers:
    """Trained layers of a model, which are applied after the word rows of a text are pooled.

    A text is divided into S segments. The rows of each segment are pooled to a vector of K dimensions, and the S
    vectors are concatenated.

    Attributes:
        mask: Weight of each pooled dimension, shape (S·K,). None means that all weights are 1. Source: Passalis and
            Tefas 2018, section 3.1, eq. 4.
        head: Matrix of shape (S·K, R), which maps a pooled vector s to relu(headᵀ · s) with R dimensions. None omits
            this step. A head requires mean pooling. Source: Passalis and Tefas 2017, section 3.2.1, eq. 8.
        segments: Number S of consecutive segments, whose numbers of words differ by at most 1. More than one segment
            requires mean pooling. Source: Passalis and Tefas 2017, section 3.2.3.
        blocks: Number B of blocks of consecutive dimensions, all of the same size, that are scaled to the same length.
            The cosine of two texts is then the mean of the cosines of their blocks. More than one block requires mean
            pooling and the similarity ``cosine``.
    """

    mask: NDArray[Any] | None = None
    head: NDArray[Any] | None = None
    segments: int = 1
    blocks: int = 1


class Model:
    """An encoder of texts as vectors, with a similarity measure for them.

    The vector of a text is pooled from the vectors of its words ("rows" of the word table). Unknown words are skipped.
    A text without known words has the zero vector, whose similarity with every vector is 0. Vectors that are compared
    by cosine have unit length.

    Args:
        name: Name of the model.
        table: Word table with a row of K dimensions and a weight w for each word.
        pool: ``mean`` for Σ w·u / Σ w over the words' rows u, or ``max`` for the maximum of w·u in each dimension,
            at least 0.
        similarity: ``cosine`` or ``jaccard``.
        layers: Trained layers that follow the pooling.
        alphas: Weights of the similarity when it is combined with the engine's score. They are saved with the model,
            but are not part of its hash, because they do not change its vectors.

    Attributes:
        kind: Type of the model, as recorded in the saved folder.
        field: For models that encode queries only, the index field with the vectors of the documents. Otherwise None.
        bags: For models that encode bags of vectors instead of texts (:mod:`resift.encoders.bags`), the field of a
            document that contains its bag. Otherwise None.
        alpha: Weight of the similarity in searches without a session.
        max_alpha: Weight of the similarity that is approached as the judgements of a session accumulate.

    Raises:
        BadInput: If the pooling or similarity is unknown, or the layers require mean pooling.
        DimensionMismatch: If the mask or head does not have S·K rows.

    Source:
        Mean: Passalis and Tefas 2018, section 3.1, eq. 3, with word weights. Max: Muffo et al. 2021, section 2.2,
        eq. 6, without counts.
    """

    kind = "pooled"
    field: str | None = None
    bags: str | None = None

    def __init__(
        self,
        name: str,
        table: WordVectors,
        pool: str,
        similarity: str,
        layers: Layers | None = None,
        alphas: Alphas | None = None,
    ) -> None:
        layers, alphas = layers or Layers(), alphas or Alphas()
        if pool not in ("mean", "max"):
            raise BadInput(f"pool is {pool!r}", value=pool, expected="mean | max")
        if similarity not in SIMILARITIES:
            raise BadInput(f"similarity is {similarity!r}", value=similarity, expected=" | ".join(SIMILARITIES))
        if layers.segments < 1 or (pool == "max" and (layers.segments > 1 or layers.head is not None)):
            message = f"{layers.segments} segments with pool {pool!r}"
            raise BadInput(message, expected="1 or more segments; several segments or a head require pool 'mean'")
        self.name, self.table, self.pool, self.similarity = name, table, pool, similarity
        self.segments, self.blocks = layers.segments, layers.blocks
        self.alpha, self.max_alpha = alphas.alpha, alphas.max_alpha
        width = self.segments * table.dim
        self.mask = np.ones(width, np.float32) if layers.mask is None else np.asarray(layers.mask, np.float32)
        self.head = None if layers.head is None else np.asarray(layers.head, np.float32)
        shapes = [self.mask.shape, *([] if self.head is None else [self.head.shape[:-1]])]
        if any(shape != (width,) for shape in shapes) or not self.dim:
            message = f"the rows of mask and head have the shapes {shapes}"
            raise DimensionMismatch(message, expected=f"({width},), segments times dimensions of the word table")
        if self.blocks != 1 and (self.blocks < 1 or self.dim % self.blocks or (pool, similarity) != ("mean", "cosine")):
            message = f"{self.blocks} blocks of {self.dim} dimensions with pool {pool!r}, similarity {similarity!r}"
            raise BadInput(message, expected="blocks of the same size; several blocks require 'mean' and 'cosine'")

    @property
    def dim(self) -> int:
        """The number of dimensions of the model's vectors."""
        return int(self.mask.size if self.head is None else self.head.shape[1])

    @property
    def space_type(self) -> str:
        """The k-NN space type in OpenSearch that fits the model's similarity and accepts zero vectors."""
        return "innerproduct" if self.similarity == "cosine" else "l2"

    @property
    def is_adapted(self) -> bool:
        """Whether the model was adapted to the documents that it encodes.

        In a session, the weight of an adapted model's similarities grows from ``alpha`` towards ``max_alpha`` with the
        number of judgements.
        """
        return self.max_alpha > self.alpha

    def require_documents(self) -> None:
        """Check that the model can encode documents, and not only queries. Called before documents are indexed.

        Raises:
            BadInput: If the model can only encode queries.
        """

    @cached_property
    def hash(self) -> str:
        """A hash of the model's settings, words and arrays, as 16 hexadecimal digits."""
        return content_hash(self._info(), self._saved_words(), self._arrays())

    @cached_property
    def _matrix(self) -> NDArray[Any]:
        """The word vectors as an array for the pooling functions: int8 or float32, contiguous and read-only."""
        kind = np.int8 if self.table.matrix.dtype == np.int8 else np.float32
        matrix = np.ascontiguousarray(self.table.matrix, kind).view(np.ndarray)
        matrix.flags.writeable = False
        return matrix

    @cached_property
    def _factors(self) -> Floats:
        """The factor of each word vector in the sum over a text's words, of shape (n_words,).

        It is the weight of the word, times the scale of the vector if the vectors are stored as int8.
        """
        scales = 1 if self.table.scales is None else self.table.scales
        return np.asarray(self.table.weights * scales, np.float32)

    @cached_property
    def _divisors(self) -> Floats:
        """The weight of each word, of shape (n_words,). Weighted means are divided by the sum of these weights."""
        return np.array(self.table.weights)

    @cached_property
    def is_plain_mean(self) -> bool:
        """Whether a text's vector is the weighted mean of its word vectors, scaled to unit length, and nothing else."""
        is_mean = self.pool == "mean" and self.similarity == "cosine"
        return is_mean and self.blocks == 1 and not self._has_layers

    @property
    def _can_encode_short(self) -> bool:
        """Whether :meth:`_encode_short` computes the vectors of this model, which are means of word vectors."""
        return self.is_plain_mean or (self.blocks > 1 and not self._has_layers)

    @cached_property
    def _has_layers(self) -> bool:
        """Whether the model has segments, a mask or a head, which change the mean or maximum of the word vectors."""
        return self.segments > 1 or self.head is not None or bool((self.mask != 1).any())

    def encode(self, texts: Iterable[str], batch_size: int = BATCH) -> Floats:
        """Encode texts as vectors.

        Several threads can encode at the same time. They run in parallel if numba is installed.

        Args:
            texts: The texts. The iterable is read batch by batch.
            batch_size: The maximum number of texts that are encoded together.

        Returns:
            Float32 array of shape (n_texts, n_dimensions).

        Raises:
            BadInput: If ``texts`` is a single string, or an item is not a string.
        """
        batches = list(self.encode_batches(texts, batch_size))
        return np.concatenate(batches) if batches else np.zeros((0, self.dim), np.float32)

    def encode_bags(self, values: Sequence[Any]) -> tuple[Floats, dict[int, str]]:
        """Encode documents that contain a bag of vectors, such as the vectors of an image's patches.

        Only models of :mod:`resift.encoders.bags` can do this.

        Args:
            values: The bag of each document, as JSON.

        Returns:
            The vectors of the documents, and the reasons why bags cannot be encoded, by position.

        Raises:
            BadInput: If the model encodes texts.
        """
        raise BadInput(f"model {self.name} encodes texts, not bags of vectors", expected="a text")

    def encode_batches(self, texts: Iterable[str], batch_size: int = BATCH) -> Iterator[Floats]:
        """Encode texts as vectors, and yield the vectors batch by batch.

        Use this method if the vectors of all texts would need too much memory.

        Args:
            texts: The texts. The iterable is read batch by batch.
            batch_size: The maximum number of texts in a batch. Batches of long texts are smaller.

        Yields:
            Float32 arrays of shape (n_texts_in_batch, n_dimensions).
        """
        return map(self._encode, text_batches(texts, batch_size))

    def encode_one(self, text: str) -> Floats:
        """Encode a single text. This is faster than :meth:`encode` with a list of one text.

        Args:
            text: The text to encode.

        Returns:
            Float32 array of shape (n_dimensions,).

        Raises:
            BadInput: If ``text`` is not a string.
        """
        vector = self._encode_short(text)
        return self.encode([text]).reshape(self.dim) if vector is None else vector

    def encode_query(self, text: str) -> Floats:
        """Encode the text of a query.

        Most models encode queries and documents in the same way.

        Args:
            text: The text of the query.

        Returns:
            Float32 array of shape (n_dimensions,).

        Raises:
            BadInput: If ``text`` is not a string.
        """
        return self.encode_one(text)

    def _encode_short(self, text: str) -> Floats | None:
        """Encode a short text with a faster method than :meth:`encode`, if the model and the text allow it.

        Args:
            text: The text to encode.

        Returns:
            A vector of shape (n_dimensions,). The result is None if the text has more than ``_MAX_SHORT_TEXT``
            characters, or if a mask, a head or segments change the mean of the word vectors.
        """
        # Gathering all rows of a long text at once would need about 1,000 times its memory.
        if not self._can_encode_short or not isinstance(text, str) or len(text) > _MAX_SHORT_TEXT:
            return None
        rows = [row for row in map(self.table.index.__getitem__, tokenize(text)) if row >= 0]
        if not rows:
            return np.zeros(self.dim, np.float32)
        ids = np.array(rows)
        vector: Floats = self._factors[ids].dot(self._matrix.take(ids, 0))
        if self.blocks > 1:
            for block in vector.reshape(self.blocks, -1):
                block *= 1 / (sqrt(block.dot(block)) or 1)
        vector *= 1 / (sqrt(vector.dot(vector)) or 1)
        return vector

    def _encode(self, texts: Sequence[str]) -> Floats:
        """Encode one batch of texts, and return their vectors, of shape (n_texts, n_dimensions)."""
        pooled = self._pool(texts, *self.table.ids(texts)).reshape(len(texts), -1)
        vectors = self._apply_layers(pooled) if self._has_layers else pooled
        return self._unit_rows(vectors) if self.similarity == "cosine" else vectors

    def _unit_rows(self, vectors: Floats) -> Floats:
        """Scale vectors to unit length. In a model with several blocks of dimensions, each block is scaled equally.

        Blocks of zeros stay zero.

        Args:
            vectors: The vectors, of shape (n_vectors, n_dimensions).
        """
        if self.blocks == 1:
            return unit_rows(vectors)
        units = unit_rows(vectors.reshape(len(vectors), self.blocks, -1))
        return unit_rows(units.reshape(len(vectors), -1))

    def _pool(self, texts: Sequence[str], ids: NDArray[np.int32], offsets: NDArray[np.int64]) -> Floats:
        """Combine the word vectors of each text, or of each segment of a text, into a single vector.

        Args:
            texts: The texts. Each is divided into the model's number of segments.
            ids: The words of the texts, from :meth:`WordVectors.ids`.
            offsets: The positions at which the texts start and end in ``ids``, of shape (n_texts + 1,).

        Returns:
            Array of shape (n_texts · n_segments, n_word_dimensions).
        """
        starts = self.segment_starts(offsets)
        pooled = np.empty((len(starts) - 1, self.table.dim), np.float32)
        if self.pool == "mean":
            loops = loops_for_texts(texts)
            mean = pool_mean if loops is None else loops.pool_mean
            mean(ids, starts, self._matrix, self._factors, self._divisors, pooled)
        else:
            pool_max(ids, starts, self._matrix, self._factors, pooled)
        return pooled

    def segment_starts(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Divide texts into the model's number of segments, with nearly equal numbers of words.

        Args:
            offsets: The positions at which the texts start and end in an array of all words, of shape (n_texts + 1,).

        Returns:
            The positions at which the segments start and end, of shape (n_texts · n_segments + 1,).
        """
        if self.segments == 1:
            return offsets
        lengths = np.diff(offsets)[:, None]
        # Minus the floor of a negative number rounds up, so that the longer segments come first.
        starts = offsets[:-1, None] - (-np.arange(self.segments) * lengths // self.segments)
        return np.append(starts.ravel(), offsets[-1])

    def _apply_layers(self, pooled: Floats) -> Floats:
        """Apply the trained layers of the model (mask and head) to pooled word vectors.

        Args:
            pooled: The pooled word vectors of each text, of shape (n_texts, n_segments · n_word_dimensions).
        """
        masked = pooled * self.mask
        return np.asarray(masked if self.head is None else np.maximum(masked @ self.head, 0))

    def score(self, query: NDArray[Any], documents: NDArray[Any], mask: NDArray[Any] | None = None) -> Floats:
        """Return the similarity between a query vector and each document vector.

        Args:
            query: The query vector, of shape (n_dimensions,).
            documents: The document vectors, of shape (n_documents, n_dimensions).
            mask: A weight for each dimension, of shape (n_dimensions,). Query and documents are multiplied by the
                weights first.

        Returns:
            Float32 array of shape (n_documents,).

        Raises:
            DimensionMismatch: If the vectors do not have the model's number of dimensions.
        """
        for vectors in (query, documents):
            dim = np.shape(vectors)[-1]
            if dim != self.dim:
                raise DimensionMismatch(f"a vector has {dim} dimensions", value=dim, expected=str(self.dim))
        if mask is not None:
            query = query * mask
        similarity = SIMILARITIES[self.similarity]
        scores = np.empty(len(documents), np.float32)
        for start in range(0, len(documents), _SCORED_ROWS):
            block = documents[start : start + _SCORED_ROWS]
            scores[start : start + _SCORED_ROWS] = similarity(query, block if mask is None else block * mask)
        return scores

    def known_share(self, text: str) -> float:
        """Return the share of a query's words that the model knows, from 0 to 1.

        Rare words count more than frequent words. A word counts as known if it is in the model's table. In a model that
        was trained on the documents, all words without digits count as known.

        Args:
            text: The text of the query.
        """
        return known_share(self.table, text, adapted=self.is_adapted)

    @property
    def document_known_share(self) -> Callable[[str], float] | None:
        """A function that returns the share of a text's words, from 0 to 1, that the model knows.

        None for a model that was trained on the documents, because it knows nearly all of their words.
        """
        return None if self.is_adapted else self.known_share

    def nearest_words(self, vector: NDArray[Any], count: int = 5) -> list[str]:
        """Return the words whose vectors have the largest inner product with a vector, best first.

        Only the FREQUENT_WORDS most frequent words are considered. Of words with equal products, more frequent words
        come first.

        Args:
            vector: The vector, of shape (n_dimensions,).
            count: The maximum number of words.
        """
        scores = self._frequent_word_vectors @ np.asarray(vector, np.float32)
        return [self.table.words[row] for row in np.argsort(-scores, kind="stable")[:count]]

    @cached_property
    def _frequent_word_vectors(self) -> Floats:
        """The vectors of the FREQUENT_WORDS most frequent words, of shape (n_words, n_dimensions)."""
        return self.word_vectors(slice(FREQUENT_WORDS))

    def word_vectors(self, ids: Any) -> Floats:
        """Return the vectors with which the model encodes single words.

        Args:
            ids: The row numbers of the words in the word table, of shape (n_words,), or a slice.

        Returns:
            Float32 array of shape (n_words, n_dimensions), with rows of unit length.
        """
        return self._unit_rows(self._apply_layers(np.tile(self.table.rows(ids), self.segments)))

    def _info(self) -> dict[str, Any]:
        """Return the settings of the model, which are saved and are part of its hash."""
        return {
            "name": self.name,
            "pool": self.pool,
            "similarity": self.similarity,
            "tokenizer": "words-1",
            "unknown_words": "skip",
            "vectors": self.table.info,
            **({"segments": self.segments} if self.segments > 1 else {}),
            **({"blocks": self.blocks} if self.blocks > 1 else {}),
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to be saved, by name."""
        head = {} if self.head is None else {"head": self.head}
        return {**self.table.arrays(), "mask": self.mask, **head}

    def save(self, folder: str | Path) -> Path:
        """Save the model to a folder, as a JSON file, a list of words and array files.

        The folder is written atomically. If it contains a model, the model is replaced.

        Args:
            folder: The path of the folder.

        Returns:
            The path of the folder.

        Raises:
            BadInput: If the folder contains other files or cannot be written.
        """
        settings = {"kind": self.kind, "alpha": self.alpha, "max_alpha": self.max_alpha}
        return write_folder(folder, MODEL_FILE, {**self._info(), **settings}, self._saved_words(), self._arrays())

    def _saved_words(self) -> list[str]:
        """Return the words to be saved."""
        return self.table.words

    @classmethod
    def restore(cls, info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]) -> Model:
        """Create a model from the contents of a saved folder.

        Args:
            info: The settings, as saved in JSON.
            words: The saved words, in the order of their rows.
            arrays: The saved arrays by name: ``mask``, which contains a weight for each dimension, and optionally
                ``head``, the matrix of the model's last linear layer.
        """
        return cls(
            info["name"],
            WordVectors.restore(words, arrays, info["vectors"]),
            info["pool"],
            info["similarity"],
            Layers(arrays["mask"], arrays.get("head"), info.get("segments", 1), info.get("blocks", 1)),
            Alphas(alpha=info.get("alpha", DEFAULT_ALPHA), max_alpha=info.get("max_alpha", DEFAULT_ALPHA)),
        )
