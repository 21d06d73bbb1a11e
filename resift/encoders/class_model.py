"""Encode texts as probabilities of classes, with a linear classifier on words and on vectors of texts.

The score of class c for a text with the words w and the vector x of a ``mean`` model is

    s_c = Σ_w t_w · a_wc + xᵀ · h_c + b_c,  where t_w = (1 + log n_w) · idf_w, divided by the length of t

for words that occur n_w times in the text. The vector of the text is the softmax of its scores, scaled to unit length.
Texts that probably have the same class are therefore close to each other. :mod:`resift_lab.training.classes` learns a,
h and b from few labels. The vectors x add what the classifier knows about words that no labelled text contains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput, DimensionMismatch
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift.vectors.weights import Alphas


@dataclass(frozen=True)
class Classifier:
    """The learned parameters of a linear classifier that assigns texts to C classes.

    The score of a text for a class depends on the words of the text, and on the mean of its word vectors. The formula
    is at the top of this module.

    Attributes:
        ids: The n words that the classifier uses, as row numbers of the word table, shape (n,).
        idf: The inverse document frequency of each of these words, shape (n,).
        words: The weight a of each of these words for each class, shape (n, C).
        head: The weight h of each dimension of the mean word vector for each class, shape (D, C).
        bias: The constant b of each class, shape (C,).
    """

    ids: NDArray[np.int32]
    idf: Floats
    words: Floats
    head: Floats
    bias: Floats


class ClassModel(Model):
    """An encoder that represents a text by the probabilities of C classes, which a linear classifier computes.

    The vector of a text has C dimensions and unit length. A text without known words has the zero vector.

    Args:
        table: Word vectors with D dimensions and a weight for each word. The vector of a text is their weighted mean,
            scaled to unit length.
        classifier: The parameters of the classifier.
        classes: The names of the C classes, in the order of the dimensions.

    Raises:
        BadInput: If there are fewer than two classes.
        DimensionMismatch: If the types or shapes do not fit together, or an id is not a row of the table.
    """

    kind = "classes"

    def __init__(self, table: WordVectors, classifier: Classifier, classes: Sequence[str]) -> None:
        if len(classes) < 2:
            raise BadInput(f"the classes are {list(classes)}", value=list(classes), expected="two classes or more")
        self.classifier, self.classes = classifier, list(classes)
        super().__init__(f"classes:{len(classes)}", table, "mean", "cosine", alphas=Alphas(alpha=0.75, max_alpha=1.0))
        count, size = len(classifier.ids), len(classes)
        kinds = {name: (array.dtype.kind, array.shape) for name, array in vars(classifier).items()}
        shapes = {"idf": (count,), "words": (count, size), "head": (table.dim, size), "bias": (size,)}
        expected = {"ids": ("i", (count,)), **{name: ("f", shape) for name, shape in shapes.items()}}
        if kinds != expected or (count and not 0 <= classifier.ids.min() <= classifier.ids.max() < len(table)):
            message = f"the arrays of the classifier have the types and shapes {kinds}"
            raise DimensionMismatch(message, expected=f"{expected}, and ids below {len(table)}")

    @property
    def dim(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @property
    def is_plain_mean(self) -> bool:
        """False, because the vector of a text consists of class probabilities, and is not a mean of word vectors."""
        return False

    @cached_property
    def _classifier_positions(self) -> NDArray[np.int32]:
        """For each word of the table, its position among the classifier's words, or -1, of shape (n_words,)."""
        columns = np.full(len(self.table), -1, np.int32)
        columns[self.classifier.ids] = np.arange(len(self.classifier.ids), dtype=np.int32)
        return columns

    def _encode(self, texts: Sequence[str]) -> Floats:
        """Encode one batch of texts, and return their vectors, of shape (n_texts, n_classes)."""
        ids, offsets = self.table.ids(texts)
        means = self._pool(texts, ids, offsets)
        known = means.any(axis=1, keepdims=True)
        return self._probabilities(self._word_scores(ids, offsets), means) * known

    def _probabilities(self, word_scores: Floats, means: Floats) -> Floats:
        """Return the vectors of texts: the probabilities of the classes, scaled to unit length.

        The probabilities are the softmax of the classifier's scores.

        Args:
            word_scores: The part of the scores that depends on the words of the texts, of shape (n_texts, n_classes).
            means: The mean word vectors of the texts, of shape (n_texts, n_word_dimensions).

        Returns:
            Float32 array of shape (n_texts, n_classes).
        """
        scores = word_scores + unit_rows(means) @ self.classifier.head + self.classifier.bias
        return unit_rows(np.exp(scores - scores.max(axis=1, keepdims=True)))

    def _word_scores(self, ids: NDArray[Any], offsets: NDArray[np.int64]) -> Floats:
        """Return the part of the classifier's scores that depends on the words of the texts, Σ_w t_w · a_wc.

        The result has the shape (n_texts, n_classes).

        Args:
            ids: The words of all texts, as row numbers of the word table, one text after the other.
            offsets: The positions at which the texts start and end in ``ids``, of shape (n_texts + 1,).
        """
        width, texts = len(self.classifier.ids), len(offsets) - 1
        scores = np.zeros((texts, self.dim), np.float32)
        columns = self._classifier_positions[ids]
        owners = np.repeat(np.arange(texts), np.diff(offsets))
        weighted = columns >= 0
        keys, counts = np.unique(owners[weighted] * width + columns[weighted], return_counts=True)
        rows, columns = np.divmod(keys, max(width, 1))
        terms = (1 + np.log(counts)) * self.classifier.idf[columns]
        lengths = np.sqrt(np.bincount(rows, terms**2, texts))
        np.add.at(scores, rows, (terms / lengths[rows])[:, None] * self.classifier.words[columns])
        return scores

    def word_vectors(self, ids: Any) -> Floats:
        """Return the vectors with which the model encodes single words.

        Args:
            ids: The row numbers of the words in the word table, of shape (n_words,), or a slice.

        Returns:
            Float32 array of shape (n_words, n_dimensions), with rows of unit length.
        """
        words = np.arange(len(self.table))[ids]
        return self._probabilities(self._word_scores(words, np.arange(len(words) + 1)), self.table.rows(ids))

    @classmethod
    def restore(cls, info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]) -> ClassModel:
        """Create a model from the contents of a saved folder.

        Args:
            info: The settings, as saved in JSON.
            words: The saved words.
            arrays: The saved arrays by name.
        """
        table = WordVectors.restore(words, arrays, info["vectors"])
        parameters = {name.removeprefix("class_"): arrays[name] for name in arrays if name.startswith("class_")}
        model = cls(table, Classifier(**parameters), info["classes"])
        model.alpha, model.max_alpha = info["alpha"], info["max_alpha"]
        return model

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "classes": self.classes}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        parameters = {f"class_{name}": np.asarray(value) for name, value in vars(self.classifier).items()}
        return {**super()._arrays(), **parameters}
