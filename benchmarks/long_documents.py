"""Whole documents or passages of them: ``RESIFT_DATA=DIR python benchmarks/long_documents.py`` (half a minute).

Articles of Wikipedia, put together of the passages in mtrag-clapnq, are what is looked for: each as one document, and
as passages of which the best one stands for its article. Prints nDCG@10 × 100 and how often the first article is
right, with words alone and with the packaged vectors, and how many of the first ten passages share an article.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import resift
from resift.evaluation.data.collection import read_collection
from resift.evaluation.data.lines import json_objects
from resift.evaluation.metrics import ndcg_at
from resift.library import Index

FIELDS, PASSAGES = ("title", "text"), 50


def articles_of(rows: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """Each article, by its title as its id, of its passages in their order, which their ids tell."""
    ordered = sorted(rows, key=lambda row: [int(number) for number in re.findall(r"\d+", row["_id"])])
    for title in dict.fromkeys(row["title"] for row in rows):
        text = "\n".join(row["text"] for row in ordered if row["title"] == title)
        yield {"id": title, "title": title, "text": text}


def found(index: Index, query: str, **options: Any) -> list[str]:
    """The articles of the best hits, best first, with repetitions."""
    return [hit.source["title"] for hit in index.search(query, PASSAGES, **options)]


def figures_of(hits: list[str], relevant: set[str]) -> tuple[float, bool, int]:
    """Of one query nDCG@10 of the articles, whether the first is right, and how many of ten hits are no new article."""
    gains = np.array([title in relevant for title in dict.fromkeys(hits)], float)
    return ndcg_at(gains, [1.0] * len(relevant), 10), bool(gains[:1].any()), len(hits[:10]) - len(set(hits[:10]))


def main() -> None:
    """Print a line for each way."""
    folder = Path(os.environ["RESIFT_DATA"]) / "mtrag-clapnq"
    collection, rows = read_collection(folder), [row for _, row in json_objects(folder / "corpus.jsonl.gz")]
    titles = {row["_id"]: row["title"] for row in rows}
    relevant = [
        {titles[collection.document_ids[place]] for place, grade in grades.items() if grade > 0}
        for grades in collection.grades
    ]
    with TemporaryDirectory() as kept, resift.open(f"{kept}/articles.db") as library:
        indices = {name: library.index(name, FIELDS) for name in ("whole", "passages")}
        indices["whole"].add(articles_of(rows))
        indices["passages"].add(rows)
        for name, index in indices.items():
            for means, options in (("words", {"alpha": 0}), ("vectors too", {})):
                hits = [found(index, query, **options) for query in collection.queries]
                figures = [figures_of(*one) for one in zip(hits, relevant, strict=True)]
                ndcg, first, again = np.mean(figures, axis=0)
                print(f"{name:9} {means:12} nDCG@10 {100 * ndcg:.1f}  first {100 * first:.1f}  again {again:.1f}")


if __name__ == "__main__":
    main()
