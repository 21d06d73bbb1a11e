"""From judged queries to a reranker that is known to help, or to a refusal.

Queries are cut into training, validation and test in the order of their relevant documents in the collection, in
contiguous blocks, so that what the parts ask about differs as it will in use. The engine's candidates (BM25) give the
hard negatives. Validation chooses the epoch (none is a choice too) and the weight against BM25; the test queries, which
nothing was chosen on, tell whether it helps, with a paired randomisation test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.encoders.model import Model
from resift.errors import BadInput
from resift.evaluation.baselines.bm25 import BM25
from resift.evaluation.baselines.late_interaction import Late
from resift.evaluation.data import Collection, Positions, Split, with_queries
from resift.evaluation.pairwise import similarity_blocks
from resift.evaluation.protocol import Run, hybrid_scores, run_hybrid, run_retrieval
from resift.evaluation.system import Encoder
from resift.ranking.late_interaction import ALPHA, LateInteraction, fingerprints, untrained_reranker
from resift.training.late_interaction import LateInteractionOptions, fit
from resift.vectors.table import WordVectors

Progress = Callable[[int, int], None]

ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
MOST_VALIDATION, MOST_TEST = 600, 2000
MEASURES = ("recall@1", "recall@3", "recall@5", "mrr@10", "ndcg@10")


def candidates(collection: Collection, count: int) -> list[Positions]:
    """BM25's ``count`` best documents for each query, fewer than there are, best first."""
    lexical, found = BM25(), []
    terms = lexical.fit(collection.documents)
    for _, scores in similarity_blocks(lexical.queries(collection.queries), terms, "dot"):
        for line in scores:
            best = np.argpartition(-line, count - 1)[:count]
            found.append(best[np.argsort(-line[best], kind="stable")].astype(np.int64))
    return found


def learn(
    collection: Collection,
    table: WordVectors,
    split: Split,
    options: LateInteractionOptions,
    everything: bool = True,
    hard: Sequence[Positions] | None = None,
    progress: Progress | None = None,
) -> tuple[LateInteraction, dict[str, Any]]:
    """A trained reranker and what the judging queries say of it.

    ``table``: the mixture to start from, its weights idf. Training runs on ``split.train`` to choose and judge. The
    reranker that is returned then learns from all the queries with the choices made, but for those of ``split.test``
    where ``everything`` is false. ``hard``: the engine's candidates for each query; if not given BM25's.

    The report holds ``queries`` of each part, ``epochs`` and ``alpha`` as chosen, ``systems`` (bm25, untrained, trained
    and each with bm25: metric → mean), ``p`` (trained with bm25 against the others, metric → p) ``kept``, the trained
    one unless the untrained one is better, and ``better``: what is kept, mixed with BM25, is above BM25, both in mean
    reciprocal rank. Without test queries the
    validation queries judge, and ``judged_on`` says so.
    """
    if len(collection.documents) <= options.negatives:
        raise BadInput(
            f"{len(collection.documents)} documents, and {options.negatives} negatives are wanted for each query",
            value=len(collection.documents),
            expected=f"more than {options.negatives} documents, or fewer negatives (--negatives)",
        )
    options = replace(options, pool=min(options.pool, len(collection.documents) - 1))
    options = replace(options, epochs=options.enough(len(split.train)))
    hard = candidates(collection, options.pool) if hard is None else hard
    relevant = [[place for place, grade in found.items() if grade > 0] for found in collection.grades]
    start = untrained_reranker(table, collection.documents)
    held = start.prepare(collection.documents)
    last = np.concatenate([split.train, split.validation, *([split.test] if everything else [])])
    shown = [0, options.epochs * (len(split.train) + len(last))]

    def run(places: Positions, epochs: int, after: Callable[[LateInteraction], None] | None = None) -> LateInteraction:
        begun = shown[0]

        def tell(done: int, total: int) -> None:
            shown[0] = begun + done
            if progress:
                progress(min(shown[0], shown[1]), shown[1])

        queries = [collection.queries[place] for place in places]
        wanted, others = [relevant[place] for place in places], [hard[place] for place in places]
        return fit(start, held, queries, wanted, others, replace(options, epochs=epochs), after, tell)

    chooser = _Chooser(with_queries(collection, _thinned(split.validation, MOST_VALIDATION).tolist()))
    chooser.consider(start)
    run(split.train, options.epochs, chooser.consider)
    epochs = int(np.argmax(chooser.quality))
    best, before = (replace_alpha(model, alpha) for model, alpha in (chooser.found[epochs], chooser.found[0]))
    judges = split.test if len(split.test) else split.validation
    report = judge(with_queries(collection, _thinned(judges, MOST_TEST).tolist()), before, best)
    parts = {"train": len(split.train), "validation": len(split.validation), "test": len(split.test)}
    report |= {"queries": parts, "judged_on": "test" if len(split.test) else "validation", "epochs": epochs}
    report |= {"alpha": best.alpha, "validation": chooser.quality, "options": asdict(options)}
    helps = report["systems"]
    if epochs and helps["trained + bm25"]["mrr@10"] < helps["untrained + bm25"]["mrr@10"]:
        epochs = 0
    report["kept"] = "trained" if epochs else "untrained"
    report["better"] = helps[f"{report['kept']} + bm25"]["mrr@10"] > helps["bm25"]["mrr@10"]
    final = replace_alpha(run(last, epochs) if epochs else start, best.alpha if epochs else before.alpha)
    seen = fingerprints([collection.queries[place] for place in last])
    final.info = {"report": report, "seen": "".join(sorted(set(seen)))}
    return final, report


