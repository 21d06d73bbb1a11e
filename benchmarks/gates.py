"""Is what is served by default ever below the text alone? ``RESIFT_DATA=DIR python benchmarks/gates.py [NAME...]``.

$RESIFT_DATA holds collections in BEIR's layout. nDCG@10 x 100 by the query's text alone, with the packaged vectors,
with vectors adapted to the documents (seed 0; the gate's weight, or 0.5 if it refused them), and of those two the ones
that ``resift index --adapt`` serves; then what the gate says. Where irrelevant documents are judged too, rankings are
condensed (unjudged documents left out: Sakai 2007). Of more than 1000 queries so many are drawn by chance, seed 0.
"""

import os
import sys
from pathlib import Path

import numpy as np

from resift import Model, load_model
from resift.cli.lab.served_search import ServedSearch
from resift.encoders.model import ALPHA
from resift.lab.evaluation.data import Collection, read_collection, with_queries
from resift.lab.evaluation.metrics import ndcg_at
from resift.lab.evaluation.served import served_by
from resift.lab.evaluation.system import Encoder
from resift.lab.training.options import AdaptOptions
from resift.lab.training.self_supervised import adapt

COLLECTIONS = ("cranfield", "cisi", "medline", "vaswani", "chorus", "mtrag-clapnq", "mtrag-govt", "mtrag-fiqa")
COLLECTIONS += ("squad-train-part", "wiki-titles")
HEADS = ("text", "packaged", "adapted", "default", "gate")
QUERIES = 1000


def figure(collection: Collection, model: Model, alpha: float) -> float:
    """nDCG@10 x 100 as served with the vectors of a model and this weight."""
    system = Encoder(model.encode, "cosine", model.table, alpha, max(alpha, model.max_alpha))
    served = served_by(ServedSearch, system, collection.documents)
    pooled = any(grade <= 0 for grades in collection.grades for grade in grades.values())
    values = []
    for query, grades in zip(collection.queries, collection.grades, strict=True):
        ranking = [row for row in served(query).positions.tolist() if row in grades or not pooled]
        values.append(ndcg_at([grades.get(row, 0.0) for row in ranking], list(grades.values())))
    return 100 * float(np.mean(values))


def row(name: str) -> list[str]:
    """A collection's cells, in the order of HEADS."""
    collection, packaged = read_collection(Path(os.environ["RESIFT_DATA"]) / name), load_model()
    if len(collection.queries) > QUERIES:
        drawn = np.random.default_rng(0).permutation(len(collection.queries))[:QUERIES]
        collection = with_queries(collection, drawn.tolist())
    model = adapt(collection.documents, packaged.table, AdaptOptions())
    found = model.table.info["adapted"]
    text, general = figure(collection, packaged, 0.0), figure(collection, packaged, packaged.alpha)
    adapted = figure(collection, model, model.alpha or ALPHA)
    verdict = f"{'adapted' if found['better'] else 'packaged'}, alpha {found['alpha']:.2f}, p {found['p']:.4f}"
    return [*(f"{one:.1f}" for one in (text, general, adapted, adapted if found["better"] else general)), verdict]


if __name__ == "__main__":
    print(f"{'':18}", *(f"{head:>9}" for head in HEADS))
    for name in sys.argv[1:] or COLLECTIONS:
        print(f"{name:18}", *(f"{cell:>9}" for cell in row(name)), flush=True)
