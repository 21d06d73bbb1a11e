"""An index's own searches against judgements: ``resift.evaluate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from resift.arrays import batched
from resift.errors import BadInput
from resift.notebook import Progress, data_frame, html_table, progress_bar
from resift.query.dsl import PLAIN
from resift_lab.evaluation.metrics import Numbers, average_precision, ndcg_at, recall_at, reciprocal_rank
from resift_lab.evaluation.significance import bootstrap_mean

DEPTH = 100
_QRELS = "query id → document id → a number, above 0 where it is relevant"
_ASKED = 1000  # ids that are looked for together


@dataclass(frozen=True)
class Evaluation:
    """How well searches find what was judged.

    Attributes:
        queries: ids of the queries that have a relevant document, in order.
        values: measure, by ir-measures' name, → a value for each of them, (Q,).
        skipped: queries without any relevant document.
    """

    queries: list[str]
    values: dict[str, Numbers]
    skipped: int = 0

    def rows(self, seed: int = 0) -> list[dict[str, Any]]:
        """Measure, mean over the queries, and the ends of the bootstrap 95 % interval of the mean."""
        found = []
        for name, values in self.values.items():
            low, high = bootstrap_mean(values, np.random.default_rng(seed))
            found.append({"measure": name, "mean": float(values.mean()), "low": low, "high": high})
        return found

    def to_pandas(self) -> Any:
        """A pandas frame with a row for each measure: ``measure``, ``mean``, ``low`` and ``high``."""
        return data_frame(self.rows())

    @property
    def caption(self) -> str:
        """How many queries were measured, and how many left out."""
        return f"{len(self.queries)} queries" + (f", {self.skipped} without a relevant document" * bool(self.skipped))

    def __repr__(self) -> str:
        lines = [f"{one['measure']:8} {one['mean']:.3f}  {one['low']:.3f} to {one['high']:.3f}" for one in self.rows()]
        return "\n".join([self.caption, *lines])

    def _repr_html_(self) -> str:
        rows = [[one["measure"], *(f"{one[name]:.3f}" for name in ("mean", "low", "high"))] for one in self.rows()]
        return html_table(["measure", "mean", "low", "high"], rows, self.caption)


def evaluate(
    index: Any,
    queries: Mapping[str, Any],
    qrels: Mapping[str, Mapping[Any, float]],
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Evaluation:
    """Search an index for each judged query, and measure the first 100 hits; documents without a grade count as 0.

    Args:
        index: what :meth:`resift.Library.index` gives, or a :class:`resift.Session`.
        queries: id → a text, a clause or a search body.
        qrels: id of a query → id of a document → its grade, relevant above 0, as ir-measures takes them.
        progress: is told how many queries are done, and of how many; by default tqdm shows it, where that is installed.
        options: of the search, such as ``alpha=0`` for the words alone.

    Raises BadInput if a judged query is missing, none has a relevant document or the index has none of these, and what
    the search raises.
    """
    judged = _judged(qrels)
    if not judged:
        raise BadInput("no query has a relevant document", expected=_QRELS)
    if missing := next((query for query in judged if query not in queries), None):
        raise BadInput(f"qrels has a query {missing!r}, queries has none", value=missing, expected="its text")
    _require_documents(index, [str(id) for grades in judged.values() for id, grade in grades.items() if grade > 0])
    measured = []
    with progress_bar("searching", progress) as told:
        for query, grades in judged.items():
            hits = index.search(queries[query], **{"size": DEPTH, **options})
            measured.append(_measures([hit.id for hit in hits], {str(id): grade for id, grade in grades.items()}))
            told(len(measured), len(judged))
    values = {name: np.array([one[name] for one in measured]) for name in measured[0]}
    return Evaluation(list(judged), values, len(qrels) - len(judged))


def _judged(qrels: Mapping[str, Mapping[Any, float]]) -> dict[str, Mapping[Any, float]]:
    """The grades of each query that has a relevant document."""
    try:
        return {query: grades for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
    except (AttributeError, TypeError) as error:
        raise BadInput(f"qrels holds no judgements: {error}", value=qrels, expected=_QRELS) from error


def _require_documents(index: Any, ids: list[str]) -> None:
    """Raise BadInput if an index has no document with any of the ``ids``: all figures would be 0."""
    asked = getattr(index, "index", index)  # of a session
    if not hasattr(asked, "library"):
        raise BadInput(f"index is {index!r}", value=index, expected="resift.open(URL).index(NAME), or a session of it")
    engine, name = asked.library.engine, asked.name
    for some in batched(ids, _ASKED):
        if engine.search(name, {"query": {"ids": {"values": some}}, "size": 1, "_source": False, **PLAIN}).hits:
            return
    own = [hit["_id"] for hit in engine.sample(name, 1, False).hits]
    message = f"index {name!r} has none of the documents that were judged relevant, such as {ids[0]!r}"
    raise BadInput(message, value=ids[0], expected=f"its own ids, such as {own[0]!r}" if own else "documents in it")


def _measures(found: list[str], grades: dict[str, float]) -> dict[str, float]:
    """What one ranking of ids is worth by a query's grades."""
    gains = np.array([grades.get(id, 0) for id in found], np.float64)
    relevant, total = gains > 0, sum(grade > 0 for grade in grades.values())
    return {
        "nDCG@10": ndcg_at(gains, list(grades.values()), 10),
        "RR@10": reciprocal_rank(relevant, 10),
        "AP@100": average_precision(relevant[:DEPTH], total),
        "R@100": recall_at(relevant, total, DEPTH),
    }
