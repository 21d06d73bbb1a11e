"""What a query text finds in documents with a title and a text: ``RESIFT_DATA=DIR python benchmarks/text_fields.py``.

Prints nDCG@10 × 100 of a search by the queries' texts, without vectors, in an embedded engine: both fields joined to
one, then two fields, of which the best one counts and each other one by a part. The part that is served was chosen on
these collections.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from resift import load_model
from resift.evaluation.data import Collection, read_collection
from resift.evaluation.data.collection import corpus_file
from resift.evaluation.data.lines import json_objects
from resift.evaluation.protocol import graded_metrics
from resift.evaluation.served import RANKED, scores_of
from resift.plugin.documents import Document
from resift.plugin.rewriting import clauses
from resift.plugin.sqlite.engine import SqliteEngine

COLLECTIONS = ("cranfield", "cisi", "mtrag-govt")
PARTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0)
FIELDS = ("title", "text")


def main() -> None:
    """Print a line for each collection."""
    if "RESIFT_DATA" not in os.environ:
        sys.exit("RESIFT_DATA names the folder with the evaluation data")
    print(f"{'nDCG@10':12}{'joined':>8}" + "".join(f"{part:>8g}" for part in PARTS))
    for name in COLLECTIONS:
        folder = Path(os.environ["RESIFT_DATA"]) / name
        collection = read_collection(folder)
        records = [record for _, record in json_objects(corpus_file(folder))]
        rows = [{field: record.get(field) or "" for field in FIELDS} for record in records]
        joined = [{"text": " ".join(row.values())} for row in rows]
        figures = [figure(joined, ["text"], collection, 0.0)]
        figures += [figure(rows, FIELDS, collection, part) for part in PARTS]
        print(f"{name:12}" + "".join(f"{100 * one:>8.1f}" for one in figures), flush=True)


def figure(rows: Sequence[dict[str, Any]], fields: Sequence[str], collection: Collection, part: float) -> float:
    """Mean nDCG@10 of the collection's queries in an index of ``rows``, where other fields than the best count by
    ``part``."""
    engine = SqliteEngine(":memory:")
    model = load_model()
    engine.create("documents", list(fields), model)
    nothing = np.zeros(model.dim, np.float32)
    engine.bulk("documents", [Document(str(place), row, nothing) for place, row in enumerate(rows)])
    values = []
    with patch.object(clauses, "TIE_BREAKER", part):
        for query, grades in zip(collection.queries, collection.grades, strict=True):
            body = {"query": clauses.question_clause(query, fields), "size": RANKED, "_source": False}
            ranking = np.array([int(hit["_id"]) for hit in engine.search("documents", body).hits], np.int64)
            values.append(graded_metrics(scores_of(ranking, len(rows)), grades)["ndcg@10"])
    engine.close()
    return float(np.mean(values))


if __name__ == "__main__":
    main()
