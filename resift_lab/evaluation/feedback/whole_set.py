"""A self-training classifier that ranks all documents of a collection from few judgements."""

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

_ROUNDS = (10, 20, 40, 60, 100)  # number of top-ranked documents that serve as relevant examples in each round

# A class is large if more than this fraction of all documents has positive log odds before the last round.
# Large classes get further rounds, in which this fraction of the positive documents are training examples.
_LARGE_CLASS = 0.1
_LARGE_CLASS_ROUNDS = 2
_LARGE_CLASS_FRACTION = 0.5

_SAMPLED_IRRELEVANT = 500  # number of documents from the lower half of the ranking that serve as irrelevant examples
_JUDGED_WEIGHT = 100.0  # weight of the query and of each judged document, relative to another training example


class SelfTrainingClassifier:
    """A classifier that ranks all documents of a collection, after a user has judged a few of them.

    It is trained on the judgements and then on its own predictions (self-training). Texts are represented by tf-idf
    vectors of unit length with the term frequency 1 + log tf. English stop words and words that occur in a single text
    are ignored.

    Args:
        texts: The texts of the documents.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english")
        self.rows = self._vectorizer.fit_transform(texts)

    def scores(self, query: str, judged: Sequence[tuple[int, float]], first: NDArray[Any]) -> NDArray[np.float64]:
        """Return the log odds that each of the N documents is relevant, shape (N,), by self-training.

        In each round a logistic regression (C = 20) is trained, and its log odds rank the documents for the next round.
        Relevant examples are the query itself, the documents judged as relevant, and the first 10, 20, 40, 60 or 100
        documents of the present ranking. Irrelevant examples are the documents judged as irrelevant, and 500 random
        documents from the lower half of the ranking. Both classes have the same total weight. Afterwards the weights of
        the query and of each judged document are multiplied by 100.

        If more than a tenth of all documents have positive log odds before the fifth round, two more rounds follow. In
        these two rounds, the better half of the documents with positive log odds (at least 100) are relevant examples.

        Args:
            query: Text of the query.
            judged: Pairs of a judged document's position and its grade, above 0 for relevant documents and below 0 for
                irrelevant documents.
            first: Scores of the N documents in the initial ranking, shape (N,).

        Source:
            Yarowsky 1995, for self-training.
        """
        scores = np.asarray(first, np.float64)
        query_row = self._vectorizer.transform([query])
        rng = np.random.default_rng(0)
        liked = [row for row, grade in judged if grade > 0]
        disliked = [row for row, grade in judged if grade < 0]
        large = False
        for number in range(len(_ROUNDS) + _LARGE_CLASS_ROUNDS):
            positive = int(np.count_nonzero(scores > 0))
            if number == len(_ROUNDS) - 1:
                large = positive > _LARGE_CLASS * len(scores)
            if number >= len(_ROUNDS) and not large:
                break
            count = (
                _ROUNDS[number] if number < len(_ROUNDS) else max(_ROUNDS[-1], int(_LARGE_CLASS_FRACTION * positive))
            )
            order = np.argsort(-scores, kind="stable")
            lower = order[len(order) // 2 :]
            relevant = np.union1d(liked, np.setdiff1d(order[:count], disliked)).astype(np.intp)
            sample = rng.choice(lower, min(_SAMPLED_IRRELEVANT, len(lower)), replace=False)
            irrelevant = np.setdiff1d(np.union1d(disliked, sample), relevant).astype(np.intp)
            if not len(irrelevant):  # the collection is so small that all documents are relevant examples
                return scores
            targets = np.repeat([True, False], [1 + len(relevant), len(irrelevant)])
            weights = np.where(targets, 1 / targets.sum(), 1 / len(irrelevant)) * len(targets) / 2
            weights[[True, *np.isin(relevant, liked), *np.isin(irrelevant, disliked)]] *= _JUDGED_WEIGHT
            examples = vstack([query_row, self.rows[relevant], self.rows[irrelevant]]).tocsr()
            # liblinear takes a tenth of the time of other solvers on a busy machine
            model = LogisticRegression(C=20.0, solver="liblinear").fit(examples, targets, sample_weight=weights)
            scores = model.decision_function(self.rows)
        return np.asarray(scores, np.float64)