def replace_alpha(model: LateInteraction, alpha: float) -> LateInteraction:
    """The same reranker with another weight against BM25, its rows in int8."""
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


def choose_encoder(
    collection: Collection,
    table: WordVectors,
    blocks: Sequence[int],
    split: Split,
    options: Any,
    progress: Progress | None = None,
) -> tuple[Model | None, list[float]]:
    """A network of :mod:`resift.training.emboost` at its best epoch, and recall@1 of the validation queries by epoch.

    The first figure is the untrained mixture's; where it is the best, the model is None.
    """
    from resift.training.emboost import train

    judges = with_queries(collection, split.validation.tolist())
    relevant = [[place for place, grade in found.items() if grade > 0] for found in collection.grades]
    curve: list[float] = []
    found: list[Model] = []

    def consider(model: Model) -> None:
        curve.append(run_retrieval(Encoder(model.encode), judges).means()["recall@1"])
        found.append(model)

    consider(Model("mean", table, "mean", "cosine"))
    queries = [collection.queries[place] for place in split.train]
    wanted = [relevant[place] for place in split.train]
    train(table, blocks, collection.documents, queries, wanted, options, consider, progress)
    best = int(np.argmax(curve))
    return (found[best] if best else None), curve


class _Chooser:
    """Validation: which reranker, with which weight against BM25, has the best mean reciprocal rank."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        lexical = BM25()
        terms = lexical.fit(collection.documents)
        blocks = similarity_blocks(lexical.queries(collection.queries), terms, "dot")
        self.bm25 = np.concatenate([scores for _, scores in blocks])
        self.quality: list[float] = []
        self.found: list[tuple[LateInteraction, float]] = []

    def consider(self, model: LateInteraction) -> None:
        """Note a reranker's quality with its best weight."""
        system = Late(model)
        documents = system.fit(self.collection.documents)
        scores = [
            s for _, s in similarity_blocks(system.queries(self.collection.queries), documents, system.similarity)
        ]
        ranks = np.zeros((len(ALPHAS), len(self.bm25)))
        for query, (lexical, semantic) in enumerate(zip(self.bm25, np.concatenate(scores), strict=True)):
            relevant = [place for place, grade in self.collection.grades[query].items() if grade > 0]
            for row, alpha in enumerate(ALPHAS):
                mixed = hybrid_scores(lexical, semantic, alpha)
                ranks[row, query] = (mixed > mixed[relevant].max()).sum() + 1
        row = steady(np.where(ranks <= 10, 1 / ranks, 0))
        self.quality.append(float(np.where(ranks[row] <= 10, 1 / ranks[row], 0).mean()))
        self.found.append((model, ALPHAS[row]))


def steady(values: NDArray[np.float64]) -> int:
    """The row of ALPHAS to take by ``values`` (A, Q): of those no worse than the best by a standard error, the usual.

    The error is of the mean difference to the best; the usual weight is 0.7, and the row nearest to it is taken.
    """
    best = values[int(np.argmax(values.mean(axis=1)))]
    loss = best - values
    error = loss.std(axis=1) / np.sqrt(values.shape[1])
    near = np.flatnonzero(loss.mean(axis=1) <= error)
    return int(near[np.argmin(np.abs(np.array(ALPHAS)[near] - ALPHA))])


def judge(collection: Collection, before: LateInteraction, after: LateInteraction) -> dict[str, Any]:
    """The held-back queries' figures of BM25, the untrained and the trained reranker, alone and mixed with BM25."""
    mixed_before, lexical, alone_before = run_hybrid(Late(before), collection)
    mixed, _, alone = run_hybrid(Late(after), collection)
    runs = {
        "bm25": lexical,
        "untrained": alone_before,
        "trained": alone,
        "untrained + bm25": mixed_before,
        "trained + bm25": mixed,
    }
    others = ("bm25", "untrained + bm25")
    systems = {name: _measured(run) for name, run in runs.items()}
    return {
        "judges": len(collection.queries),
        "systems": systems,
        "p": {name: {key: mixed.against(runs[name], 0)[key] for key in MEASURES} for name in others},
    }


def _measured(run: Run) -> dict[str, float]:
    means = run.means()
    return {key: means[key] for key in MEASURES}


def _thinned(places: Positions, most: int) -> Positions:
    """At most so many of the places, evenly spread."""
    if len(places) <= most:
        return places
    chosen: Positions = places[np.linspace(0, len(places) - 1, most).round().astype(int)]
    return chosen
