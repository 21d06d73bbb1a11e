"""The ranking of a whole set of documents by which of them were judged relevant.

Naive Bayes on TF-IDF, as in G. Ferdinands et al., "Performance of active learning models for screening prioritization
in systematic reviews: a simulation study", Systematic Reviews 12, 100 (2023), twice: over words and pairs of words, and
over stems. Which of the two finds more depends on the subject, so that both have their turns, and more of them the one
that tells held-back judgements apart better. Documents that nobody judged stand for irrelevant ones, as in G. Cormack
and M. Grossman, "Autonomy and reliability of continuous active learning for technology-assisted review" (2015): of what
was judged alone, a ranking learns that whatever resembles relevant documents is not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resift.errors import needs_extra
from resift.porter import stem

# Smoothing, and how much all relevant documents weigh against all others: those of asreview 2's model ELAS u3, which
# were tuned on the SYNERGY collection.
_SMOOTHING, _RATIO = 3.822, 1.2
# As how many irrelevant documents all that were not judged count, and each of them at most.
_UNJUDGED, _EACH = 100, 0.1
_FOLDS = 5
# How fast turns grow with a lead (of the area under the ROC curve) at held-back judgements, and by how much words and
# pairs have to lead for as many turns as stems: they are a hundred times as many, and overfit. Chosen on three reviews.
_TURNS, _LEAD = 40, 0.02
_FREQUENT = 0.95  # part of the documents from which on a word says nothing
_MOST_FEATURES = 500_000
_WORD = re.compile(r"\w\w")  # what scikit-learn takes for one; without any in all texts it fails


class DocumentSet:
    """The documents of a review by their ``ids``, with their texts; ``first`` are those that a search for its topic
    finds, best first."""

    def __init__(self, ids: Sequence[str], texts: Sequence[str], first: Sequence[str] = ()) -> None:
        self.ids, self._texts, self._first = list(ids), list(texts), first
        self.total = len(self.ids)
        self.places = {id: place for place, id in enumerate(self.ids)}
        self._weighed: tuple[dict[str, bool], NDArray[np.float32]] | None = None
        self._ranked: tuple[tuple[dict[str, bool], frozenset[str]], list[str]] | None = None

    def existing(self, ids: Collection[str]) -> set[str]:
        """Which of some ids are documents here."""
        return {id for id in ids if id in self.places}

    def draw(self, count: int, read: Collection[str]) -> tuple[list[str], int]:
        """``count`` ids at random of those that are not ``read``, and how many these are."""
        unread = [id for id in self.ids if id not in read]
        picked = np.random.default_rng().choice(len(unread), min(count, len(unread)), replace=False)
        return [unread[place] for place in picked], len(unread)

    def text(self, id: str) -> str:
        """A document's text, one field a line; "" for one that is gone."""
        return self._texts[self.places[id]] if id in self.places else ""

    def ranked(self, labels: Mapping[str, bool], read: Collection[str] = ()) -> list[str]:
        """The ids that are not ``read``, likeliest relevant first, by the ``labels`` of those that were judged.

        Without a relevant one they are in the order of the topic's search, then in their own.
        """
        known = ({id: label for id, label in labels.items() if id in self.places}, frozenset(read))
        if self._ranked is None or self._ranked[0] != known:
            self._ranked = (known, self._order(*known))
        return self._ranked[1]

    def reasons(self, id: str, labels: Mapping[str, bool], count: int) -> list[str]:
        """The ``count`` words and pairs of a document that speak most for it; none while nothing relevant is known."""
        known = {one: label for one, label in labels.items() if one in self.places}
        if id not in self.places or not self._can_learn(known):
            return []
        if self._weighed is None or self._weighed[0] != known:  # once for all documents of a batch
            self._weighed = (known, self._words.weights(*self._training(known)))
        row = self._words.features[self.places[id]]
        parts = row.data * self._weighed[1][row.indices]
        best = np.argsort(-parts, kind="stable")[:count]
        return [str(self._counted[1][row.indices[place]]) for place in best if parts[place] > 0]

    def strongest(self, labels: Mapping[str, bool], count: int) -> dict[str, float]:
        """The ``count`` words that speak most for all relevant documents together, and how much, the first one 1."""
        if not self._can_learn(labels):
            return {}
        rows, targets = self._training(labels)
        parts = self._words.features[rows[targets]].sum(axis=0).A1 * self._words.weights(rows, targets)
        names = self._counted[1]
        best = [place for place in np.argsort(-parts, kind="stable") if " " not in names[place]][:count]
        return {str(names[place]): float(parts[place] / parts[best[0]]) for place in best if parts[place] > 0}

    @cached_property
    def _counted(self) -> tuple[Any, NDArray[Any]]:
        """How often each document (N) has each word and pair of words (M), a sparse matrix, and what these are."""
        with needs_extra("review", "A review"):
            from sklearn.feature_extraction.text import CountVectorizer
        counter = CountVectorizer(ngram_range=(1, 2), max_features=_MOST_FEATURES, dtype=np.float32)
        counts = counter.fit_transform(text if _WORD.search(text) else "-empty-" for text in self._texts)
        return counts, counter.get_feature_names_out()

    @cached_property
    def _words(self) -> _NaiveBayes:
        """Of words and pairs, M features."""
        return _NaiveBayes(_tf_idf(self._counted[0]))

    @cached_property
    def _stems(self) -> _NaiveBayes:
        """Of stems, S features."""
        from scipy.sparse import csr_matrix

        counts, names = self._counted
        words = [place for place, name in enumerate(names) if " " not in name]
        stems: dict[str, int] = {}
        columns = [stems.setdefault(stem(names[place]), len(stems)) for place in words]
        joined = csr_matrix((np.ones(len(words), np.float32), (words, columns)), (len(names), len(stems)))
        return _NaiveBayes(_tf_idf(counts @ joined))

    def _training(self, labels: Mapping[str, bool]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The rows of judged documents, and whether they are relevant."""
        return np.array([self.places[id] for id in labels], np.intp), np.array(list(labels.values()), bool)

    def _order(self, labels: Mapping[str, bool], read: Collection[str]) -> list[str]:
        if not self._can_learn(labels):
            ids = dict.fromkeys([*(id for id in self._first if id in self.places), *self.ids])
            return [id for id in ids if id not in read]
        rows, targets = self._training(labels)
        unread = np.array([place for place, id in enumerate(self.ids) if id not in read], np.intp)
        # among the unread, so that each of the two has its turns
        words, stems = (_ranks(one.scores(rows, targets)[unread]) for one in (self._words, self._stems))
        lead = 0.0
        if min(targets.sum(), (~targets).sum()) > 1:
            lead = self._words.held_back(rows, targets) - self._stems.held_back(rows, targets) - _LEAD
        turns = np.exp(_TURNS * lead / 2)
        # of two that stand at the same place, that of the words comes first
        order = np.lexsort((words, np.minimum((words + 1) / turns, (stems + 1) * turns)))
        return [self.ids[place] for place in unread[order]]

    def _can_learn(self, labels: Mapping[str, bool]) -> bool:
        """Whether a document is known to be relevant, and one is irrelevant or was not judged."""
        return any(labels.values()) and (len(labels) < len(self.ids) or not all(labels.values()))


class _Others(NamedTuple):
    """What the documents that nobody judged count: the sum of their features (m,), of all their features, and as how
    many irrelevant documents."""

    sums: NDArray[np.float32]
    total: float
    number: float


class _NaiveBayes:
    """Multinomial naive Bayes over ``features`` (N, M) of all documents, a sparse matrix; a prior changes no order."""

    def __init__(self, features: Any) -> None:
        self.features = features
        self._sums = _summed(features)

    def weights(self, rows: NDArray[np.intp], targets: NDArray[np.bool_]) -> NDArray[np.float32]:
        """What each feature (M,) says for a document: the logarithm of how much likelier relevant documents have it.

        ``rows`` (n,) are the judged documents, and ``targets`` (n,) whether they are relevant.
        """
        known = self.features[rows]
        return self._weights(known, targets, self._others(known))

    def scores(self, rows: NDArray[np.intp], targets: NDArray[np.bool_]) -> NDArray[np.float32]:
        """What all features of a document say for it, of each (N,)."""
        return np.asarray(self.features @ self.weights(rows, targets))

    def held_back(self, rows: NDArray[np.intp], targets: NDArray[np.bool_]) -> float:
        """How well judgements tell others apart: the area under the ROC curve of a cross-validation.

        Each class needs two of them at least.
        """
        from sklearn.metrics import roc_auc_score

        known = self.features[rows]
        others, columns = self._others(known), np.flatnonzero(np.bincount(known.indices))  # no other counts here
        known, others = known[:, columns], others._replace(sums=others.sums[columns])
        scores, folds = np.empty(len(rows), np.float32), np.empty(len(rows), int)
        for side in (targets, ~targets):
            folds[side] = np.arange(side.sum()) % _FOLDS
        for fold in range(min(_FOLDS, max(folds) + 1)):
            held = folds == fold
            scores[held] = known[held] @ self._weights(known[~held], targets[~held], others)
        return float(roc_auc_score(targets, scores))

    def _others(self, known: Any) -> _Others:
        """All documents but the ``known`` ones (n, M)."""
        number = self.features.shape[0] - known.shape[0]
        count = min(_UNJUDGED, _EACH * number)
        sums = (self._sums - _summed(known)) * (count / max(number, 1))
        return _Others(sums, float(sums.sum()), count)

    def _weights(self, known: Any, targets: NDArray[np.bool_], others: _Others) -> NDArray[np.float32]:
        relevant = int(targets.sum())
        share = len(targets) / (1 + _RATIO)  # of the irrelevant ones in the weight of all
        scale = share / (len(targets) - relevant + others.number)
        sums = [_summed(known[targets]) * (share * _RATIO / relevant), (_summed(known[~targets]) + others.sums) * scale]
        totals = [sums[0].sum(), sums[1].sum() + (others.total - others.sums.sum()) * scale]
        size = _SMOOTHING * len(self._sums)
        logs = [np.log(side + _SMOOTHING) - np.log(total + size) for side, total in zip(sums, totals, strict=True)]
        return np.asarray(logs[0] - logs[1], np.float32)


def _summed(rows: Any) -> NDArray[np.float32]:
    """The sum (M,) of the rows of a sparse matrix (n, M)."""
    return np.asarray(rows.T @ np.ones(rows.shape[0], np.float32))


def _ranks(scores: NDArray[Any]) -> NDArray[np.float64]:
    """The rank of each score, from 0 for the largest."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return ranks


def _tf_idf(counts: Any) -> Any:
    """TF-IDF of ``counts`` (N, M): (1 + ln tf) · (1 + ln((1 + N) / (1 + df))), each row at length 1 (l2); words that
    nearly all documents have are left out."""
    from sklearn.feature_extraction.text import TfidfTransformer

    telling = counts.tocsr(copy=True)
    frequent = counts.getnnz(axis=0) > max(_FREQUENT * counts.shape[0], 20)
    telling.data[frequent[telling.indices]] = 0
    telling.eliminate_zeros()
    return TfidfTransformer(sublinear_tf=True).fit_transform(telling).tocsr()
