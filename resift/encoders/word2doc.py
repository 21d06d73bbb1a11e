"""Encode queries with the word2doc network, and documents with the embeddings that it learned, in NumPy.

word2doc predicts which document is meant by a few keywords (the thesis "word2doc", 2018, section 2.2.1). The network
combines two inputs. A fully connected layer maps the query's vector to a hidden vector. A retriever of hashed unigrams
and bigrams returns ten documents for the query (the context), each of which has a learned embedding. The mean of these
eleven vectors passes through a second layer with a ReLU, which gives a vector h of H dimensions. The output layer has a
row o and a bias d for each document, and the document's score is o · h + d.

An index ranks documents by this score with unit vectors of H + 2 dimensions:

==========  ============================================================
text        vector
==========  ============================================================
query       (h, 1, 0), scaled to unit length
document    (o, d, √(M² - ‖o‖² - d²)) / M, where M is the largest ‖(o, d)‖
==========  ============================================================

Their cosine is the score divided by M and by the length of (h, 1), so both orders of the documents are the same
(Bachrach et al. 2014, "Speeding up the Xbox recommender system using a Euclidean transformation for inner-product
spaces").

A document that the training did not see has no row, and gets a zero vector. Its similarity to every query is 0. For
trained documents, a cosine of 0 means a score of 0, which the loss treats as an even chance of being the right
document. So an unseen document ranks between the documents that the network expects and those that it rejects.

The code differs from the thesis in these points:

- A speller first corrects mistyped words.
- The query's vector consists of word vectors and character n-grams, instead of InferSent's sentence embedding.
- The retriever's own scores may be added to the network's scores.
- Half of the training queries contain an error of one of four kinds. The evaluation
  (:mod:`resift_lab.training.word2doc_report`) uses the same kinds. The thesis trains without errors.
- The training has other settings, for example 20 keywords of a document instead of six
  (:class:`resift_lab.training.options.Word2DocOptions`).

:mod:`resift_lab.training.word2doc` trains the network.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.hashed_retriever import ARRAYS, HashedRetriever, best_positions
from resift.encoders.model import Model
from resift.errors import BadInput
from resift.spelling import Speller
from resift.text import hashed_ngrams, tokenize
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift.vectors.weights import ADAPTED_MAX_ALPHA, DEFAULT_ALPHA, Alphas

CONTEXT = 10
"""Number of context documents."""

NGRAM_DIM = 256
"""Dimensions of the vector that represents the spelling of a query."""

_NGRAM_SIZES = (2, 3, 4)
_BUCKETS = 2**15
# Longer queries do not consist of keywords, and correcting each of their words could take minutes.
_MAX_CORRECTED_WORDS = 32
# Words at the beginning of a text that the network reads, and characters at the beginning of a word. They limit the
# time and the memory that a text needs.
_READ_WORDS = 2000
_READ_CHARACTERS = 64


def text_keys(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Return a hash of the words of each text, by which a document is recognised.

    The words are hashed in alphabetical order. The hash does not depend on the order of fields, on punctuation or on
    case.

    Args:
        texts: The texts of n documents.

    Returns:
        Array of shape (n,), uint64.
    """
    joined = (" ".join(sorted(tokenize(text))).encode("utf-8", "surrogatepass") for text in texts)
    digests = (hashlib.blake2b(words, digest_size=8).digest() for words in joined)
    return np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64)


