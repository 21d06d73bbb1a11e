"""Evaluation protocols: run a system on a test collection and compute each metric for each query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.encoders.late_interaction import score_factors
from resift.errors import BadInput
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.baselines.late_interaction import LateInteractionSystem, select_documents
from resift_lab.evaluation.data import Collection, LabelledDocuments, with_queries
from resift_lab.evaluation.metrics import Numbers, average_precision, ndcg_at, recall_at, reciprocal_rank
from resift_lab.evaluation.pairwise import Matrix, similarity_blocks
from resift_lab.evaluation.same_class import SameClassScores, same_class_scores
from resift_lab.evaluation.served import (
    SearchableCollection,
    Serve,
    SimulatedSearch,
    ranking_to_scores,
    search_function,
)
from resift_lab.evaluation.significance import bootstrap_mean, paired_randomization
from resift_lab.evaluation.system import System, known_word_share, similarity_weights
from resift_lab.fingerprints import fingerprints

RECALLS = (1, 3, 5, 10, 100)
_GRADED = ("ndcg@10", "map", *(f"recall@{k}" for k in RECALLS), "mrr@10")
CONDENSED = ("condensed_ndcg@10", "judged@10")  # only for collections that also have judgements of irrelevant documents
# Maximum number of documents that hybrid_scores ranks completely, and the number of best documents, by BM25 and by
# similarity, that it ranks in larger collections.
_WHOLE = 100_000
_CANDIDATES = 1000


@dataclass(frozen=True)
class Run:
    """The results of evaluating a retrieval system on the Q queries of a test collection.

    Attributes:
        values: For each metric, by name, its value for each query, shape (Q,). NaN where the metric is not defined.
        facts: Additional entries for reports, such as the number of documents.
    """

    values: dict[str, Numbers]
    facts: dict[str, Any] = field(default_factory=dict)

    def means(self) -> dict[str, float]:
        """Return the mean of each metric, by name.

        Queries whose value is NaN are ignored. The mean is NaN if all values are NaN.
        """
        known = {name: values[~np.isnan(values)] for name, values in self.values.items()}
        return {name: float(values.mean()) if len(values) else np.nan for name, values in known.items()}

    def intervals(self, seed: int) -> dict[str, tuple[float, float]]:
        """Return a bootstrap 95 % confidence interval of the mean of each metric.

        Args:
            seed: Seed of the bootstrap.

        Returns:
            The lower and the upper limit, by the name of the metric.
        """
        return {name: bootstrap_mean(values, np.random.default_rng(seed)) for name, values in self.values.items()}

    def p_values(self, other: Run, seed: int) -> dict[str, float]:
        """Test whether this run's metrics differ from those of another run, by a paired randomisation test.

        Args:
            other: The run of the other system on the same queries.
            seed: Seed of the test.

        Returns:
            The two-sided p-value of the difference, by the name of the metric.
        """
        return {
            name: paired_randomization(values, other.values[name], np.random.default_rng(seed))
            for name, values in self.values.items()
        }


def run_classes(system: System, train: LabelledDocuments, test: LabelledDocuments) -> Run:
    """Evaluate same-class retrieval: each test document is a query for training documents with the same label.

    Test documents whose label does not occur in the training documents are skipped. ``Run.facts["skipped"]`` is their
    number. A test document without known words has a zero vector, so it ranks the training documents in the order of
    their file. ``Run.facts["unknown"]`` is the number of such documents.

    Args:
        system: The system to evaluate. It is fitted on the texts of ``train``.
        train: The documents to search.
        test: The documents that serve as queries.

    Returns:
        The metrics ``map11``, ``p@K`` and ``ip@K`` of each query (see :mod:`resift_lab.evaluation.metrics`). The
        attribute ``facts`` includes the mean precision–recall and precision–scope curves.

    Raises:
        BadInput: If all test documents are skipped.

    Source:
        Passalis and Tefas 2018, section 4.2 (protocol) and section 4.3 (metrics).
    """
    database = system.fit(train.texts)
    queries = system.encode_queries(test.texts)
    scores = same_class_scores(queries, database, test.labels, train.labels, system.similarity)
    skipped = int(np.isnan(scores.map11).sum())
    if skipped == len(test.labels):
        raise BadInput(
            "no test document's label is in the training file",
            value=test.labels[0],
            expected=" | ".join(sorted(set(train.labels))[:20]),
        )
    values = {"map11": scores.map11, **{f"p@{k}": values for k, values in scores.precision.items()}}
    values |= {f"ip@{k}": values for k, values in scores.interpolated.items()}
    facts = {
        "dimensions": int(database.shape[1]),
        "documents": len(train.texts),
        "queries": len(test.texts) - skipped,
        "skipped": skipped,
        "unknown": int(np.count_nonzero(np.asarray(abs(queries).sum(axis=1)) == 0)),
        "classes": len(set(train.labels)),
    }
    return Run(values, {**facts, **_mean_curves(scores)})


def _mean_curves(scores: SameClassScores) -> dict[str, Any]:
    """Average the precision–recall curves and the precision–scope curves over all queries.

    Args:
        scores: The curves of each query.

    Returns:
        A dictionary for JSON. ``precision_recall`` is a list of the precisions at 11 recall levels. ``precision_scope``
        maps each k to the precision among the first k documents.
    """
    scope = zip(scores.scopes, np.nanmean(scores.scope, axis=0), strict=True)
    return {
        "precision_recall": [float(value) for value in np.nanmean(scores.curve, axis=0)],
        "precision_scope": {str(k): float(value) for k, value in scope},
    }


def run_retrieval(system: System, collection: Collection) -> Run:
    """Evaluate a system that ranks documents by the similarity of vectors alone, without BM25.

    Documents with similarity 0 have nothing in common with the query and are left out of its ranking.

    Args:
        system: The system to evaluate. It is fitted on the documents.
        collection: The test collection.

    Returns:
        The metrics of each query.
    """
    database = system.fit(collection.documents)
    queries, rankings = system.encode_queries(collection.queries), _Rankings(collection)
    for rows, scores in similarity_blocks(queries, database, system.similarity):
        rankings.add(rows, _exclude_zero_scores(scores))
    return rankings.run(database.shape[1])


def _exclude_zero_scores(scores: NDArray[Any]) -> NDArray[Any]:
    """Replace scores of 0 with -inf, which excludes these documents from the ranking of a query.

    Otherwise, documents that have nothing in common with the query would be ranked by their position in the collection.

    Args:
        scores: Scores of N documents for B queries, shape (B, N).
    """
    return np.where(scores == 0, -np.inf, scores)


def run_hybrid(
    system: System,
    collection: Collection,
    alpha: float | None = None,
    serve: Serve | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Run, Run, Run]:
    """Evaluate hybrid rankings by a system together with BM25.

    With ``serve``, a system with dense vectors and cosine or fuzzy Jaccard similarity is measured in the search that
    the service would run: the engine's score is multiplied by exp(beta · similarity). A reranker reorders the first
    hits of such a search, which uses the word vectors of the reranker's first stage.

    All other systems, and all systems without ``serve``, rank by (1 - alpha) · z(BM25) + alpha · z(similarity), where z
    is the z-score over the candidates of a query. Candidates are all documents. In a collection of more than 100,000
    documents, they are the best 1000 by BM25 and the best 1000 by similarity. A document with a BM25 score of 0 and a
    similarity of 0 is left out of the ranking.

    Args:
        system: The system to evaluate. It is fitted on the documents.
        collection: The test collection.
        alpha: Weight of the similarity, 0 to 1. None means the fitted system's own weight
            (:func:`resift_lab.evaluation.system.similarity_weights`).
        serve: A function that creates the service's search over the collection, or None.
        progress: A function that is called with the number of finished queries and the number of all queries.

    Returns:
        Three runs: the hybrid ranking, BM25 alone, and the system alone.

    Raises:
        BadInput: If alpha is outside [0, 1], or the system is BM25.
    """
    if alpha is not None and not 0 <= alpha <= 1:
        raise BadInput(f"alpha is {alpha}", value=alpha, expected="a number from 0 (BM25 only) to 1 (vectors only)")
    if isinstance(system, BM25):
        raise BadInput("hybrid of BM25 with itself", value="bm25", expected="another encoder")
    if isinstance(system, LateInteractionSystem) and serve is not None:
        return _run_reranker(system, collection, alpha, serve, progress)
    lexical = BM25()
    terms, database = lexical.fit(collection.documents), system.fit(collection.documents)
    own, alpha = alpha is None, similarity_weights(system)[0] if alpha is None else alpha
    term_queries, queries = lexical.encode_queries(collection.queries), system.encode_queries(collection.queries)
    search = _index_collection(serve, system, collection, database)
    known = partial(known_word_share, system) if own else None
    mixed, first, second = (_Rankings(collection) for _ in range(3))
    for rows, semantic in similarity_blocks(queries, database, system.similarity):
        # BM25's blocks may be smaller, because its rows are wider
        bm25 = np.concatenate([block for _, block in similarity_blocks(term_queries[rows], terms, "dot")])
        if search is None:
            scores = np.stack([hybrid_scores(*both, alpha) for both in zip(bm25, semantic, strict=True)])
            mixed.add(rows, np.where((bm25 == 0) & (semantic == 0), -np.inf, scores))
            progress(rows.stop, len(collection.queries))
        else:
            hits, searches = [], zip(collection.queries[rows], queries[rows], strict=True)
            for done, (text, vector) in enumerate(searches, rows.start + 1):
                hits.append(search.hits(SimulatedSearch(text, vector, alpha, alpha, known_share=known)))
                progress(done, len(collection.queries))
            mixed.add(rows, np.stack([ranking_to_scores(ranking.positions, len(database)) for ranking in hits]))
        first.add(rows, _exclude_zero_scores(bm25))
        second.add(rows, _exclude_zero_scores(semantic))
    width = database.shape[1]
    return mixed.run(width, alpha=alpha), first.run(terms.shape[1]), second.run(width)


def _run_reranker(
    system: LateInteractionSystem,
    collection: Collection,
    alpha: float | None,
    serve: Serve,
    progress: Callable[[int, int], None],
) -> tuple[Run, Run, Run]:
    """Evaluate a reranker that reorders the first hits of the service's search.

    Args:
        system: The reranker.
        collection: The test collection.
        alpha: Weight of the reranker's scores, 0 to 1. None uses the reranker's own weight.
        serve: A function that creates the service's search over documents.
        progress: A function that is called with the number of finished queries and the total number.

    Returns:
        The runs of the reranked search, of BM25 alone, and of the reranker's scores alone.
    """
    bm25, alone = run_retrieval(BM25(), collection), run_retrieval(system, collection)
    reranker, count = system.reranker, len(collection.queries)
    alpha = reranker.alpha if alpha is None else alpha
    served = search_function(serve, system.first_stage_encoder(), collection.documents)
    texts = reranker.prepare(collection.documents)
    rankings = []
    for done, query in enumerate(collection.queries, 1):
        hits = served(query)
        rankings.append(
            hits.reranked(
                score_factors(reranker.discounted_scores(query, select_documents(texts, hits.window_positions)), alpha)
            )
        )
        progress(done, count)
    return run_rankings(rankings, collection, reranker.table.dim, alpha=alpha), bm25, alone


def run_rankings(rankings: Sequence[NDArray[np.int64]], collection: Collection, dimensions: int, **facts: Any) -> Run:
    """Evaluate rankings that were computed before, for example by a search engine.

    Args:
        rankings: For each query, the positions of its hits in the collection, best first.
        collection: The test collection.
        dimensions: Number of dimensions of the system's vectors, for reports.
        **facts: Additional entries for reports.

    Returns:
        The metrics of each query.
    """
    filled = _Rankings(collection)
    for row, ranking in enumerate(rankings):
        filled.add(slice(row, row + 1), ranking_to_scores(ranking, len(collection.documents))[None])
    return filled.run(dimensions, **facts)


def _index_collection(
    serve: Serve | None, system: System, collection: Collection, database: Matrix
) -> SearchableCollection | None:
    """Index a test collection, so that searches return the same hits as the service.

    Args:
        serve: A function that creates the service's search over documents, or None.
        system: The retrieval system.
        collection: The test collection.
        database: The system's vectors of the N documents, shape (N, K) for K dimensions.

    Returns:
        The search. None if ``serve`` is None, if the vectors are not dense, or if the service does not support the
        system's similarity.
    """
    if serve is None or not isinstance(database, np.ndarray) or system.similarity not in ("cosine", "jaccard"):
        return None
    # all words have the same idf, which only matters for feedback and for very long queries
    return serve(collection.documents, database, system.similarity, lambda word: 1.0)


def hybrid_scores(lexical: NDArray[Any], semantic: NDArray[Any], alpha: float) -> NDArray[Any]:
    """Combine the BM25 scores and the vector similarities of a query.

    Both are standardised to z-scores z. The combined score is (1 - alpha) · z(BM25) + alpha · z(similarity). In
    collections of up to 100,000 documents, all documents are candidates. In larger collections, only the best 1,000 by
    BM25 and the best 1,000 by similarity are candidates.

    Args:
        lexical: BM25 scores of the N documents, shape (N,).
        semantic: Similarities of the N documents, shape (N,).
        alpha: Weight of the similarities, 0 to 1.

    Returns:
        Combined scores of shape (N,), -inf for documents that are not candidates.
    """
    if len(lexical) <= _WHOLE:
        return (1 - alpha) * z_score(lexical) + alpha * z_score(semantic)
    best = [np.argpartition(-scores, _CANDIDATES)[:_CANDIDATES] for scores in (lexical, semantic)]
    candidates = np.union1d(*best)
    scores = np.full(len(lexical), -np.inf, np.float32)
    scores[candidates] = (1 - alpha) * z_score(lexical[candidates]) + alpha * z_score(semantic[candidates])
    return scores


def unseen_queries(system: System, collection: Collection) -> tuple[Collection, int]:
    """Return a test collection without the queries that a system was trained on.

    If the system was trained on all queries, the collection is returned unchanged, because no other query is left to
    measure the system.

    Args:
        system: The system to evaluate.
        collection: The test collection.

    Returns:
        The collection, and the number of its queries that the system was trained on.
    """
    trained_on = set(getattr(system, "training_fingerprints", ()))
    new = [position for position, mark in enumerate(fingerprints(collection.queries)) if mark not in trained_on]
    count = len(collection.queries) - len(new)
    return (with_queries(collection, new) if count and new else collection), count


class _Rankings:
    """Computes the metrics of rankings, one block of queries after the other, and collects them in a table.

    If some documents were judged irrelevant, the table also contains the metrics of condensed rankings, from which
    unjudged documents are removed.

    Args:
        collection: The test collection.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection, self._has_negatives = collection, has_irrelevant_judgements(collection)
        self._names = (*_GRADED, *(CONDENSED if self._has_negatives else ()))
        self._table = np.zeros((len(collection.grades), len(self._names)))

    def add(self, rows: slice, scores: NDArray[Any]) -> None:
        """Compute the metrics of a block of B consecutive queries, and add them to the table.

        Args:
            rows: The positions of the queries in the collection.
            scores: Scores of the N documents for these queries, shape (B, N).
        """
        for query, line in zip(range(rows.start, rows.stop), scores, strict=True):
            grades = self._collection.grades[query]
            values = graded_metrics(line, grades) | (condensed_metrics(line, grades) if self._has_negatives else {})
            self._table[query] = [values[name] for name in self._names]

    def run(self, dimensions: int, **facts: Any) -> Run:
        """Return the collected metrics of all queries as a :class:`Run`.

        Args:
            dimensions: Number of dimensions of the system's vectors, for reports.
            **facts: Additional entries for reports.
        """
        sizes = {
            "documents": len(self._collection.documents),
            "queries": len(self._collection.queries),
            "skipped": self._collection.skipped,
        }
        values = {name: self._table[:, column] for column, name in enumerate(self._names)}
        return Run(values, {"dimensions": int(dimensions), **facts, **sizes})


