"""Means of word vectors that are weighted by the frequency ranks of the words."""

from __future__ import annotations

from resift.encoders.model import Model
from resift.encoders.tables import replace_rows, weights_by_rank
from resift.vectors.table import WordVectors
from resift_lab.evaluation.system import Encoder


def mean_system(vectors: WordVectors, weighting: str) -> Encoder:
    """Return an encoder whose vector of a text is the weighted mean of its word vectors, scaled to unit length.

    Args:
        vectors: Word vectors, the most frequent words first. The weights that are stored with the vectors are ignored.
        weighting: Name of the weighting: ``none`` (all words have the same weight), ``zipf`` (the logarithm of the
            frequency rank, as in model2vec) or ``sif`` (smooth inverse frequency).
    """
    return Encoder(Model("mean", weight_by_rank(vectors, weighting), "mean", "cosine").encode)


def weight_by_rank(vectors: WordVectors, weighting: str) -> WordVectors:
    """Replace the weights of word vectors with weights that depend on the frequency rank of each word.

    Args:
        vectors: Word vectors, the most frequent words first.
        weighting: Name of the weighting: ``none`` (all words have the same weight), ``zipf`` (the logarithm of the
            frequency rank) or ``sif`` (smooth inverse frequency).

    Returns:
        A new table with the same vectors.
    """
    return replace_rows(vectors, vectors.matrix, weights_by_rank(len(vectors), weighting), vectors.scales)
