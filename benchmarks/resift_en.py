"""Evaluate word vectors, by default the packaged vectors: ``RESIFT_DATA=DIR python benchmarks/resift_en.py [DIR ...]``.

$RESIFT_DATA contains ``sts<year>.tsv.gz`` (columns task, score, sentence1, sentence2) and BEIR collections. Each DIR is
a table that :meth:`resift.vectors.table.WordVectors.save` wrote, or the folder of a static model, which is converted
with all words of the evaluated texts. Values for STS are Spearman correlations x 100, averaged over the tasks of a year
with their numbers of pairs as weights ("all": over all years). Values for retrieval are nDCG@10 x 100 of all documents
ranked by the similarity.

``--retrieval`` prints the cosine of weighted means on all collections instead: alone, and as the factor
exp(beta * cosine) of BM25's scores. All rows have the same beta: the value of 1 and 2 with the largest mean over
all tables and the first four collections. The other collections have no part in this choice. The benchmark also prints
how many of the documents' words have no vector. The STS years are then 2012 to 2016.

The rows of the first table are ways to compare texts:

- "mean" is the cosine of weighted means of word vectors.
- "max" is SFBoW with the identity universe (Muffo et al. 2021). Each component of a text's vector is the maximum of
  its words' components, at least 0. Texts are compared by the fuzzy Jaccard similarity.
- "weighted" multiplies word vectors by their weights, "count" by the word's number of occurrences (equation 6).
- "both signs" concatenates word vectors with their negatives.
- "dynamax" is DynaMax of weighted word vectors, including words without a vector.
"""

import argparse
import gzip
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from resift.text import tokenize
from resift.vectors.table import WordVectors
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.baselines.dynamax import DynaMaxPairs
from resift_lab.evaluation.data import read_collection
from resift_lab.evaluation.metrics import ndcg_at
from resift_lab.vectors.model2vec import read_static

Floats = NDArray[Any]
YEARS, COLLECTIONS = ("2012", "2013", "2014"), ("cranfield", "cisi", "medline", "vaswani")
MORE_YEARS, MORE_COLLECTIONS = ("2015", "2016"), ("cacm", "dl19-pool", "csfcube")
BETAS = (1, 2)
WAYS = ("mean", "max", "max weighted", "max count", "max weighted count", "max weighted both signs")


def lines(path: Path) -> list[str]:
    """Return the lines of a gzip file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as handle:
        return [line.rstrip("\r\n") for line in handle]


def bags(vectors: WordVectors, texts: list[str]) -> Iterator[tuple[Floats, Floats]]:
    """Yield the row numbers of each text's distinct words, and their numbers of occurrences."""
    ids, offsets = vectors.ids(texts)
    for start, end in pairwise(offsets):
        yield np.unique(ids[start:end], return_counts=True)


def pool(vectors: WordVectors, way: str, texts: list[str]) -> Floats:
    """Return the vectors of texts (n, K) by one of WAYS."""
    rows = vectors.rows() * (1 if way in ("max", "max count") else vectors.weights[:, None])
    if way == "mean":
        sums = np.stack([counts @ rows[ids] for ids, counts in bags(vectors, texts)])
        return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12))
    rows = np.hstack([rows, -rows]) if "signs" in way else rows
    pooled = np.zeros((len(texts), rows.shape[1]), np.float32)
    for into, (ids, counts) in zip(pooled, bags(vectors, texts), strict=True):
        into[:] = (rows[ids] * (counts[:, None] if "count" in way else 1)).max(axis=0, initial=0)
    return pooled


def similarities(way: str, left: Floats, right: Floats) -> Floats:
    """Return the similarities of all rows of ``left`` with all rows of ``right``.

    The Jaccard similarity uses sum(min(a, b)) = (sum(a) + sum(b) - sum(|a - b|)) / 2.
    """
    if way == "mean":
        return np.asarray(left @ right.T)
    total, apart = left.sum(axis=1)[:, None] + right.sum(axis=1), cdist(left, right, "cityblock")
    return np.asarray((total - apart) / np.maximum(total + apart, 1e-12))


