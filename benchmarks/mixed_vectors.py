"""Compare packaged, adapted and mixed word vectors: ``python benchmarks/mixed_vectors.py [COLLECTION...]``.

Mixed vectors have a block of adapted dimensions and a block of packaged dimensions (``resift index --adapt``). The
cosine of two texts is the weighted mean of the cosines of both blocks. ``1/4``, ``1/2`` and ``3/4`` are weights of the
adapted block; Resift uses 1/2. All vectors have 256 dimensions.

Collections are folders for ``resift eval retrieval``, by default those of $RESIFT_DATA in TUNED_ON and HELD_OUT. Prints
nDCG@10 x 100 of BM25, of searches as served with each kind of vectors (the first hits of BM25, ranked by score ·
exp(similarity)) and, in brackets, of the vectors alone. Seed 0, at most 300 queries of a collection. If irrelevant
documents are judged too, documents without a judgement are omitted (condensed nDCG). The last lines show, for each
collection of TUNED_ON, the kind that has the highest mean on the other collections.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from resift import Model, load_model
from resift.arrays import Floats
from resift.vectors.weights import beta_from_alpha, discount_alpha
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import Collection, read_collection, with_queries
from resift_lab.evaluation.metrics import ndcg_at
from resift_lab.evaluation.served import SimulatedSearch
from resift_lab.training.contrastive import MIN_WORDS
from resift_lab.training.documents import Documents, sample_words
from resift_lab.training.options import AdaptOptions
from resift_lab.training.self_supervised import build_adapted_model, build_mixed_model, train_word_vectors

TUNED_ON = ("cranfield", "cisi", "medline", "vaswani", "mtrag-govt", "wiki-titles", "mtrag-clapnq", "squad-train-part")
HELD_OUT = ("cacm", "csfcube", "dl19-pool", "checkthat20")
WEIGHTS = {"1/4": 0.25, "1/2": 0.5, "3/4": 0.75}  # weights of the adapted block
KINDS = ("packaged", "adapted", *WEIGHTS)
QUERIES = 300
Values = dict[str, tuple[float, float]]  # nDCG as served and alone, by kind


def encoders(documents: list[str], packaged: Model) -> Iterator[tuple[str, Model, Floats]]:
    """Yield the name of each kind of vectors, its model, and a factor for each dimension of its vectors."""
    yield "packaged", packaged, np.ones(packaged.dim, np.float32)
    options = AdaptOptions(mixed=True)
    words = sample_words(documents, options.limit, options.seed)
    corpus = Documents([text for text in words if len(text) >= MIN_WORDS], options.min_count)
    rows, weights = train_word_vectors(corpus, packaged.table, options)
    adapted = build_adapted_model(corpus, rows, weights, packaged.table, options)
    yield "adapted", adapted, np.ones(adapted.dim, np.float32)
    mixed = build_mixed_model(corpus, rows, weights, packaged.table, options)
    for name, weight in WEIGHTS.items():
        yield name, mixed, np.repeat(np.sqrt([2 * weight, 2 - 2 * weight]), mixed.dim // 2).astype(np.float32)


def measure(collection: Collection) -> tuple[float, Values]:
    """Return nDCG@10 x 100 of BM25, and of each kind of vectors in a search as served and alone."""
    packaged, pooled = load_model(), any(grade <= 0 for grades in collection.grades for grade in grades.values())

    def ndcg(ranking: list[int], grades: dict[int, float]) -> float:
        rows = [row for row in ranking if row in grades or not pooled]
        return 100 * ndcg_at([grades.get(row, 0.0) for row in rows[:10]], list(grades.values()))

    nothing = np.zeros((len(collection.documents), 1), np.float32)
    search = ServedSearch(collection.documents, nothing, "cosine", lambda word: 1.0)
    hits = [search.hits(SimulatedSearch(query, nothing[0], 0.0, 0.0)) for query in collection.queries]
    lexical = [
        ndcg(ranking.positions.tolist(), grades) for ranking, grades in zip(hits, collection.grades, strict=True)
    ]
    values: Values = {}
    for name, model, factors in encoders(collection.documents, packaged):
        documents, served, alone = model.encode(collection.documents) * factors, list[float](), list[float]()
        for query, ranking, grades in zip(collection.queries, hits, collection.grades, strict=True):
            cosines = documents @ (model.encode_query(query) * factors)
            beta = beta_from_alpha(discount_alpha(model.alpha, model.known_share(query)))
            served.append(ndcg(ranking.reranked(np.exp(beta * cosines[ranking.window_positions])).tolist(), grades))
            alone.append(ndcg(np.argsort(-cosines, kind="stable").tolist(), grades))
        values[name] = float(np.mean(served)), float(np.mean(alone))
    return float(np.mean(lexical)), values


def cells(values: Values) -> str:
    """Return the values of all kinds as cells of a table."""
    return " | ".join(f"{values[kind][0]:.1f} ({values[kind][1]:.1f})" for kind in KINDS)


def main(folders: list[Path]) -> None:
    """Print the table of some collections, their means, and the best kinds when a collection is left out."""
    measured: dict[str, Values] = {}
    print(f"| | BM25 | {' | '.join(KINDS)} |\n|{'---|' * (2 + len(KINDS))}", flush=True)
    for folder in folders:
        collection = read_collection(folder)
        if len(collection.queries) > QUERIES:
            drawn = np.random.default_rng(0).permutation(len(collection.queries))[:QUERIES]
            collection = with_queries(collection, drawn.tolist())
        lexical, measured[folder.name] = measure(collection)
        print(f"| {folder.name} | {lexical:.1f} | {cells(measured[folder.name])} |", flush=True)
    tuned_on = [name for name in measured if name in TUNED_ON]
    for group, names in (("tuned on", tuned_on), ("held out", [name for name in measured if name not in TUNED_ON])):
        if names:
            means = {kind: np.mean([measured[name][kind] for name in names], axis=0).tolist() for kind in KINDS}
            print(f"| mean, {group} | | {cells(means)} |")
    for name in tuned_on:
        others = [other for other in tuned_on if other != name]
        print(f"without {name}: {max(KINDS, key=lambda kind: sum(measured[other][kind][0] for other in others))}")


if __name__ == "__main__":
    names = [Path(os.environ["RESIFT_DATA"]) / name for name in (*TUNED_ON, *HELD_OUT)]
    main([Path(argument) for argument in sys.argv[1:]] or names)
