"""Evaluate English collections that were not used for tuning: ``python benchmarks/untuned.py COLLECTION...``.

Collections are folders of ``benchmarks/multilingual_texts.py --english``, or other folders for ``resift eval
retrieval``. Prints nDCG@10 x 100 of

- BM25,
- lexical search in Resift (``--alpha 0``),
- search with packaged vectors.

``benchmarks/mixed_vectors.py`` measures adapted vectors.
"""

import sys
from pathlib import Path

from multilingual import figure

from resift import Model, load_model
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import Collection, read_collection
from resift_lab.evaluation.protocol import run_hybrid
from resift_lab.evaluation.system import Encoder

HEADS = ("documents", "queries", "BM25", "lexical", "packaged")


def ndcg_with_vectors(collection: Collection, model: Model, alpha: float) -> tuple[float, float]:
    """Return nDCG@10 x 100 of searches with a model's vectors and the weight ``alpha``, and of BM25."""
    system = Encoder(model.encode, "cosine", model.table, alpha, max(alpha, model.max_alpha))
    mixed, lexical, _ = run_hybrid(system, collection, None, ServedSearch)
    return figure(mixed), figure(lexical)


def table_row(folder: Path) -> list[float]:
    """Return the numbers of a collection's documents and queries, and its nDCG@10 x 100, in the order of HEADS."""
    collection, packaged = read_collection(folder), load_model()
    text, lexical = ndcg_with_vectors(collection, packaged, 0.0)
    general = ndcg_with_vectors(collection, packaged, packaged.alpha)[0]
    counts = len(collection.documents), len(collection.queries)
    return [*counts, lexical, text, general]


if __name__ == "__main__":
    print(f"{'':12}", *(f"{head:>9}" for head in HEADS))
    for path in map(Path, sys.argv[1:]):
        print(f"{path.name:12}", *(f"{value:9.4g}" for value in table_row(path)), flush=True)
