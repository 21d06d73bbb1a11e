"""Training of a linear classifier as an encoder, from few labels (:mod:`resift.encoders.class_model`).

1. A linear support vector machine (C = 1) is trained on the tf-idf vectors of the labelled documents, with the term
   frequency 1 + log tf and words that occur in two or more of the documents. It is the best encoder if there are
   many labels.
2. A ridge regression (λ = 1) is trained on the vectors of the same documents, from a model that averages word vectors.
   If these vectors are adapted to all documents, labelled or not, they know words that no labelled document contains.
   Each class has the same total weight, and its value is 1, that of the other classes -1.
3. The vector of a text is the softmax of (scores of step 1 + w · scores of step 2) / T. The weight w and the
   temperature T are chosen by cross-validation: those with the best mAP of searches in which labelled documents are
   queries for documents of their class. All scores come from classifiers that were trained without the documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.class_model import Classifier, ClassModel
from resift.encoders.model import Model
from resift.errors import BadInput, needs_extra
from resift_lab.corpus import document_frequency, sparse_counts, tfidf_idf
from resift_lab.evaluation.same_class import same_class_scores
from resift_lab.training.labels import Label, class_shares
from resift_lab.training.options import ClassOptions
from resift_lab.training.progress import Progress, StepCounter

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Candidates for w and T. If several have the same quality, the first is chosen. Weights are in descending order:
# a larger weight helps with documents whose words no labelled document contains.
WEIGHTS = (4.0, 2.0, 1.0, 0.5, 0.25, 0.0)
TEMPERATURES = (0.5, 0.25, 0.15, 0.1)
# The weight and temperature if cross-validation is impossible, because no class has two documents.
_DEFAULT = (0.5, 0.25)
# Minimum number of labelled documents that contain a word. A word of a single document cannot connect documents.
_MIN_DOCUMENTS = 2
_RIDGE = 1.0
# Maximum number of labelled documents that are queries in the cross-validation.
_JUDGES = 1000


def train_classes(
    texts: Sequence[str],
    labels: Sequence[Label],
    encoder: Model,
    options: ClassOptions | None = None,
    progress: Progress | None = None,
) -> tuple[ClassModel, dict[str, Any]]:
    """Train an encoder of texts as probabilities of classes.

    Args:
        texts: The texts of the documents.
        labels: The class of each document. If a label is a mapping of classes to weights, the largest weight counts.
        encoder: A model that averages word vectors. The trained model contains its word table.
        options: The settings.
        progress: A function that is called with the number of finished trainings and their total number.

    Returns:
        The trained model, and a summary of the training with these entries:

        - ``documents``, ``classes``, ``words``: the numbers of documents, of classes, and of words with a weight.
        - ``weight``, ``temperature``: the constants that cross-validation has chosen.
        - ``held_out``: the number of documents that were held out in the cross-validation.
        - ``map11``: the mean average precision (0 to 1) of searches in which held-out documents are queries for
          documents of their class. There is a value for the vectors of the encoder (``vectors``), for the classifier on
          words (``words``), and for the trained model (``trained``).
        - ``better``: whether the value of ``trained`` is above that of ``vectors``. None if no document was held out.

    Raises:
        BadInput: If the numbers of texts and labels differ, a label is invalid, or the vectors of the encoder are not
            just means of word vectors.
        MissingExtra: If scikit-learn is not installed.
    """
    if len(texts) != len(labels) or not texts:
        raise BadInput(
            f"there are {len(texts)} texts and {len(labels)} labels",
            expected="a label for each text, and at least one text",
        )
    if not encoder.is_plain_mean:
        message = f"model {encoder.name} does not average word vectors"
        expected = "a model such as 'resift train self' writes without mixed=true"
        raise BadInput(message, value=encoder.name, expected=expected)
    options = options or ClassOptions()
    classes, shares = class_shares(labels)
    documents = _EncodedDocuments(texts, shares.argmax(axis=1), len(classes), encoder)
    folds = stratified_folds(documents.labels, options.folds, options.seed)
    steps = StepCounter(progress, 1 + len(np.unique(folds[folds >= 0])))
    (weight, temperature), map11 = _choose_weight_and_temperature(documents, folds, options.seed, steps)
    words = _WordClassifier(documents, np.arange(len(texts)))
    vectors = _VectorClassifier(documents, np.arange(len(texts)))
    classifier = Classifier(
        words.ids,
        words.idf.astype(np.float32),
        (words.weights / temperature).astype(np.float32),
        (vectors.head * weight / temperature).astype(np.float32),
        ((words.bias + weight * vectors.bias) / temperature).astype(np.float32),
    )
    steps.advance(1)
    summary = {
        "documents": len(texts),
        "classes": len(classes),
        "words": len(words.ids),
        "weight": weight,
        "temperature": temperature,
        "held_out": int((folds >= 0).sum()),
        "map11": map11,
        "better": map11["trained"] > map11["vectors"] if map11 else None,
    }
    return ClassModel(encoder.table, classifier, classes), summary


def stratified_folds(labels: NDArray[np.int64], folds: int, seed: int) -> NDArray[np.int64]:
    """Divide documents into folds of nearly equal size, with nearly equal shares of each class.

    Args:
        labels: The class number of each of the N documents, shape (N,).
        folds: The number of folds.
        seed: The seed of the random order.

    Returns:
        The number of the fold of each document, shape (N,). The only document of a class has -1.
    """
    rng = np.random.default_rng(seed)
    numbers = np.full(len(labels), -1)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        if len(rows) > 1:
            numbers[rows] = np.arange(len(rows)) % folds
    return numbers


class _EncodedDocuments:
    """Labelled documents with their word counts and their vectors, from which the classifiers are trained.

    Attributes:
        counts: The frequency of each of the V words of the encoder in each of the N documents, shape (N, V).
        vectors: The vectors of the documents by the encoder, shape (N, D).
        labels: The class number of each document, shape (N,).
        classes: The number of classes C.
    """

    def __init__(self, texts: Sequence[str], labels: NDArray[np.int64], classes: int, encoder: Model) -> None:
        self.counts = sparse_counts(*encoder.table.ids(texts), len(encoder.table))
        self.vectors, self.labels, self.classes = encoder.encode(texts), labels, classes

    def targets(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the targets for training a classifier that separates each class from all others by regression.

        Args:
            rows: The row numbers of n documents, shape (n,).

        Returns:
            Array of shape (n, C) for C classes. It contains 1 in the column of a document's class, and -1 in the other
            columns.
        """
        return np.where(self.labels[rows, None] == np.arange(self.classes), 1.0, -1.0)


