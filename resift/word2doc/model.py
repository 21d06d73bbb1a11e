"""word2doc: which document is meant by a few keywords, however they are written.

A network joins two views of a query (the thesis of 2018 that calls it word2doc, section 2.2): what the query itself
looks like, through a fully connected layer, and the documents that a hashed-bigram retriever finds for it, each by an
embedding of its own. Their mean goes through a second layer with a ReLU, and an output row for each document gives its
score. Mistyped words are read as the corpus spells them, and the query is seen through word vectors and n-grams.

:mod:`resift.training.word2doc` learns it; here it is run by numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.ranking.spelling import Speller
from resift.text import tokenize
from resift.vectors.folder import content_hash, read_folder, write_folder
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift.word2doc.retriever import ARRAYS, HashedRetriever, best_of

FILE = "word2doc.json"
CONTEXT = 10
SPELLING = 256
_BUCKETS = 2**15
_SIZES = (2, 3, 4)


class QueryView:
    """A query as a vector (D + 256,): the weighted mean of its words' vectors, and the sum of its character n-grams.

    N-grams of two to four letters of "<word>" fall into 32,768 buckets with a random direction each. Both parts have
    length 1, or 0 where there is nothing to see.
    """

    def __init__(self, table: WordVectors) -> None:
        self.table = table

    @property
    def dim(self) -> int:
        """Dimensions."""
        return self.table.dim + SPELLING

    @cached_property
    def _directions(self) -> Floats:
        return np.random.default_rng(0).standard_normal((_BUCKETS, SPELLING), np.float32)

    def encode(self, queries: Sequence[str]) -> Floats:
        """(n, dim)."""
        found = np.zeros((len(queries), self.dim), np.float32)
        for line, query in zip(found, queries, strict=True):
            words = tokenize(query)
            rows = np.array([row for row in map(self.table.index.__getitem__, words) if row >= 0], np.int64)
            if len(rows):
                line[: self.table.dim] = self.table.weights[rows] @ self.table.rows(rows)
            buckets = [bucket for word in words for bucket in _buckets(word)]
            if buckets:
                line[self.table.dim :] = self._directions[buckets].sum(axis=0)
        return np.hstack([unit_rows(found[:, : self.table.dim]), unit_rows(found[:, self.table.dim :])])


def _buckets(word: str) -> list[int]:
    marked = f"<{word}>".encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return [
        crc32(marked[start : start + size].encode()) % _BUCKETS
        for size in _SIZES
        for start in range(max(1, len(marked) - size + 1))
    ]


class Word2Doc:
    """A trained network with its retriever.

    ``ids``: the documents' ids; ``view``: how a query is seen; ``speller``: reads mistyped words; ``layers``: ``query``
    (D + 256, H), ``query_bias`` (H,), ``embeddings`` (N, H), ``hidden`` (H, H), ``hidden_bias`` (H,), ``output`` (N, H)
    and ``output_bias`` (N,); ``mix``: what the retriever's scores, over the best one's, count beside the network's.
    """

    def __init__(
        self,
        ids: Sequence[str],
        view: QueryView,
        retriever: HashedRetriever,
        speller: Speller,
        layers: dict[str, NDArray[Any]],
        mix: float = 0.0,
        info: dict[str, Any] | None = None,
    ) -> None:
        if not len(ids) == retriever.documents == len(layers["embeddings"]) == len(layers["output"]):
            raise BadInput(
                f"{len(ids)} ids, {retriever.documents} documents retrieved, {len(layers['output'])} predicted",
                expected="the same documents",
            )
        self.ids, self.view, self.retriever, self.speller = list(ids), view, retriever, speller
        self.layers = layers
        self.mix, self.info = mix, dict(info or {})

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits that identify documents, network and retriever."""
        return content_hash(self._info(), self.ids, self._arrays())

    def scores(self, queries: Sequence[str]) -> Floats:
        """A score for every document (Q, N); the higher the likelier."""
        network, retrieved = self.parts(queries)
        return np.asarray(network + np.float32(self.mix) * retrieved)

    def parts(self, queries: Sequence[str]) -> tuple[Floats, Floats]:
        """The network's scores, and the retriever's over the best one's, (Q, N) each."""
        layers = self.layers
        queries = [" ".join(self.speller.correct(query)) for query in queries]
        retrieved = np.zeros((len(queries), len(self.ids)), np.float32)
        found = np.zeros((len(queries), layers["embeddings"].shape[1]), np.float32)
        for line, scores, query in zip(found, retrieved, queries, strict=True):
            scores[:] = self.retriever.scores(query)
            context = best_of(scores, CONTEXT)
            line[:] = layers["embeddings"][context].astype(np.float32).sum(axis=0) / (1 + CONTEXT)
            scores /= scores.max() or 1
        found += (self.view.encode(queries) @ layers["query"] + layers["query_bias"]) / (1 + CONTEXT)
        hidden = np.maximum(found @ layers["hidden"] + layers["hidden_bias"], 0)
        network = hidden @ layers["output"].T.astype(np.float32) + layers["output_bias"]
        return np.asarray(network, np.float32), retrieved

    def predict(self, query: str, count: int = 10) -> list[tuple[str, float]]:
        """The likeliest documents' ids and scores, best first."""
        (scores,) = self.scores([query])
        return [(self.ids[place], float(scores[place])) for place in np.argsort(-scores, kind="stable")[:count]]

    def _info(self) -> dict[str, Any]:
        return {**self.info, "mix": self.mix, "vectors": self.view.table.info, "words": self.view.table.words}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        known = "\n".join(self.speller.frequency).encode("utf-8", "surrogatepass")
        spelling: dict[str, NDArray[Any]] = {
            "known": np.frombuffer(known, np.uint8),
            "frequency": np.array(list(self.speller.frequency.values()), np.int32),
        }
        return {**self.view.table.arrays(), **self.retriever.arrays(), **spelling, **self.layers}

    def save(self, folder: str | Path) -> Path:
        """Write the folder, whole or not at all."""
        return write_folder(folder, FILE, self._info(), self.ids, self._arrays())

    @classmethod
    def load(cls, folder: str | Path) -> Word2Doc:
        """Read a folder that :meth:`save` wrote; arrays stay on disk. Raises ModelNotFound or CorruptModel."""
        info, ids, arrays = read_folder(folder, FILE)
        words, about = info.pop("words"), info.pop("vectors")
        table = WordVectors(words, arrays.pop("vectors"), arrays.pop("weights"), arrays.pop("scales", None), about)
        retriever = HashedRetriever(len(ids), {name: arrays.pop(name) for name in ARRAYS})
        known = arrays.pop("known").tobytes().decode("utf-8", "surrogatepass").split("\n")
        speller = Speller(dict(zip(known, arrays.pop("frequency").tolist(), strict=True)))
        return cls(ids, QueryView(table), retriever, speller, arrays, info.pop("mix"), info)
