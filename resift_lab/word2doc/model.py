"""The word2doc network at prediction time, computed with NumPy.

word2doc predicts which document is meant by a few keywords (the thesis "word2doc", 2018, section 2.2.1). The network
combines two inputs. A fully connected layer maps the query's vector to a hidden vector. A retriever of hashed unigrams
and bigrams returns ten documents for the query (the context), each of which has a learned embedding. The mean of these
eleven vectors passes through a second layer with a ReLU, and an output row for each document gives the document's
score.

Beyond the thesis, a speller first corrects mistyped words, the query's vector consists of word vectors and character
n-grams instead of InferSent's sentence embedding, and the retriever's own scores may be added to the network's.

:mod:`resift_lab.training.word2doc` trains the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
from resift_lab.word2doc.retriever import ARRAYS, HashedRetriever, best_positions

FILE = "word2doc.json"
# Number of context documents.
CONTEXT = 10
# Dimensions, sizes and hash buckets of the character n-grams in a query's vector.
NGRAM_DIM = 256
_NGRAM_SIZES = (2, 3, 4)
_BUCKETS = 2**15


class QueryView:
    """Encodes queries as vectors of D + 256 dimensions, which represent the meaning and the spelling of words.

    The spelling makes it possible to recognise misspelled words.

    The first D dimensions are the weighted sum of the vectors of the query's words. The last 256 dimensions represent
    the spelling of the query, as the sum of the vectors of its character n-grams. For these vectors, the n-grams of two
    to four characters of each ``"<word>"`` are hashed into 32,768 buckets, and each bucket has a random vector.

    Both parts are scaled to unit length. The first part is zero if the query has no known word. The second part is zero
    if the query has no n-gram.

    Args:
        table: Word vectors of D dimensions.
    """

    def __init__(self, table: WordVectors) -> None:
        self.table = table

    @property
    def dim(self) -> int:
        """The number of dimensions of a query's vector, D + 256."""
        return self.table.dim + NGRAM_DIM

    @cached_property
    def _directions(self) -> Floats:
        return np.random.default_rng(0).standard_normal((_BUCKETS, NGRAM_DIM), np.float32)

    def encode(self, queries: Sequence[str]) -> Floats:
        """Encode n queries.

        Args:
            queries: The texts of the queries.

        Returns:
            Vectors of shape (n, D + 256), float32. The first D dimensions represent the meaning of the words, where D
            is the number of dimensions of the word vectors. The last 256 dimensions represent their spelling.
        """
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


