"""Figures of word vectors, by default the packaged: ``RESIFT_DATA=DIR python benchmarks/resift_en.py [DIR]``.

$RESIFT_DATA holds ``sts<year>.tsv.gz`` (columns task, score, sentence1, sentence2) and BEIR collections.
STS: Spearman x 100, the mean of a year's tasks weighted by their pairs; "all" weights the years so too.
Retrieval: nDCG@10 x 100, all documents ranked by the similarity alone.
"mean" is the weighted mean and cosine. The rest are fuzzy Jaccard of each dimension's maximum over the words,
never below 0: SFBoW with the identity universe (Muffo et al. 2021). "weighted": of rows times their weights;
"count": times the word's count in the text (their eq. 6); "both signs": of rows beside their negatives;
"dynamax": the universe is the two texts' words (weighted rows), those without a row too.
"""

import gzip
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from resift.vectors.table import WordVectors
from resift_lab.evaluation.baselines.dynamax import DynaMax

Floats = NDArray[Any]
YEARS, COLLECTIONS = ("2012", "2013", "2014"), ("cranfield", "cisi", "medline", "vaswani")
WAYS = ("mean", "max", "max weighted", "max count", "max weighted count", "max weighted both signs")


def lines(path: Path) -> list[str]:
    """The lines of a gzip file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as handle:
        return [line.rstrip("\r\n") for line in handle]


def bags(vectors: WordVectors, texts: list[str]) -> Iterator[tuple[Floats, Floats]]:
    """The rows of each text's words, each once, and how often each occurs."""
    ids, offsets = vectors.ids(texts)
    for start, end in pairwise(offsets):
        yield np.unique(ids[start:end], return_counts=True)


def pool(vectors: WordVectors, way: str, texts: list[str]) -> Floats:
    """A row a text, by one of WAYS."""
    rows = vectors.rows() * (1 if way in ("max", "max count") else vectors.weights[:, None])
    if way == "mean":
        sums = np.stack([counts @ rows[ids] for ids, counts in bags(vectors, texts)])
        return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12))
    rows = np.hstack([rows, -rows]) if "signs" in way else rows
    pooled = np.zeros((len(texts), rows.shape[1]), np.float32)
    for into, (ids, counts) in zip(pooled, bags(vectors, texts), strict=True):
        into[:] = (rows[ids] * (counts[:, None] if "count" in way else 1)).max(axis=0, initial=0)
    return pooled


def similar(way: str, left: Floats, right: Floats) -> Floats:
    """Each row of ``left`` with each of ``right``; Jaccard by sum(min) = (sum a + sum b - |a - b|) / 2."""
    if way == "mean":
        return np.asarray(left @ right.T)
    total, apart = left.sum(axis=1)[:, None] + right.sum(axis=1), cdist(left, right, "cityblock")
    return np.asarray((total - apart) / np.maximum(total + apart, 1e-12))


def jaccard(left: Floats, right: Floats) -> Floats:
    """Fuzzy Jaccard of rows with rows."""
    union = np.maximum(left, right).sum(axis=-1)
    return np.asarray(np.minimum(left, right).sum(axis=-1) / np.maximum(union, 1e-12))


def sts(path: Path, vectors: WordVectors, way: str) -> tuple[float, int]:
    """Spearman x 100 of a year's pairs, and how many there are."""
    tasks, gold, left, right = map(list, zip(*(line.split("\t") for line in lines(path)[1:]), strict=True))
    if way == "dynamax":
        scores = DynaMax(vectors).pairs(left, right)
    else:
        a, b = pool(vectors, way, left), pool(vectors, way, right)
        scores = (a * b).sum(axis=1) if way == "mean" else jaccard(a, b)
    names, golds = np.array(tasks), np.array(gold, float)
    parts = [names == task for task in sorted(set(tasks))]
    rhos = [spearmanr(scores[part], golds[part])[0] for part in parts]
    return 100 * float(np.average(rhos, weights=[part.sum() for part in parts])), len(tasks)


def ndcg(folder: Path, vectors: WordVectors, way: str, k: int = 10) -> float:
    """nDCG@k x 100, the mean over a collection's queries."""
    documents = [json.loads(line) for line in lines(folder / "corpus.jsonl.gz")]
    queries = [json.loads(line) for line in lines(folder / "queries.jsonl.gz")]
    grades: dict[str, dict[str, float]] = defaultdict(dict)
    for line in lines(folder / "qrels.tsv.gz")[1:]:
        query, document, grade = line.split("\t")
        grades[query][document] = float(grade)
    left = pool(vectors, way, [query["text"] for query in queries])
    right = pool(vectors, way, [f"{document['title']} {document['text']}" for document in documents])
    discount, found = 1 / np.log2(np.arange(k) + 2), []
    for query, scores in zip(queries, similar(way, left, right), strict=True):
        judged = grades[query["_id"]]
        best = sorted(judged.values(), reverse=True)[:k]
        top = [judged.get(documents[i]["_id"], 0.0) for i in np.argsort(-scores, kind="stable")[:k]]
        found.append(np.dot(top, discount[: len(top)]) / np.dot(best, discount[: len(best)]))
    return 100 * float(np.mean(found))


if __name__ == "__main__":
    data = Path(os.environ["RESIFT_DATA"])
    for name in sys.argv[1:] or [str(Path(__file__).parents[1] / "resift/data/resift-en")]:
        table = WordVectors.load(name)
        print(f"{name}: {len(table)} words x {table.dim}, {table.matrix.dtype}")
        print(f"{'':24}", *(f"{head:>9}" for head in (*YEARS, "all", *COLLECTIONS)))
        for way in (*WAYS, "dynamax"):
            years = [sts(data / f"sts{year}.tsv.gz", table, way) for year in YEARS]
            figures = [rho for rho, _ in years]
            figures.append(float(np.average(figures, weights=[pairs for _, pairs in years])))
            figures += [] if way == "dynamax" else [ndcg(data / c, table, way) for c in COLLECTIONS]
            print(f"{way:24}", *(f"{figure:9.1f}" for figure in figures), flush=True)
