"""Encoders by their names, and saved ones by their folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from resift.encoders.codebook import learn_codebook, membership
from resift.encoders.model import MODEL_FILE, Model
from resift.encoders.residual import Residual
from resift.encoders.universe import build_universe
from resift.errors import BadInput, CorruptModel
from resift.vectors.folder import read_folder
from resift.vectors.packaged import DEFAULT, load_vectors
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

KINDS: dict[str, type[Model]] = {kind.kind: kind for kind in (Model, Residual)}


def build_model(name: str, vectors: WordVectors, seed: int = 0) -> Model:
    """An untrained model by its name: ``mean``, ``sfbow``, ``sfbow:U``, ``boew:K`` or ``boew:K,σ`` (else σ is 0.25).

    U names a universe, see :func:`resift.encoders.universe.build_universe`.
    """
    kind, _, options = name.partition(":")
    if kind == "mean" and not options:
        return Model(name, vectors, "mean", "cosine")
    if kind == "sfbow":
        return Model(name, _memberships(vectors, options, seed) if options else vectors, "max", "jaccard")
    try:
        size, _, sigma = options.partition(",")
        codewords, width = int(size), float(sigma or 0.25)
        if kind != "boew" or not (1 <= codewords <= len(vectors) and 0 < width < np.inf):
            raise ValueError
    except ValueError:
        raise BadInput(
            f"unknown encoder {name!r}",
            value=name,
            expected=f"mean | sfbow[:U] | boew:K[,σ], K at most {len(vectors)}",
        ) from None
    codebook = learn_codebook(vectors, codewords, seed)
    table = WordVectors(vectors.words, membership(unit_rows(vectors.rows()), codebook, width), vectors.weights)
    table.info = {**vectors.info, "sigma": width, "seed": seed}
    return Model(name, table, "mean", "cosine")


def _memberships(vectors: WordVectors, universe: str, seed: int) -> WordVectors:
    rows = vectors.rows()
    table = rows @ build_universe(universe, rows, seed).T
    return WordVectors(vectors.words, table, vectors.weights, info={**vectors.info, "universe": universe, "seed": seed})


def load_model(name: str | Path = DEFAULT) -> Model:
    """A model by its folder, or the packaged one by its name, ``resift-en`` (its words' weighted mean).

    Raises ModelNotFound where there is none, CorruptModel where its content is not what was saved.
    """
    if str(name) == DEFAULT:
        model = build_model("mean", load_vectors(DEFAULT))
        model.name = DEFAULT
        return model
    info, words, arrays = read_folder(name, MODEL_FILE)
    table = WordVectors(words, arrays["vectors"], arrays["weights"], arrays.get("scales"), info["vectors"])
    kind = info.get("kind", Model.kind)
    if kind not in KINDS:
        raise CorruptModel(f"{name} holds a model of kind {kind!r}", value=kind, expected=" | ".join(KINDS))
    return KINDS[kind].restore(info, table, arrays)
