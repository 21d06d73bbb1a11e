"""The gate: a test, without judged queries, of whether a model's vectors improve the ranking, and at which weight.

The gate searches for documents that no training has used. A query for such a document consists of a few of its most
informative words, drawn by inverse document frequency. About half of these words are then removed from the document
completely, because people search in words of their own. Of each other query word, the occurrence that was drawn is
removed. The gate measures at which rank a search finds the reduced document among all documents. As in the service,
BM25's first 100 hits are ranked by BM25 · exp(beta · similarity).

The recipe was chosen by how well its result agrees with human judgements (``benchmarks/gates.py`` prints both). Two
other kinds of queries were worse: with the first sentences of documents as queries, too few good models pass; with
words that the document still contains, BM25 has an advantage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from resift.arrays import Floats
from resift.embedded.analysis import terms_of
from resift.encoders.model import Model
from resift.text import FUNCTION_WORDS
from resift.vectors.weights import alpha_from_beta, beta_from_alpha, discount_alpha
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.metrics import Numbers
from resift_lab.evaluation.significance import paired_randomization

# Weights to choose from, as shares of the model's own beta.
SHARES = (0.2, 0.5, 1)
# Significance level for vectors against the text alone.
SIGNIFICANT = 0.05
# Significance level for replacing a model by another model, if both improve the ranking. A higher mean is not enough:
# of two equally good models, either has the higher mean in half of all cases.
_SIGNIFICANT_FOR_REPLACING = 0.5
# Maximum number of documents to search for, and the minimum below which the gate gives no result.
MAX_TEST_DOCUMENTS = 300
MIN_TEST_DOCUMENTS = 20
# Maximum number of words in a query, and the chance of each to be removed from the document completely.
_QUERY_WORDS = 8
_REMOVED = 0.5
# Minimum number of words in a reduced document.
_MIN_REMAINING = 3
# Queries for each document.
_ROUNDS = 8
# BM25 hits that are ranked, and the number of hits that nDCG counts.
_CANDIDATES = 100
_PAGE = 10


@dataclass(frozen=True)
class GateResult:
    """The result of :meth:`Gate.judge`, a test of whether a model's vectors improve searches by BM25.

    Attributes:
        alpha: The best weight of the vectors relative to BM25, from 0 to 1. It is 0 if the vectors do not improve the
            ranking.
        ndcg_with_vectors: The mean nDCG@10 of searches for each of the n test documents, by BM25 and the vectors, shape
            (n,). The weight of the vectors is chosen on the other half of the test documents.
        ndcg_bm25: The mean nDCG@10 of the same searches by BM25 alone, shape (n,).
        p: The p-value of the difference of the two means, from a two-sided paired randomisation test.
    """

    alpha: float
    ndcg_with_vectors: Numbers
    ndcg_bm25: Numbers
    p: float

    @property
    def improves_ranking(self) -> bool:
        """Whether searches by BM25 and the vectors have a significantly higher nDCG@10 than searches by BM25 alone."""
        return self.alpha > 0

    @property
    def explanation(self) -> str:
        """The result in words: the two mean nDCG@10 and the p-value, or that there are too few test documents."""
        if len(self.ndcg_with_vectors) < MIN_TEST_DOCUMENTS and not self.improves_ranking:
            return f"{len(self.ndcg_with_vectors)} documents are too few to tell"
        return (
            f"nDCG@10 of {len(self.ndcg_with_vectors)} held-out documents {self.ndcg_bm25.mean():.3f} by the text "
            f"alone, {self.ndcg_with_vectors.mean():.3f} with vectors, p {self.p:.4f}"
        )

    def should_replace(self, other: GateResult) -> bool:
        """Return whether this result's model should be used in place of another tested model.

        The model must improve the ranking of BM25. If the other model improves it too, the nDCG@10 of this model must
        be higher, with a p-value below 0.5 (not 0.05). A higher value alone is not enough, because one of two equally
        good models always has it.

        Args:
            other: The result of the other model. The same :class:`Gate` must have tested both models, because the
                values of each test document are compared.
        """
        if not (self.improves_ranking and other.improves_ranking):
            return self.improves_ranking
        return is_significantly_larger(self.ndcg_with_vectors, other.ndcg_with_vectors, _SIGNIFICANT_FOR_REPLACING)

    def is_no_worse_than(self, other: GateResult) -> bool:
        """Return whether this result's model ranks about as well as another tested model, or better.

        Both models must improve the ranking of BM25. The nDCG@10 of the other model must not be higher with a p-value
        below 0.5, as in :meth:`should_replace`.

        Args:
            other: The result of the other model, from the same :class:`Gate`.
        """
        if not (self.improves_ranking and other.improves_ranking):
            return False
        return not is_significantly_larger(other.ndcg_with_vectors, self.ndcg_with_vectors, _SIGNIFICANT_FOR_REPLACING)


def is_significantly_larger(values: Numbers, baseline: Numbers, significant: float = SIGNIFICANT) -> bool:
    """Return whether the mean of some values is significantly larger than the mean of a baseline's values.

    Args:
        values: A value, such as nDCG@10, for each of n queries or documents, shape (n,).
        baseline: The values of the baseline for the same queries or documents, shape (n,).
        significant: The significance level of the two-sided paired randomisation test.
    """
    p = paired_randomization(values, baseline, np.random.default_rng(0))
    return bool(values.mean() > baseline.mean()) and p < significant


def cross_validate_weights(values: Numbers) -> Numbers:
    """Choose the best weight on each half of the documents, and return the values of the other half with this weight.

    A test on the documents that chose the weight would find too many differences: the best of several weights looks
    better than BM25 by chance more often than a single weight.

    Args:
        values: A value, such as nDCG@10, of each of n documents with each of m weights, shape (n, m).

    Returns:
        A value for each document, shape (n,).
    """
    half = np.random.default_rng(0).permutation(len(values)) % 2 == 0
    chosen = np.empty(len(values), np.int64)
    for part in (half, ~half):
        chosen[~part] = np.where(part[:, None], values, 0).sum(axis=0).argmax()
    return np.asarray(values[np.arange(len(values)), chosen])


@dataclass(frozen=True)
class _Probe:
    """A query of words drawn from a document, and the document with these words removed.

    Attributes:
        query: The text of the query.
        reduced: The text of the document, from which some or all occurrences of the query's words were removed. It is
            the only relevant document for the query.
    """

    query: str
    reduced: str


class Gate:
    """A test of whether a model's vectors improve searches by BM25. It needs no relevance judgements.

    The gate draws words of a test document as a query, removes them from the document, and measures the rank of the
    reduced document in a search for the query. BM25 cannot match words that were removed, so a better rank shows what
    the vectors contribute.

    Args:
        documents: The words of each document.
        test_documents: The positions of the documents from which queries are drawn.
        seed: The seed of the queries.
        rounds: The number of queries to draw from each test document.
    """

    def __init__(
        self, documents: Sequence[Sequence[str]], test_documents: Sequence[int], seed: int = 0, rounds: int = _ROUNDS
    ) -> None:
        rng = np.random.default_rng(seed)
        # The embedded engine's analyser needs no further package.
        self._bm25 = BM25(analyze=partial(terms_of, analyzer="english"))
        self._texts = [" ".join(words) for words in documents]
        self._rows = self._bm25.fit(self._texts)
        counts = Counter(word for words in documents for word in set(words))
        idf = {word: float(np.log(len(documents) / count)) for word, count in counts.items()}
        # For each round, the query for each document, by the position of the document.
        self._rounds: list[dict[int, _Probe]] = []
        for _ in range(rounds):
            probes = {row: _draw_probe(documents[row], idf, rng) for row in test_documents}
            self._rounds.append({row: probe for row, probe in probes.items() if probe is not None})

    @property
    def reduced_texts(self) -> list[str]:
        """The texts of all reduced test documents, from which the words of a query were removed.

        In each round, a query is drawn from each test document. The list contains the reduced documents of the first
        round, then of the second round, and so on. Documents with too few words for a query are left out.
        """
        return [probe.reduced for probes in self._rounds for probe in probes.values()]

    def judge(self, model: Model, vectors: Floats | None = None, reduced_vectors: Floats | None = None) -> GateResult:
        """Test whether a model's vectors improve searches by BM25, and choose the weight of the vectors.

        The test documents are searched with several weights of the vectors. Each half of the test documents chooses the
        weight for the other half. With these weights, the nDCG@10 of all test documents is compared with the nDCG@10 of
        BM25 alone. If it is significantly better, all test documents choose the final weight.

        Args:
            model: The model that encodes the queries.
            vectors: The vectors of the N documents, shape (N, K) for K dimensions. None encodes the documents with
                ``model``.
            reduced_vectors: The vectors of the m texts in :attr:`reduced_texts`, shape (m, K). None encodes the texts
                with ``model``.

        Returns:
            The best weight, the nDCG@10 with and without the vectors, and the p-value. The weight is 0 if the
            vectors do not improve the ranking significantly.
        """
        vectors = model.encode(self._texts) if vectors is None else vectors
        reduced_vectors = model.encode(self.reduced_texts) if reduced_vectors is None else reduced_vectors
        alphas = [alpha_from_beta(share * beta_from_alpha(model.alpha)) for share in SHARES]
        measured: dict[int, list[Numbers]] = {}
        for probes in self._rounds:
            round_vectors = reduced_vectors[: len(probes)]
            for row, values in self._measure_round(model, alphas, vectors, round_vectors, probes).items():
                measured.setdefault(row, []).append(values)
            reduced_vectors = reduced_vectors[len(probes) :]
        if not measured:
            return GateResult(alpha=0.0, ndcg_with_vectors=np.zeros(1), ndcg_bm25=np.zeros(1), p=1.0)
        # The queries for a document are not independent, so the test uses a single value for each document.
        values = np.array([np.mean(rounds, axis=0) for rounds in measured.values()])
        by_text, by_weight = values[:, 0], values[:, 1:]
        with_vectors = cross_validate_weights(by_weight)
        p = paired_randomization(with_vectors, by_text, np.random.default_rng(0))
        improves = with_vectors.mean() > by_text.mean() and p < SIGNIFICANT
        alpha = alphas[int(by_weight.mean(axis=0).argmax())] if improves else 0.0
        return GateResult(alpha=alpha, ndcg_with_vectors=with_vectors, ndcg_bm25=by_text, p=p)

    def _measure_round(
        self,
        model: Model,
        alphas: Sequence[float],
        vectors: Floats,
        reduced_vectors: Floats,
        probes: Mapping[int, _Probe],
    ) -> dict[int, Numbers]:
        """Run a query for each test document, with BM25 alone and with several weights of the vectors.

        Args:
            model: The model that encodes the queries.
            alphas: The A weights to measure.
            vectors: The vectors of all N documents, shape (N, K) for K dimensions.
            reduced_vectors: The vectors of the n reduced test documents, shape (n, K). They replace the vectors of the
                complete documents.
            probes: The n queries with their reduced documents, by the position of the test document.

        Returns:
            For each position, nDCG@10 with BM25 alone and with each weight, shape (1 + A,).
        """
        if not probes:
            return {}
        rows = list(probes)
        queries = [probe.query for probe in probes.values()]
        vectors = vectors.copy()
        vectors[rows] = reduced_vectors
        words = self._bm25.encode_queries(queries)
        scores = (words @ self._rows.T).toarray()
        reduced = [probe.reduced for probe in probes.values()]
        scores[:, rows] = (words @ self._bm25.document_weights(reduced).T).toarray()
        measured = {}
        for row, line, vector, query in zip(rows, scores, map(model.encode_query, queries), queries, strict=True):
            query_alphas = [discount_alpha(alpha, model.known_share(query)) for alpha in alphas]
            measured[row] = _ndcg(model, line, row, vector, vectors, query_alphas)
        return measured


def _ndcg(model: Model, scores: Floats, row: int, query: Floats, vectors: Floats, alphas: Sequence[float]) -> Numbers:
    """Measure the nDCG@10 of a query with one relevant document, by BM25 alone and with several weights of vectors.

    Args:
        model: The model that computes similarities.
        scores: The BM25 scores of all N documents, shape (N,).
        row: The position of the relevant document.
        query: The vector of the query, shape (K,).
        vectors: The vectors of the documents, shape (N, K) for K dimensions.
        alphas: The A weights.

    Returns:
        nDCG@10 by BM25 alone and with each weight, shape (1 + A,). All values are 0 if the document is not among the
        first 100 hits of BM25.
    """
    candidates = np.argsort(-scores, kind="stable")[:_CANDIDATES]
    candidates = candidates[scores[candidates] > 0]
    place = np.flatnonzero(candidates == row)
    if not len(place):
        return np.zeros(1 + len(alphas))
    betas = np.array([0.0, *map(beta_from_alpha, alphas)])
    # The logarithm of BM25 · exp(beta · similarity).
    mixed = np.log(scores[candidates]) + betas[:, None] * model.score(query, vectors[candidates])
    ranks = (mixed > mixed[:, place]).sum(axis=1)
    return np.where(ranks < _PAGE, 1 / np.log2(ranks + 2), 0.0)


def _draw_probe(words: Sequence[str], idf: Mapping[str, float], rng: np.random.Generator) -> _Probe | None:
    """Draw a query from the words of a document, and remove these words from the document.

    About half of the drawn words are removed with all their occurrences, so that a search for the query cannot match
    them in the document. Of the other drawn words, only the drawn occurrence is removed, and the document may contain
    them elsewhere.

    Args:
        words: The words of the document.
        idf: The inverse document frequency of each word. Words with a high value are drawn more often.
        rng: The source of random numbers.

    Returns:
        The query and the reduced document, or None if the document has too few words.
    """
    informative = [row for row, word in enumerate(words) if word not in FUNCTION_WORDS and not word.isdigit()]
    count = min(_QUERY_WORDS, len(informative) // 2)
    if not count:
        return None
    weights = np.array([idf[words[row]] for row in informative]) + 1e-6
    drawn = set(rng.choice(informative, count, replace=False, p=weights / weights.sum()).tolist())
    removed = {words[row] for row in sorted(drawn) if rng.random() < _REMOVED}
    remaining = [word for row, word in enumerate(words) if row not in drawn and word not in removed]
    if len(remaining) < _MIN_REMAINING:
        return None
    return _Probe(query=" ".join(words[row] for row in sorted(drawn)), reduced=" ".join(remaining))
