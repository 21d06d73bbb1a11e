"""Measure word2doc on documents that its training did not see.

``python benchmarks/word2doc_unseen.py FOLDER`` trains word2doc on four fifths of the documents of ``FOLDER`` (a corpus
in BEIR's layout) and encodes all of them. The queries are held-out keywords of the last fifth, unchanged and with
typing errors. Documents are ranked by BM25 of the words as they are typed, and by BM25 times exp(beta · similarity),
where beta belongs to the alpha that the training chose. The table shows how often the document of the keyword is first,
and how often it is among the first ten.

The unseen documents get vectors in two ways:

- ``inferred``: by the linear map, as on an index.
- ``mean``: as the mean of the learned vectors of their ten nearest documents by the retriever.

``alone`` ranks by the similarity alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from resift.arrays import Floats
from resift.encoders.word2doc import CONTEXT, Word2Doc
from resift.ingest.readers import Files
from resift.vectors.packaged import load_vectors
from resift.vectors.similarity import unit_rows
from resift.vectors.weights import beta_from_alpha
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.training.options import Word2DocOptions
from resift_lab.training.word2doc import train
from resift_lab.training.word2doc_pairs import training_pairs
from resift_lab.training.word2doc_report import index_scores
from resift_lab.word2doc.documents import TitledTexts, titled_texts
from resift_lab.word2doc.keywords import NOISES, with_noise

UNSEEN = 5  # every fifth document is unseen


def part_of(documents: TitledTexts, rows: Sequence[int]) -> TitledTexts:
    """Return some of the documents."""
    return TitledTexts(
        *([column[row] for row in rows] for column in (documents.ids, documents.titles, documents.bodies))
    )


def mean_of_context(model: Word2Doc, texts: Sequence[str], vectors: Floats) -> Floats:
    """Return the mean vector of the documents that the retriever ranks first for each text.

    Args:
        model: The word2doc model.
        texts: The texts of n documents.
        vectors: The vectors of the model's N documents, shape (N, K).
    """
    rows = [vectors[model.retriever.best(text, CONTEXT)].sum(axis=0) for text in texts]
    return unit_rows(np.stack(rows))


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
    documents, table, options = titled_texts(Files((file,))), load_vectors(), Word2DocOptions()
    texts = [f"{title}\n{body}" for title, body in zip(documents.titles, documents.bodies, strict=True)]
    unseen = list(range(UNSEEN - 1, len(texts), UNSEEN))
    seen = [row for row in range(len(texts)) if row % UNSEEN != UNSEEN - 1]
    model, _ = train(part_of(documents, seen), table, options)
    held_out = training_pairs(documents.titles, documents.bodies, options.keywords, options.seed).judging
    keywords = {keyword: row for keyword, row in held_out.items() if row % UNSEEN == UNSEEN - 1}
    answers = list(keywords.values())
    bm25 = BM25()
    rows = bm25.fit(texts)
    vectors = {"inferred": model.encode(texts)}
    vectors["mean"] = vectors["inferred"].copy()
    vectors["mean"][unseen] = mean_of_context(model, [texts[row] for row in unseen], vectors["inferred"][seen])
    print(f"{len(seen)} documents in training, {len(unseen)} unseen, {len(answers)} keywords; alpha {model.alpha:g}")
    print(f"{'':16}{'BM25':>12}" + "".join(f"{name:>12}{'alone':>12}" for name in vectors))
    for kind in ("clean", *(noise for noise in NOISES if noise != "clean")):
        rng = np.random.default_rng(NOISES.index(kind))
        queries = [with_noise(keyword, kind, rng) for keyword in keywords]
        words = (bm25.queries(queries) @ rows.T).toarray()
        cells = [accuracies(words, answers)]
        encoded = np.stack([model.encode_query(query) for query in queries])
        for matrix in vectors.values():
            similarities = encoded @ matrix.T
            cells.append(accuracies(index_scores(words, similarities, beta_from_alpha(model.alpha)), answers))
            cells.append(accuracies(similarities, answers))
        print(f"{kind:16}" + "".join(f"{100 * first:6.1f}{100 * ten:6.1f}" for first, ten in cells), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
