"""Load the packaged word vectors, or word vectors from a folder."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from resift.vectors.table import WordVectors

DEFAULT_MODEL = "resift-en"
"""Name of the packaged English word vectors."""


def load_vectors(name: str | Path = DEFAULT_MODEL) -> WordVectors:
    """Load word vectors from a folder, or the English word vectors that come with Resift.

    Args:
        name: The path of a folder that :meth:`WordVectors.save` wrote, or ``resift-en`` for the vectors that come with
            Resift.

    Raises:
        ModelNotFound: If the folder does not exist or contains no word vectors.
        CorruptModel: If the files were changed after they were saved.
    """
    return WordVectors.load(str(files("resift") / "data" / DEFAULT_MODEL) if str(name) == DEFAULT_MODEL else name)
