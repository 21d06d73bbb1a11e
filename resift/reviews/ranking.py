"""Ranking of a set of documents by judgements of some of them.

The ranking combines two multinomial naive Bayes classifiers on TF-IDF features: one over words and pairs of words, and
another over stems. The subject of the review determines which of the two finds more relevant documents. Therefore both
take turns, and the classifier that separates held-out judgements better gets more turns.

Unjudged documents serve as irrelevant examples. From judged documents alone, a classifier learns that everything
similar to relevant documents is irrelevant.

Source: for naive Bayes, G. Ferdinands et al., "Performance of active learning models for screening prioritization in
systematic reviews: a simulation study", Systematic Reviews 12, 100 (2023). For the unjudged documents, G. Cormack and
M. Grossman, "Autonomy and reliability of continuous active learning for technology-assisted review" (2015).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resift.contracts.engine import Headers
from resift.errors import needs_extra
from resift.porter import stem
from resift.reviews.documents import ReviewDocuments

# Smoothing, and the weight of all relevant documents in relation to all others. The values are those of asreview 2's
# model ELAS u3, which were tuned on the SYNERGY collection.
_SMOOTHING, _RATIO = 3.822, 1.2
# Total weight of the unjudged documents, and maximum weight of each of them, in irrelevant judgements.
_UNJUDGED_WEIGHT, _MAX_DOCUMENT_WEIGHT = 100, 0.1
_FOLDS = 5  # of the cross-validation
# The ratio of turns is exp(_TURNS * lead), where the lead is a difference of areas under the ROC curve. Words and pairs
# must lead by _REQUIRED_LEAD for as many turns as stems, because they are a hundred times as many and overfit. Both
# values were chosen on three reviews.
_TURNS, _REQUIRED_LEAD = 40, 0.02
_FREQUENT = 0.95  # words that occur in a larger share of the documents are ignored
_MAX_FEATURES = 500_000
_WORD = re.compile(r"\w\w")  # scikit-learn's definition of a word; it fails if no text contains a word


# Estimate of the memory of a set. A document counts as its characters and DOCUMENT_OVERHEAD more. A character counts as
# _BYTES_PER_CHARACTER, for the text and its features. Ordinary texts need about 16 bytes per character, and texts of
# rare or very short words 32 bytes: see benchmarks/review_memory.py.
DOCUMENT_OVERHEAD, _BYTES_PER_CHARACTER = 100, 32


class DocumentSet(ReviewDocuments):
    """Documents of a review whose texts are in memory.

    Args:
        ids: The ids of the documents.
        texts: The texts of the documents, in the order of ``ids``.
        first: The ids of the documents that come first until a document has been judged relevant, best first. They
            are the hits of a search for the topic of the review.

    Attributes:
        ids: The ids of the documents.
        places: A dictionary from each document id to its position in ``ids``.
    """

    def __init__(self, ids: Sequence[str], texts: Sequence[str], first: Sequence[str] = ()) -> None:
        self.ids = list(ids)
        self.places = {id: place for place, id in enumerate(self.ids)}
        self._texts = list(texts)
        self._first = first
        self._characters = sum(len(text) + DOCUMENT_OVERHEAD for text in self._texts)
        # The latest weights and ranking with the judgements (and read documents) from which they were computed.
        self._cached_weights: tuple[dict[str, bool], NDArray[np.float32]] | None = None
        self._cached_ranking: tuple[tuple[dict[str, bool], frozenset[str]], list[str]] | None = None

    @property
    def total(self) -> int:
        """The number of documents."""
        return len(self.ids)

    @property
    def memory_in_bytes(self) -> int:
        """The estimated number of bytes of memory that the texts and the classifiers occupy."""
        return _BYTES_PER_CHARACTER * self._characters

    def existing_ids(self, ids: Collection[str]) -> set[str]:
        """Return the ids in ``ids`` that belong to documents of this set. Other ids are left out."""
        return {id for id in ids if id in self.places}

    def draw(self, count: int, excluded: Collection[str]) -> tuple[list[str], int]:
        """Draw random documents without replacement.

        Args:
            count: The number of documents to draw. Fewer are drawn if fewer are available.
            excluded: The ids of the documents that must not be drawn.

        Returns:
            The ids of the drawn documents, and the number of documents that could be drawn.
        """
        available = [id for id in self.ids if id not in excluded]
        picked = np.random.default_rng().choice(len(available), min(count, len(available)), replace=False)
        return [available[place] for place in picked], len(available)

    def text(self, id: str) -> str:
        """Return the text of a document, one field per line, or "" if the document is not in this set."""
        return self._texts[self.places[id]] if id in self.places else ""

    def texts(self, ids: Sequence[str], headers: Headers = None) -> dict[str, str]:
        """Return the texts of documents, by id. Documents that do not belong to this set are left out."""
        return {id: self.text(id) for id in ids if id in self.places}

    def ranked(self, labels: Mapping[str, bool], read: Collection[str] = ()) -> list[str]:
        """Return the ids of the documents that nobody has read yet, most likely relevant first.

        Args:
            labels: The judgements to learn from, with True for relevant documents.
            read: The ids of the documents to leave out because they have been read.
        """
        known = ({id: label for id, label in labels.items() if id in self.places}, frozenset(read))
        if self._cached_ranking is None or self._cached_ranking[0] != known:
            self._cached_ranking = (known, self._order(*known))
        return self._cached_ranking[1]

    def reasons(self, id: str, labels: Mapping[str, bool], count: int) -> list[str]:
        """Return the words and pairs of words that contribute most to the score of a document.

        Args:
            id: The id of the document.
            labels: The judged documents, with True for relevant documents.
            count: The maximum number of words and pairs of words.
        """
        known = {judged: label for judged, label in labels.items() if judged in self.places}
        if id not in self.places or not self._can_learn(known):
            return []
        if self._cached_weights is None or self._cached_weights[0] != known:  # once for all documents of a batch
            self._cached_weights = (known, self._word_classifier.weights(*self._training_data(known)))
        row = self._word_classifier.features[self.places[id]]
        contributions = row.data * self._cached_weights[1][row.indices]
        best = np.argsort(-contributions, kind="stable")[:count]
        return [str(self._counts[1][row.indices[place]]) for place in best if contributions[place] > 0]

    def strongest_words(self, labels: Mapping[str, bool], count: int) -> dict[str, float]:
        """Return the words that best distinguish the relevant documents from other documents.

        Args:
            labels: The judged documents, with True for relevant documents.
            count: The maximum number of words.

        Returns:
            A dictionary from words to weights from 0 to 1. A weight is the word's contribution to the scores of the
            relevant documents, divided by the largest contribution. Empty if no document has been judged relevant.
        """
        if not self._can_learn(labels):
            return {}
        rows, targets = self._training_data(labels)
        classifier = self._word_classifier
        contributions = classifier.features[rows[targets]].sum(axis=0).A1 * classifier.weights(rows, targets)
        names = self._counts[1]
        best = [place for place in np.argsort(-contributions, kind="stable") if " " not in names[place]][:count]
        strongest = contributions[best[0]] if best else 1.0
        return {
            str(names[place]): float(contributions[place] / strongest) for place in best if contributions[place] > 0
        }

    @cached_property
    def _counts(self) -> tuple[Any, NDArray[Any]]:
        """Count how often each word and each pair of adjacent words occurs in each document.

        Returns:
            The counts as a sparse matrix of shape (n_documents, n_features), and the words and word pairs as an array
            of shape (n_features,).
        """
        with needs_extra("review", "A review"):
            from sklearn.feature_extraction.text import CountVectorizer
        counter = CountVectorizer(ngram_range=(1, 2), max_features=_MAX_FEATURES, dtype=np.float32)
        counts = counter.fit_transform(text if _WORD.search(text) else "-empty-" for text in self._texts)
        return counts, counter.get_feature_names_out()

    @cached_property
    def _word_classifier(self) -> _NaiveBayes:
        """The classifier that ranks documents by their words and pairs of adjacent words."""
        return _NaiveBayes(_tf_idf(self._counts[0]))

    @cached_property
    def _stem_classifier(self) -> _NaiveBayes:
        """The classifier that ranks documents by their word stems."""
        from scipy.sparse import csr_matrix

        counts, names = self._counts
        words = [place for place, name in enumerate(names) if " " not in name]
        stems: dict[str, int] = {}
        columns = [stems.setdefault(stem(names[place]), len(stems)) for place in words]
        joined = csr_matrix((np.ones(len(words), np.float32), (words, columns)), (len(names), len(stems)))
        return _NaiveBayes(_tf_idf(counts @ joined))

    def _training_data(self, labels: Mapping[str, bool]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Convert judgements to training data for a classifier.

        Args:
            labels: The judged documents, with True for relevant documents.

        Returns:
            The positions of the judged documents, and whether they are relevant, as arrays of shape (n_judged,).
        """
        return np.array([self.places[id] for id in labels], np.intp), np.array(list(labels.values()), bool)

    def _order(self, labels: Mapping[str, bool], read: Collection[str]) -> list[str]:
        if not self._can_learn(labels):
            ids = dict.fromkeys([*(id for id in self._first if id in self.places), *self.ids])
            return [id for id in ids if id not in read]
        rows, targets = self._training_data(labels)
        unread = np.array([place for place, id in enumerate(self.ids) if id not in read], np.intp)
        # Rank the unread documents only, so that both classifiers get their turns.
        words = _ranks_by_score(self._word_classifier.scores(rows, targets)[unread])
        stems = _ranks_by_score(self._stem_classifier.scores(rows, targets)[unread])
        lead = 0.0
        if min(targets.sum(), (~targets).sum()) > 1:
            lead = self._word_classifier.cross_validate(rows, targets)
            lead -= self._stem_classifier.cross_validate(rows, targets)
            lead -= _REQUIRED_LEAD
        turns = np.exp(_TURNS * lead / 2)
        # Ties are in the order of the words.
        order = np.lexsort((words, np.minimum((words + 1) / turns, (stems + 1) * turns)))
        return [self.ids[place] for place in unread[order]]

    def _can_learn(self, labels: Mapping[str, bool]) -> bool:
        """Return whether a classifier can be trained: a document is relevant, and another is irrelevant or unjudged.

        Args:
            labels: The judged documents, with True for relevant documents.
        """
        return any(labels.values()) and (len(labels) < len(self.ids) or not all(labels.values()))


