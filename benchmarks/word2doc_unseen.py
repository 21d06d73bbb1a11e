"""Measure searches with word2doc in an index with documents that its training did not see.

``python benchmarks/word2doc_unseen.py FOLDER`` trains word2doc on four fifths of the documents of ``FOLDER`` (a corpus
in BEIR's layout), and encodes all of them. Unseen documents have zero vectors. The queries are held-out keywords,
unchanged and with typing errors. Documents are ranked by BM25 of the words as they are typed, and by BM25 times
exp(beta · similarity), where beta belongs to the alpha that the training chose. The table shows, for keywords of seen
and of unseen documents, how often the document of the keyword is first, and how often it is among the first ten.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from resift.arrays import Floats
from resift.ingest.readers import Files
from resift.vectors.packaged import load_vectors
from resift.vectors.weights import beta_from_alpha
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.training.options import Word2DocOptions
from resift_lab.training.word2doc import train_word2doc
from resift_lab.training.word2doc_pairs import training_pairs
from resift_lab.training.word2doc_report import index_scores
from resift_lab.word2doc.documents import TitledTexts, read_titled_texts
from resift_lab.word2doc.keywords import NOISES, with_typing_error

UNSEEN = 5  # every fifth document is unseen
ERRORS = {
    "clean": "none",
    "typo": "typing errors",
    "word left out": "an omitted word",
    "joined": "two joined words",
    "ending": "other endings",
}


def part_of(documents: TitledTexts, rows: Sequence[int]) -> TitledTexts:
    """Return some of the documents."""
    return TitledTexts(
        *([column[row] for row in rows] for column in (documents.ids, documents.titles, documents.bodies))
    )


def accuracies(scores: Floats, answers: Sequence[int]) -> tuple[float, float]:
    """Return the shares of n queries whose document is first, and among the first ten. Equal scores share their rank.

    Args:
        scores: The scores of the documents, shape (n, N).
        answers: The position of the right document of each query.
    """
    own = scores[np.arange(len(scores)), answers][:, None]
    ranks = (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1)
    return float((ranks < 1).mean()), float((ranks < 10).mean())


def main(folder: str) -> None:
    """Train, encode and print the table."""
    file = str(next(Path(folder).glob("corpus.jsonl*")))
    documents, table, options = read_titled_texts(Files((file,))), load_vectors(), Word2DocOptions()
    texts = [f"{title}\n{body}" for title, body in zip(documents.titles, documents.bodies, strict=True)]
    unseen = list(range(UNSEEN - 1, len(texts), UNSEEN))
    seen = [row for row in range(len(texts)) if row % UNSEEN != UNSEEN - 1]
    model, _ = train_word2doc(part_of(documents, seen), table, options)
    bm25 = BM25()
    rows = bm25.fit(texts)
    vectors = model.encode(texts)
    held_out = {keyword: seen[row] for keyword, row in model.info["held_out"].items()}
    of_all = training_pairs(documents.titles, documents.bodies, options.keywords, options.seed).test_keywords
    groups = {"seen": held_out, "unseen": {keyword: row for keyword, row in of_all.items() if row in set(unseen)}}
    print(f"{len(seen)} documents in training, {len(unseen)} unseen; alpha {model.alpha:g}")
    print(
        "| keywords of | errors | BM25 @1 | BM25 @10 | with vectors @1 | with vectors @10 |\n|---|---|---|---|---|---|"
    )
    for group, keywords in groups.items():
        answers = list(keywords.values())
        for kind in ERRORS:
            rng = np.random.default_rng(NOISES.index(kind))
            queries = [with_typing_error(keyword, kind, rng) for keyword in keywords]
            words = (bm25.encode_queries(queries) @ rows.T).toarray()
            similarities = np.stack([model.encode_query(query) for query in queries]) @ vectors.T
            scores = index_scores(words, similarities, beta_from_alpha(model.alpha))
            cells = (accuracies(words, answers), accuracies(scores, answers))
            shown = " | ".join(f"{100 * share:.1f}" for shares in cells for share in shares)
            print(f"| {group} articles | {ERRORS[kind]} | {shown} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
