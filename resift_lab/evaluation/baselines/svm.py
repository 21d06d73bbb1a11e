"""A linear support vector machine on tf-idf vectors, used as a supervised encoder for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from resift.arrays import Floats
from resift.errors import BadInput, needs_extra
from resift.text import tokenize
from resift_lab.evaluation.data import read_labelled_documents


class Svm:
    """A retrieval system that represents a text by the probabilities that a linear classifier assigns to its classes.

    The classifier is a support vector machine (C = 1) on tf-idf vectors of unit length, with the term frequency
    1 + log tf. It is trained on labelled documents, which may differ from the documents to search. A text's vector is
    the softmax of the classifier's scores, so it has as many dimensions as there are classes.

    Args:
        file: A file of labelled documents to train on.
        temperature: The divisor of the scores in the softmax, above 0.

    Raises:
        BadInput: If the file has fewer than two classes, or the temperature is not positive.
    """

    similarity = "cosine"

    def __init__(self, file: str | Path, temperature: float) -> None:
        with needs_extra("lab", "Evaluation"):
            from sklearn.feature_extraction.text import TfidfVectorizer
            from sklearn.svm import LinearSVC
        if not 0 < temperature < np.inf:
            raise BadInput(f"temperature is {temperature}", value=temperature, expected="more than 0")
        documents = read_labelled_documents(file)
        if len(set(documents.labels)) < 2:
            raise BadInput(f"{file} has a single class", value=documents.labels[0], expected="two classes or more")
        self._temperature = temperature
        # words that occur in a single document cannot help to compare documents
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, analyzer=tokenize)
        self._classifier = LinearSVC(C=1.0).fit(self._vectorizer.fit_transform(documents.texts), documents.labels)

    def fit(self, documents: Sequence[str]) -> Floats:
        """Return the vectors of the documents to search.

        The classifier was trained when the object was created, so nothing is fitted. The method exists because each
        system has a method ``fit``.

        Args:
            documents: The texts of the N documents.

        Returns:
            The class probabilities of each document, shape (N, C) for C classes, float32.
        """
        return self.encode_queries(documents)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return the class probabilities of other texts, such as queries.

        Args:
            texts: The n texts.

        Returns:
            Probabilities of shape (n, C) for C classes, float32.
        """
        scores = self._classifier.decision_function(self._vectorizer.transform(texts)) / self._temperature
        if scores.ndim == 1:  # two classes have a single score, which is positive for the second class
            scores = np.stack([-scores, scores], axis=1)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)