class _UnjudgedFeatures(NamedTuple):
    """Weighted totals over the unjudged documents, which a classifier treats as irrelevant examples.

    A judged document has the weight 1. All unjudged documents have the same, smaller weight.

    Attributes:
        sums: For each TF-IDF feature, the weighted sum over the unjudged documents, of shape (n_features,). Features
            that occur in no judged document may be left out.
        total: A single number, the weighted sum over all features and all unjudged documents. It includes the features
            that ``sums`` leaves out.
        weight: The sum of the weights of the unjudged documents.
    """

    sums: NDArray[np.float32]
    total: float
    weight: float


class _NaiveBayes:
    """A multinomial naive Bayes classifier that separates relevant from irrelevant documents.

    It has no class prior, because a prior would not change the order of the documents.

    Args:
        features: The features of all documents, a sparse matrix of shape (n_documents, n_features).
    """

    def __init__(self, features: Any) -> None:
        self.features = features
        self._sums = _column_sums(features)

    def weights(self, rows: NDArray[np.intp], targets: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Train the classifier on judged documents, and return the weight of each feature, of shape (n_features,).

        The weight is ln(p / q), where p is the probability of the feature in relevant documents, and q its probability
        in irrelevant and unjudged documents.

        Args:
            rows: The positions of the judged documents, of shape (n_judged,).
            targets: Whether each judged document is relevant, of shape (n_judged,).
        """
        known = self.features[rows]
        return self._weights(known, targets, self._sum_unjudged(known))

    def scores(self, rows: NDArray[np.intp], targets: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Train the classifier on judged documents, and return the relevance score of each document.

        The score is the sum of the document's features, multiplied by their weights.

        Args:
            rows: The positions of the judged documents, of shape (n_judged,).
            targets: Whether each judged document is relevant, of shape (n_judged,).

        Returns:
            Array of shape (n_documents,).
        """
        return np.asarray(self.features @ self.weights(rows, targets))

    def cross_validate(self, rows: NDArray[np.intp], targets: NDArray[np.bool_]) -> float:
        """Measure how well the classifier separates the judged documents, by cross-validation.

        Args:
            rows: The positions of the judged documents, of shape (n_judged,).
            targets: Whether each judged document is relevant. At least two must be relevant and two irrelevant.

        Returns:
            The area under the ROC curve, from 0 to 1. Random scores give 0.5.
        """
        from sklearn.metrics import roc_auc_score

        known = self.features[rows]
        unjudged = self._sum_unjudged(known)
        columns = np.flatnonzero(np.bincount(known.indices))  # other features do not occur in judged documents
        known, unjudged = known[:, columns], unjudged._replace(sums=unjudged.sums[columns])
        scores, folds = np.empty(len(rows), np.float32), np.empty(len(rows), int)
        for side in (targets, ~targets):
            folds[side] = np.arange(side.sum()) % _FOLDS
        for fold in range(min(_FOLDS, max(folds) + 1)):
            test = folds == fold
            scores[test] = known[test] @ self._weights(known[~test], targets[~test], unjudged)
        return float(roc_auc_score(targets, scores))

    def _sum_unjudged(self, judged: Any) -> _UnjudgedFeatures:
        """Add up the TF-IDF features of the unjudged documents, which serve as irrelevant examples.

        The unjudged documents have a smaller weight than the judged documents, because some of them are relevant.

        Args:
            judged: The features of the judged documents, a sparse matrix of shape (n_judged, n_features).
        """
        number = self.features.shape[0] - judged.shape[0]
        weight = min(_UNJUDGED_WEIGHT, _MAX_DOCUMENT_WEIGHT * number)
        sums = (self._sums - _column_sums(judged)) * (weight / max(number, 1))
        return _UnjudgedFeatures(sums, float(sums.sum()), weight)

    def _weights(self, known: Any, targets: NDArray[np.bool_], unjudged: _UnjudgedFeatures) -> NDArray[np.float32]:
        relevant = int(targets.sum())
        irrelevant_weight = len(targets) / (1 + _RATIO)  # total weight of the irrelevant documents
        relevant_scale = irrelevant_weight * _RATIO / relevant
        irrelevant_scale = irrelevant_weight / (len(targets) - relevant + unjudged.weight)
        relevant_sums = _column_sums(known[targets]) * relevant_scale
        irrelevant_sums = (_column_sums(known[~targets]) + unjudged.sums) * irrelevant_scale
        relevant_total = relevant_sums.sum()
        irrelevant_total = irrelevant_sums.sum() + (unjudged.total - unjudged.sums.sum()) * irrelevant_scale
        smoothing = _SMOOTHING * len(self._sums)
        relevant_logs = np.log(relevant_sums + _SMOOTHING) - np.log(relevant_total + smoothing)
        irrelevant_logs = np.log(irrelevant_sums + _SMOOTHING) - np.log(irrelevant_total + smoothing)
        return np.asarray(relevant_logs - irrelevant_logs, np.float32)


def _column_sums(rows: Any) -> NDArray[np.float32]:
    """Return the sum of each column of a sparse matrix, as an array of shape (n_columns,)."""
    return np.asarray(rows.T @ np.ones(rows.shape[0], np.float32))


def _ranks_by_score(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rank of each score, as an array of the same shape: 0 for the largest score, 1 for the next, etc."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return ranks


def _tf_idf(counts: Any) -> Any:
    """Convert word counts to TF-IDF features.

    A feature is (1 + ln tf) · (1 + ln((1 + N) / (1 + df))), where tf is the count of the word in the document, df the
    number of documents that contain the word, and N the number of documents. Each row is scaled to unit length. Words
    that occur in more than 95 % of the documents are left out.

    Args:
        counts: The word counts, a sparse matrix of shape (n_documents, n_features).

    Returns:
        A sparse matrix of the same shape.
    """
    from sklearn.feature_extraction.text import TfidfTransformer

    filtered = counts.tocsr(copy=True)
    frequent = counts.getnnz(axis=0) > max(_FREQUENT * counts.shape[0], 20)
    filtered.data[frequent[filtered.indices]] = 0
    filtered.eliminate_zeros()
    return TfidfTransformer(sublinear_tf=True).fit_transform(filtered).tocsr()
