"""Build untrained encoders from word vectors, by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from resift.encoders.codebook import learn_codebook, membership
from resift.encoders.model import Model
from resift.encoders.tables import replace_rows
from resift.encoders.universe import build_universe
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

_DEFAULT_SIGMA = 0.25


def build_model(name: str, vectors: WordVectors, seed: int = 0) -> Model:
    """Build an untrained embedding model from word vectors.

    Args:
        name: The name of the model:

            - ``mean``: a text's vector is the weighted mean of its word vectors.
            - ``sfbow`` or ``sfbow:U``: a static fuzzy bag of words. U names the set of vectors with which words are
              compared (:func:`resift.encoders.universe.build_universe`), by default ``identity``.
            - ``boew:K`` or ``boew:K,σ``: a bag of embedded words, with K codewords of width σ. The default width is
              0.25.
        vectors: The word vectors on which the model is based.
        seed: The seed of the clustering.

    Raises:
        BadInput: If the name is unknown, or K or σ is out of range.
    """
    kind, _, options = name.partition(":")
    if kind not in BUILDERS:
        raise _unknown_name(name, vectors)
    return BUILDERS[kind](name, options, vectors, seed)


def _build_mean(name: str, options: str, vectors: WordVectors, seed: int) -> Model:
    """Build a model that encodes a text as the weighted mean of its word vectors. It has no ``options``."""
    if options:
        raise _unknown_name(name, vectors)
    return Model(name, vectors, "mean", "cosine")


def _build_sfbow(name: str, options: str, vectors: WordVectors, seed: int) -> Model:
    """Build a model that encodes texts as static fuzzy bags of words.

    A word belongs to each vector of a "universe" to a certain degree, its membership. The vector of a text contains,
    for each universe vector, the largest membership of the text's words. See Muffo et al. 2021, section 3.

    Args:
        name: The name of the model, such as ``sfbow:pca100``.
        options: The name of the universe, which is the part of ``name`` after the colon. If it is empty, the word
            vectors themselves are the memberships.
        vectors: The word vectors on which the model is based.
        seed: The seed of the clustering.
    """
    if not options:
        return Model(name, vectors, "max", "jaccard")
    rows = vectors.rows()
    info = {**vectors.info, "universe": options, "seed": seed}
    memberships = rows @ build_universe(options, rows, seed).T
    return Model(name, replace_rows(vectors, memberships, info=info), "max", "jaccard")


def _build_boew(name: str, options: str, vectors: WordVectors, seed: int) -> Model:
    """Build a model that encodes texts as bags of embedded words.

    Each word belongs to each codeword (cluster centroid) to a certain degree, its membership. The vector of a text is
    the mean of the memberships of its words. See Passalis and Tefas 2018, section 3.1.

    Args:
        name: The name of the model, such as ``boew:64,0.5``.
        options: The part of ``name`` after the colon: the number of codewords and optionally their width.
        vectors: The word vectors on which the model is based.
        seed: The seed of the clustering.

    Raises:
        BadInput: If the number of codewords or the width is invalid.
    """
    try:
        size, _, width = options.partition(",")
        codewords, sigma = int(size), float(width or _DEFAULT_SIGMA)
    except ValueError:
        raise _unknown_name(name, vectors) from None
    if not (1 <= codewords <= len(vectors) and 0 < sigma < np.inf):
        raise _unknown_name(name, vectors)
    codebook = learn_codebook(vectors, codewords, seed)
    info = {**vectors.info, "sigma": sigma, "seed": seed}
    memberships = membership(unit_rows(vectors.rows()), codebook, sigma)
    return Model(name, replace_rows(vectors, memberships, info=info), "mean", "cosine")


def _unknown_name(name: str, vectors: WordVectors) -> BadInput:
    expected = f"mean | sfbow[:U] | boew:K[,σ], K at most {len(vectors)}"
    return BadInput(f"unknown encoder {name!r}", value=name, expected=expected)


BUILDERS: dict[str, Callable[[str, str, WordVectors, int], Model]] = {
    "mean": _build_mean,
    "sfbow": _build_sfbow,
    "boew": _build_boew,
}
"""Functions that build a model from its name, the text after the colon, word vectors and a seed."""
