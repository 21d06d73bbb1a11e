"""The ranking of a whole set of documents by which of them were judged relevant.

TF-IDF of words and pairs, a linear support vector machine, and naive Bayes beside it, as screening tools have them: R.
van de Schoot et al., "An open source machine learning framework for efficient and transparent systematic reviews",
Nature Machine Intelligence 3 (2021); G. Ferdinands et al., "Performance of active learning models for screening
prioritization in systematic reviews" (2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import needs_extra

# How much all relevant documents weigh against all others, the SVM's regularisation and naive Bayes's smoothing: of
# asreview 2's default models (ELAS u4 and u3), which were tuned on the SYNERGY collection.
_SVM_RATIO, _SVM_C, _BAYES_RATIO, _BAYES_ALPHA = 9.8, 0.11, 1.2, 3.822
_UNJUDGED = 100  # documents that stand for irrelevant ones while none are known
_MOST_FEATURES = 500_000


class DocumentSet:
    """The documents of a review by their ``ids``, with their texts; ``first`` are those that a search for its topic
    finds, best first."""

    def __init__(self, ids: Sequence[str], texts: Sequence[str], first: Sequence[str] = ()) -> None:
        self.ids, self._texts, self._first = list(ids), list(texts), first
        self.places = {id: place for place, id in enumerate(self.ids)}
        self._ranked: tuple[dict[str, bool], list[str]] | None = None

    def text(self, id: str) -> str:
        """A document's text, one field a line; "" for one that is gone."""
        return self._texts[self.places[id]] if id in self.places else ""

    def ranked(self, labels: Mapping[str, bool]) -> list[str]:
        """All ids, likeliest relevant first, by the ``labels`` of those that were judged.

        Without a relevant one they are in the order of the topic's search, then in their own. Without an irrelevant
        one, documents at random stand for them.
        """
        judged = {id: label for id, label in labels.items() if id in self.places}
        if self._ranked is None or self._ranked[0] != judged:
            self._ranked = (judged, self._order(judged))
        return self._ranked[1]

    def reasons(self, id: str, labels: Mapping[str, bool], count: int) -> list[str]:
        """The ``count`` words and pairs of a document that speak most for it; none while nothing relevant is known."""
        rows, targets = self._training({one: label for one, label in labels.items() if one in self.places})
        if not targets.any() or id not in self.places:
            return []
        weights = _machine(self._features[rows], targets).coef_[0]
        row = self._features[self.places[id]]
        parts = row.data * weights[row.indices]
        best = np.argsort(-parts, kind="stable")[:count]
        return [str(self._names[row.indices[place]]) for place in best if parts[place] > 0]

    @cached_property
    def _vectorizer(self) -> Any:
        with needs_extra("review", "A review"):
            from sklearn.feature_extraction.text import TfidfVectorizer
        return TfidfVectorizer(
            ngram_range=(1, 2), sublinear_tf=True, max_df=0.95 if len(self.ids) > 20 else 1.0,
            max_features=_MOST_FEATURES, dtype=np.float32,
        )  # fmt: skip

    @cached_property
    def _features(self) -> Any:
        return self._vectorizer.fit_transform(text or "empty" for text in self._texts)

    @cached_property
    def _names(self) -> NDArray[Any]:
        return np.asarray(self._vectorizer.get_feature_names_out())

    def _training(self, labels: Mapping[str, bool]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The rows that are learned from, and whether they are relevant."""
        rows = [self.places[id] for id in labels]
        targets = list(labels.values())
        if targets and all(targets):
            others = np.setdiff1d(np.arange(len(self.ids)), rows)
            drawn = np.random.default_rng(0).choice(others, min(_UNJUDGED, len(others)), replace=False)
            rows, targets = [*rows, *drawn.tolist()], [*targets, *[False] * len(drawn)]
        return np.array(rows, np.intp), np.array(targets, bool)

    def _order(self, labels: Mapping[str, bool]) -> list[str]:
        rows, targets = self._training(labels)
        if not targets.any() or targets.all():
            return list(dict.fromkeys([*(id for id in self._first if id in self.places), *self.ids]))
        from sklearn.naive_bayes import MultinomialNB

        known = self._features[rows]
        ranks = _ranks(_machine(known, targets).decision_function(self._features))
        bayes = MultinomialNB(alpha=_BAYES_ALPHA).fit(known, targets, _weights(targets, _BAYES_RATIO))
        ranks += _ranks(np.asarray(self._features @ (bayes.feature_log_prob_[1] - bayes.feature_log_prob_[0])))
        return [self.ids[place] for place in np.argsort(ranks, kind="stable")]


def _machine(known: Any, targets: NDArray[np.bool_]) -> Any:
    """A linear support vector machine that tells the relevant rows from the others."""
    from sklearn.svm import LinearSVC

    return LinearSVC(C=_SVM_C).fit(known, targets, _weights(targets, _SVM_RATIO))


def _weights(targets: NDArray[np.bool_], ratio: float) -> NDArray[np.float64]:
    """Weights (n,) of which the relevant documents have ``ratio`` times those of all others, and whose mean is 1."""
    relevant = int(targets.sum())
    weights = np.where(targets, ratio * (len(targets) - relevant) / relevant, 1.0)
    return np.asarray(weights * len(targets) / weights.sum())


def _ranks(scores: NDArray[Any]) -> NDArray[np.float64]:
    """The rank of each score, from 0 for the largest."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return ranks
