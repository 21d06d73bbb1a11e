"""From judged queries to a reranker that is known to help, or to a refusal.

Queries are cut into training, validation and test in the order of their relevant documents in the collection, in
contiguous blocks, so that what the parts ask about differs as it will in use. The engine's candidates (BM25) give the
hard negatives. Validation chooses the epoch (none is a choice too) and the weight against BM25. The test queries, which
nothing was chosen on, say whether the reranker helps, with a paired randomisation test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift.evaluation.baselines.late_interaction import Late
from resift.evaluation.data import Collection, Positions, Split, with_queries
from resift.evaluation.pairwise import similarity_blocks
from resift.evaluation.protocol import Run, hybrid_scores, run_hybrid
from resift.ranking.late_interaction import ALPHA, LateInteraction, fingerprints, untrained_reranker
from resift.training.judged_queries import bm25_candidates, bm25_scores, relevant_documents, thinned
from resift.training.late_interaction import Trainer
from resift.training.options import LateInteractionOptions
from resift.training.progress import Progress, StepCounter
from resift.vectors.table import WordVectors

ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
MEASURES = ("recall@1", "recall@3", "recall@5", "mrr@10", "ndcg@10")
_MAX_VALIDATION, _MAX_TEST = 600, 2000


def learn(
    collection: Collection,
    table: WordVectors,
    split: Split,
    options: LateInteractionOptions,
    train_on_all: bool = True,
    candidates: Sequence[Positions] | None = None,
    progress: Progress | None = None,
) -> tuple[LateInteraction, dict[str, Any]]:
    """A trained reranker, and a report of what the judging queries say of it.

    ``table`` is the mixture of word vectors to start from, its weights idf. A first training on ``split.train`` chooses
    and judges. The reranker that is returned then learns, with the choices made, from all the queries, but not from
    those of ``split.test`` unless ``train_on_all``. ``candidates`` holds positions of the engine's best documents for
    each query; BM25's are taken if it is None.

    The report holds ``queries`` (how many in each part), ``epochs`` and ``alpha`` as chosen, ``systems`` (bm25,
    untrained, trained, and each of these with bm25: metric → mean), ``p`` (trained with bm25 against the others:
    metric → p), ``kept``, which is the trained reranker unless the untrained one is better, and ``better``: whether the
    one that is kept, mixed with BM25, has a higher mean reciprocal rank than BM25. If there are no test queries, the
    validation queries judge, and ``judged_on`` says so.

    Raises BadInput if there are not more documents than negatives, or if a query has no relevant document or nothing
    beside it.
    """
    options = _fitting(options, collection, len(split.train))
    final = np.concatenate([split.train, split.validation, *([split.test] if train_on_all else [])])
    steps = StepCounter(progress, options.epochs * (len(split.train) + len(final)))
    training = _Training(collection, table, options, candidates, steps)
    validation = _Validation(with_queries(collection, thinned(split.validation, _MAX_VALIDATION).tolist()))
    validation.measure(training.start)
    training.fit(split.train, options.epochs, validation.measure)
    epochs = int(np.argmax(validation.quality))
    untrained, trained = validation.reranker(0), validation.reranker(epochs)
    report = {
        **_judged_report(collection, split, untrained, trained),
        "epochs": epochs,
        "alpha": trained.alpha,
        "validation": validation.quality,
        "options": asdict(options),
    }
    report |= _verdict(report)
    if report["kept"] == "trained":
        model = _finished(training.fit(final, epochs), trained.alpha)
    else:
        model = _finished(training.start, untrained.alpha)
    seen = fingerprints([collection.queries[query] for query in final])
    model.info = {"report": report, "seen": "".join(sorted(set(seen)))}
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
        self.start = untrained_reranker(table, collection.documents)
        self.documents = self.start.prepare(collection.documents)

    def fit(
        self, queries: Positions, epochs: int, after_epoch: Callable[[LateInteraction], None] | None = None
    ) -> LateInteraction:
        """The reranker after so many epochs on these queries."""
        trainer = Trainer(
            self.start,
            self.documents,
            [self.collection.queries[query] for query in queries],
            [self.relevant[query] for query in queries],
            [self.candidates[query] for query in queries],
            replace(self.options, epochs=epochs),
        )
        return trainer.fit(after_epoch, self.steps.stage())


class _Validation:
    """Which reranker, with which weight against BM25, has the best mean reciprocal rank on a collection's queries.

    ``quality`` holds that of each reranker that was measured, with its best weight.
    """

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.bm25 = np.concatenate(list(bm25_scores(collection)))
        self.relevant = relevant_documents(collection)
        self.quality: list[float] = []
        self._measured: list[tuple[LateInteraction, float]] = []

    def measure(self, model: LateInteraction) -> None:
        """Add a reranker."""
        reciprocal = self._reciprocal_ranks(model)
        row = steadiest_alpha(reciprocal)
        self.quality.append(float(reciprocal[row].mean()))
        self._measured.append((model, ALPHAS[row]))

    def reranker(self, number: int) -> LateInteraction:
        """The reranker that was measured at this place, with its best weight."""
        return _finished(*self._measured[number])

    def _reciprocal_ranks(self, model: LateInteraction) -> NDArray[np.float64]:
        """1 / rank of each query's best relevant document by each of ALPHAS, (A, Q); 0 for ranks above 10."""
        system = Late(model)
        documents = system.fit(self.collection.documents)
        blocks = similarity_blocks(system.queries(self.collection.queries), documents, system.similarity)
        semantic = np.concatenate([scores for _, scores in blocks])
        ranks = np.zeros((len(ALPHAS), len(self.bm25)))
        for query, relevant in enumerate(self.relevant):
            for row, alpha in enumerate(ALPHAS):
                mixed = hybrid_scores(self.bm25[query], semantic[query], alpha)
                ranks[row, query] = (mixed > mixed[relevant].max()).sum() + 1
        return np.where(ranks <= 10, 1 / ranks, 0)


