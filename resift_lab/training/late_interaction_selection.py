"""From judged queries to a reranker that is known to help, or to a refusal.

Queries are cut into training, validation and test in the order of their relevant documents in the collection, in
contiguous blocks, so that what the parts ask about differs as it will in use. The engine's candidates (BM25) give the
hard negatives. The reranker reads the first hits of what is served without it, BM25 and vectors, and multiplies their
scores (:func:`resift.encoders.late_interaction.score_factors`). Validation chooses the epoch (none is a choice
too) and its weight. The test queries, which nothing was chosen on, say whether these hits are better with it than
without, with a paired randomisation test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.late_interaction import LateInteraction, PreparedDocuments, score_factors
from resift.encoders.tables import quantized
from resift.errors import BadInput
from resift.vectors.table import WordVectors
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.baselines.late_interaction import some_of, untrained_reranker
from resift_lab.evaluation.data import Collection, Positions, Split, with_queries
from resift_lab.evaluation.metrics import ndcg_at
from resift_lab.evaluation.protocol import Run, run_rankings, run_retrieval
from resift_lab.evaluation.served import Hits, Served
from resift_lab.fingerprints import joined_fingerprints
from resift_lab.training.gate import is_better
from resift_lab.training.judged_queries import bm25_candidates, relevant_documents, thinned
from resift_lab.training.late_interaction import Trainer
from resift_lab.training.options import LateInteractionOptions
from resift_lab.training.progress import Progress, StepCounter

ALPHAS = tuple(beta / (1 + beta) for beta in (0.25, 0.5, 1, 2, 4, 8, 16, 32))
MEASURES = ("recall@1", "recall@3", "recall@5", "mrr@10", "ndcg@10")
CHOSEN_BY = "ndcg@10"
_MAX_VALIDATION, _MAX_TEST = 600, 2000


def learn(
    collection: Collection,
    table: WordVectors,
    split: Split,
    options: LateInteractionOptions,
    served: Served,
    train_on_all: bool = True,
    candidates: Sequence[Positions] | None = None,
    progress: Progress | None = None,
) -> tuple[LateInteraction, dict[str, Any]]:
    """A trained reranker, and a report of what the judging queries say of it.

    ``table`` is the mixture of word vectors to start from, its weights idf. A first training on ``split.train`` chooses
    and judges. ``served`` searches the collection as it is served without a reranker. The one that is returned then
    learns, with the choices made, from all the queries, but not from those of ``split.test`` unless ``train_on_all``.
    ``candidates`` holds positions of the engine's best documents for each query; BM25's are taken if it is None.

    The report holds ``queries`` (how many in each part), ``epochs`` and ``alpha`` as chosen, ``systems`` (bm25,
    vectors, which is what is served without a reranker, and untrained and trained, which is that with one: metric →
    mean), ``kept``, the better one of the last two, ``p`` (that one against vectors and untrained: metric → p), and
    ``better``: whether its nDCG@10 is above that of vectors by the gate's test. ``judged_on`` is "validation" if there
    are no test queries. ``unlearnable`` counts queries whose candidates are all relevant. Raises BadInput if there are
    no more documents than negatives, or if all training queries are unlearnable.
    """
    options = _fitting(options, collection, len(split.train))
    final = np.concatenate([split.train, split.validation, *([split.test] if train_on_all else [])])
    steps = StepCounter(progress, options.epochs * (len(split.train) + len(final)))
    training = _Training(collection, table, options, candidates, steps)
    training.require_learnable(split.train)
    validation = _Validation(training.hits(thinned(split.validation, _MAX_VALIDATION), served))
    validation.measure(training.start)
    training.fit(split.train, options.epochs, validation.measure)
    epochs = int(np.argmax(validation.quality))
    untrained, trained = validation.reranker(0), validation.reranker(epochs)
    judges = split.test if len(split.test) else split.validation
    report = {
        **_judge(training.hits(thinned(judges, _MAX_TEST), served), untrained, trained),
        "queries": {part: len(queries) for part, queries in asdict(split).items()},
        "unlearnable": int((~training.is_learnable[final]).sum()),
        "judged_on": "test" if len(split.test) else "validation",
        "epochs": epochs,
        "validation": validation.quality,
        "options": asdict(options),
    }
    model = trained if report["kept"] == "trained" else untrained
    if report["better"] and model is trained:
        model = _finished(training.fit(final, epochs), trained.alpha)
    report["alpha"] = model.alpha
    model.info = {"report": report, "seen": joined_fingerprints([collection.queries[query] for query in final])}
    return model, report


def _fitting(options: LateInteractionOptions, collection: Collection, queries: int) -> LateInteractionOptions:
    """The options with a pool that the collection can fill, and enough epochs for so many training queries."""
    documents = len(collection.documents)
    if documents <= options.negatives:
        raise BadInput(
            f"{documents} documents, and {options.negatives} negatives are wanted for each query",
            value=documents,
            expected=f"more than {options.negatives} documents, or fewer negatives (--negatives)",
        )
    return replace(options, pool=min(options.pool, documents - 1), epochs=options.epochs_for(queries))


class _Training:
    """Trainings of one untrained reranker, ``start``, on parts of a collection's queries."""

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
        self.is_learnable = np.array([not np.isin(found, relevant).all() for relevant, found in pairs])
        self.start = untrained_reranker(table, collection.documents)
        self.documents = self.start.prepare(collection.documents)

    def require_learnable(self, queries: Positions) -> None:
        """Raise BadInput if none of these queries teaches anything."""
        if not self.is_learnable[queries].any():
            raise BadInput("no training query has a candidate that is not relevant", expected="more documents")

    def hits(self, queries: Positions, served: Served) -> _Hits:
        """What is served of the queries at these positions."""
        return _Hits(with_queries(self.collection, queries.tolist()), self.documents, served)

    def fit(
        self, queries: Positions, epochs: int, after_epoch: Callable[[LateInteraction], None] | None = None
    ) -> LateInteraction:
        """The reranker after so many epochs on those of these queries that are learnable."""
        queries = queries[self.is_learnable[queries]]
        trainer = Trainer(
            self.start,
            self.documents,
            [self.collection.queries[query] for query in queries],
            [self.relevant[query] for query in queries],
            [self.candidates[query] for query in queries],
            replace(self.options, epochs=epochs),
        )
        return trainer.fit(after_epoch, self.steps.stage())


