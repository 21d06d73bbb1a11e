"""Training of a reranker on judged queries, with a choice of the best epoch and weight and a final test.

The queries are sorted by the positions of their relevant documents in the collection, and divided into three blocks:
training, validation and test queries. The blocks therefore have different subjects, as training queries and later
searches will have. Training compares relevant documents with hard negatives: irrelevant documents that BM25 ranks high.

The reranker reorders the first hits of a search by BM25 and vectors. It multiplies the score of each of these hits by a
factor (:func:`resift.encoders.late_interaction.score_factors`). The validation queries choose the epoch, which may be
0, and the weight of the reranker. The test queries, on which nothing was chosen, show by a paired randomisation test
whether the hits are better with the reranker than without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.late_interaction import LateInteraction, PreparedDocuments, score_factors
from resift.encoders.tables import quantize_table
from resift.errors import BadInput
from resift.vectors.table import WordVectors
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.baselines.late_interaction import select_documents, untrained_reranker
from resift_lab.evaluation.data import Collection, Positions, with_queries
from resift_lab.evaluation.data.parts import SplitCollection
from resift_lab.evaluation.metrics import ndcg_at
from resift_lab.evaluation.protocol import Run, run_rankings, run_retrieval
from resift_lab.evaluation.served import Hits, Served
from resift_lab.fingerprints import joined_fingerprints
from resift_lab.training.gate import is_significantly_larger
from resift_lab.training.judged_queries import bm25_candidates, evenly_spaced, relevant_documents
from resift_lab.training.late_interaction import RerankerTrainer
from resift_lab.training.options import LateInteractionOptions
from resift_lab.training.progress import Progress, StepCounter

# Weights of a reranker to choose from.
ALPHAS = tuple(beta / (1 + beta) for beta in (0.25, 0.5, 1, 2, 4, 8, 16, 32))
# Metrics in reports, and the metric by which the epoch and the weight are chosen.
MEASURES = ("recall@1", "recall@3", "recall@5", "mrr@10", "ndcg@10")
CHOSEN_BY = "ndcg@10"
# Maximum number of validation and test queries that are used.
_MAX_VALIDATION = 600
_MAX_TEST = 2000


def train_reranker(
    data: SplitCollection,
    table: WordVectors,
    served: Served,
    options: LateInteractionOptions,
    candidates: Sequence[Positions] | None = None,
    progress: Progress | None = None,
) -> tuple[LateInteraction, dict[str, Any]]:
    """Train a reranker on judged queries, and test whether it improves searches.

    A first training on the training queries chooses the epoch and the weight, and is evaluated. If the trained reranker
    is better than the search without a reranker, a final training uses the validation queries as well, and the test
    queries if ``data.train_on_all``.

    Args:
        data: The documents and judged queries, divided into training, validation and test queries.
        table: The word vectors to start from, with inverse document frequencies as weights.
        served: A function that searches the collection without a reranker.
        options: The settings of the training.
        candidates: For each query, the positions of documents from which negatives (irrelevant documents) are drawn,
            best first. None uses the best documents by BM25.
        progress: A function that is called with the number of processed queries and the total number.

    Returns:
        The reranker and a report. The entries of the report:

        - ``queries``: the number of queries in each part of the split.
        - ``epochs``, ``alpha``: the chosen number of epochs and the chosen weight.
        - ``systems``: the mean of each metric for ``bm25``; for ``vectors``, which is the search without a reranker;
          and for this search with the ``untrained`` and the ``trained`` reranker.
        - ``kept``: ``trained`` or ``untrained``, whichever has the higher nDCG@10.
        - ``p``: the p-value of each metric of the ``kept`` system against ``vectors`` and against ``untrained``.
        - ``better``: whether the nDCG@10 of the ``kept`` system is significantly higher than that of ``vectors``.
        - ``judged_on``: the queries of this evaluation: "test", or "validation" if there are no test queries.
        - ``unlearnable``: the number of queries that cannot be used because all of their candidates are relevant.

    Raises:
        BadInput: If there are too few documents for the number of negatives, or no training query can be used.
    """
    collection, split = data.collection, data.split
    options = _adjusted_options(options, collection, len(split.train))
    final = np.concatenate([split.train, split.validation, *([split.test] if data.train_on_all else [])])
    steps = StepCounter(progress, options.epochs * (len(split.train) + len(final)))
    training = _RerankerTraining(collection, table, options, candidates, steps)
    training.require_learnable(split.train)
    validation = _Validation(training.search(evenly_spaced(split.validation, _MAX_VALIDATION), served))
    validation.measure(training.start)
    training.fit(split.train, options.epochs, validation.measure)
    epochs = int(np.argmax(validation.mean_ndcgs))
    untrained, trained = _with_weight(*validation.first), _with_weight(*validation.best)
    test = split.test if len(split.test) else split.validation
    report = {
        **_compare_rankings(training.search(evenly_spaced(test, _MAX_TEST), served), untrained, trained),
        "queries": {part: len(queries) for part, queries in asdict(split).items()},
        "unlearnable": int((~training.is_learnable[final]).sum()),
        "judged_on": "test" if len(split.test) else "validation",
        "epochs": epochs,
        "validation": validation.mean_ndcgs,
        "options": asdict(options),
    }
    model = trained if report["kept"] == "trained" else untrained
    if report["better"] and model is trained:
        model = _with_weight(training.fit(final, epochs), trained.alpha)
    report["alpha"] = model.alpha
    model.info = {"report": report, "seen": joined_fingerprints([collection.queries[query] for query in final])}
    return model, report


def _adjusted_options(options: LateInteractionOptions, collection: Collection, queries: int) -> LateInteractionOptions:
    """Return the settings of a training run, adjusted to the size of the collection.

    The pool of candidates is limited to fewer documents than the collection has. If there are few queries, the number
    of epochs is increased.

    Args:
        options: The settings.
        collection: The documents and judged queries.
        queries: The number of training queries.

    Returns:
        The adjusted settings.

    Raises:
        BadInput: If there are too few documents for the number of negative examples.
    """
    documents = len(collection.documents)
    if documents <= options.negatives:
        raise BadInput(
            f"{documents} documents are too few for {options.negatives} negatives for each query",
            value=documents,
            expected=f"more than {options.negatives} documents, or fewer negatives (--set negatives=N)",
        )
    return replace(options, pool=min(options.pool, documents - 1), epochs=options.epochs_for(queries))


class _RerankerTraining:
    """Trains rerankers on different parts of a collection's queries, always from the same untrained reranker.

    Args:
        collection: The documents and judged queries.
        table: The word vectors to start from.
        options: The settings of the training.
        candidates: For each query, the positions of documents from which negative examples are drawn, best first. None
            uses the best documents by BM25.
        steps: A counter of the processed queries, which reports the progress.
    """

    def __init__(
        self,
        collection: Collection,
        table: WordVectors,
        options: LateInteractionOptions,
        candidates: Sequence[Positions] | None,
        steps: StepCounter,
    ) -> None:
        self.collection, self.options, self.steps = collection, options, steps
        self.candidates = bm25_candidates(collection, options.pool) if candidates is None else candidates
        self.relevant = relevant_documents(collection)
        pairs = zip(self.relevant, self.candidates, strict=True)
        # A query teaches nothing if all of its candidates are relevant.
        self.is_learnable = np.array([not np.isin(best, relevant).all() for relevant, best in pairs])
        self.start = untrained_reranker(table, collection.documents)
        self.documents = self.start.prepare(collection.documents)

    def require_learnable(self, queries: Positions) -> None:
        """Check that at least one of the given queries has an irrelevant candidate, so that training can use it.

        Args:
            queries: The positions of the queries.

        Raises:
            BadInput: If none of the queries can be used.
        """
        if not self.is_learnable[queries].any():
            raise BadInput(
                "no training query has a candidate that is not relevant",
                expected="more documents, or judgements of irrelevant documents",
            )

    def search(self, queries: Positions, served: Served) -> _HitsToRerank:
        """Search for some of the collection's queries without a reranker, and return their hits.

        Args:
            queries: The positions of the queries.
            served: A function that takes the text of a query and returns its hits.
        """
        return _HitsToRerank(with_queries(self.collection, queries.tolist()), self.documents, served)

    def fit(
        self, queries: Positions, epochs: int, after_epoch: Callable[[LateInteraction], None] | None = None
    ) -> LateInteraction:
        """Train a reranker on some of the collection's queries.

        Args:
            queries: The positions of the queries. Queries that cannot be used for training are skipped.
            epochs: The number of epochs.
            after_epoch: A function that is called with the current reranker after each epoch.
        """
        queries = queries[self.is_learnable[queries]]
        trainer = RerankerTrainer(
            self.start,
            self.documents,
            [self.collection.queries[query] for query in queries],
            [self.relevant[query] for query in queries],
            [self.candidates[query] for query in queries],
            replace(self.options, epochs=epochs),
        )
        return trainer.fit(after_epoch, self.steps.next_stage())


class _HitsToRerank:
    """The hits of queries before reranking, with the texts of the hits that a reranker may reorder.

    Args:
        collection: The documents and judged queries.
        documents: The documents, prepared for scoring by a reranker.
        served: A function that takes the text of a query and returns its hits.
    """

    def __init__(self, collection: Collection, documents: PreparedDocuments, served: Served) -> None:
        self.collection = collection
        self.results = [served(query) for query in collection.queries]
        self._texts = [select_documents(documents, hits.window_positions) for hits in self.results]

    def discounted_scores(self, model: LateInteraction) -> list[Floats]:
        """Score the top-ranked hits of each query with a reranker.

        Scores are reduced for queries with words that the reranker does not know.

        Args:
            model: The reranker.

        Returns:
            For each query, the scores of the w hits in the rescore window, shape (w,).
        """
        pairs = zip(self.collection.queries, self._texts, strict=True)
        return [model.discounted_scores(query, texts) for query, texts in pairs]

    def evaluate(self, model: LateInteraction | None) -> Run:
        """Evaluate the ranking of the hits of all queries against the relevance judgements.

        Args:
            model: A reranker that reorders the hits first. None evaluates the original order.

        Returns:
            The value of each retrieval metric (such as nDCG@10) for each query.
        """
        if model is None:
            return run_rankings([hits.positions for hits in self.results], self.collection, 0)
        pairs = zip(self.results, self.discounted_scores(model), strict=True)
        rankings = [hits.reranked(score_factors(scores, model.alpha)) for hits, scores in pairs]
        return run_rankings(rankings, self.collection, model.table.dim)


class _Validation:
    """Compares rerankers by nDCG@10 on validation queries, and chooses a weight for the scores of each reranker.

    Args:
        hits: The hits of the validation queries without a reranker.

    Only two of the measured rerankers are retained, because each has its own copy of all word vectors.

    Attributes:
        mean_ndcgs: The mean nDCG@10 of each measured reranker, at its chosen weight, in the order of the measurements.
        first: The first measured reranker and its chosen weight.
        best: The measured reranker with the largest mean nDCG@10, and its chosen weight.
    """

    first: tuple[LateInteraction, float]
    best: tuple[LateInteraction, float]

    def __init__(self, hits: _HitsToRerank) -> None:
        self.hits = hits
        self.mean_ndcgs: list[float] = []

    def measure(self, model: LateInteraction) -> None:
        """Choose the weight of a reranker's scores, and append the mean nDCG@10 with this weight to :attr:`mean_ndcgs`.

        Args:
            model: The reranker to measure.
        """
        queries = zip(self.hits.results, self.hits.collection.grades, self.hits.discounted_scores(model), strict=True)
        values = np.array([_ndcg_by_weight(hits, grades, scores) for hits, grades, scores in queries]).T
        row = smallest_good_alpha(values)
        mean = float(values[row].mean())
        if not self.mean_ndcgs:
            self.first = (model, ALPHAS[row])
        if not self.mean_ndcgs or mean > max(self.mean_ndcgs):
            self.best = (model, ALPHAS[row])
        self.mean_ndcgs.append(mean)


def _ndcg_by_weight(hits: Hits, grades: Mapping[int, float], scores: Floats) -> list[float]:
    """Rerank the hits of a query with several weights of the reranker's scores, and measure nDCG@10 with each weight.

    Args:
        hits: The hits of the query without a reranker.
        grades: The grade of each judged document, by position.
        scores: The reranker's scores of the w hits in the rescore window, shape (w,).

    Returns:
        nDCG@10 with each weight in ``ALPHAS``.
    """
    values = []
    for alpha in ALPHAS:
        ranking = hits.reranked(score_factors(scores, alpha))[:10]
        gains = np.array([grades.get(position, 0.0) for position in ranking.tolist()])
        values.append(ndcg_at(gains, list(grades.values()), 10))
    return values


def smallest_good_alpha(values: NDArray[np.float64]) -> int:
    """Choose the smallest weight that is not clearly worse than the best weight.

    With few queries, the best weight is largely random. Of all weights whose mean nDCG@10 is within a standard error of
    the best mean, the smallest weight is chosen, because it changes the original ranking least.

    Args:
        values: The nDCG@10 of each of Q queries with each of the A weights in ``ALPHAS``, shape (A, Q).

    Returns:
        The position of the chosen weight in ``ALPHAS``.
    """
    loss = values[int(np.argmax(values.mean(axis=1)))] - values
    error = loss.std(axis=1) / np.sqrt(values.shape[1])
    return int(np.flatnonzero(loss.mean(axis=1) <= error)[0])


def _compare_rankings(hits: _HitsToRerank, untrained: LateInteraction, trained: LateInteraction) -> dict[str, Any]:
    """Measure four rankings of each evaluation query, and compare them.

    The rankings are BM25 alone ("bm25"), the search without a reranker ("vectors"), and the search with the untrained
    and the trained reranker ("untrained" and "trained").

    Args:
        hits: The hits of the evaluation queries without a reranker.
        untrained: The untrained reranker.
        trained: The trained reranker.

    Returns:
        A dictionary with these keys:

        - ``judges``: the number of queries
        - ``systems``: the mean metrics of each ranking
        - ``kept``: the better reranker, "trained" or "untrained"
        - ``better``: whether the better reranker improves the search
        - ``p``: the p-values of the comparisons of the better reranker with "vectors" and "untrained"
    """
    runs = {
        "bm25": run_retrieval(BM25(), hits.collection),
        "vectors": hits.evaluate(None),
        "untrained": hits.evaluate(untrained),
        "trained": hits.evaluate(trained),
    }
    systems = {name: {measure: run.means()[measure] for measure in MEASURES} for name, run in runs.items()}
    quality = {name: means[CHOSEN_BY] for name, means in systems.items()}
    best = "trained" if quality["trained"] > quality["untrained"] else "untrained"
    p = {name: runs[best].p_values(runs[name], 0) for name in ("vectors", "untrained")}
    return {
        "judges": len(hits.collection.queries),
        "systems": systems,
        "kept": best,
        "better": is_significantly_larger(runs[best].values[CHOSEN_BY], runs["vectors"].values[CHOSEN_BY]),
        "p": {name: {measure: values[measure] for measure in MEASURES} for name, values in p.items()},
    }


def _with_weight(model: LateInteraction, alpha: float) -> LateInteraction:
    """Return a copy of a reranker with another weight, and with word vectors compressed to int8.

    Args:
        model: The reranker.
        alpha: The new weight of the reranker's scores, 0 to 1.
    """
    return LateInteraction(
        model.name,
        model.table if model.table.scales is not None else quantize_table(model.table),
        model.shifts,
        replace(model.parameters, alpha=alpha),
        model.info,
    )
