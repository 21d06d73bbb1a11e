"""Relevance feedback: what a session's judged documents change about its next searches.

No document is encoded again. Everything is learned anew from the judged documents, so a judgement can be taken back.

==================  ================================================================================================
``mask``            Weights of the dimensions. Adam lowers the spherical entropy around one centre for the relevant and
                    one for the irrelevant documents (Passalis and Tefas 2018, Algorithm 2).
``lexical``         Query expansion. The engine is also asked for weighted words of the relevant documents (Rocchio on
                    term weights).
``ridge+lexical``   The default: ``lexical``, and a ridge regression that moves the query's vector. It gives relevant
                    documents 1 and the others 0, and its prior is the query.
==================  ================================================================================================

Other methods of the literature are in :mod:`resift_lab.evaluation.feedback`, which compares them.

A hit's similarity is that of mask ⊙ transformed query with mask ⊙ document, and its engine's score is that of the
expanded query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.feedback.judgements import JudgedDocument
from resift.feedback.mask import learn_mask
from resift.text import bag_of_words, context_dependence
from resift.vectors.similarity import unit_rows
from resift.vectors.weights import discount_alpha

RIDGE_PRIOR = 0.3
RIDGE_PENALTY = 2.0  # λ of the ridge regression that feedback moves queries by
_DRAWN_WEIGHT = 1 / 3  # of a drawn document in it, where an explicit mark weighs 1, if vectors have so many dimensions
_DIMENSIONS = 256  # in fewer of them as many documents would leave nothing to tell apart, and weigh less
MAX_TERMS, TERM_WEIGHTS = 60, (4.0, 3.0)
HALF = 3.0  # the evidence with which words and similarity have half of the weight that they come near to
# the relevance scope at another query: from how many standard deviations above other documents to how many a judgement
# begins to count, what it counts then, and how many of the words of all such judgements are asked for
SCOPE_DEVIATIONS, SCOPE_WEIGHT, SCOPE_TERMS = (1.0, 3.0), 0.5, 8
_MIN_OTHERS = 5  # of fewer, mean and deviation say nothing


@dataclass(frozen=True)
class Method:
    """The parts that a method learns.

    Attributes:
        masked: A mask over the dimensions.
        ridge: A ridge regression that moves the query's vector.
        expands: Expansion words.
    """

    masked: bool = False
    ridge: bool = False
    expands: bool = False


METHODS = {
    "mask": Method(masked=True),
    "lexical": Method(expands=True),
    "ridge+lexical": Method(ridge=True, expands=True),
}
DEFAULT_METHOD = "ridge+lexical"


def resolve_method(method: str | Method) -> Method:
    """Return the method of a name in METHODS, or the argument if it is a method.

    Raises:
        BadInput: If no method has this name.
    """
    if isinstance(method, Method):
        return method
    if method not in METHODS:
        raise BadInput(f"unknown method {method!r}", value=method, expected=" | ".join(METHODS))
    return METHODS[method]


Bag = Mapping[str, float]


class Background:
    """``vectors`` (n, K) of documents drawn from an index, at length 1; none of an index of which nothing is known.

    What a ridge regression learns from judged documents shall change little about all others. So each drawn document
    counts in it w marks, with the value that the query alone gives it; w is a third, and less where vectors have fewer
    than 256 dimensions. That is the regression without them in which the judged documents' vectors are multiplied by
    (I + w / λ · BᵀB)⁻¹: directions that documents of this index have in common are shrunk, for in these the marks say
    little. It is a linear discriminant with the background's covariance (Hariharan, Malik and Ramanan 2012,
    "Discriminative decorrelation for clustering and classification", who take it for all irrelevant examples). Of few
    documents it is close to I.
    """

    def __init__(self, vectors: NDArray[Any]) -> None:
        self.vectors = unit_rows(vectors)

    @cached_property
    def _factor(self) -> Floats:
        """F (n, K) such that the product above is x - Fᵀ · F · x, by Woodbury's identity."""
        # of the documents' products, since there may be far more dimensions than documents
        products = self.vectors.astype(np.float64) @ self.vectors.T
        weight = _DRAWN_WEIGHT * min(1.0, self.vectors.shape[1] / _DIMENSIONS)
        products[np.diag_indices_from(products)] += RIDGE_PENALTY / weight
        return np.asarray(np.linalg.solve(np.linalg.cholesky(products), self.vectors), np.float32)

    def shrink(self, rows: NDArray[Any]) -> NDArray[Any]:
        """``rows`` (m, K), each multiplied as above."""
        return np.asarray(rows - (rows @ self._factor.T) @ self._factor) if len(self.vectors) else rows


