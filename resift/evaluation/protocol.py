"""Runs: a system over a test collection, one value a query and metric, and what they amount to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift.evaluation.baselines.lexical import Lexical
from resift.evaluation.data import Classes, Collection
from resift.evaluation.metrics import (
    Numbers,
    average_precision,
    bootstrap_mean,
    ndcg_at,
    paired_randomization,
    recall_at,
    reciprocal_rank,
    same_class_scores,
)
from resift.evaluation.pairwise import similarity_blocks
from resift.evaluation.systems import System
from resift.ranking.fusion import z_score

RECALLS = (1, 3, 5, 10, 100)
_GRADED = ("ndcg@10", "map", *(f"recall@{k}" for k in RECALLS), "mrr@10")
_WHOLE = 100_000
_CANDIDATES = 1000


@dataclass(frozen=True)
class Run:
    """``values``: metric → a value for each query, (Q,), NaN where it is not defined; ``facts``: what else to tell."""

    values: dict[str, Numbers]
    facts: dict[str, Any] = field(default_factory=dict)

    def means(self) -> dict[str, float]:
        """Metric → mean over the queries that have a value."""
        return {name: float(np.nanmean(values)) if len(values) else np.nan for name, values in self.values.items()}

    def intervals(self, seed: int) -> dict[str, tuple[float, float]]:
        """Metric → bootstrap 95 % interval of the mean over queries."""
        return {name: bootstrap_mean(values, np.random.default_rng(seed)) for name, values in self.values.items()}

    def against(self, other: Run, seed: int) -> dict[str, float]:
        """Metric → p of the paired randomisation test between this run and another over the same queries."""
        return {
            name: paired_randomization(values, other.values[name], np.random.default_rng(seed))
            for name, values in self.values.items()
        }


def run_classes(system: System, train: Classes, test: Classes) -> Run:
    """Same-class retrieval (Passalis and Tefas 2018, section 4.2): ``train`` is the database, ``test`` the queries.

    Test documents whose label no training document has are skipped and counted.
    """
    database = system.fit(train.texts)
    found = same_class_scores(system.queries(test.texts), database, test.labels, train.labels, system.similarity)
    skipped = int(np.isnan(found.map11).sum())
    if skipped == len(test.labels):
        raise BadInput(
            "no test document's label is in the training file",
            value=test.labels[0],
            expected=" | ".join(sorted(set(train.labels))[:20]),
        )
    values = {"map11": found.map11, **{f"p@{k}": values for k, values in found.precision.items()}}
    values |= {f"ip@{k}": values for k, values in found.interpolated.items()}
    return Run(
        values,
        {
            "dimensions": int(database.shape[1]),
            "documents": len(train.texts),
            "queries": len(test.texts) - skipped,
            "skipped": skipped,
            "classes": len(set(train.labels)),
            "precision_recall": [float(value) for value in np.nanmean(found.curve, axis=0)],
            "precision_scope": {
                str(k): float(v) for k, v in zip(found.scopes, np.nanmean(found.scope, axis=0), strict=True)
            },
        },
    )


def run_retrieval(system: System, collection: Collection) -> Run:
    """Rank all documents for each query by the system alone."""
    database = system.fit(collection.documents)
    asked, found = system.queries(collection.queries), _Rankings(collection)
    for rows, scores in similarity_blocks(asked, database, system.similarity):
        found.add(rows, scores)
    return Run(found.values(), {"dimensions": int(database.shape[1]), **_sizes(collection)})


def run_hybrid(system: System, collection: Collection, alpha: float | None = None) -> tuple[Run, Run, Run]:
    """Rank by (1 - alpha) · z(BM25) + alpha · z(similarity); that run, BM25's alone and the system's alone.

    ``alpha`` None is what the system says itself, or 0.3.

    Both are z-scored over a query's candidates: the whole collection or, above 100,000 documents, the best 1000 of
    either. A document without any of the query's terms has a BM25 score of 0.
    """
    alpha = getattr(system, "alpha", 0.3) if alpha is None else alpha
    if not 0 <= alpha <= 1:
        raise BadInput(f"alpha is {alpha}", value=alpha, expected="a number from 0 (BM25 only) to 1 (vectors only)")
    if isinstance(system, Lexical):
        raise BadInput("hybrid of BM25 with itself", value="bm25", expected="another encoder")
    lexical, sizes = Lexical(), _sizes(collection)
    terms, database = lexical.fit(collection.documents), system.fit(collection.documents)
    wanted, asked = lexical.queries(collection.queries), system.queries(collection.queries)
    mixed, first, second = (_Rankings(collection) for _ in range(3))
    for rows, semantic in similarity_blocks(asked, database, system.similarity):
        bm25 = np.concatenate([block for _, block in similarity_blocks(wanted[rows], terms, "dot")])
        mixed.add(rows, np.stack([hybrid_scores(*both, alpha) for both in zip(bm25, semantic, strict=True)]))
        first.add(rows, bm25)
        second.add(rows, semantic)
    return (
        Run(mixed.values(), {"dimensions": int(database.shape[1]), "alpha": alpha, **sizes}),
        Run(first.values(), {"dimensions": int(terms.shape[1]), **sizes}),
        Run(second.values(), {"dimensions": int(database.shape[1]), **sizes}),
    )


def hybrid_scores(lexical: NDArray[Any], semantic: NDArray[Any], alpha: float) -> NDArray[Any]:
    """One query's mixed scores (N,) of BM25's (N,) and the similarities (N,); -inf for documents not considered."""
    if len(lexical) <= _WHOLE:
        return (1 - alpha) * z_score(lexical) + alpha * z_score(semantic)
    best = [np.argpartition(-scores, _CANDIDATES)[:_CANDIDATES] for scores in (lexical, semantic)]
    kept = np.union1d(*best)
    scores = np.full(len(lexical), -np.inf, np.float32)
    scores[kept] = (1 - alpha) * z_score(lexical[kept]) + alpha * z_score(semantic[kept])
    return scores


def _sizes(collection: Collection) -> dict[str, int]:
    return {
        "documents": len(collection.documents),
        "queries": len(collection.queries),
        "skipped": collection.skipped,
    }


class _Rankings:
    """Metrics of each query, as blocks of scores come in."""

    def __init__(self, collection: Collection) -> None:
        self._grades = collection.grades
        self._table = np.zeros((len(self._grades), len(_GRADED)))

    def add(self, rows: slice, scores: NDArray[Any]) -> None:
        """``scores`` (B, N) of the queries ``rows``."""
        for query, line in zip(range(rows.start, rows.stop), scores, strict=True):
            self._table[query] = list(graded_metrics(line, self._grades[query]).values())

    def values(self) -> dict[str, Numbers]:
        """Metric → (Q,)."""
        return {name: self._table[:, column] for column, name in enumerate(_GRADED)}


def graded_metrics(scores: NDArray[Any], grades: Mapping[int, float]) -> dict[str, float]:
    """Figures of one ranking by ``scores`` (N,); ``grades``: document → grade, with a relevant one."""
    gains = np.zeros(len(scores))
    gains[list(grades)] = list(grades.values())
    gains = gains[np.argsort(-scores, kind="stable")]
    hits, total = gains > 0, sum(grade > 0 for grade in grades.values())
    found = [
        ndcg_at(gains, list(grades.values()), 10),
        average_precision(hits, total),
        *(recall_at(hits, total, k) for k in RECALLS),
        reciprocal_rank(hits, 10),
    ]
    return dict(zip(_GRADED, found, strict=True))