@dataclass(eq=False)
class Word2Doc:
    """A trained word2doc network with its retriever.

    Attributes:
        ids: The ids of the N documents.
        view: The encoder of queries.
        retriever: The retriever of context documents.
        speller: Corrects mistyped words of queries.
        layers: The arrays of the network, by name, with H hidden units: ``query`` (D + 256, H), ``query_bias`` (H,),
            ``embeddings`` (N, H), ``hidden`` (H, H), ``hidden_bias`` (H,), ``output`` (N, H) and ``output_bias`` (N,).
        retriever_weight: The factor by which the retriever's scores are multiplied before they are added to the
            network's scores. The retriever's scores are first divided by the best score of the query.
        info: Further information to be saved with the model.

    Raises:
        BadInput: If ids, retriever and layers do not have the same number of documents, or a layer has a wrong shape.
    """

    ids: list[str]
    view: QueryView
    retriever: HashedRetriever
    speller: Speller
    layers: dict[str, NDArray[Any]]
    retriever_weight: float = 0.0
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ids, self.info = list(self.ids), dict(self.info)
        layers, documents = self.layers, len(self.ids)
        if not documents == self.retriever.documents == len(layers["embeddings"]) == len(layers["output"]):
            raise BadInput(
                f"there are {documents} ids, {self.retriever.documents} documents in the retriever and "
                f"{len(layers['output'])} in the network",
                expected="the same number of documents",
            )
        width = layers["embeddings"].shape[1]
        shapes = {
            "query": (self.view.dim, width),
            "query_bias": (width,),
            "embeddings": (documents, width),
            "hidden": (width, width),
            "hidden_bias": (width,),
            "output": (documents, width),
            "output_bias": (documents,),
        }
        for name, shape in shapes.items():
            if layers[name].shape != shape:
                raise BadInput(f"layer {name} has the shape {layers[name].shape}", expected=str(shape))

    @cached_property
    def hash(self) -> str:
        """A hash of the model's content (its document ids, network and retriever), as 16 hexadecimal digits."""
        return content_hash(self._info(), self.ids, self._arrays())

    def scores(self, queries: Sequence[str]) -> Floats:
        """Score each document for each query. A higher score means that the query more likely refers to the document.

        Args:
            queries: The texts of the queries.

        Returns:
            Scores of shape (n, N) for n queries and N documents, float32.
        """
        network, retrieved = self.parts(queries)
        return np.asarray(network + np.float32(self.retriever_weight) * retrieved)

    def parts(self, queries: Sequence[str]) -> tuple[Floats, Floats]:
        """Return the scores of the network and of the retriever separately.

        :meth:`scores` adds them, with the retriever's scores multiplied by ``retriever_weight``.

        Args:
            queries: The texts of the queries.

        Returns:
            The network's scores, of shape (n, N) for n queries and N documents, and the retriever's scores of the same
            shape, divided by the best score of each query.
        """
        corrected = [" ".join(self.speller.correct(query)) for query in queries]
        retrieved = np.zeros((len(queries), len(self.ids)), np.float32)
        for row, query in zip(retrieved, corrected, strict=True):
            row[:] = self.retriever.scores(query)
        network = self._network(self.view.encode(corrected), [best_positions(scores, CONTEXT) for scores in retrieved])
        retrieved /= np.maximum(retrieved.max(axis=1, initial=0, keepdims=True), np.finfo(np.float32).tiny)
        return network, retrieved

    def _network(self, inputs: Floats, contexts: Sequence[NDArray[np.int64]]) -> Floats:
        """Compute the network's scores of N documents for n queries.

        The hidden vector of a query is h = (W q + b + Σ e_c) / (1 + 10), from the query's vector q and the embeddings
        e_c of its context documents. The scores are s = O relu(V h + c) + d. Here W, V and O are the trained matrices
        of the three layers, and b, c and d their biases.

        Args:
            inputs: The vectors of the queries with D + 256 dimensions (:class:`QueryView`), shape (n, D + 256).
            contexts: For each query, the positions of its context documents. These are the documents that the retriever
                ranks highest, at most ten.

        Returns:
            Scores of shape (n, N).
        """
        layers = self.layers
        joined = np.zeros((len(inputs), layers["embeddings"].shape[1]), np.float32)
        for row, context in zip(joined, contexts, strict=True):
            row[:] = layers["embeddings"][context].astype(np.float32).sum(axis=0) / (1 + CONTEXT)
        joined += (inputs @ layers["query"] + layers["query_bias"]) / (1 + CONTEXT)
        hidden = np.maximum(joined @ layers["hidden"] + layers["hidden_bias"], 0)
        return np.asarray(hidden @ layers["output"].T.astype(np.float32) + layers["output_bias"], np.float32)

    def predict(self, query: str, count: int = 10) -> list[tuple[str, float]]:
        """Return the documents that a query most likely refers to.

        Args:
            query: The text of the query.
            count: The maximum number of documents.

        Returns:
            Pairs of a document's id and its score, best first.
        """
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
        """Write the model to a folder. If writing fails, the folder is not changed.

        Args:
            folder: The folder to write, which is replaced if it contains a model.

        Returns:
            The path of the folder.
        """
        return write_folder(folder, FILE, self._info(), self.ids, self._arrays())

    @classmethod
    def load(cls, folder: str | Path) -> Word2Doc:
        """Load a model from a folder that :meth:`save` wrote.

        Args:
            folder: The folder of the model.

        Raises:
            ModelNotFound: If the folder contains no word2doc model.
            CorruptModel: If the content differs from what was saved.
        """
        info, ids, arrays = read_folder(folder, FILE)
        with corrupt_model_errors(folder):
            words, table_info = info.pop("words"), info.pop("vectors")
            scales = arrays.pop("scales", None)
            table = WordVectors(words, arrays.pop("vectors"), arrays.pop("weights"), scales, table_info)
            retriever = HashedRetriever(len(ids), {name: arrays.pop(name) for name in ARRAYS})
            known = arrays.pop("known").tobytes().decode("utf-8", "surrogatepass").split("\n")
            speller = Speller(dict(zip(known, arrays.pop("frequency").tolist(), strict=True)))
            return cls(
                ids=ids,
                view=QueryView(table),
                retriever=retriever,
                speller=speller,
                layers=arrays,
                retriever_weight=info.pop("mix"),
                info=info,
            )
