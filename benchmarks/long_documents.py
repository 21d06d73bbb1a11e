"""Whole documents or passages of them: ``RESIFT_DATA=DIR python benchmarks/long_documents.py`` (half a minute).

Articles of Wikipedia, put together of the passages in mtrag-clapnq, are what is looked for: each as one document, and
as passages of which the best one stands for its article. Prints nDCG@10 × 100 and how often the first article is
right, with words alone and with the packaged vectors, and how many of the first ten passages share an article. Then
what one mark does: a passage is marked of the article that has most relevant ones, and the others of these are looked
for among the first ten, before and after, as are all passages of that article.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import resift
from resift.library import Index
from resift_lab.evaluation.data.collection import read_collection
from resift_lab.evaluation.data.lines import json_objects
from resift_lab.evaluation.metrics import ndcg_at

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


def marked(index: Index, query: str, relevant: Sequence[str], titles: Mapping[str, str]) -> list[float] | None:
    """The part of the other ``relevant`` passages of an article among ten hits, and how many hits are of that article:
    before and after one is marked; None where no article has several relevant ones."""
    title, count = Counter(titles[id] for id in relevant).most_common(1)[0]
    siblings = [id for id in relevant if titles[id] == title]
    if count < 2:
        return None
    session = index.session("marked")
    before = [hit.id for hit in session.search(query, PASSAGES)]
    one = next((id for id in before if id in siblings), siblings[0])
    session.mark(relevant=[one])
    after = [hit.id for hit in session.search(query, PASSAGES)]
    session.forget()
    pages = [[id for id in ids if id != one][:10] for ids in (before, after)]
    others = [sum(id in page for id in siblings if id != one) / (count - 1) for page in pages]
    return [*others, *(sum(titles[id] == title for id in page) for page in pages)]


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
        ids = [
            [collection.document_ids[place] for place, grade in grades.items() if grade > 0]
            for grades in collection.grades
        ]
        changes = [marked(indices["passages"], *one, titles) for one in zip(collection.queries, ids, strict=True)]
        known = [row for row in changes if row is not None]
        others, more, hits_before, hits_after = np.mean(known, axis=0)
        print(f"of {len(known)} questions, after a mark: other relevant passages of the article among ten hits")
        print(f"{100 * others:.1f} % -> {100 * more:.1f} %, passages of it {hits_before:.1f} -> {hits_after:.1f}")


if __name__ == "__main__":
    main()