class _WordClassifier:
    """Scores the classes of a document by its words: a linear support vector machine on tf-idf vectors.

    Args:
        documents: All documents.
        rows: The positions of the documents to train on.

    Attributes:
        ids: The row numbers of the n words that occur in enough of these documents, shape (n,).
        idf: The inverse document frequencies of the n words, shape (n,).
        weights: The weight of each of the n words for each of the C classes, shape (n, C).
        bias: The constant of each class, shape (C,).
    """

    def __init__(self, documents: _EncodedDocuments, rows: NDArray[Any]) -> None:
        with needs_extra("lab", "training"):
            from sklearn.svm import LinearSVC

        frequency = document_frequency(documents.counts[rows])
        self.ids = np.flatnonzero(frequency >= _MIN_DOCUMENTS).astype(np.int32)
        self.idf = tfidf_idf(frequency[self.ids], len(rows))
        self.weights = np.zeros((len(self.ids), documents.classes))
        self.bias = np.zeros(documents.classes)
        if len(self.ids):
            terms = self._tf_idf(documents.counts[rows])
            machine = LinearSVC(C=1.0, random_state=0).fit(terms, documents.labels[rows])
            rows_of_classes = np.column_stack([machine.coef_, machine.intercept_])
            if len(rows_of_classes) == 1:  # Two classes have a single score, which is positive for the second class.
                rows_of_classes = np.vstack([-rows_of_classes, rows_of_classes])
            self.weights, self.bias = rows_of_classes[:, :-1].T, rows_of_classes[:, -1]

    def scores(self, counts: csr_matrix) -> NDArray[np.float64]:
        """Score all classes for each document.

        Args:
            counts: The frequency of each of the V words of the encoder in each of n documents, shape (n, V).

        Returns:
            Scores of shape (n, C) for C classes.
        """
        return np.asarray(self._tf_idf(counts) @ self.weights + self.bias)

    def _tf_idf(self, counts: csr_matrix) -> csr_matrix:
        """Convert word counts of documents to tf-idf vectors of unit length, shape (n_documents, n_words)."""
        from scipy.sparse import diags

        terms = counts[:, self.ids].astype(np.float64)
        terms.data = (1 + np.log(terms.data)) * self.idf[terms.indices]
        lengths = np.sqrt(np.asarray(terms.multiply(terms).sum(axis=1)).ravel())
        return (diags(1 / np.where(lengths > 0, lengths, 1)) @ terms).tocsr()


