"""A whole set of documents ranked by a classifier that teaches itself from few marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import needs_extra

with needs_extra("lab", "Evaluation"):
    from scipy.sparse import vstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

_ROUNDS = (10, 20, 40, 60, 100)  # first documents that count as relevant, round by round
_LARGE = 0.1  # the part of all documents that a large class takes for relevant, by all of these rounds but the last
_GROWING, _SHARE = 2, 0.5  # of such a class: further rounds, and the part of these documents that then counts
_OTHERS = 500  # documents of the lower half that count as irrelevant
_JUDGED = 100.0  # how many such a document counts as that somebody judged, or the query


class WholeSet:
    """Texts (N) as TF-IDF: 1 + log tf, English stop words and words of a single document left out, at length 1."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english")
        self.rows = self._vectorizer.fit_transform(texts)

    def scores(self, query: str, judged: Sequence[tuple[int, float]], first: NDArray[Any]) -> NDArray[np.float64]:
        """Log odds (N,) that a document is relevant, by self-training (Yarowsky 1995).

        Round by round a logistic regression (C = 20) is fitted to what is relevant, the ``query`` itself, the documents
        ``judged`` so and the first 10, 20, 40, 60 and 100 of the ranking so far, against what is not: those judged so,
        and 500 at random of its lower half. Both sides weigh the same, before the query and each judged document count
        as a hundred. The ranking before is by the scores ``first`` (N,). If before the last round more than a tenth of
        all documents have odds above 1, the class is large, and two more rounds follow, in which half of them count.
        """
        scores, asked, rng = (
            np.asarray(first, np.float64),
            self._vectorizer.transform([query]),
            np.random.default_rng(0),
        )
        marked, refused = ([row for row, grade in judged if grade * sign > 0] for sign in (1, -1))
        large = False
        for number in range(len(_ROUNDS) + _GROWING):
            taken = int(np.count_nonzero(scores > 0))
            if number == len(_ROUNDS) - 1:
                large = taken > _LARGE * len(scores)
            if number >= len(_ROUNDS) and not large:
                break
            count = _ROUNDS[number] if number < len(_ROUNDS) else max(_ROUNDS[-1], int(_SHARE * taken))
            order = np.argsort(-scores, kind="stable")
            lower = order[len(order) // 2 :]
            relevant = np.union1d(marked, np.setdiff1d(order[:count], refused)).astype(np.intp)
            drawn = rng.choice(lower, min(_OTHERS, len(lower)), replace=False)
            others = np.setdiff1d(np.union1d(refused, drawn), relevant).astype(np.intp)
            if not len(others):  # a collection of no more documents than count as relevant
                return scores
            targets = np.repeat([True, False], [1 + len(relevant), len(others)])
            weights = np.where(targets, 1 / targets.sum(), 1 / len(others)) * len(targets) / 2
            weights[[True, *np.isin(relevant, marked), *np.isin(others, refused)]] *= _JUDGED
            known = vstack([asked, self.rows[relevant], self.rows[others]]).tocsr()
            # liblinear: a tenth of the time that others take on a busy machine
            machine = LogisticRegression(C=20.0, solver="liblinear").fit(known, targets, sample_weight=weights)
            scores = machine.decision_function(self.rows)
        return np.asarray(scores, np.float64)
