"""Means of the words' vectors, weighted by the words' ranks."""

from __future__ import annotations

from resift.encoders.model import Model
from resift.encoders.tables import replace_rows, weights_by_rank
from resift.vectors.table import WordVectors
from resift_lab.evaluation.system import Encoder


def mean_system(vectors: WordVectors, weighting: str) -> Encoder:
    """The mean of the words' vectors, brought to length 1, under another weighting than their own.

    ``weighting``: see :func:`resift.encoders.tables.weights_by_rank`; ``none`` is the plain mean, ``zipf`` how
    model2vec pools.
    """
    return Encoder(Model("mean", reweighted(vectors, weighting), "mean", "cosine").encode)


def reweighted(vectors: WordVectors, weighting: str) -> WordVectors:
    """The same words and rows, each word weighing by its rank."""
    return replace_rows(vectors, vectors.matrix, weights_by_rank(len(vectors), weighting), vectors.scales)