def graded_metrics(scores: NDArray[Any], grades: Mapping[int, float]) -> dict[str, float]:
    """Compute nDCG@10, MAP, recall at several ranks and MRR@10 of a query's ranking.

    Args:
        scores: Scores of the N documents, shape (N,), -inf for documents that are not among the hits.
        grades: Grades of the judged documents, by their positions. At least one grade is above 0.

    Returns:
        The value of each metric, by name.
    """
    gains = np.zeros(len(scores))
    gains[list(grades)] = list(grades.values())
    gains[np.isneginf(scores)] = 0
    gains = gains[np.argsort(-scores, kind="stable")]
    hits, total = gains > 0, sum(grade > 0 for grade in grades.values())
    values = [
        ndcg_at(gains, list(grades.values()), 10),
        average_precision(hits, total),
        *(recall_at(hits, total, k) for k in RECALLS),
        reciprocal_rank(hits, 10),
    ]
    return dict(zip(_GRADED, values, strict=True))


def has_irrelevant_judgements(collection: Collection) -> bool:
    """Return whether some documents of a test collection were judged irrelevant.

    Such judgements usually come from a pool: assessors judged the best hits of several systems. A document outside the
    pool has no judgement and may be relevant.
    """
    return any(grade <= 0 for grades in collection.grades for grade in grades.values())


