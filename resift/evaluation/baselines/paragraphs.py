"""Paragraph vectors (Le and Mikolov 2014), by gensim."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from resift.arrays import Floats
from resift.errors import BadInput
from resift.text import tokenize


class Paragraphs:
    """PV-DBOW: one vector a document, learnt to predict its words (gensim; 5 negative samples, words of 2 occurrences).

    Other texts get theirs by as many passes with the words fixed. One thread and seeded, so that a run is repeatable.
    """

    similarity = "cosine"

    def __init__(self, size: int, seed: int = 0, epochs: int = 20) -> None:
        self.size, self.seed, self.epochs = size, seed, epochs

    def fit(self, documents: Sequence[str]) -> Floats:
        """Learn the documents' vectors."""
        from gensim.models.doc2vec import Doc2Vec, TaggedDocument

        tagged = [TaggedDocument(tokenize(text), [row]) for row, text in enumerate(documents)]
        self._model = Doc2Vec(
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
        """Vectors of other texts; gensim's ``infer_vector``, whose random start differs from process to process."""
        from gensim.models.doc2vec import train_document_dbow

        model, found = self._model, np.zeros((len(texts), self.size), np.float32)
        rates = np.linspace(model.alpha, model.min_alpha, self.epochs, endpoint=False)
        for row, text in enumerate(texts):
            model.random = np.random.RandomState(self.seed)
            start = np.random.default_rng(self.seed).random((1, self.size), np.float32)
            vector = (start - np.float32(0.5)) / np.float32(self.size)
            words = tokenize(text)
            for rate in rates:
                train_document_dbow(
                    model,
                    words,
                    [0],
                    float(rate),
                    learn_words=False,
                    learn_hidden=False,
                    doctag_vectors=vector,
                    doctags_lockf=np.ones(1, np.float32),
                )
            found[row] = vector[0]
        return found
