"""Untrained encoders by their names."""

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
    """An untrained model of word vectors by its name: ``mean``, ``sfbow``, ``sfbow:U``, ``boew:K`` or ``boew:K,σ``.

    U names a universe, see :func:`resift.encoders.universe.build_universe`; K is the number of codewords, σ their
    width (0.25). ``seed`` is for the clusters. Raises BadInput if the name is none of these, or K or σ does not fit.
    """
    kind, _, options = name.partition(":")
    if kind not in BUILDERS:
        raise _unknown(name, vectors)
    return BUILDERS[kind](name, options, vectors, seed)


def _mean(name: str, options: str, vectors: WordVectors, seed: int) -> Model:
    if options:
        raise _unknown(name, vectors)
    return Model(name, vectors, "mean", "cosine")


def _sfbow(name: str, options: str, vectors: WordVectors, seed: int) -> Model:
    """Static fuzzy bag of words (Muffo et al. 2021): memberships in a universe, the identity if none is named."""
    if not options:
        return Model(name, vectors, "max", "jaccard")
    rows = vectors.rows()
    info = {**vectors.info, "universe": options, "seed": seed}
    memberships = rows @ build_universe(options, rows, seed).T
    return Model(name, replace_rows(vectors, memberships, info=info), "max", "jaccard")


def _boew(name: str, options: str, vectors: WordVectors, seed: int) -> Model:
    """Bag of embedded words (Passalis and Tefas 2018): memberships in the codewords of a codebook."""
    try:
        size, _, width = options.partition(",")
        codewords, sigma = int(size), float(width or _DEFAULT_SIGMA)
    except ValueError:
        raise _unknown(name, vectors) from None
    if not (1 <= codewords <= len(vectors) and 0 < sigma < np.inf):
        raise _unknown(name, vectors)
    codebook = learn_codebook(vectors, codewords, seed)
    info = {**vectors.info, "sigma": sigma, "seed": seed}
    memberships = membership(unit_rows(vectors.rows()), codebook, sigma)
    return Model(name, replace_rows(vectors, memberships, info=info), "mean", "cosine")


def _unknown(name: str, vectors: WordVectors) -> BadInput:
    expected = f"mean | sfbow[:U] | boew:K[,σ], K at most {len(vectors)}"
    return BadInput(f"unknown encoder {name!r}", value=name, expected=expected)


# by what stands before the colon: (name, what stands behind it, vectors, seed) → model
BUILDERS: dict[str, Callable[[str, str, WordVectors, int], Model]] = {"mean": _mean, "sfbow": _sfbow, "boew": _boew}
