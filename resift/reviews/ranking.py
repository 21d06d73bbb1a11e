"""The ranking of a whole set of documents by which of them were judged relevant.

Naive Bayes on TF-IDF, as in G. Ferdinands et al., "Performance of active learning models for screening prioritization
in systematic reviews: a simulation study", Systematic Reviews 12, 100 (2023), twice: over words and pairs of words, and
over stems. Which of the two finds more depends on the subject, so that each has its turn: a document stands where the
better of its two ranks puts it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import needs_extra
from resift.porter import stem

# Smoothing, and how much all relevant documents weigh against all others: those of asreview 2's model ELAS u3, which
# were tuned on the SYNERGY collection.
_SMOOTHING, _RATIO = 3.822, 1.2
_UNJUDGED = 100  # documents that stand for irrelevant ones while none are known
_FREQUENT = 0.95  # part of the documents from which on a word says nothing
_MOST_FEATURES = 500_000
_WORD = re.compile(r"\w\w")  # what scikit-learn takes for one; without any in all texts it fails


class DocumentSet:
    """The documents of a review by their ``ids``, with their texts; ``first`` are those that a search for its topic
    finds, best first."""

    def __init__(self, ids: Sequence[str], texts: Sequence[str], first: Sequence[str] = ()) -> None:
        self.ids, self._texts, self._first = list(ids), list(texts), first
        self.places = {id: place for place, id in enumerate(self.ids)}
        self._weighed: tuple[dict[str, bool], NDArray[np.float32]] | None = None
        self._ranked: tuple[tuple[dict[str, bool], frozenset[str]], list[str]] | None = None

    def text(self, id: str) -> str:
        """A document's text, one field a line; "" for one that is gone."""
        return self._texts[self.places[id]] if id in self.places else ""

    def ranked(self, labels: Mapping[str, bool], read: Collection[str] = ()) -> list[str]:
        """The ids that are not ``read``, likeliest relevant first, by the ``labels`` of those that were judged.

        Without a relevant one they are in the order of the topic's search, then in their own. Without an irrelevant
        one, documents at random stand for them.
        """
        known = ({id: label for id, label in labels.items() if id in self.places}, frozenset(read))
        if self._ranked is None or self._ranked[0] != known:
            self._ranked = (known, self._order(*known))
        return self._ranked[1]

    def reasons(self, id: str, labels: Mapping[str, bool], count: int) -> list[str]:
        """The ``count`` words and pairs of a document that speak most for it; none while nothing relevant is known."""
        known = {one: label for one, label in labels.items() if one in self.places}
        if id not in self.places or not any(known.values()):
            return []
        if self._weighed is None or self._weighed[0] != known:  # once for all documents of a batch
            rows, targets = self._training(known)
            self._weighed = (known, _weights(self._words[rows], targets))
        row = self._words[self.places[id]]
        parts = row.data * self._weighed[1][row.indices]
        best = np.argsort(-parts, kind="stable")[:count]
        return [str(self._names[row.indices[place]]) for place in best if parts[place] > 0]

    @cached_property
    def _counted(self) -> tuple[Any, NDArray[Any]]:
        """How often each document (N) has each word and pair of words (M), a sparse matrix, and what these are."""
        with needs_extra("review", "A review"):
            from sklearn.feature_extraction.text import CountVectorizer
        counter = CountVectorizer(ngram_range=(1, 2), max_features=_MOST_FEATURES, dtype=np.float32)
        counts = counter.fit_transform(text if _WORD.search(text) else "-empty-" for text in self._texts)
        return counts, counter.get_feature_names_out()

    @property
    def _names(self) -> NDArray[Any]:
        return self._counted[1]

    @cached_property
    def _words(self) -> Any:
        """TF-IDF of words and pairs, (N, M)."""
        return _tf_idf(self._counted[0])

    @cached_property
    def _stems(self) -> Any:
        """TF-IDF of stems, (N, S)."""
        from scipy.sparse import csr_matrix

        counts, names = self._counted
        words = [place for place, name in enumerate(names) if " " not in name]
        stems: dict[str, int] = {}
        columns = [stems.setdefault(stem(names[place]), len(stems)) for place in words]
        joined = csr_matrix((np.ones(len(words), np.float32), (words, columns)), (len(names), len(stems)))
        return _tf_idf(counts @ joined)

    def _training(self, labels: Mapping[str, bool]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The rows that are learned from, and whether they are relevant."""
        rows = [self.places[id] for id in labels]
        targets = list(labels.values())
        if targets and all(targets):
            others = np.setdiff1d(np.arange(len(self.ids)), rows)
            drawn = np.random.default_rng(0).choice(others, min(_UNJUDGED, len(others)), replace=False)
            rows, targets = [*rows, *drawn.tolist()], [*targets, *[False] * len(drawn)]
        return np.array(rows, np.intp), np.array(targets, bool)

    def _order(self, labels: Mapping[str, bool], read: Collection[str]) -> list[str]:
        rows, targets = self._training(labels)
        if not targets.any() or targets.all():
            ids = dict.fromkeys([*(id for id in self._first if id in self.places), *self.ids])
            return [id for id in ids if id not in read]
        unread = np.array([place for place, id in enumerate(self.ids) if id not in read], np.intp)
        # among the unread, so that each of the two has its turn
        ranks = [
            _ranks(np.asarray(features @ _weights(features[rows], targets))[unread])
            for features in (self._words, self._stems)
        ]
        # of two that have the same best rank, that of the words comes first
        order = np.lexsort((ranks[0], np.minimum(*ranks)))
        return [self.ids[place] for place in unread[order]]


def _tf_idf(counts: Any) -> Any:
    """TF-IDF of ``counts`` (N, M): (1 + ln tf) · (1 + ln((1 + N) / (1 + df))), each row at length 1 (l2); words that
    nearly all documents have are left out."""
    from sklearn.feature_extraction.text import TfidfTransformer

    telling = counts.tocsr(copy=True)
    frequent = counts.getnnz(axis=0) > max(_FREQUENT * counts.shape[0], 20)
    telling.data[frequent[telling.indices]] = 0
    telling.eliminate_zeros()
    return TfidfTransformer(sublinear_tf=True).fit_transform(telling).tocsr()


def _weights(known: Any, targets: NDArray[np.bool_]) -> NDArray[np.float32]:
    """What each feature (M,) says for a document: the logarithm of how much likelier relevant documents have it.

    ``known`` (n, M) are the judged documents, and ``targets`` (n,) whether they are relevant. Multinomial naive Bayes,
    whose prior changes no order.
    """
    relevant = int(targets.sum())
    weights = np.where(targets, _RATIO * (len(targets) - relevant) / relevant, 1.0)
    weights *= len(targets) / weights.sum()
    sums = [known[side].T @ weights[side] + _SMOOTHING for side in (targets, ~targets)]
    logs = [np.log(side) - np.log(side.sum()) for side in sums]
    return np.asarray(logs[0] - logs[1], np.float32)


def _ranks(scores: NDArray[Any]) -> NDArray[np.float64]:
    """The rank of each score, from 0 for the largest."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return ranks