def condensed_metrics(scores: NDArray[Any], grades: Mapping[int, float]) -> dict[str, float]:
    """Compute metrics of a query's ranking that do not count unjudged documents as irrelevant.

    Args:
        scores: Scores of the N documents, shape (N,), -inf for documents that are not among the hits.
        grades: Grades of the judged documents, by their positions. At least one grade is above 0.

    Returns:
        A dictionary with two metrics. ``condensed_ndcg@10`` is the nDCG@10 of the ranking without its unjudged
        documents. ``judged@10`` is the share of judged documents among the first ten hits.

    Source:
        Sakai 2007, "Alternatives to Bpref": condensed lists.
    """
    known = list(grades)
    condensed = np.full_like(scores, -np.inf)
    condensed[known] = scores[known]
    first = np.argsort(-scores, kind="stable")[:10]
    first = first[np.isfinite(scores[first])]
    judged = float(np.isin(first, known).mean()) if len(first) else 0.0
    return dict(zip(CONDENSED, (graded_metrics(condensed, grades)["ndcg@10"], judged), strict=True))


def z_score(scores: NDArray[Any]) -> NDArray[np.float32]:
    """Standardise scores: subtract the mean, and divide by the population standard deviation.

    Args:
        scores: Scores of a query's n candidates, shape (n,).

    Returns:
        The standardised scores, shape (n,), float32. All are 0 if the scores are equal.
    """
    spread = scores.std() if len(scores) else 0
    return np.asarray((scores - scores.mean()) / spread if spread > 0 else np.zeros_like(scores), np.float32)