class QueryEncoder:
    """Encodes queries as vectors that represent the meaning and the spelling of their words.

    A vector has D + 256 dimensions. The first D dimensions are the weighted sum of the vectors of the query's words.
    The last 256 dimensions are the sum of the vectors of the query's character n-grams, so that misspelt words can be
    recognised. For this part, the n-grams of two to four characters of each ``"<word>"`` are hashed into 32,768
    buckets, and each bucket has a random vector.

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
        """Encode queries as vectors that represent the meaning and the spelling of their words.

        Args:
            queries: The texts of n queries.

        Returns:
            Vectors of shape (n, D + 256), float32, where D is the number of dimensions of the word vectors.
        """
        by_words = np.zeros((len(queries), self.table.dim), np.float32)
        by_ngrams = np.zeros((len(queries), NGRAM_DIM), np.float32)
        for row, query in enumerate(queries):
            words = tokenize(query)
            ids = np.array([id for id in map(self.table.index.__getitem__, words) if id >= 0], np.int64)
            if len(ids):
                by_words[row] = self.table.weights[ids] @ self.table.rows(ids)
            counts = Counter(bucket for word in words for bucket in hashed_ngrams(word, _NGRAM_SIZES, _BUCKETS))
            if counts:
                by_ngrams[row] = np.array(list(counts.values()), np.float32) @ self._directions[list(counts)]
        return np.hstack([unit_rows(by_words), unit_rows(by_ngrams)])


class Word2Doc(Model):
    """A trained word2doc network with its retriever.

    Args:
        ids: The ids of the N documents.
        query_encoder: The encoder of queries.
        retriever: The retriever of context documents.
        speller: Corrects mistyped words of queries.
        layers: The arrays of the network, by name, with H hidden units: ``query`` (D + 256, H), ``query_bias`` (H,),
            ``embeddings`` (N, H), ``hidden`` (H, H), ``hidden_bias`` (H,), ``output`` (N, H) and ``output_bias`` (N,).
        keys: The keys of the documents' texts (:func:`text_keys`), shape (N,).
        retriever_weight: The factor by which the retriever's scores are multiplied before :meth:`scores` adds them to
            the network's scores. The retriever's scores are first divided by the best score of the query. On an index,
            the engine's score takes the place of the retriever's.
        alpha: The weight of the similarity in searches without a session.
        info: Further information to be saved with the model.

    Attributes:
        ids: The ids of the N documents. The other arguments are attributes of the same names, too.

    Raises:
        BadInput: If ids, keys, retriever and layers do not have the same number of documents, or a layer has a wrong
            shape.
    """

    kind = "word2doc"

    def __init__(  # noqa: PLR0913 - the parts of a saved model
        self,
        ids: Sequence[str],
        query_encoder: QueryEncoder,
        retriever: HashedRetriever,
        speller: Speller,
        layers: dict[str, NDArray[Any]],
        keys: NDArray[np.uint64],
        retriever_weight: float = 0.0,
        alpha: float = DEFAULT_ALPHA,
        info: dict[str, Any] | None = None,
    ) -> None:
        self.layers = layers  # which the number of dimensions depends on
        alphas = Alphas(alpha, max(alpha, ADAPTED_MAX_ALPHA))
        super().__init__("word2doc", query_encoder.table, "mean", "cosine", alphas=alphas)
        self.ids, self.query_encoder, self.retriever, self.speller = list(ids), query_encoder, retriever, speller
        self.keys, self.retriever_weight, self.info = keys, retriever_weight, dict(info or {})
        documents = len(self.ids)
        if not documents == retriever.n_documents == len(layers["embeddings"]) == len(layers["output"]):
            raise BadInput(
                f"there are {documents} ids, {retriever.n_documents} documents in the retriever and "
                f"{len(layers['output'])} in the network",
                expected="the same number of documents",
            )
        width = self._hidden_size
        shapes = {
            "query": (query_encoder.dim, width),
            "query_bias": (width,),
            "embeddings": (documents, width),
            "hidden": (width, width),
            "hidden_bias": (width,),
            "output": (documents, width),
            "output_bias": (documents,),
        }
        for name, shape in [*shapes.items(), ("keys", (documents,))]:
            actual = (keys if name == "keys" else layers[name]).shape
            if actual != shape:
                raise BadInput(f"{name} has the shape {actual}", expected=str(shape))

    @property
    def _hidden_size(self) -> int:
        """The number H of hidden units of the network."""
        return int(self.layers["embeddings"].shape[1])

    @property
    def dim(self) -> int:
        """The number of dimensions of the vectors, H + 2."""
        return self._hidden_size + 2

    @property
    def is_plain_mean(self) -> bool:
        """False, because a network computes the vectors."""
        return False

    @property
    def is_adapted(self) -> bool:
        """True, because the network was trained on the documents."""
        return True

    def encode_query(self, text: str) -> Floats:
        """Correct the spelling of a query, and encode the query with the network.

        The result is (h, 1, 0), scaled to unit length, where h is the vector that the network computes.

        Args:
            text: The text of the query.

        Returns:
            Float32 array of shape (H + 2,), of unit length. It is zero for a query without words.
        """
        vector: Floats = self._query_vectors([text])[0]
        return vector

    def _query_vectors(self, queries: Sequence[str]) -> Floats:
        """Encode n queries, as :meth:`encode_query` does, and return their vectors, of shape (n, H + 2)."""
        corrected = list(map(self._correct_spelling, queries))
        hidden = self._hidden_vectors(
            self.query_encoder.encode(corrected), [self.retriever.best_documents(query, CONTEXT) for query in corrected]
        )
        vectors = np.zeros((len(queries), self.dim), np.float32)
        vectors[:, : self._hidden_size], vectors[:, self._hidden_size] = hidden, 1
        vectors[[not query for query in corrected]] = 0
        return unit_rows(vectors)

    def _correct_spelling(self, query: str) -> str:
        """Return the words of a query with corrected spelling.

        Queries of more than 32 words are not corrected. Only their first 2,000 words are returned. Words of more than
        64 characters are shortened.
        """
        words = [word[:_READ_CHARACTERS] for word in tokenize(query)[:_READ_WORDS]]
        return " ".join(words if len(words) > _MAX_CORRECTED_WORDS else self.speller.correct(" ".join(words)))

    def _encode(self, texts: Sequence[str]) -> Floats:
        """Return the learned vectors of documents, of shape (n_texts, H + 2).

        A document is recognised by its text. Documents that the training did not see get zero vectors.
        """
        known = np.array([self._position_by_key.get(key, -1) for key in text_keys(texts).tolist()], np.int64)
        vectors = np.zeros((len(texts), self.dim), np.float32)
        vectors[known >= 0] = self._index_vectors(self._output_rows(known[known >= 0]))
        return vectors

    @cached_property
    def _position_by_key(self) -> dict[int, int]:
        """The position of each document, by the key of its text. Of several equal texts, the first counts."""
        return {key: row for row, key in reversed(list(enumerate(self.keys.tolist())))}

    def _output_rows(self, positions: Any) -> Floats:
        """Return the rows of documents in the output layer of the network.

        Args:
            positions: The positions of the documents, as an array or a slice.

        Returns:
            The weights of the H hidden units, followed by the bias, for each document, shape (n_documents, H + 1).
        """
        output, bias = self.layers["output"][positions], self.layers["output_bias"][positions]
        return np.concatenate([output, bias[:, None]], axis=1).astype(np.float32)

    @cached_property
    def _max_row_length(self) -> float:
        """The length of the longest row of the output layer, where the bias is part of the row."""
        squares = np.square(self.layers["output"], dtype=np.float32).sum(axis=1)
        return float(np.sqrt((squares + np.square(self.layers["output_bias"], dtype=np.float32)).max(initial=1e-12)))

    def _index_vectors(self, rows: Floats) -> Floats:
        """Convert rows of the output layer to the vectors of documents that an index stores.

        The rows have different lengths. Each row is divided by the length of the longest row of all documents, and a
        further component brings the vector to unit length.

        Args:
            rows: The rows of the documents, H weights and a bias, shape (n_documents, H + 1).

        Returns:
            Unit vectors of shape (n_documents, H + 2).
        """
        scaled = rows / np.float32(self._max_row_length)
        rest = np.sqrt(np.maximum(0, 1 - np.square(scaled).sum(axis=1, keepdims=True)))
        return unit_rows(np.concatenate([scaled, rest], axis=1))

    def word_vectors(self, ids: Any) -> Floats:
        """Return the vectors of single words as queries, without context documents.

        Args:
            ids: The row numbers of the words in the word table, of shape (n_words,), or a slice.

        Returns:
            Float32 array of shape (n_words, H + 2), with rows of unit length.
        """
        words = self.table.words[ids] if isinstance(ids, slice) else [self.table.words[id] for id in ids]
        hidden = self._hidden_vectors(self.query_encoder.encode(words), [np.zeros(0, np.int64)] * len(words))
        return unit_rows(np.pad(hidden, ((0, 0), (0, 2))))

    def similarities(self, queries: Sequence[str]) -> Floats:
        """Return the cosine between each query and each document with which the network was trained.

        A k-NN search on an index of these documents compares the same vectors.

        Args:
            queries: The texts of the queries.

        Returns:
            Array of shape (n, N) for n queries and N documents, float32.
        """
        return np.asarray(self._query_vectors(queries) @ self._index_vectors(self._output_rows(slice(None))).T)

    def scores(self, queries: Sequence[str]) -> Floats:
        """Score each document for each query. A higher score means that the query more likely refers to the document.

        Args:
            queries: The texts of the queries.

        Returns:
            Scores of shape (n, N) for n queries and N documents, float32.
        """
        network, retrieved = self.separate_scores(queries)
        return np.asarray(network + np.float32(self.retriever_weight) * retrieved)

    def separate_scores(self, queries: Sequence[str]) -> tuple[Floats, Floats]:
        """Return the scores of the network and of the retriever separately, which :meth:`scores` adds up.

        Args:
            queries: The texts of the queries.

        Returns:
            The network's scores, of shape (n, N) for n queries and N documents, and the retriever's scores of the same
            shape, divided by the best score of each query.
        """
        corrected = list(map(self._correct_spelling, queries))
        retrieved = np.zeros((len(queries), len(self.ids)), np.float32)
        for row, query in zip(retrieved, corrected, strict=True):
            row[:] = self.retriever.scores(query)
        contexts = [best_positions(scores, CONTEXT) for scores in retrieved]
        hidden, layers = self._hidden_vectors(self.query_encoder.encode(corrected), contexts), self.layers
        network = np.asarray(hidden @ layers["output"].T.astype(np.float32) + layers["output_bias"], np.float32)
        retrieved /= np.maximum(retrieved.max(axis=1, initial=0, keepdims=True), np.finfo(np.float32).tiny)
        return network, retrieved

    def _hidden_vectors(self, inputs: Floats, contexts: Sequence[NDArray[np.int64]]) -> Floats:
        """Compute the outputs of the network's second layer, which the output layer compares with each document.

        The first layer maps the vector of the query to a hidden vector. This vector and the embeddings of the context
        documents are added, and the sum is divided by 11: the query and ten documents. The second layer, with a ReLU,
        maps the result to the output. A query with fewer than ten context documents has the same divisor.

        Args:
            inputs: The vectors of n queries from :class:`QueryEncoder`, shape (n, D + 256) for word vectors of D
                dimensions.
            contexts: For each query, the positions of its context documents. These are the documents that the retriever
                ranks highest, at most ten.

        Returns:
            Array of shape (n, H) for H hidden units, float32.
        """
        layers = self.layers
        joined = np.zeros((len(inputs), self._hidden_size), np.float32)
        for row, context in zip(joined, contexts, strict=True):
            row[:] = layers["embeddings"][context].astype(np.float32).sum(axis=0) / (1 + CONTEXT)
        joined += (inputs @ layers["query"] + layers["query_bias"]) / (1 + CONTEXT)
        return np.asarray(np.maximum(joined @ layers["hidden"] + layers["hidden_bias"], 0), np.float32)

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

    @classmethod
    def restore(cls, info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]) -> Word2Doc:
        """Create a model from the contents of a saved folder.

        Args:
            info: The settings, as saved in JSON.
            words: The words of the table of word vectors.
            arrays: The saved arrays by name.
        """
        table = WordVectors.restore(words, arrays, info["vectors"])
        known = arrays["known"].tobytes().decode("utf-8", "surrogatepass").split("\n")
        return cls(
            ids=info["ids"],
            query_encoder=QueryEncoder(table),
            retriever=HashedRetriever(len(info["ids"]), {name: arrays[name] for name in ARRAYS}),
            speller=Speller(dict(zip(known, arrays["frequency"].tolist(), strict=True))),
            layers={name: arrays[name] for name in _LAYERS},
            keys=arrays["keys"],
            retriever_weight=info["mix"],
            alpha=info["alpha"],
            info=info["training"],
        )

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "ids": self.ids, "mix": self.retriever_weight, "training": self.info}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        known = "\n".join(self.speller.frequency).encode("utf-8", "surrogatepass")
        spelling: dict[str, NDArray[Any]] = {
            "known": np.frombuffer(known, np.uint8),
            "frequency": np.array(list(self.speller.frequency.values()), np.int32),
        }
        arrays = {**super()._arrays(), **self.retriever.arrays(), **spelling, **self.layers}
        return {**arrays, "keys": self.keys}


_LAYERS = (
    "query",
    "query_bias",
    "embeddings",
    "hidden",
    "hidden_bias",
    "output",
    "output_bias",
)
