"""The packaged word vectors, and others by their folders."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from resift.vectors.table import WordVectors

DEFAULT_MODEL = "resift-en"


def load_vectors(name: str | Path = DEFAULT_MODEL) -> WordVectors:
    """Word vectors by their folder, or the packaged ones by their name, ``resift-en``.

    Raises ModelNotFound where there are none, CorruptModel where the folder's content is not what was saved.
    """
    return WordVectors.load(str(files("resift") / "data" / DEFAULT_MODEL) if str(name) == DEFAULT_MODEL else name)
