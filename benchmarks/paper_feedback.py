"""Rerun table 5 of Passalis and Tefas (2018): ``RESIFT_DATA=… python benchmarks/paper_feedback.py [20ng|r8|webkb …]``.

Documents are the train split, ranked by the cosine of untrained BoEW vectors (GloVe 50d; 16 codewords for WebKB, else
64). 100 random test documents are queries. At most five relevant and five irrelevant documents among the first 30 are
marked, and the whole train split is ranked again. Prints mAP and the interpolated precision at rank 10, x 100:

- ``initial``: the ranking without feedback.
- ``Rocchio``: query + 0.8 · mean of the relevant vectors, the weights of the paper.
- ``mask``: algorithm 2, with the settings of resift/feedback/mask.py. All vectors are multiplied by the mask.
- ``mask + Rocchio``: Rocchio's formula on the masked vectors.
- ``mask, best setting``: the mask with the best mAP of all SETTINGS. They are compared on the same queries, so this is
  an upper bound.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from papers import prepare_vectors

from resift.arrays import Floats
from resift.encoders.builders import build_model
from resift.feedback.mask import learn_mask
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.evaluation.data import read_classes
from resift_lab.evaluation.feedback.same_class import SameClass

QUERIES, MARKS, RELEVANT_WEIGHT = 100, 10, 0.8
CODEWORDS = {"20ng": 64, "r8": 64, "webkb": 16}
SETTINGS = tuple(product((0.005, 0.01, 0.05, 0.1), (20, 100), (0.01, 0.1)))  # fuzziness, steps and learning rate
PAPER = {  # mAP and top-10 precision
    "20ng": ((9.55, 14.35), (9.73, 16.43), (14.56, 34.75), (17.40, 43.28)),
    "r8": ((65.17, 85.01), (63.59, 86.93), (85.42, 96.12), (85.67, 97.09)),
    "webkb": ((35.11, 40.34), (35.34, 40.80), (46.16, 67.32), (47.08, 69.12)),
}
Vector = NDArray[Any]
Rank = Callable[[Floats, Floats, Floats, Floats], Vector]


def rocchio(query: Floats, documents: Floats, relevant: Floats, irrelevant: Floats) -> Vector:
    """Return the cosine of each document with the query that Rocchio's formula moves."""
    moved = query + RELEVANT_WEIGHT * relevant.mean(axis=0) if len(relevant) else query
    return np.asarray(unit_rows(documents) @ unit_rows(moved))


def masked(fuzziness: float = 0.1, steps: int = 20, rate: float = 0.01, moves: bool = False) -> Rank:
    """Return a function that ranks documents by masked vectors, optionally with Rocchio's formula."""

    def rank(query: Floats, documents: Floats, relevant: Floats, irrelevant: Floats) -> Vector:
        mask = learn_mask(relevant, irrelevant, fuzziness, steps, rate)
        return rocchio(query * mask, documents * mask, relevant * mask if moves else relevant[:0], irrelevant)

    return rank


def figures(
    protocol: SameClass, documents: Floats, queries: Floats, ranks: Sequence[Rank]
) -> Iterator[tuple[float, float]]:
    """Yield mAP and interpolated precision at rank 10 of the initial ranking and of each ranking after feedback."""
    chosen = np.random.default_rng(0).permutation(len(queries))[:QUERIES].tolist()
    values = np.zeros((1 + len(ranks), len(chosen), 2))
    for column, query in enumerate(chosen):
        first = documents @ queries[query]
        order = np.argsort(-first, kind="stable")
        judged = protocol.judgements(query, order, MARKS)
        sides = [unit_rows(documents[[row for row, grade in judged if grade == side]]) for side in (1.0, -1.0)]
        for row, scores in enumerate((first, *(rank(queries[query], documents, *sides) for rank in ranks))):
            measured = dict(zip(protocol.metrics, protocol.measure(query, scores, []), strict=True))
            values[row, column] = measured["map11"], measured["ip@10"]
    yield from (100 * values.mean(axis=1)).tolist()


def main(names: Sequence[str]) -> None:
    """Print the table of each corpus."""
    data = Path(os.environ["RESIFT_DATA"])
    prepare_vectors(data / "vectors" / "glove.6B.50d.npz", Path(".resift/papers/vectors/glove.6B.50d"))
    vectors = WordVectors.load(".resift/papers/vectors/glove.6B.50d")
    print("| | initial | Rocchio | mask | mask + Rocchio | mask, best setting |\n|---|---|---|---|---|---|")
    for name in names or list(CODEWORDS):
        train, test = (read_classes(data / f"{name}.{split}.jsonl.gz") for split in ("train", "test"))
        protocol = SameClass(train, test)
        model = build_model(f"boew:{CODEWORDS[name]}", vectors)
        ranks = [rocchio, masked(), masked(moves=True), *(masked(*setting) for setting in SETTINGS)]
        rows = list(figures(protocol, model.encode(train.texts), model.encode(protocol.queries), ranks))
        shown = [*zip(rows[:4], PAPER[name], strict=True)]
        texts = [f"{m:.1f} / {p:.1f} ({paper[0]:.1f} / {paper[1]:.1f})" for (m, p), paper in shown]
        texts.append("{:.1f} / {:.1f}".format(*max(rows[4:])))
        print(f"| {name} | {' | '.join(texts)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