@dataclass(frozen=True)
class Feedback:
    """What m judged documents teach about queries; make it by :meth:`learn` or :meth:`from_judged`.

    ``vectors`` (m, K), float32: the judged documents' vectors at length 1. ``grades`` (m,): each judgement's sign and
    how much it counts, 1 for an explicit one. ``mask`` (K,), float32. ``bags``: the documents' m bags of words, or none
    if the method does not expand queries. ``queries``: the m texts that they were judged for, or none if unknown.
    ``positions``: where each of the m documents stood in what was learned from, from 0. ``known``: the part of each
    document's words, 0 to 1, that its vector stands for, or none if all of them have vectors. ``background``: documents
    of the index that is searched, from which the ridge regression tells the judged ones apart; None if none are known.
    ``here``: which judgements are the search's own, and not carried over from another query; none where all are.
    """

    vectors: Floats
    grades: NDArray[np.float64]
    mask: Floats
    bags: tuple[Bag, ...] = ()
    queries: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    known: tuple[float, ...] = ()
    method: Method = field(default=METHODS[DEFAULT_METHOD])
    background: Background | None = None
    here: tuple[bool, ...] = ()

    @classmethod
    def learn(
        cls,
        relevant: NDArray[Any],
        irrelevant: NDArray[Any],
        method: str | Method = DEFAULT_METHOD,
        grades: Sequence[float] | None = None,
        bags: Sequence[Bag] = (),
    ) -> Feedback:
        """Learn from the vectors of relevant (p, K) and irrelevant (q, K) documents; both may be empty, shape (0, K).

        ``grades`` and ``bags`` are those of the p + q documents in this order; without grades they are 1 and -1.
        ``method`` is a method or the name of one in METHODS. Raises BadInput for an unknown name.
        """
        chosen = resolve_method(method)
        signs = np.repeat([1.0, -1.0], [len(relevant), len(irrelevant)])
        mask = learn_mask(relevant, irrelevant) if chosen.masked else np.ones(np.shape(relevant)[1], np.float32)
        return cls(
            unit_rows(np.concatenate([relevant, irrelevant])),
            signs if grades is None else np.asarray(grades, np.float64),
            mask,
            tuple(bags) if chosen.expands else (),
            positions=tuple(range(len(signs))),
            method=chosen,
        )

    @classmethod
    def from_judged(
        cls,
        judged: Sequence[JudgedDocument],
        dim: int,
        idf: Callable[[str], float] = lambda word: 1.0,
        method: str | Method = DEFAULT_METHOD,
        known_share: Callable[[str], float] | None = None,
    ) -> Feedback:
        """Learn from a session's judged documents, whose vectors have ``dim`` dimensions (K).

        ``idf`` weighs words as in :func:`bag_of_words`. ``method`` is that of :meth:`learn`. ``known_share`` returns
        the share of a text's words that have vectors, 0 to 1; without it all words have vectors.
        """
        positions = sorted(range(len(judged)), key=lambda position: judged[position].judgement.grade < 0)
        ordered = [judged[position] for position in positions]
        sides = [[one.vector for one in ordered if one.judgement.grade * sign > 0] for sign in (1, -1)]
        relevant, irrelevant = (np.array(side, np.float32).reshape(-1, dim) for side in sides)
        bags = [bag_of_words(one.text, idf) for one in ordered] if resolve_method(method).expands else []
        feedback = cls.learn(relevant, irrelevant, method, [one.judgement.grade for one in ordered], bags)
        queries = tuple(one.judgement.query for one in ordered)
        known = () if known_share is None else tuple(known_share(one.text) for one in ordered)
        return replace(feedback, queries=queries, positions=tuple(positions), known=known)

    def by_vectors(self, vectors: Mapping[int, NDArray[Any]], background: Background) -> Feedback:
        """The same feedback by other ``vectors`` (K,) of its documents, by their places in this one, and by a
        ``background`` of theirs; without the documents that have none, and without words."""
        places, rows = list(vectors), unit_rows(np.stack(list(vectors.values())))
        return Feedback(
            rows,
            self.grades[places],
            np.ones(rows.shape[1], np.float32),
            positions=tuple(self.positions[place] for place in places),
            method=replace(self.method, masked=False, expands=False),
            background=background,
        )

    @property
    def evidence(self) -> float:
        """How much the judgements weigh together, explicit ones 1 each."""
        return float(np.abs(self.grades).sum())

    def adjusted_alpha(
        self, alpha: float, max_alpha: float, known: float | None = None, strength: float = 1.0
    ) -> float:
        """The similarity's weight against the engine's score with this feedback, if it is ``alpha`` without (0 to 1).

        It is alpha + max(0, max_alpha - alpha) · e / (3 + e) for an evidence of e, so it nears ``max_alpha``
        (:attr:`resift.encoders.model.Model.max_alpha`) the more is judged. Of the query's words the ``known`` part, 0
        to 1, has vectors (:func:`resift.vectors.weights.discount_alpha`), and in the same proportion that of the judged
        documents' words takes its place. None: the weights count as they are. ``strength``: a factor of the beta.
        """
        if self.own is not self:
            return self.own.adjusted_alpha(alpha, max_alpha, known, strength)
        learned = self.evidence / (HALF + self.evidence)
        # a 0 that somebody named means the engine's scores alone, which feedback must not override
        weight = 0.0 if known is None and not alpha else alpha + max(0.0, max_alpha - alpha) * learned
        if known is not None and learned:
            judged = float(np.average(self.known, weights=np.abs(self.grades))) if self.known else 1.0
            known += (judged - known) * learned
        return discount_alpha(weight, known, strength)

    def against(self, background: Background) -> Feedback:
        """The same feedback, which tells the judged documents apart from a ``background``."""
        known: Feedback | None = vars(self).get("_against")
        # the last one is kept, with all that follows from it: each search of a session asks for it
        if known is None or known.background is not background:
            known = vars(self)["_against"] = replace(self, background=background)
        return known

    def _made_at(self, text: str) -> NDArray[np.bool_]:
        """Which judgements were made at the query ``text`` or at none, (m,)."""
        if not self.queries:
            return np.zeros(len(self.grades), bool)
        return np.array([query in ("", text) for query in self.queries])

    def scoped(self, query: NDArray[Any], others: NDArray[Any], text: str = "", carried: float = 1.0) -> Feedback:
        """The part of the feedback that concerns another search: each judgement within its relevance scope.

        ``query`` (K,) is the search's query, ``text`` its words, and ``others`` (n, K) are vectors of other documents
        to compare with, such as a sample of the index. What was judged at other queries counts ``carried`` times.

        A judgement made at this very text, or at none, counts in full. Of those made at other queries only relevant
        documents count, and only as words (:attr:`expansion_terms`): they move no vector. Each counts
        SCOPE_WEIGHT · :func:`context_dependence` · clip((z - 1) / 2, 0, 1) (SCOPE_DEVIATIONS). Here z is how many
        standard deviations a document is more similar to the query than the others are on average: the mean of its own
        and the largest among those judged at the same query, since what was asked for there is one subject. With
        fewer than five others, as in an index without vectors, or for a query of words that are all unknown, such as an
        article number, the part of the query's words that a document has, or was judged for, stands in for clip(…). To
        a query without any words all feedback applies.
        """
        words, here = bag_of_words(text), self._made_at(text)
        if not len(self.grades) or here.all() or not (np.any(query) or words):
            return self
        low, high = SCOPE_DEVIATIONS
        if np.any(query) and len(others) >= _MIN_OTHERS:
            similarities = unit_rows(others) @ unit_rows(query)
            deviation = max(float(similarities.std()), 1e-6)
            near = ((self.vectors @ unit_rows(query) - similarities.mean()) / deviation - low) / (high - low)
        else:
            near = self._part_had(words)
        # what is irrelevant to one query says nothing of another
        near = np.clip((near + self._largest_at_query(near)) / 2, 0, 1) * (self.grades > 0)
        scope = np.where(here, 1.0, carried * SCOPE_WEIGHT * context_dependence(text) * near)
        return self._weighted(scope, here)

    @cached_property
    def own(self) -> Feedback:
        """The part that was judged for the search's own query: what was carried over moves no vectors or tokens."""
        return self._weighted(np.array(self.here, float)) if self.here else self

    def _part_had(self, words: Collection[str]) -> NDArray[np.float64]:
        """Which part of the ``words`` each judged document has, or the query that it was judged for, (m,), 0 to 1."""
        if not words:
            return np.ones(len(self.grades))
        asked = [bag_of_words(query) for query in self.queries or ("",) * len(self.grades)]
        bags = self.bags or ({},) * len(self.grades)
        both = zip(asked, bags, strict=True)
        return np.array([sum(word in query or word in bag for word in words) / len(words) for query, bag in both])

    def _largest_at_query(self, values: NDArray[Any]) -> NDArray[Any]:
        """Of each judgement (m,), the largest of the ``values`` (m,) of relevant documents judged at the same query."""
        queries = self.queries or ("",) * len(values)
        largest: dict[str, float] = {}
        for query, value, grade in zip(queries, values.tolist(), self.grades.tolist(), strict=True):
            if grade > 0:
                largest[query] = max(value, largest.get(query, value))
        return np.array([largest.get(query, value) for query, value in zip(queries, values.tolist(), strict=True)])

    def _weighted(self, scope: NDArray[Any], here: NDArray[np.bool_] | None = None) -> Feedback:
        """Each judgement weighted by its ``scope`` (m,), 0 to 1; those of 0 are left out. ``here`` (m,): which are the
        search's own; all, if it is not given."""
        if np.all(scope == 1):
            return replace(self, here=()) if self.here else self
        kept = np.flatnonzero(scope)
        is_own = np.ones(len(kept), bool) if here is None else here[kept]
        found = replace(
            self,
            vectors=self.vectors[kept],
            grades=(self.grades * scope)[kept],
            mask=self.mask if is_own.any() else np.ones_like(self.mask),
            bags=tuple(self.bags[i] for i in kept) if self.bags else (),
            queries=tuple(self.queries[i] for i in kept) if self.queries else (),
            positions=tuple(self.positions[i] for i in kept),
            known=tuple(self.known[i] for i in kept) if self.known else (),
            here=() if is_own.all() else tuple(is_own.tolist()),
        )
        vars(found)["_shrunk"] = self._shrunk[kept]  # not multiplied again in each search
        return found

    @cached_property
    def shift(self) -> Floats:
        """The direction (K,), float32, in which feedback moves queries; zeros if the method moves none.

        It separates relevant (1) from irrelevant documents (-1) without a query. Explanations use it; a query itself
        is moved by :meth:`transform_query`.
        """
        if not self.method.ridge or not len(self.grades):
            return np.zeros(self.vectors.shape[1], np.float32)
        return np.asarray(self._shrunk.T @ (self._ridge @ np.sign(self.grades)), np.float32)

    @cached_property
    def _shrunk(self) -> NDArray[np.float64]:
        """The judged documents' vectors (m, K) as the background shrinks them."""
        return np.asarray(self.vectors if self.background is None else self.background.shrink(self.vectors), np.float64)

    @cached_property
    def _ridge(self) -> NDArray[np.float64]:
        """What turns targets (m,) into the judged documents' weights (m,) in the regression: the inverse of X Sᵀ +
        λ · diag(1 / |grade|), where S are their vectors X as the background shrinks them."""
        # the dual form: there are far fewer judged documents than dimensions
        kernel = self.vectors @ self._shrunk.T
        return np.asarray(np.linalg.inv(kernel + np.diag(RIDGE_PENALTY / np.abs(self.grades))))

    def transform_query(self, query: NDArray[Any]) -> Floats:
        """The transformed query (K,), float32, as long as ``query`` (K,), or at length 1 if that is zero.

        Ridge regression is w = argmin Σ |grade| · (w·x - y)² + λ · ‖w - p·q‖², where y is 1 for relevant and 0 for
        irrelevant documents, p = .3 (RIDGE_PRIOR) and λ = 2 (RIDGE_PENALTY): documents that the query already tells
        apart, or that repeat others, add little. Each document x of the ``background`` joins the sum with a third and
        y = p·q·x: of what is not judged nothing is known but the query.
        """
        if self.own is not self:
            return self.own.transform_query(query)
        length = float(np.linalg.norm(query)) or 1.0
        if not self.method.ridge or not len(self.grades):
            return np.asarray(query, np.float32)
        prior = RIDGE_PRIOR / length * np.asarray(query, np.float32)
        residuals: NDArray[np.float64] = (self.grades > 0) - self.vectors @ prior
        moved = prior + self._shrunk.T @ (self._ridge @ residuals)
        return np.asarray(length / (float(np.linalg.norm(moved)) or 1.0) * moved, np.float32)

    @cached_property
    def expansion_terms(self) -> dict[str, float]:
        """Words to ask the engine for beside a query whose own words have length 1 (l2), heaviest first, at most 60.

        4 · mean(relevant) - 3 · mean(irrelevant) of the documents' bags, each weighing as its judgement counts; both
        times e / (3 + e) for an evidence of e on that side. Numbers, and words that come out below 0, are left out. Of
        judgements that were carried over to the query, which give weights of their own, the eight heaviest words are
        added.
        """
        here = self.here or (True,) * len(self.grades)
        weights = self._word_weights(np.where(here, self.grades, 0))
        carried = self._word_weights(np.where(here, 0, self.grades))
        for word, weight in _heaviest(carried, SCOPE_TERMS).items():
            weights[word] = weights.get(word, 0.0) + weight
        return _heaviest(weights, MAX_TERMS)

    def _word_weights(self, grades: NDArray[np.float64]) -> dict[str, float]:
        """The weight of each word of the documents, if their judgements count ``grades`` (m,)."""
        weights: dict[str, float] = {}
        for side_weight, sign in zip(TERM_WEIGHTS, (1, -1), strict=True):
            side = [
                (abs(grade), bag) for grade, bag in zip(grades.tolist(), self.bags, strict=False) if grade * sign > 0
            ]
            # mean times e / (3 + e) is the sum over 3 + e
            divisor = HALF + sum(grade for grade, _ in side)
            for grade, bag in side:
                factor = sign * side_weight * grade / divisor
                for word, value in bag.items():
                    weights[word] = weights.get(word, 0.0) + factor * value
        return weights


def _heaviest(weights: Mapping[str, float], count: int) -> dict[str, float]:
    """The heaviest words, at most ``count``, without those of 0 or less."""
    # numbers are of serials, telephones or articles: nobody looks for others that have them
    telling = [word for word, weight in weights.items() if weight > 0 and any(map(str.isalpha, word))]
    heaviest = sorted(telling, key=weights.__getitem__, reverse=True)[:count]
    return {word: weights[word] for word in heaviest}
