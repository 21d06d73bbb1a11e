"""Learn from the judged documents of a session, and change its next searches accordingly.

Feedback is always learned from all judged documents together, so any judgement can be undone. Documents are never
encoded again.

Feedback changes a search in two ways. The similarity of a hit is calculated between mask ⊙ moved query vector and mask
⊙ document vector. Expansion words are added to the query, and count in the engine's score.
:mod:`resift.feedback.methods` lists the methods of learning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.feedback.evidence import HALF_FOR_WORDS, evidence_share
from resift.feedback.expansion import Bag, PackedBag, carried_terms, expansion_terms
from resift.feedback.judgements import JudgedDocument
from resift.feedback.mask import learn_mask
from resift.feedback.methods import DEFAULT_METHOD, METHODS, Method, resolve_method
from resift.feedback.ridge import Background, RidgeRegression
from resift.feedback.scope import (
    MIN_BACKGROUND,
    SCOPE_WEIGHT,
    fits_refinement,
    is_same_query,
    largest_by_query,
    nearness_by_vectors,
    nearness_by_words,
)
from resift.text import bag_of_words, context_dependence
from resift.vectors.similarity import unit_rows
from resift.vectors.weights import discount_alpha


@dataclass(frozen=True)
class Feedback:
    """The result of learning from the judged documents of a search session.

    Create instances with :meth:`learn` or :meth:`from_judged`. Below, m is the number of judged documents and K the
    number of dimensions of their vectors.

    Attributes:
        vectors: The vectors of the judged documents, scaled to unit length, shape (m, K), float32.
        grades: The sign (positive for relevant documents) and weight of each judgement, shape (m,). A mark by a person
            has the weight 1.
        mask: The weight of each dimension in similarities, shape (K,), float32.
        bags: The bags of words of the documents. Empty if the method does not expand queries.
        queries: The queries for which the documents were judged. Empty if the queries are unknown.
        positions: The position of each document among the documents that were passed to :meth:`learn` or
            :meth:`from_judged`.
        known_shares: The share of each document's words that its vector represents, from 0 to 1. Empty if vectors
            represent all words.
        method: The method of learning.
        background: A random sample of the searched index's documents, for comparisons, or None without a sample.
        is_for_query: For each judgement, whether it was made for the current query, or for an earlier query that the
            current query refines. Empty if this is true for all judgements.
        shrunk: The vectors as the ridge regression uses them (see :meth:`Background.shrink_common_directions`), if they
            are already known. Otherwise they are computed when they are needed.
    """

    vectors: Floats
    grades: NDArray[np.float64]
    mask: Floats
    bags: tuple[Bag, ...] = ()
    queries: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    known_shares: tuple[float, ...] = ()
    method: Method = field(default=METHODS[DEFAULT_METHOD])
    background: Background | None = None
    is_for_query: tuple[bool, ...] = ()
    shrunk: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    # The last result of with_background, together with its own cached properties, which each search of a session needs.
    _compared: Feedback | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def learn(
        cls,
        relevant: NDArray[Any],
        irrelevant: NDArray[Any],
        method: str | Method = DEFAULT_METHOD,
        grades: Sequence[float] | None = None,
        bags: Sequence[Bag] = (),
    ) -> Feedback:
        """Create feedback by learning from the vectors of relevant and irrelevant documents.

        Args:
            relevant: The vectors of the relevant documents, as an array of shape (n_relevant, n_dimensions). There may
                be no relevant documents.
            irrelevant: The vectors of the irrelevant documents, as an array of shape (n_irrelevant, n_dimensions).
                There may be no irrelevant documents.
            method: A feedback method, or its name in METHODS.
            grades: The sign and weight of each judgement, for relevant and then irrelevant documents. By default 1 for
                relevant and -1 for irrelevant documents.
            bags: The bags of words of the documents, in the same order.

        Raises:
            BadInput: If there is no method of this name.
        """
        method = resolve_method(method)
        signs = np.repeat([1.0, -1.0], [len(relevant), len(irrelevant)])
        return cls(
            vectors=unit_rows(np.concatenate([relevant, irrelevant])),
            grades=signs if grades is None else np.asarray(grades, np.float64),
            mask=_mask_from_method(method, relevant, irrelevant),
            bags=tuple(bags) if method.expands else (),
            positions=tuple(range(len(signs))),
            method=method,
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
        """Create feedback by learning from the documents that were judged in a search session.

        Args:
            judged: The judgements, with the vectors and texts of the documents.
            dim: The number of dimensions of the vectors.
            idf: A function that returns the inverse document frequency of a word.
            method: A feedback method, or its name in METHODS.
            known_share: A function that returns the share of a text's words, from 0 to 1, that the embedding model
                knows. If None, the model knows all words.

        Raises:
            BadInput: If there is no method of this name.
        """
        method = resolve_method(method)
        positions = sorted(range(len(judged)), key=lambda position: judged[position].judgement.grade < 0)
        ordered = [judged[position] for position in positions]
        relevant = [document.vector for document in ordered if document.judgement.grade > 0]
        irrelevant = [document.vector for document in ordered if document.judgement.grade < 0]
        feedback = cls.learn(
            np.array(relevant, np.float32).reshape(-1, dim),
            np.array(irrelevant, np.float32).reshape(-1, dim),
            method,
            grades=[document.judgement.grade for document in ordered],
            bags=[PackedBag(bag_of_words(document.text, idf)) for document in ordered] if method.expands else [],
        )
        return replace(
            feedback,
            queries=tuple(document.judgement.query for document in ordered),
            positions=tuple(positions),
            known_shares=() if known_share is None else tuple(known_share(document.text) for document in ordered),
        )

    def with_vectors(self, vectors: Mapping[int, NDArray[Any]], background: Background) -> Feedback:
        """Return feedback from the same judgements, but with document vectors from another field of the index.

        The new feedback moves query vectors, but does not add expansion words to queries. If the method learns a mask,
        the mask is learned from these vectors.

        Args:
            vectors: The vectors of the judged documents in the other field, each of shape (n_dimensions,). The keys are
                the positions of the documents in this feedback. Documents without a vector are left out.
            background: The vectors of a sample of the index's documents in the same field.
        """
        rows = list(vectors)
        units, grades = unit_rows(np.stack(list(vectors.values()))), self.grades[rows]
        return Feedback(
            vectors=units,
            grades=grades,
            mask=_mask_from_method(self.method, units[grades > 0], units[grades < 0]),
            positions=tuple(self.positions[row] for row in rows),
            method=replace(self.method, expands=False),
            background=background,
        )

    def with_background(self, background: Background) -> Feedback:
        """Return a copy of this feedback that compares judged documents with a random sample of the index's documents.

        Args:
            background: The vectors of the sample.
        """
        compared = self._compared
        if compared is None or compared.background is not background:
            compared = replace(self, background=background, shrunk=None)
            object.__setattr__(self, "_compared", compared)  # the class is frozen
        return compared

    @property
    def evidence(self) -> float:
        """The total weight of all judgements from which this feedback was learned.

        The larger the total, the more the feedback changes searches. An explicit mark counts as 1. Clicks and other
        implicit judgements count less.
        """
        return float(np.abs(self.grades).sum())

    def adjusted_alpha(
        self, alpha: float, max_alpha: float, known_share: float | None = None, strength: float = 1.0
    ) -> float:
        """Return alpha, the weight of the vector similarity relative to the engine's score, adjusted to this feedback.

        The weight grows from ``alpha`` to ``max_alpha`` as judgements accumulate. With e for the :attr:`evidence`, it
        is alpha + max(0, max_alpha - alpha) · e / (3 + e).

        Then :func:`resift.vectors.weights.discount_alpha` reduces the weight if the vectors do not represent some
        words. The share of represented words begins as ``known_share``, the share of the query's words. As judgements
        accumulate, it approaches the share of the judged documents' words, again with the factor e / (3 + e).

        Args:
            alpha: Weight without feedback, from 0 to 1.
            max_alpha: Maximum weight with feedback, from 0 to 1.
            known_share: Share of the query's words that its vector represents, from 0 to 1. None means that the search
                request sets ``alpha`` explicitly: the weight is then not discounted, and a weight of 0 stays 0.
            strength: Additional factor of beta = alpha / (1 - alpha), which is the weight of the similarity in the
                score.
        """
        if self.for_query is not self:
            return self.for_query.adjusted_alpha(alpha, max_alpha, known_share, strength)
        learned = evidence_share(self.evidence, HALF_FOR_WORDS)
        # A weight of 0 that the search sets means that only the engine's score counts.
        is_fixed_zero = known_share is None and not alpha
        weight = 0.0 if is_fixed_zero else alpha + max(0.0, max_alpha - alpha) * learned
        if known_share is not None and learned:
            known_to_documents = 1.0
            if self.known_shares:
                known_to_documents = float(np.average(self.known_shares, weights=np.abs(self.grades)))
            known_share += (known_to_documents - known_share) * learned
        return discount_alpha(weight, known_share, strength)

    def scoped_to_query(
        self, query: NDArray[Any], background: NDArray[Any], text: str = "", carried_weight: float = 1.0
    ) -> Feedback:
        """Return the part of the feedback that applies to a query.

        - Judgements that were made for the same query text apply with their full weight. Judgements without a query
          were made for the same query only if ``text`` is empty, too.
        - Judgements that were made for earlier queries only apply if the document is relevant. They get a reduced
          weight (see :mod:`resift.feedback.scope`), and contribute expansion words. They move the query vector only if
          the query refines the earlier query. If :attr:`queries` is empty, all judgements count as judgements for
          earlier queries.
        - If the query has neither words nor a vector, all judgements apply with their full weight.

        Args:
            query: Query vector, shape (K,).
            background: Vectors of n random documents of the index, shape (n, K). They show which similarities are
                usual. With fewer than five documents, the words of the query are compared instead of vectors.
            text: Text of the query.
            carried_weight: Additional factor for the weight of judgements that were made for earlier queries.
        """
        words, is_for_query = bag_of_words(text), self._is_judged_for(text)
        has_vector = bool(np.any(query))
        if not len(self.grades) or is_for_query.all() or not (has_vector or words):
            return self
        queries, bags = self.queries or ("",) * len(self.grades), self.bags or ({},) * len(self.grades)
        if has_vector and len(background) >= MIN_BACKGROUND:
            nearness = nearness_by_vectors(self.vectors, query, background)
        else:
            nearness = nearness_by_words(words, queries, bags)
        nearness = np.clip((nearness + largest_by_query(nearness, queries, self.grades)) / 2, 0, 1)
        # A document that is irrelevant for an earlier query may be relevant for this query.
        nearness = nearness * (self.grades > 0)
        may_be_refined = (self.grades > 0) & ~is_for_query
        judged = zip(may_be_refined, queries, bags, strict=True)
        refined = np.array([may_be and fits_refinement(query, text, bag) for may_be, query, bag in judged], bool)
        dependence = np.where(refined, 1.0, context_dependence(text))
        carried = carried_weight * SCOPE_WEIGHT * dependence * nearness
        return self._reweighted(np.where(is_for_query, 1.0, carried), is_for_query | refined)

    @cached_property
    def for_query(self) -> Feedback:
        """The part of this feedback that was learned from judgements for the current query.

        See :attr:`is_for_query`.
        """
        return self._reweighted(np.array(self.is_for_query, float)) if self.is_for_query else self

    def _is_judged_for(self, text: str) -> NDArray[np.bool_]:
        """Return which of the judgements were made for a query.

        A judgement whose recorded query is "" only counts as made for a search without a text. If this feedback records
        no queries at all, the result is False for all judgements.

        Args:
            text: The text of the query.

        Returns:
            A boolean array of shape (n_judgements,).
        """
        if not self.queries:
            return np.zeros(len(self.grades), bool)
        return np.array([is_same_query(query, text) for query in self.queries])

    def _reweighted(self, weights: NDArray[Any], is_for_query: NDArray[np.bool_] | None = None) -> Feedback:
        """Return a copy of this feedback in which the weight of each judgement is multiplied by a factor.

        Judgements with the factor 0 are removed.

        Args:
            weights: The factor of each judgement, from 0 to 1, as an array of shape (n_judgements,).
            is_for_query: The new :attr:`is_for_query`, as a boolean array of shape (n_judgements,). If None, it is true
                for all judgements.
        """
        if np.all(weights == 1):
            return replace(self, is_for_query=()) if self.is_for_query else self
        rows = np.flatnonzero(weights)
        is_own = np.ones(len(rows), bool) if is_for_query is None else is_for_query[rows]
        return replace(
            self,
            vectors=self.vectors[rows],
            grades=(self.grades * weights)[rows],
            mask=self.mask if is_own.any() else np.ones_like(self.mask),
            bags=tuple(self.bags[row] for row in rows) if self.bags else (),
            queries=tuple(self.queries[row] for row in rows) if self.queries else (),
            positions=tuple(self.positions[row] for row in rows),
            known_shares=tuple(self.known_shares[row] for row in rows) if self.known_shares else (),
            is_for_query=() if is_own.all() else tuple(is_own.tolist()),
            shrunk=self._shrunk_vectors[rows],
        )

    @cached_property
    def shift(self) -> Floats:
        """The direction from irrelevant to relevant documents in the vector space, of shape (n_dimensions,), float32.

        Explanations use this direction to show what was learned from all judgements of the session, for any query. To
        move a query vector, use :meth:`transform_query` instead. The direction is zero if there are no judgements, or
        if the feedback method does not move queries.
        """
        if not self.method.ridge or not len(self.grades):
            return np.zeros(self.vectors.shape[1], np.float32)
        return self._regression.direction()

    @cached_property
    def _shrunk_vectors(self) -> NDArray[np.float64]:
        """The vectors of the judged documents as the ridge regression uses them, of shape (n_judgements, n_dimensions).

        Directions in which most documents of the index vary say little about relevance, so they are damped (see
        :meth:`Background.shrink_common_directions`).
        """
        if self.shrunk is not None:
            return self.shrunk
        return np.asarray(
            self.vectors if self.background is None else self.background.shrink_common_directions(self.vectors),
            np.float64,
        )

    @cached_property
    def _regression(self) -> RidgeRegression:
        """The ridge regression on the judged documents, which moves query vectors."""
        return RidgeRegression(self.vectors, self._shrunk_vectors, self.grades)

    def transform_query(self, query: NDArray[Any]) -> Floats:
        """Move a query vector towards relevant and away from irrelevant documents, by ridge regression.

        Judgements for which :attr:`is_for_query` is false have no effect.

        Args:
            query: The query vector, of shape (n_dimensions,).

        Returns:
            The moved vector as a float32 array of shape (n_dimensions,). It has the Euclidean length of the query, or
            unit length if the query is zero. If no document was judged for the query, or the feedback method does not
            move queries, the query is returned unchanged.
        """
        if self.for_query is not self:
            return self.for_query.transform_query(query)
        if not self.method.ridge or not len(self.grades):
            return np.asarray(query, np.float32)
        return self._regression.move_query(query)

    @cached_property
    def expansion_terms(self) -> dict[str, float]:
        """The words to add to the query (query expansion), mapped to their weights.

        These are at most 60 words that are typical of the relevant documents, heaviest first.
        """
        is_for_query = self.is_for_query or (True,) * len(self.grades)
        return expansion_terms(self.bags, self.grades, is_for_query, self._query_words)

    @cached_property
    def carried_terms(self) -> dict[str, float]:
        """The words that judgements for earlier queries contribute to :attr:`expansion_terms`, with their weights."""
        if not self.is_for_query:
            return {}
        return carried_terms(self.bags, self.grades, self.is_for_query, self._query_words)

    @property
    def _query_words(self) -> set[str]:
        """The words of all queries for which documents were judged."""
        return {word for query in dict.fromkeys(self.queries) for word in bag_of_words(query)}


def _mask_from_method(method: Method, relevant: NDArray[Any], irrelevant: NDArray[Any]) -> Floats:
    """Return the mask that a method learns from document vectors, as an array of shape (n_dimensions,).

    The mask contains a weight for each dimension. If the method learns no mask, all weights are 1.

    Args:
        method: The feedback method. Only some methods learn a mask.
        relevant: The vectors of the relevant documents, of shape (n_relevant, n_dimensions).
        irrelevant: The vectors of the irrelevant documents, of shape (n_irrelevant, n_dimensions).
    """
    return learn_mask(relevant, irrelevant) if method.masked else np.ones(np.shape(relevant)[1], np.float32)