class _VectorClassifier:
    """Scores the classes of a document by its vector: a ridge regression on the vectors of labelled documents.

    Args:
        documents: All documents.
        rows: The positions of the documents to train on.

    Attributes:
        head: The weight of each of the D dimensions for each of the C classes, shape (D, C).
        bias: The constant of each class, shape (C,).
    """

    def __init__(self, documents: _EncodedDocuments, rows: NDArray[Any]) -> None:
        vectors = np.hstack([documents.vectors[rows], np.ones((len(rows), 1))])
        sizes = np.bincount(documents.labels[rows], minlength=documents.classes)
        balance = (len(rows) / (np.count_nonzero(sizes) * sizes[documents.labels[rows]]))[:, None]
        penalty = np.diag([*[_RIDGE] * documents.vectors.shape[1], 1e-3])
        weighted = vectors * balance
        solution = np.linalg.solve(weighted.T @ vectors + penalty, weighted.T @ documents.targets(rows))
        self.head, self.bias = solution[:-1], solution[-1]

    def scores(self, vectors: Floats) -> NDArray[np.float64]:
        """Score all classes for each document.

        Args:
            vectors: The vectors of n documents with D dimensions, shape (n, D).

        Returns:
            Scores of shape (n, C) for C classes.
        """
        return np.asarray(vectors @ self.head + self.bias)


def _choose_weight_and_temperature(
    documents: _EncodedDocuments, folds: NDArray[np.int64], seed: int, steps: StepCounter
) -> tuple[tuple[float, float], dict[str, float]]:
    """Choose two constants of a class encoder by cross-validation: the weight w and the temperature T.

    The vector of a text is the softmax of (word score + w · vector score) / T over the classes, where the two scores
    come from :class:`_WordClassifier` and :class:`_VectorClassifier`.

    Args:
        documents: The labelled documents.
        folds: The fold of each document, or -1 for documents that are always used for training.
        seed: The seed of the choice of documents that are queries.
        steps: A counter of the trainings, which reports the progress.

    Returns:
        The pair (w, T), and a dictionary of mean average precisions: the entry ``map11`` of :func:`train_classes`. The
        dictionary is empty if fewer than two folds have documents.
    """
    from scipy.special import softmax

    names = np.unique(folds[folds >= 0])
    if len(names) < 2:
        return _DEFAULT, {}
    by_words, by_vectors = np.zeros((2, len(folds), documents.classes))
    for fold in names:
        rest, rows = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        by_words[rows] = _WordClassifier(documents, rest).scores(documents.counts[rows])
        by_vectors[rows] = _VectorClassifier(documents, rest).scores(documents.vectors[rows])
        steps.advance(1)
    judges = np.random.default_rng(seed).permutation(np.flatnonzero(folds >= 0))[:_JUDGES]

    def quality(vectors: NDArray[Any]) -> float:
        values = [
            same_class_scores(
                vectors[judges][folds[judges] == fold],
                vectors[judges][folds[judges] != fold],
                documents.labels[judges][folds[judges] == fold],
                documents.labels[judges][folds[judges] != fold],
            ).map11
            for fold in names
        ]
        return float(np.nanmean(np.concatenate(values)))

    qualities = {
        (weight, temperature): quality(softmax((by_words + weight * by_vectors) / temperature, axis=1))
        for weight, temperature in product(WEIGHTS, TEMPERATURES)
    }
    best = max(qualities, key=qualities.__getitem__)
    words = max(qualities[0.0, temperature] for temperature in TEMPERATURES)
    return best, {"vectors": quality(documents.vectors), "words": words, "trained": qualities[best]}
