"""Compare whole documents with passages: ``RESIFT_DATA=DIR python benchmarks/long_documents.py`` (half a minute).

Searches for articles of Wikipedia, which are assembled from the passages in mtrag-clapnq. An article is indexed as a
document, or as passages, of which the best passage determines the rank of the article. Prints nDCG@10 x 100, the share
of queries whose first article is relevant, and the number of hits among the first ten that repeat an article, for
lexical searches and for searches with the packaged vectors.

Then a relevant passage is marked, in the article with the most relevant passages. Prints how many of the article's
other relevant passages, and how many of all its passages, are among the first ten hits before and after the mark.
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
    """Yield the articles, assembled from passages in the order of their ids. The id of an article is its title."""
    ordered = sorted(rows, key=lambda row: [int(number) for number in re.findall(r"\d+", row["_id"])])
    for title in dict.fromkeys(row["title"] for row in rows):
        text = "\n".join(row["text"] for row in ordered if row["title"] == title)
        yield {"id": title, "title": title, "text": text}


def articles(index: Index, query: str, **options: Any) -> list[str]:
    """Return the articles of the first hits, best first, with repetitions."""
    return [hit.source["title"] for hit in index.search(query, PASSAGES, **options)]


def figures_of(hits: list[str], relevant: set[str]) -> tuple[float, bool, int]:
    """Return nDCG@10 of the articles, whether the first article is relevant, and how many of ten hits repeat one."""
    gains = np.array([title in relevant for title in dict.fromkeys(hits)], float)
    return ndcg_at(gains, [1.0] * len(relevant), 10), bool(gains[:1].any()), len(hits[:10]) - len(set(hits[:10]))


def marked(index: Index, query: str, relevant: Sequence[str], titles: Mapping[str, str]) -> list[float] | None:
    """Mark a relevant passage, and compare the first ten hits before and after.

    Returns:
        Share of the other relevant passages of the article among ten hits (before, after), and number of passages of
        the article (before, after). None if no article has several relevant passages.
    """
    title, count = Counter(titles[id] for id in relevant).most_common(1)[0]
    siblings = [id for id in relevant if titles[id] == title]
    if count < 2:
        return None
    session = index.session("marked")
    before = [hit.id for hit in session.search(query, PASSAGES)]
    mark = next((id for id in before if id in siblings), siblings[0])
    session.mark(relevant=[mark])
    after = [hit.id for hit in session.search(query, PASSAGES)]
    session.forget()
    pages = [[id for id in ids if id != mark][:10] for ids in (before, after)]
    shares = [sum(id in page for id in siblings if id != mark) / (count - 1) for page in pages]
    return [*shares, *(sum(titles[id] == title for id in page) for page in pages)]


def main() -> None:
    """Print the results for whole documents, for passages, and for a mark."""
    folder = Path(os.environ["RESIFT_DATA"]) / "mtrag-clapnq"
    collection, rows = read_collection(folder), [row for _, row in json_objects(folder / "corpus.jsonl.gz")]
    titles = {row["_id"]: row["title"] for row in rows}
    relevant = [
        {titles[collection.document_ids[place]] for place, grade in grades.items() if grade > 0}
        for grades in collection.grades
    ]
    with TemporaryDirectory() as temporary, resift.open(f"{temporary}/articles.db") as library:
        indices = {name: library.index(name, FIELDS) for name in ("whole", "passages")}
        indices["whole"].add(articles_of(rows))
        indices["passages"].add(rows)
        for name, index in indices.items():
            for kind, options in (("lexical", {"alpha": 0}), ("with vectors", {})):
                hits = [articles(index, query, **options) for query in collection.queries]
                figures = [figures_of(*pair) for pair in zip(hits, relevant, strict=True)]
                ndcg, first, again = np.mean(figures, axis=0)
                print(f"{name:9} {kind:12} nDCG@10 {100 * ndcg:.1f}  first {100 * first:.1f}  repeated {again:.1f}")
        ids = [
            [collection.document_ids[place] for place, grade in grades.items() if grade > 0]
            for grades in collection.grades
        ]
        changes = [marked(indices["passages"], *pair, titles) for pair in zip(collection.queries, ids, strict=True)]
        known = [row for row in changes if row is not None]
        share_before, share_after, hits_before, hits_after = np.mean(known, axis=0)
        print(f"{len(known)} questions, before -> after a mark: other relevant passages of the article among ten hits")
        shares = f"{100 * share_before:.1f} % -> {100 * share_after:.1f} %"
        print(f"{shares}, all passages of the article {hits_before:.1f} -> {hits_after:.1f}")


if __name__ == "__main__":
    main()