class _Hits:
    """What is served of a collection's queries without a reranker, and the texts of its first hits."""

    def __init__(self, collection: Collection, documents: PreparedDocuments, served: Served) -> None:
        self.collection = collection
        self.found = [served(query) for query in collection.queries]
        self._texts = [some_of(documents, hits.read) for hits in self.found]

    def trusted_scores(self, model: LateInteraction) -> list[Floats]:
        """By how much a reranker is for each of a query's first hits, (w,)."""
        pairs = zip(self.collection.queries, self._texts, strict=True)
        return [model.trusted_scores(query, texts) for query, texts in pairs]

    def run(self, model: LateInteraction | None) -> Run:
        """The run of a reranker, or of what is served without one."""
        if model is None:
            return run_rankings([hits.positions for hits in self.found], self.collection, 0)
        pairs = zip(self.found, self.trusted_scores(model), strict=True)
        rankings = [hits.reranked(score_factors(support, model.alpha)) for hits, support in pairs]
        return run_rankings(rankings, self.collection, model.table.dim)


class _Validation:
    """Which reranker, with which weight, has the best nDCG@10 on some queries.

    ``quality`` holds that of each reranker that was measured, with the weight that it would get.
    """

    def __init__(self, hits: _Hits) -> None:
        self.hits = hits
        self.quality: list[float] = []
        self._measured: list[tuple[LateInteraction, float]] = []

    def measure(self, model: LateInteraction) -> None:
        """Add a reranker."""
        values = np.array(
            [self._values(*one) for one in zip(self._graded(), self.hits.trusted_scores(model), strict=True)]
        ).T
        row = steadiest_alpha(values)
        self.quality.append(float(values[row].mean()))
        self._measured.append((model, ALPHAS[row]))

    def reranker(self, number: int) -> LateInteraction:
        """The reranker that was measured at this place, with its weight."""
        return _finished(*self._measured[number])

    def _graded(self) -> Iterator[tuple[Hits, dict[int, float]]]:
        return zip(self.hits.found, self.hits.collection.grades, strict=True)

    def _values(self, graded: tuple[Hits, dict[int, float]], support: Floats) -> list[float]:
        """nDCG@10 of a query with each of ALPHAS."""
        hits, grades = graded
        rankings = [hits.reranked(score_factors(support, alpha))[:10] for alpha in ALPHAS]
        gains = [np.array([grades.get(position, 0.0) for position in ranking.tolist()]) for ranking in rankings]
        return [ndcg_at(gain, list(grades.values()), 10) for gain in gains]


def steadiest_alpha(values: NDArray[np.float64]) -> int:
    """The row of ALPHAS to take by ``values`` (A, Q), each query's quality with each weight.

    The best weight on a few queries is largely chance. Of the weights that are no worse than the best one by a standard
    error of the mean difference, the smallest is taken, which changes least of what is served without a reranker.
    """
    loss = values[int(np.argmax(values.mean(axis=1)))] - values
    error = loss.std(axis=1) / np.sqrt(values.shape[1])
    return int(np.flatnonzero(loss.mean(axis=1) <= error)[0])


def _judge(hits: _Hits, untrained: LateInteraction, trained: LateInteraction) -> dict[str, Any]:
    """What some queries say of BM25, of what is served without a reranker, and with the untrained and trained one.

    ``judges`` counts the queries; ``systems``, ``kept``, ``better`` and ``p``: see :func:`learn`.
    """
    runs = {
        "bm25": run_retrieval(BM25(), hits.collection),
        "vectors": hits.run(None),
        "untrained": hits.run(untrained),
        "trained": hits.run(trained),
    }
    systems = {name: {measure: run.means()[measure] for measure in MEASURES} for name, run in runs.items()}
    quality = {name: means[CHOSEN_BY] for name, means in systems.items()}
    kept = "trained" if quality["trained"] > quality["untrained"] else "untrained"
    p = {name: runs[kept].against(runs[name], 0) for name in ("vectors", "untrained")}
    return {
        "judges": len(hits.collection.queries),
        "systems": systems,
        "kept": kept,
        "better": is_better(runs[kept].values[CHOSEN_BY], runs["vectors"].values[CHOSEN_BY]),
        "p": {name: {measure: values[measure] for measure in MEASURES} for name, values in p.items()},
    }


def _finished(model: LateInteraction, alpha: float) -> LateInteraction:
    """The same reranker with this weight, and its rows in int8."""
    return LateInteraction(
        model.name,
        model.table if model.table.scales is not None else quantized(model.table),
        model.shifts,
        replace(model.parameters, alpha=alpha),
        model.info,
    )
