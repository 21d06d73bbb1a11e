"""Paragraph vectors (Le and Mikolov 2014), by gensim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.errors import BadInput, needs_extra
from resift.text import tokenize


def _doc2vec() -> Any:
    """gensim's module of paragraph vectors. Raises MissingExtra without gensim."""
    with needs_extra("lab", "pv-dbow"):
        from gensim.models import doc2vec
    return doc2vec


class ParagraphVectors:
    """PV-DBOW: one vector a document, learnt to predict its words (gensim; 5 negative samples, words of 2 occurrences).

    Other texts get theirs by as many passes with the words fixed. One thread and seeded, so that a run is repeatable.
    """

    similarity = "cosine"

    def __init__(self, size: int, seed: int = 0, epochs: int = 20) -> None:
        self.size, self.seed, self.epochs = size, seed, epochs

    def fit(self, documents: Sequence[str]) -> Floats:
        """Learn the documents' vectors, (N, K).

        Raises BadInput if no word occurs twice, MissingExtra without gensim.
        """
        doc2vec = _doc2vec()
        tagged = [doc2vec.TaggedDocument(tokenize(text), [row]) for row, text in enumerate(documents)]
        # several workers would make the order of the updates, and so the vectors, a matter of chance
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

    def queries(self, texts: Sequence[str]) -> Floats:
        """Vectors of other texts, (n, K)."""
        return np.concatenate([np.zeros((0, self.size), np.float32), *map(self._inferred, texts)])

    def _inferred(self, text: str) -> Floats:
        """The vector of one text, (1, K).

        What gensim's ``infer_vector`` does, whose random start, a hash of the text, differs from process to process.
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
