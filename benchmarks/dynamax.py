"""Compare DynaMax with similarities of vectors in searches: ``RESIFT_DATA=… python benchmarks/dynamax.py [NAME ...]``.

Searches in the embedded engine rerank BM25's first 100 hits by score · exp(β · similarity), with β = α / (1 − α). No
documents are added by k-NN. The similarities use the packaged word vectors:

- ``cosine``: the cosine of weighted means of word vectors (``resift model mean``).
- ``fuzzy Jaccard``: the fuzzy Jaccard similarity of SFBoW vectors (``resift model sfbow``).
- ``DynaMax``: the words of the query and of the hit (``"method": "dynamax"``).

Prints nDCG@10 x 100 for each collection, and for each way the mean over the collections. A star marks a value that
differs from BM25 (paired randomisation test, p < 0.05).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import resift
from resift.encoders.builders import build_model
from resift.vectors.packaged import load_vectors
from resift_lab import evaluate
from resift_lab.evaluation.data import Collection, read_collection
from resift_lab.evaluation.metrics import Numbers
from resift_lab.evaluation.significance import paired_randomization

COLLECTIONS = ("cranfield", "cisi", "medline", "vaswani", "cacm", "dl19-pool")
ALPHAS = (0.5, 0.75)
WINDOW = 100
DYNAMAX = {"method": "dynamax"}
VECTORS = {"method": "vectors", "knn": 0}


def ways() -> list[tuple[str, str, dict[str, Any]]]:
    """Return the name of each way of ranking, the encoder of its index, and the options of its searches."""
    rows: list[tuple[str, str, dict[str, Any]]] = [("BM25", "mean", {**VECTORS, "alpha": 0})]
    for name, encoder, options in (
        ("cosine", "mean", VECTORS),
        ("fuzzy Jaccard", "sfbow", VECTORS),
        ("DynaMax", "mean", DYNAMAX),
    ):
        rows += [(f"{name}, α = {alpha:g}", encoder, {**options, "alpha": alpha}) for alpha in ALPHAS]
    return rows


def measure(collection: Collection, folder: Path) -> Iterator[tuple[str, Numbers]]:
    """Yield the name of each way of ranking, and its nDCG@10 for each query.

    Args:
        collection: The test collection.
        folder: A folder for the models and the databases.
    """
    queries = dict(zip(collection.query_ids, collection.queries, strict=True))
    qrels = {
        query: {collection.document_ids[row]: grade for row, grade in grades.items()}
        for query, grades in zip(collection.query_ids, collection.grades, strict=True)
    }
    documents = [
        {"id": id, "text": text} for id, text in zip(collection.document_ids, collection.documents, strict=True)
    ]
    for encoder in dict.fromkeys(encoder for _, encoder, _ in ways()):
        build_model(encoder, load_vectors()).save(folder / encoder)
        with resift.open(str(folder / f"{encoder}.db"), model=str(folder / encoder)) as library:
            index = library.index("documents", fields=["text"])
            index.add(documents)
            for name, own, options in ways():
                if own == encoder:
                    searched = evaluate(index, queries, qrels, window=WINDOW, **options)
                    yield name, searched.values["nDCG@10"]


def main(names: Sequence[str]) -> None:
    """Print the table."""
    values: dict[str, dict[str, Numbers]] = {name: {} for name, _, _ in ways()}
    for collection in names:
        with tempfile.TemporaryDirectory() as folder:
            for name, ndcg in measure(read_collection(Path(os.environ["RESIFT_DATA"], collection)), Path(folder)):
                values[name][collection] = ndcg
                print(f"{collection}: {name} {100 * ndcg.mean():.1f}", file=sys.stderr, flush=True)
    print(f"| | {' | '.join(names)} | mean |\n|{'---|' * (len(names) + 2)}")
    for name, by_collection in values.items():
        cells = []
        for collection, ndcg in by_collection.items():
            p = paired_randomization(ndcg, values["BM25"][collection], np.random.default_rng(0))
            cells.append(f"{100 * ndcg.mean():.1f}" + "*" * (p < 0.05))
        mean = 100 * np.mean([ndcg.mean() for ndcg in by_collection.values()])
        print(f"| {name} | {' | '.join(cells)} | {mean:.1f} |")


if __name__ == "__main__":
    main(sys.argv[1:] or COLLECTIONS)
