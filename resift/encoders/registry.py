"""Encoders by their names (``BUILDERS``), and saved ones by their folders (``KINDS``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from resift.encoders.codebook import learn_codebook, membership
from resift.encoders.joint import JointModel
from resift.encoders.model import MODEL_FILE, Model
from resift.encoders.queries import StaticQueries
from resift.encoders.residual import Residual
from resift.encoders.universe import build_universe
from resift.errors import BadInput, CorruptModel
from resift.vectors.folder import read_folder, restoring
from resift.vectors.packaged import DEFAULT, load_vectors
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

KINDS: dict[str, type[Model]] = {kind.kind: kind for kind in (Model, Residual, StaticQueries)}
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
    return Model(name, vectors.replaced(memberships, info=info), "max", "jaccard")


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
    return Model(name, vectors.replaced(memberships, info=info), "mean", "cosine")


def _unknown(name: str, vectors: WordVectors) -> BadInput:
    expected = f"mean | sfbow[:U] | boew:K[,σ], K at most {len(vectors)}"
    return BadInput(f"unknown encoder {name!r}", value=name, expected=expected)


# by what stands before the colon: (name, what stands behind it, vectors, seed) → model
BUILDERS: dict[str, Callable[[str, str, WordVectors, int], Model]] = {"mean": _mean, "sfbow": _sfbow, "boew": _boew}


def load_model(name: str | Path = DEFAULT) -> Model:
    """A model by its folder, or the packaged one by its name, ``resift-en`` (its words' weighted mean).

    Raises ModelNotFound where there is none, CorruptModel where its content is not what was saved.
    """
    if str(name) == DEFAULT:
        model = build_model("mean", load_vectors(DEFAULT))
        model.name = DEFAULT
        return model
    info, words, arrays = read_folder(name, MODEL_FILE)
    with restoring(name):
        kind = info.get("kind", Model.kind)
        if kind not in KINDS:
            raise CorruptModel(f"{name} holds a model of kind {kind!r}", value=kind, expected=" | ".join(KINDS))
        table = WordVectors.restore(words, arrays, info["vectors"])
        return KINDS[kind].restore(info, table, arrays)


def load_queries(folder: str | Path) -> StaticQueries | None:
    """Static queries by their folder, None for "". Raises what :func:`load_model` raises, and BadInput for a model of
    another kind."""
    if not folder:
        return None
    model = load_model(folder)
    if not isinstance(model, StaticQueries):
        message = f"{folder} holds a model of kind {model.kind!r}"
        raise BadInput(message, value=str(folder), expected="static queries, of resift train queries")
    return model


def search_model(model: Model, queries: StaticQueries | None) -> Model:
    """What searches compare texts and documents by: the model, or both where there are static ``queries``.

    Raises BadInput if they cannot be joined.
    """
    return model if queries is None else JointModel(model, queries)
