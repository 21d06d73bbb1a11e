"""English collections on which no vectors were tuned: ``python benchmarks/untuned.py COLLECTION...``.

They are folders of ``benchmarks/multilingual_texts.py --english``, or any others that ``resift eval retrieval`` reads.
nDCG@10 x 100 of BM25; of a search by the query's text without vectors (``--alpha 0``); with the packaged vectors; with
vectors adapted to the documents as ``resift index --adapt`` does it, three seeds and their standard deviation. "kept":
how many of the three held-back documents found better than the packaged vectors, which are used in place of the others.
"""

import sys
from pathlib import Path

import numpy as np
from multilingual import figure

from resift import Model, load_model
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import Collection, read_collection
from resift_lab.evaluation.protocol import run_hybrid
from resift_lab.evaluation.system import Encoder
from resift_lab.training.options import AdaptOptions
from resift_lab.training.self_supervised import adapt

SEEDS = range(3)
HEADS = ("documents", "queries", "BM25", "text", "packaged", "adapted", "±", "kept")


def served(collection: Collection, model: Model, alpha: float) -> tuple[float, float]:
    """With the vectors of a model and this weight, and BM25 alone."""
    system = Encoder(model.encode, "cosine", model.table, alpha, max(alpha, model.max_alpha))
    mixed, lexical, _ = run_hybrid(system, collection, None, ServedSearch)
    return figure(mixed), figure(lexical)


def figures(folder: Path) -> list[float]:
    """A collection's figures, in the order of HEADS."""
    collection, packaged = read_collection(folder), load_model()
    text, lexical = served(collection, packaged, 0.0)
    general = served(collection, packaged, packaged.alpha)[0]
    models = [adapt(collection.documents, packaged.table, AdaptOptions(seed=seed)) for seed in SEEDS]
    kept = [model for model in models if model.table.info["adapted"]["better"]]
    adapted = [served(collection, model, model.alpha)[0] for model in kept] + [general] * (len(models) - len(kept))
    counts = len(collection.documents), len(collection.queries)
    return [*counts, lexical, text, general, float(np.mean(adapted)), float(np.std(adapted)), len(kept)]


if __name__ == "__main__":
    print(f"{'':12}", *(f"{head:>9}" for head in HEADS))
    for path in map(Path, sys.argv[1:]):
        print(f"{path.name:12}", *(f"{one:9.4g}" for one in figures(path)), flush=True)