def jaccard(left: Floats, right: Floats) -> Floats:
    """Return the fuzzy Jaccard similarity of rows at the same position."""
    union = np.maximum(left, right).sum(axis=-1)
    return np.asarray(np.minimum(left, right).sum(axis=-1) / np.maximum(union, 1e-12))


def sts(path: Path, vectors: WordVectors, way: str) -> tuple[float, int]:
    """Return Spearman x 100 of a year, and its number of pairs."""
    tasks, gold, left, right = map(list, zip(*(line.split("\t") for line in lines(path)[1:]), strict=True))
    if way == "dynamax":
        scores = DynaMaxPairs(vectors).pair_similarities(left, right)
    else:
        a, b = pool(vectors, way, left), pool(vectors, way, right)
        scores = (a * b).sum(axis=1) if way == "mean" else jaccard(a, b)
    names, golds = np.array(tasks), np.array(gold, float)
    parts = [names == task for task in sorted(set(tasks))]
    rhos = [spearmanr(scores[part], golds[part])[0] for part in parts]
    return 100 * float(np.average(rhos, weights=[part.sum() for part in parts])), len(tasks)


def ndcg(folder: Path, vectors: WordVectors, way: str, k: int = 10) -> float:
    """Return the mean nDCG@k x 100 of a collection."""
    documents = [json.loads(line) for line in lines(folder / "corpus.jsonl.gz")]
    queries = [json.loads(line) for line in lines(folder / "queries.jsonl.gz")]
    grades: dict[str, dict[str, float]] = defaultdict(dict)
    for line in lines(folder / "qrels.tsv.gz")[1:]:
        query, document, grade = line.split("\t")
        grades[query][document] = float(grade)
    left = pool(vectors, way, [query["text"] for query in queries])
    right = pool(vectors, way, [f"{document['title']} {document['text']}" for document in documents])
    discount, values = 1 / np.log2(np.arange(k) + 2), []
    for query, scores in zip(queries, similarities(way, left, right), strict=True):
        judged = grades[query["_id"]]
        best = sorted(judged.values(), reverse=True)[:k]
        top = [judged.get(documents[i]["_id"], 0.0) for i in np.argsort(-scores, kind="stable")[:k]]
        values.append(np.dot(top, discount[: len(top)]) / np.dot(best, discount[: len(best)]))
    return 100 * float(np.mean(values))


class Ranker:
    """Ranks all documents of a collection by BM25, by a table of word vectors, and by both.

    Args:
        folder: The folder of the collection in BEIR's layout.
    """

    def __init__(self, folder: Path) -> None:
        self.collection = read_collection(folder)
        bm25 = BM25()
        documents = bm25.fit(self.collection.documents)
        self.lexical = np.asarray((bm25.encode_queries(self.collection.queries) @ documents.T).todense())

    def ndcg(self, scores: Floats) -> float:
        """Return the mean nDCG@10 x 100 of the scores of N documents for Q queries, shape (Q, N)."""
        values = []
        for row, grades in zip(scores, self.collection.grades, strict=True):
            best = np.argsort(-row, kind="stable")[:10].tolist()
            values.append(ndcg_at([grades.get(position, 0) for position in best], list(grades.values())))
        return 100 * float(np.mean(values))

    def ndcg_without_and_with_bm25(self, vectors: WordVectors) -> list[float]:
        """Return nDCG@10 x 100 of the vectors alone, and with BM25 for each of BETAS.

        The score of a document with BM25 is its BM25 score times exp(beta * cosine).
        """
        cosines = pool(vectors, "mean", self.collection.queries) @ pool(vectors, "mean", self.collection.documents).T
        return [self.ndcg(cosines), *(self.ndcg(self.lexical * np.exp(beta * cosines)) for beta in BETAS)]

    def unknown(self, vectors: WordVectors) -> float:
        """Return the percentage of the documents' words that have no vector."""
        documents = self.collection.documents
        return 100 - 100 * len(vectors.ids(documents)[0]) / sum(len(tokenize(text)) for text in documents)


