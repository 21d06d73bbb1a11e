"""Load saved models from their folders."""

from __future__ import annotations

from pathlib import Path

from resift.encoders.bags import BagModel
from resift.encoders.class_model import ClassModel
from resift.encoders.model import MODEL_FILE, Model
from resift.encoders.queries import StaticQueries
from resift.encoders.residual import Residual
from resift.encoders.word2doc import Word2Doc
from resift.errors import CorruptModel
from resift.vectors.folder import corrupt_model_errors, read_folder
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors

KINDS: dict[str, type[Model]] = {
    kind.kind: kind for kind in (Model, Residual, StaticQueries, BagModel, Word2Doc, ClassModel)
}
"""Classes of models by the kind in a saved folder."""


def load_model(name: str | Path = DEFAULT_MODEL) -> Model:
    """Load an embedding model from a folder, or the English model that comes with Resift.

    Args:
        name: The path of a folder that :meth:`Model.save` wrote, or ``resift-en`` for the model that comes with Resift.
            This model encodes a text as the weighted mean of its word vectors.

    Raises:
        ModelNotFound: If the folder does not exist or contains no model.
        CorruptModel: If the files were changed after they were saved.
    """
    if str(name) == DEFAULT_MODEL:
        return Model(DEFAULT_MODEL, load_vectors(DEFAULT_MODEL), "mean", "cosine")
    info, words, arrays = read_folder(name, MODEL_FILE)
    with corrupt_model_errors(name):
        kind = info.get("kind", Model.kind)
        if kind not in KINDS:
            raise CorruptModel(f"{name} has a model of unknown kind {kind!r}", value=kind, expected=" | ".join(KINDS))
        return KINDS[kind].restore(info, words, arrays)
