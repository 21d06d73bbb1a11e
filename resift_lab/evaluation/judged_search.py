"""Evaluate the searches of an index against judgements: ``resift_lab.evaluate``."""

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
from resift_lab.evaluation.significance import bootstrap_mean, require_scipy

DEPTH = 100
_QRELS = "query id → document id → a number, above 0 where it is relevant"
_IDS_PER_REQUEST = 1000  # document ids in one search


@dataclass(frozen=True)
class Evaluation:
    """Measures of how good the searches of an index are, computed with relevance judgements.

    Attributes:
        queries: Ids of the Q queries that have a relevant document, in the order of the judgements.
        values: For each measure, such as ``nDCG@10``, its value for each query, shape (Q,). The names are those of the
            package ir-measures.
        skipped: Number of judged queries that were not measured because they have no relevant document.
    """

    queries: list[str]
    values: dict[str, Numbers]
    skipped: int = 0

    def rows(self, seed: int = 0) -> list[dict[str, Any]]:
        """Return the mean of each measure over the queries, with a bootstrap 95 % confidence interval.

        Args:
            seed: Seed of the bootstrap.

        Returns:
            A dictionary for each measure, with the keys ``measure``, ``mean``, ``low`` and ``high``.
        """
        rows = []
        for name, values in self.values.items():
            low, high = bootstrap_mean(values, np.random.default_rng(seed))
            rows.append({"measure": name, "mean": float(values.mean()), "low": low, "high": high})
        return rows

    def to_pandas(self) -> Any:
        """Return the evaluation as a pandas data frame with a row for each measure.

        Returns:
            A data frame with the columns ``measure``, ``mean``, ``low`` and ``high`` (the limits of a 95 % interval).
        """
        return data_frame(self.rows())

    @property
    def caption(self) -> str:
        """A line of text with the numbers of measured and skipped queries."""
        return f"{len(self.queries)} queries" + (f", {self.skipped} without a relevant document" * bool(self.skipped))

    def __repr__(self) -> str:
        lines = [f"{row['measure']:8} {row['mean']:.3f}  {row['low']:.3f} to {row['high']:.3f}" for row in self.rows()]
        return "\n".join([self.caption, *lines])

    def _repr_html_(self) -> str:
        rows = [[row["measure"], *(f"{row[name]:.3f}" for name in ("mean", "low", "high"))] for row in self.rows()]
        return html_table(["measure", "mean", "low", "high"], rows, self.caption)


def evaluate(
    index: Any,
    queries: Mapping[str, Any],
    qrels: Mapping[str, Mapping[Any, float]],
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Evaluation:
    """Search an index for each judged query, and measure the quality of the first 100 hits.

    The measures are nDCG@10, RR@10, AP@100 and R@100. Documents without a grade count as irrelevant.

    Args:
        index: A :class:`resift.Index`, or a :class:`resift.Session`.
        queries: Maps the id of a query to a text, a clause or a search body.
        qrels: Maps the id of a query to the grades of documents, by their ids. Grades above 0 mean relevant.
        progress: A function that is called with the number of finished queries and the number of all queries. By
            default, tqdm shows the progress if it is installed.
        **options: Options of ``index.search``, such as ``alpha=0`` for BM25 alone.

    Returns:
        The values of each measure for each query.

    Raises:
        BadInput: If a judged query is missing, if no query has a relevant document, or if the index contains none of
            the relevant documents.
        MissingExtra: If SciPy is not installed.
    """
    require_scipy()
    judged = _with_relevant_documents(qrels)
    if not judged:
        raise BadInput("no query has a relevant document", expected=_QRELS)
    if missing := next((query for query in judged if query not in queries), None):
        raise BadInput(f"qrels has a query {missing!r}, queries has none", value=missing, expected="its text")
    _require_documents(index, [str(id) for grades in judged.values() for id, grade in grades.items() if grade > 0])
    measured = []
    with progress_bar("searching", progress) as report_progress:
        for query, grades in judged.items():
            hits = index.search(queries[query], **{"size": DEPTH, **options})
            measured.append(
                _measure_ranking([hit.id for hit in hits], {str(id): grade for id, grade in grades.items()})
            )
            report_progress(len(measured), len(judged))
    values = {name: np.array([row[name] for row in measured]) for name in measured[0]}
    return Evaluation(list(judged), values, len(qrels) - len(judged))


def _with_relevant_documents(qrels: Mapping[str, Mapping[Any, float]]) -> dict[str, Mapping[Any, float]]:
    """Return the queries that have at least one relevant document, with the grades of their documents.

    Args:
        qrels: The grades: ``qrels[query id][document id]``. A grade above 0 means relevant.

    Raises:
        BadInput: If ``qrels`` has another form.
    """
    try:
        return {query: grades for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
    except (AttributeError, TypeError) as error:
        raise BadInput(f"qrels holds no judgements: {error}", value=qrels, expected=_QRELS) from error


def _require_documents(index: Any, ids: list[str]) -> None:
    """Check that an index contains at least one of the relevant documents. Otherwise every measure would be 0.

    Args:
        index: An open index, or a session of an index.
        ids: The ids of the relevant documents.

    Raises:
        BadInput: If the index contains none of the documents, or ``index`` is not an object as described above, for
            example the name of an index.
    """
    searched = getattr(index, "index", index)  # a session has the attribute index
    if not hasattr(searched, "library"):
        raise BadInput(f"index is {index!r}", value=index, expected="resift.open(URL).index(NAME), or a session of it")
    engine, name = searched.library.engine, searched.name
    for some in batched(ids, _IDS_PER_REQUEST):
        if engine.search(name, {"query": {"ids": {"values": some}}, "size": 1, "_source": False, **PLAIN}).hits:
            return
    own = [hit["_id"] for hit in engine.sample(name, 1, False).hits]
    message = f"index {name!r} has none of the documents that were judged relevant, such as {ids[0]!r}"
    raise BadInput(message, value=ids[0], expected=f"its own ids, such as {own[0]!r}" if own else "documents in it")


def _measure_ranking(ids: list[str], grades: dict[str, float]) -> dict[str, float]:
    """Measure the quality of a query's ranking by the grades of its documents.

    Args:
        ids: Ids of the hits, best first.
        grades: Grades of the query's judged documents, by document id.

    Returns:
        The value of each measure, by name: nDCG@10, RR@10, AP@100 and R@100.
    """
    gains = np.array([grades.get(id, 0) for id in ids], np.float64)
    relevant, total = gains > 0, sum(grade > 0 for grade in grades.values())
    return {
        "nDCG@10": ndcg_at(gains, list(grades.values()), 10),
        "RR@10": reciprocal_rank(relevant, 10),
        "AP@100": average_precision(relevant[:DEPTH], total),
        "R@100": recall_at(relevant, total, DEPTH),
    }
