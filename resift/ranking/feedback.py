"""Relevance feedback: what a session's judged documents change about its next searches.

No document is encoded again; everything is learned anew from the judged documents, so a judgement can be taken back.

==================  ================================================================================================
``mask``            weights of the dimensions: spherical entropy with one centre for the relevant and one for the
                    irrelevant documents is lowered by Adam (Passalis and Tefas 2018, Algorithm 2)
``rocchio``         the query moves towards the relevant documents and away from the others (Rocchio 1971)
``mask+rocchio``    both
``ridge``           the query is the prior of a ridge regression that gives relevant documents 1 and others 0
``lexical``         words of the relevant documents are asked of the engine too, weighted (Rocchio on term weights)
``ridge+lexical``   both: the default
==================  ================================================================================================

A hit's similarity is that of mask ⊙ moved query with mask ⊙ document, its engine's score that of the longer query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.ranking.judgements import JudgedDocument
from resift.ranking.mask import learn_mask
from resift.text import tokenize
from resift.vectors.similarity import unit_rows

ROCCHIO = (1.0, 0.8, 0.2)
PRIOR, RIDGE = 0.3, 2.0
TERMS, TERM_WEIGHTS = 60, (3.0, 1.0)
REACH, CARRIED = (1.0, 2.0), 0.25
_FEWEST = 5


@dataclass(frozen=True)
class Method:
    """What a method learns: a mask, how the query moves ("", "rocchio" or "ridge"), and terms."""

    masked: bool = False
    transform: str = ""
    lexical: bool = False


METHODS = {
    "mask": Method(masked=True),
    "rocchio": Method(transform="rocchio"),
    "mask+rocchio": Method(masked=True, transform="rocchio"),
    "ridge": Method(transform="ridge"),
    "lexical": Method(lexical=True),
    "ridge+lexical": Method(transform="ridge", lexical=True),
}
DEFAULT_METHOD = "ridge+lexical"
Bag = Mapping[str, float]


def bag_of_words(text: str, idf: Callable[[str], float] = lambda word: 1.0) -> dict[str, float]:
    """A text's words, each with sqrt(count) · idf(word), scaled to length 1 (l2).

    >>> bag_of_words("fire " * 16 + "bush " * 9)
    {'fire': 0.8, 'bush': 0.6}
    """
    weights = {word: count**0.5 * idf(word) for word, count in Counter(tokenize(text)).items()}
    length = sum(weight**2 for weight in weights.values()) ** 0.5 or 1.0
    return {word: weight / length for word, weight in weights.items()}


@dataclass(frozen=True)
class Feedback:
    """What judged documents teach about queries.

    ``vectors`` (m, K) of the judged documents at length 1; ``grades`` (m,), the sign of each judgement and how much
    it counts, 1 for an explicit one; ``mask`` (K,); ``bags`` (m), the documents' weighted words; ``queries`` (m), the
    texts that they were judged for, if known; ``method``, one of METHODS.
    """

    vectors: Floats
    grades: NDArray[np.float64]
    mask: Floats
    bags: tuple[Bag, ...] = ()
    queries: tuple[str, ...] = ()
    method: Method = field(default=METHODS[DEFAULT_METHOD])

    @classmethod
    def learn(
        cls,
        relevant: NDArray[Any],
        irrelevant: NDArray[Any],
        method: str = DEFAULT_METHOD,
        grades: Sequence[float] | None = None,
        bags: Sequence[Bag] = (),
    ) -> Feedback:
        """From the vectors of relevant (p, K) and irrelevant (q, K) documents; either may be empty, shape (0, K).

        ``grades`` and ``bags`` are those of the p + q documents; grades are 1 and -1 if none are given. Raises
        BadInput for an unknown method.
        """
        if method not in METHODS:
            raise BadInput(f"unknown method {method!r}", value=method, expected=" | ".join(METHODS))
        wanted = METHODS[method]
        signs = np.repeat([1.0, -1.0], [len(relevant), len(irrelevant)])
        mask = learn_mask(relevant, irrelevant) if wanted.masked else np.ones(np.shape(relevant)[1], np.float32)
        return cls(
            unit_rows(np.concatenate([relevant, irrelevant])),
            signs if grades is None else np.asarray(grades, np.float64),
            mask,
            tuple(bags) if wanted.lexical else (),
            method=wanted,
        )

    @classmethod
    def from_judged(
        cls,
        judged: Sequence[JudgedDocument],
        dim: int,
        idf: Callable[[str], float] = lambda word: 1.0,
        method: str = DEFAULT_METHOD,
    ) -> Feedback:
        """What a session's judged documents teach, for vectors of ``dim`` dimensions; ``idf``: see bag_of."""
        ordered = sorted(judged, key=lambda one: one.judgement.grade < 0)
        sides = [[one.vector for one in ordered if one.judgement.grade * sign > 0] for sign in (1, -1)]
        relevant, irrelevant = (np.array(side, np.float32).reshape(-1, dim) for side in sides)
        bags = [bag_of_words(one.text, idf) for one in ordered] if METHODS[method].lexical else []
        found = cls.learn(relevant, irrelevant, method, [one.judgement.grade for one in ordered], bags)
        return replace(found, queries=tuple(one.judgement.query for one in ordered))

    @property
    def evidence(self) -> float:
        """How much the judgements count together: explicit ones 1 each."""
        return float(np.abs(self.grades).sum())

    def adjusted_alpha(self, alpha: float, max_alpha: float) -> float:
        """The weight of the similarity against the engine's score, where it is ``alpha`` without feedback.

        The more was judged the nearer it comes to ``max_alpha``, if it is below; an ``alpha`` of 0, the engine's scores
        only, stays. For ``max_alpha`` see :attr:`resift.encoders.model.Model.max_alpha`.
        """
        return alpha and alpha + max(0.0, max_alpha - alpha) * self.evidence / (1 + self.evidence)

    def at_query(self, text: str) -> Feedback:
        """The judgements made at the query ``text``, or without a query."""
        return self._scaled(np.array([not one or one == text for one in self.queries], float))

    def _scaled(self, reach: NDArray[Any]) -> Feedback:
        """Each judgement as far as it reaches, (m,) from 0 to 1."""
        if np.all(reach == 1):
            return self
        kept = np.flatnonzero(reach)
        return replace(
            self,
            vectors=self.vectors[kept],
            grades=(self.grades * reach)[kept],
            mask=self.mask if len(kept) else np.ones_like(self.mask),
            bags=tuple(self.bags[i] for i in kept) if self.bags else (),
            queries=tuple(self.queries[i] for i in kept) if self.queries else (),
        )

    def scoped(self, query: NDArray[Any], background: NDArray[Any], text: str = "") -> Feedback:
        """The part of the feedback that concerns a ``query`` (K,), whose candidates are ``background`` (n, K).

        One made at this very query, its ``text``, counts in full, as does one made without a query. Of the others only
        relevant documents reach it, and a quarter as much (CARRIED), if they are more similar to the query than its own
        candidates are on average: by two standard deviations to reach it so, by one not at all (REACH). With fewer than
        five candidates none does. A query without known words has all.
        """
        if not len(self.grades) or not np.any(query):
            return self
        here = [not one or one == text for one in self.queries]
        reach = np.zeros(len(self.grades))
        if len(background) >= _FEWEST and not (here and all(here)):
            usual = unit_rows(background) @ unit_rows(query)
            low, high = REACH
            distance = (self.vectors @ unit_rows(query) - usual.mean()) / max(float(usual.std()), 1e-6)
            reach = CARRIED * np.clip((distance - low) / (high - low), 0, 1) * (self.grades > 0)
        if here:
            reach[here] = 1
        return self._scaled(reach)

    @cached_property
    def shift(self) -> Floats:
        """Where queries move: the vector (K,) that is added to a query without words of its own."""
        if not self.method.transform or not len(self.grades):
            return np.zeros(self.vectors.shape[1], np.float32)
        if self.method.transform == "ridge":
            return np.asarray(self.vectors.T @ self._fit(np.sign(self.grades)), np.float32)
        _, towards, away = ROCCHIO
        parts = [(towards, self.grades > 0), (-away, self.grades < 0)]
        return np.asarray(sum(weight * _mean(self.vectors, np.abs(self.grades) * side) for weight, side in parts))

    def _fit(self, targets: NDArray[Any]) -> NDArray[np.float64]:
        """Weights (m,) of the judged documents: (X Xᵀ + λ diag(1 / |grade|))⁻¹ targets."""
        kernel = self.vectors.astype(np.float64) @ self.vectors.T
        found: NDArray[np.float64] = np.linalg.solve(kernel + np.diag(RIDGE / np.abs(self.grades)), targets)
        return found

    def transform_query(self, query: NDArray[Any]) -> Floats:
        """The query (K,) as the judgements move it, in its own length; one without known words becomes the shift.

        Rocchio adds .8 · mean(relevant) - .2 · mean(irrelevant) to a query of length 1, each document weighing as its
        judgement counts (Passalis and Tefas leave the irrelevant ones at 0). Ridge regression is w = argmin
        Σ |grade| · (w·x - y)² + λ · ‖w - p·q‖², y being 1 for relevant and 0 for irrelevant documents, p = .3 (PRIOR),
        λ = 2 (RIDGE): documents that the query already tells apart, or that repeat others, add little.
        """
        size = float(np.linalg.norm(query)) or 1.0
        if not len(self.grades):
            return np.asarray(query, np.float32)
        if self.method.transform != "ridge":
            return np.asarray(query + size * self.shift, np.float32)
        prior = PRIOR * unit_rows(query)
        moved = prior + self.vectors.T @ self._fit((self.grades > 0) - self.vectors @ prior)
        return np.asarray(size * unit_rows(moved), np.float32)

    @cached_property
    def expansion_terms(self) -> dict[str, float]:
        """The words to ask for beside a query whose own words, as a vector, have length 1; heaviest first, at most 60.

        3 · mean(relevant) - 1 · mean(irrelevant) of the documents' bags, each weighing as its judgement counts; both
        times e / (1 + e), e being how much their judgements count together. Words below 0 are left out.
        """
        total: Counter[str] = Counter()
        for weight, sign in zip(TERM_WEIGHTS, (1, -1), strict=True):
            side = [
                (abs(grade), bag)
                for grade, bag in zip(self.grades.tolist(), self.bags, strict=False)
                if grade * sign > 0
            ]
            count = 1 + sum(share for share, _ in side)
            for share, bag in side:
                for word, value in bag.items():
                    total[word] += sign * weight * share / count * value
        return {word: value for word, value in total.most_common(TERMS) if value > 0}


def _mean(vectors: Floats, weights: NDArray[Any]) -> NDArray[Any]:
    """Weighted mean (K,), over at least one explicit judgement; zeros where nothing weighs."""
    return np.asarray(weights @ vectors / max(1.0, float(weights.sum())), np.float32)
