"""word2doc: which document is meant by a few keywords, however they are written.

A network joins two views of a query (the thesis of 2018 that calls it word2doc, section 2.2): what the query itself
looks like, through a fully connected layer, and the documents that a hashed-bigram retriever finds for it, each by an
embedding of its own. Their mean goes through a second layer with a ReLU, and an output row for each document gives its
score. Mistyped words are read as the corpus spells them, and the query is seen through word vectors and n-grams.

:mod:`resift_lab.training.word2doc` learns it; here it is run by numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.spelling import Speller
from resift.text import tokenize
from resift.vectors.folder import content_hash, corrupt_model_errors, read_folder, write_folder
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.corpus import hashed_ngrams
from resift_lab.word2doc.retriever import ARRAYS, HashedRetriever, best_rows

FILE = "word2doc.json"
CONTEXT = 10
NGRAM_DIM = 256
_NGRAM_SIZES = (2, 3, 4)
_BUCKETS = 2**15


class QueryView:
    """A query as a vector (D + 256,): the weighted mean of its words' vectors, and the sum of its character n-grams.

    N-grams of two to four letters of "<word>" fall into 32,768 buckets with a random direction each. Both parts have
    length 1, or 0 where there is nothing to see.
    """

    def __init__(self, table: WordVectors) -> None:
        self.table = table

    @property
    def dim(self) -> int:
        """Number of dimensions, D + 256."""
        return self.table.dim + NGRAM_DIM

    @cached_property
    def _directions(self) -> Floats:
        return np.random.default_rng(0).standard_normal((_BUCKETS, NGRAM_DIM), np.float32)

    def encode(self, queries: Sequence[str]) -> Floats:
        """Vectors of the queries, (n, D + 256) float32."""
        by_words = np.zeros((len(queries), self.table.dim), np.float32)
        by_ngrams = np.zeros((len(queries), NGRAM_DIM), np.float32)
        for row, query in enumerate(queries):
            words = tokenize(query)
            ids = np.array([id for id in map(self.table.index.__getitem__, words) if id >= 0], np.int64)
            if len(ids):
                by_words[row] = self.table.weights[ids] @ self.table.rows(ids)
            buckets = [bucket for word in words for bucket in hashed_ngrams(word, _NGRAM_SIZES, _BUCKETS)]
            if buckets:
                by_ngrams[row] = self._directions[buckets].sum(axis=0)
        return np.hstack([unit_rows(by_words), unit_rows(by_ngrams)])


class Word2Doc:
    """A trained network with its retriever.

    ``ids``: the N documents' ids; ``view``: how the network sees a query; ``speller``: corrects mistyped words;
    ``layers``: ``query`` (D + 256, H), ``query_bias`` (H,), ``embeddings`` (N, H), ``hidden`` (H, H), ``hidden_bias``
    (H,), ``output`` (N, H) and ``output_bias`` (N,); ``retriever_weight``: what the retriever's scores, divided by the
    best one's, count beside the network's.

    Raises BadInput if ids, retriever and layers are not of the same number of documents, or the layers of other shapes.
    """

    def __init__(
        self,
        ids: Sequence[str],
        view: QueryView,
        retriever: HashedRetriever,
        speller: Speller,
        layers: dict[str, NDArray[Any]],
        retriever_weight: float = 0.0,
        info: dict[str, Any] | None = None,
    ) -> None:
        if not len(ids) == retriever.documents == len(layers["embeddings"]) == len(layers["output"]):
            raise BadInput(
                f"{len(ids)} ids, {retriever.documents} documents retrieved, {len(layers['output'])} predicted",
                expected="the same documents",
            )
        width = layers["embeddings"].shape[1]
        shapes = {
            "query": (view.dim, width),
            "query_bias": (width,),
            "embeddings": (len(ids), width),
            "hidden": (width, width),
            "hidden_bias": (width,),
            "output": (len(ids), width),
            "output_bias": (len(ids),),
        }
        for name, shape in shapes.items():
            if layers[name].shape != shape:
                raise BadInput(f"{name} of shape {layers[name].shape}", expected=str(shape))
        self.ids, self.view, self.retriever, self.speller = list(ids), view, retriever, speller
        self.layers = layers
        self.retriever_weight, self.info = retriever_weight, dict(info or {})

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits that identify documents, network and retriever."""
        return content_hash(self._info(), self.ids, self._arrays())

    def scores(self, queries: Sequence[str]) -> Floats:
        """A score for every document, (n, N) float32; the higher the likelier."""
        network, retrieved = self.parts(queries)
        return np.asarray(network + np.float32(self.retriever_weight) * retrieved)

    def parts(self, queries: Sequence[str]) -> tuple[Floats, Floats]:
        """The network's scores, and the retriever's divided by the best one's, (n, N) each."""
        corrected = [" ".join(self.speller.correct(query)) for query in queries]
        retrieved = np.zeros((len(queries), len(self.ids)), np.float32)
        for row, query in zip(retrieved, corrected, strict=True):
            row[:] = self.retriever.scores(query)
        network = self._network(self.view.encode(corrected), [best_rows(scores, CONTEXT) for scores in retrieved])
        retrieved /= np.maximum(retrieved.max(axis=1, initial=0, keepdims=True), np.finfo(np.float32).tiny)
        return network, retrieved

    def _network(self, inputs: Floats, contexts: Sequence[NDArray[np.int64]]) -> Floats:
        """Scores (n, N) for queries (n, D + 256) and the rows of the documents retrieved for each.

        h = (W q + b + Σ e_c) / (1 + 10), the mean of the query and its context; s = O relu(V h + c) + d.
        """
        layers = self.layers
        joined = np.zeros((len(inputs), layers["embeddings"].shape[1]), np.float32)
        for row, context in zip(joined, contexts, strict=True):
            row[:] = layers["embeddings"][context].astype(np.float32).sum(axis=0) / (1 + CONTEXT)
        joined += (inputs @ layers["query"] + layers["query_bias"]) / (1 + CONTEXT)
        hidden = np.maximum(joined @ layers["hidden"] + layers["hidden_bias"], 0)
        return np.asarray(hidden @ layers["output"].T.astype(np.float32) + layers["output_bias"], np.float32)

    def predict(self, query: str, count: int = 10) -> list[tuple[str, float]]:
        """Ids and scores of the ``count`` likeliest documents, best first."""
        (scores,) = self.scores([query])
        return [(self.ids[row], float(scores[row])) for row in np.argsort(-scores, kind="stable")[:count]]

    def _info(self) -> dict[str, Any]:
        table = self.view.table
        return {**self.info, "mix": self.retriever_weight, "vectors": table.info, "words": table.words}

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
        """Read a folder that :meth:`save` wrote.

        Raises ModelNotFound where there is none, CorruptModel where its content is not what was saved.
        """
        info, ids, arrays = read_folder(folder, FILE)
        with corrupt_model_errors(folder):
            words, about = info.pop("words"), info.pop("vectors")
            table = WordVectors(words, arrays.pop("vectors"), arrays.pop("weights"), arrays.pop("scales", None), about)
            retriever = HashedRetriever(len(ids), {name: arrays.pop(name) for name in ARRAYS})
            known = arrays.pop("known").tobytes().decode("utf-8", "surrogatepass").split("\n")
            speller = Speller(dict(zip(known, arrays.pop("frequency").tolist(), strict=True)))
            return cls(ids, QueryView(table), retriever, speller, arrays, info.pop("mix"), info)
