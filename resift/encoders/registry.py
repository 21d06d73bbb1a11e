"""Load saved models from their folders (``KINDS``)."""

from __future__ import annotations

from pathlib import Path

from resift.encoders.model import MODEL_FILE, Model
from resift.encoders.queries import StaticQueries
from resift.encoders.residual import Residual
from resift.errors import CorruptModel
from resift.vectors.folder import corrupt_model_errors, read_folder
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors
from resift.vectors.table import WordVectors

KINDS: dict[str, type[Model]] = {kind.kind: kind for kind in (Model, Residual, StaticQueries)}


def load_model(name: str | Path = DEFAULT_MODEL) -> Model:
    """A model by its folder, or the packaged one by its name, ``resift-en`` (its words' weighted mean).

    Raises ModelNotFound where there is none, CorruptModel where its content is not what was saved.
    """
    if str(name) == DEFAULT_MODEL:
        return Model(DEFAULT_MODEL, load_vectors(DEFAULT_MODEL), "mean", "cosine")
    info, words, arrays = read_folder(name, MODEL_FILE)
    with corrupt_model_errors(name):
        kind = info.get("kind", Model.kind)
        if kind not in KINDS:
            raise CorruptModel(f"{name} holds a model of kind {kind!r}", value=kind, expected=" | ".join(KINDS))
        table = WordVectors.restore(words, arrays, info["vectors"])
        return KINDS[kind].restore(info, table, arrays)