def steadiest_alpha(values: NDArray[np.float64]) -> int:
    """The row of ALPHAS to take by ``values`` (A, Q), each query's quality with each weight.

    The best weight on a few queries is largely chance. Of the weights that are no worse than the best one by a standard
    error of the mean difference, the one nearest to the usual weight, 0.7, is taken.
    """
    loss = values[int(np.argmax(values.mean(axis=1)))] - values
    error = loss.std(axis=1) / np.sqrt(values.shape[1])
    as_good = np.flatnonzero(loss.mean(axis=1) <= error)
    return int(as_good[np.argmin(np.abs(np.array(ALPHAS)[as_good] - ALPHA))])


def _judged_report(
    collection: Collection, split: Split, untrained: LateInteraction, trained: LateInteraction
) -> dict[str, Any]:
    """What the test queries say, or the validation queries where there are none, and how many queries there are."""
    judges = split.test if len(split.test) else split.validation
    return {
        **judge(with_queries(collection, thinned(judges, _MAX_TEST).tolist()), untrained, trained),
        "queries": {"train": len(split.train), "validation": len(split.validation), "test": len(split.test)},
        "judged_on": "test" if len(split.test) else "validation",
    }


def judge(collection: Collection, untrained: LateInteraction, trained: LateInteraction) -> dict[str, Any]:
    """Figures of BM25, the untrained and the trained reranker on judging queries, alone and mixed with BM25.

    ``judges`` counts the queries; ``systems`` and ``p``: see :func:`learn`.
    """
    untrained_mixed, bm25, untrained_alone = run_hybrid(Late(untrained), collection)
    trained_mixed, _, trained_alone = run_hybrid(Late(trained), collection)
    runs = {
        "bm25": bm25,
        "untrained": untrained_alone,
        "trained": trained_alone,
        "untrained + bm25": untrained_mixed,
        "trained + bm25": trained_mixed,
    }
    return {
        "judges": len(collection.queries),
        "systems": {name: _means(run) for name, run in runs.items()},
        "p": {name: _p_values(trained_mixed, runs[name]) for name in ("bm25", "untrained + bm25")},
    }


def _means(run: Run) -> dict[str, float]:
    means = run.means()
    return {measure: means[measure] for measure in MEASURES}


def _p_values(run: Run, other: Run) -> dict[str, float]:
    p = run.against(other, 0)
    return {measure: p[measure] for measure in MEASURES}


def _verdict(report: dict[str, Any]) -> dict[str, Any]:
    """The report's ``kept`` and ``better``."""
    rank = {name: means["mrr@10"] for name, means in report["systems"].items()}
    worse = rank["trained + bm25"] < rank["untrained + bm25"]
    kept = "untrained" if worse or not report["epochs"] else "trained"
    return {"kept": kept, "better": rank[f"{kept} + bm25"] > rank["bm25"]}


def _finished(model: LateInteraction, alpha: float) -> LateInteraction:
    """The same reranker with this weight against BM25, and its rows in int8."""
    return LateInteraction(
        model.name,
        model.table if model.table.scales is not None else model.table.quantized(),
        model.shifts,
        threshold=model.threshold,
        length=model.length,
        mean_length=model.mean_length,
        alpha=alpha,
        info=model.info,
    )