def evaluated_texts(data: Path) -> Iterator[str]:
    """Yield the lines of all STS files, and the queries and documents of all collections."""
    for year in (*YEARS, *MORE_YEARS):
        yield from lines(data / f"sts{year}.tsv.gz")
    for name in (*COLLECTIONS, *MORE_COLLECTIONS):
        collection = read_collection(data / name)
        yield from chain(collection.queries, collection.documents)


def read_table(folder: str, data: Path) -> WordVectors:
    """Read a saved table, or convert the folder of a static model with all words of the evaluated texts."""
    if Path(folder, "vectors.json").is_file():
        return WordVectors.load(folder)
    return read_static(folder, dict.fromkeys(chain.from_iterable(map(tokenize, evaluated_texts(data)))))


def print_row(label: str, figures: list[float]) -> None:
    """Print a line of a table."""
    print(f"{label:24}", *(f"{figure:9.1f}" for figure in figures), flush=True)


def print_ways(data: Path, table: WordVectors) -> None:
    """Print STS and retrieval for each of WAYS."""
    print(f"{'':24}", *(f"{head:>9}" for head in (*YEARS, "all", *COLLECTIONS)))
    for way in (*WAYS, "dynamax"):
        years = [sts(data / f"sts{year}.tsv.gz", table, way) for year in YEARS]
        figures = [rho for rho, _ in years]
        figures.append(float(np.average(figures, weights=[pairs for _, pairs in years])))
        figures += [] if way == "dynamax" else [ndcg(data / c, table, way) for c in COLLECTIONS]
        print_row(way, figures)


def print_retrieval(data: Path, tables: dict[str, WordVectors]) -> None:
    """Print STS of all years, and retrieval alone and beside BM25 on all collections, for each table."""
    rankers = {name: Ranker(data / name) for name in (*COLLECTIONS, *MORE_COLLECTIONS)}
    print(f"{'':24}", *(f"{head:>9}" for head in (*YEARS, *MORE_YEARS, "mean")))
    for name, table in tables.items():
        years = [sts(data / f"sts{year}.tsv.gz", table, "mean")[0] for year in (*YEARS, *MORE_YEARS)]
        print_row(name, [*years, float(np.mean(years))])
    print(f"{'':24}", *(f"{head:>9}" for head in (*rankers, "mean")))
    lexical = [ranker.ndcg(ranker.lexical) for ranker in rankers.values()]
    print_row("BM25", [*lexical, float(np.mean(lexical))])
    # (tables, 1 + betas, collections)
    figures = np.array([[r.ndcg_without_and_with_bm25(t) for r in rankers.values()] for t in tables.values()])
    figures = figures.transpose(0, 2, 1)
    tuned_on = figures[:, 1:, : len(COLLECTIONS)].mean(axis=(0, 2))
    chosen = int(tuned_on.argmax())
    for name, table, (alone, *with_bm25) in zip(tables, tables.values(), figures, strict=True):
        for label, values in ((name, alone), (f"{name} with BM25", with_bm25[chosen])):
            print_row(label, [*values.tolist(), float(values.mean())])
        unknown = [ranker.unknown(table) for ranker in rankers.values()]
        print_row("words without a vector, %", [*unknown, float(np.mean(unknown))])
    means = ", ".join(f"{beta:g}: {mean:.2f}" for beta, mean in zip(BETAS, tuned_on, strict=True))
    print(
        f"beta {BETAS[chosen]:g}; means over the tables and the first {len(COLLECTIONS)} collections by beta: {means}"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=[str(Path(__file__).parents[1] / "resift/data/resift-en")])
    parser.add_argument("--retrieval", action="store_true")
    options = parser.parse_args()
    data = Path(os.environ["RESIFT_DATA"])
    tables = {Path(folder).resolve().name: read_table(folder, data) for folder in options.folders}
    for name, table in tables.items():
        print(f"{name}: {len(table)} words x {table.dim}, {table.matrix.dtype}")
        if not options.retrieval:
            print_ways(data, table)
    if options.retrieval:
        print_retrieval(data, tables)


if __name__ == "__main__":
    main()
