"""Paragraph vectors (Le and Mikolov 2014), trained with gensim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.errors import BadInput, needs_extra
from resift.text import tokenize


def _doc2vec() -> Any:
    """Import and return the module ``gensim.models.doc2vec``.

    Raises:
        MissingExtra: If gensim is not installed.
    """
    with needs_extra("lab", "pv-dbow"):
        from gensim.models import doc2vec
    return doc2vec


class ParagraphVectors:
    """Paragraph vectors, distributed bag of words (PV-DBOW): document vectors trained to predict their words.

    Training uses five negative samples, and words that occur at least twice. Vectors of other texts are trained with
    the same number of epochs while the word vectors stay fixed. Training uses a single thread and a fixed seed, so
    that runs are reproducible.

    Args:
        size: Number of dimensions.
        seed: Seed of the initial vectors and of the sampling.
        epochs: Number of passes over the documents.

    Source:
        Le and Mikolov 2014, section 2.3.
    """

    similarity = "cosine"

    def __init__(self, size: int, seed: int = 0, epochs: int = 20) -> None:
        self.size, self.seed, self.epochs = size, seed, epochs

    def fit(self, documents: Sequence[str]) -> Floats:
        """Train a vector for each document.

        Args:
            documents: The texts of the N documents.

        Returns:
            The vectors of the documents, shape (N, K) for K dimensions.

        Raises:
            BadInput: If no word occurs twice.
            MissingExtra: If gensim is not installed.
        """
        doc2vec = _doc2vec()
        tagged = [doc2vec.TaggedDocument(tokenize(text), [row]) for row, text in enumerate(documents)]
        # a single worker, because with several workers the order of the updates depends on the scheduling of threads
        self._model = doc2vec.Doc2Vec(
            vector_size=self.size,
            dm=0,
            min_count=2,
            sample=1e-4,
            epochs=self.epochs,
            seed=self.seed,
            workers=1,
        )
        self._model.build_vocab(tagged)
        if not len(self._model.wv):
            raise BadInput("pv-dbow: no word occurs twice in the documents", expected="a larger corpus")
        self._model.train(tagged, total_examples=len(tagged), epochs=self.epochs)
        return np.array(self._model.dv.vectors[: len(tagged)], np.float32)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Compute vectors of texts that :meth:`fit` has not seen, such as queries, with the trained word vectors.

        Args:
            texts: The n texts.

        Returns:
            Vectors of shape (n, K) for K dimensions.
        """
        return np.concatenate([np.zeros((0, self.size), np.float32), *map(self._infer, texts)])

    def _infer(self, text: str) -> Floats:
        """Compute the vector of a text that was not in the training documents, shape (1, K) for K dimensions.

        This repeats gensim's ``infer_vector`` with a seeded start vector. gensim derives the start vector from a hash
        of the text, which differs between processes.
        """
        train_document_dbow, words = _doc2vec().train_document_dbow, tokenize(text)
        self._model.random = np.random.RandomState(self.seed)
        start = np.random.default_rng(self.seed).random((1, self.size), np.float32)
        vector: Floats = (start - np.float32(0.5)) / np.float32(self.size)
        for rate in np.linspace(self._model.alpha, self._model.min_alpha, self.epochs, endpoint=False):
            train_document_dbow(
                self._model,
                words,
                [0],
                float(rate),
                learn_words=False,
                learn_hidden=False,
                doctag_vectors=vector,
                doctags_lockf=np.ones(1, np.float32),
            )
        return vector
