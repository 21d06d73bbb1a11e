"""Access to the training code of ``resift_lab``, for commands that adapt word vectors or choose their weight.

The package ``resift`` never imports ``resift_lab``. Instead, the distribution registers ``resift_lab.adaptation`` under
the entry point group ``resift.adaptation``, and commands that need training load it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from resift.contracts.engine import Engine
from resift.contracts.tuning import Tuning
from resift.encoders.model import Model
from resift.errors import MissingExtra
from resift.ingest.readers import Files
from resift.vectors.table import WordVectors

GROUP = "resift.adaptation"


class Adaptation(Protocol):
    """The training functions that Resift's commands need, but that another, optional package implements.

    The package registers an object with these methods under the entry point group ``resift.adaptation``.
    """

    def require_packages(self) -> None:
        """Raise MissingExtra if a package that training needs is not installed."""

    def adapt_if_better(
        self,
        texts: Sequence[str],
        vectors: WordVectors,
        progress: Callable[[int, int], None],
        remark: Callable[[str], None],
        small_dim: int | None = None,
    ) -> Model | None:
        """Adapt word vectors to some texts, and keep the result only if it ranks documents better.

        The original and the adapted vectors are compared on documents that were not used for the adaptation.

        Args:
            texts: The texts of the documents to learn from.
            vectors: The word vectors to start from.
            progress: A function that is called with the number of completed steps and the total number of steps.
            remark: A function that is called with messages for the user.
            small_dim: A number of dimensions smaller than that of ``vectors``, or None. The adapted vectors get this
                number of dimensions if they rank the documents as well as with all dimensions.

        Returns:
            The adapted model, or None if it is no better than ``vectors``.
        """

    def adapt_files(self, files: Files, fields: Sequence[str], out: str | Path) -> Model:
        """Adapt the packaged word vectors to documents, and save the new model in a folder.

        Args:
            files: The files that contain the documents.
            fields: The names of the text fields.
            out: The folder to save the model in.

        Returns:
            The new model.
        """

    def index_texts(self, engine: Engine, indices: Iterable[tuple[str, Sequence[str], int]]) -> list[str]:
        """Read the texts of documents from indices, to train a model on them.

        Args:
            engine: The search engine.
            indices: The name, the text fields and the number of documents of each index.

        Returns:
            The texts.
        """

    def weigh_index(self, engine: Engine, index: str, fields: Sequence[str], model: Model) -> Tuning | None:
        """Choose how much vector similarity should count in the searches of an index.

        Args:
            engine: The search engine.
            index: The name of the index, which need not contain vectors.
            fields: The text fields that the model encodes.
            model: The embedding model, whose vectors are weighed against BM25.

        Returns:
            Search settings with the chosen weight in ``alpha``, which is 0 if vectors do not improve the ranking. None
            if the index has too few documents for a choice.
        """


@cache
def adaptation() -> Adaptation:
    """Return the training functions of an optional package, which adapt word vectors to the documents of an index.

    An installed package, usually ``resift_lab``, provides these functions through the entry point
    ``resift.adaptation``.

    Raises:
        MissingExtra: If no installed package provides the entry point.
    """
    for entry in entry_points(group=GROUP):
        loaded: Adaptation = entry.load()
        return loaded
    raise MissingExtra("Adapting word vectors needs the package resift_lab: pip install 'resift[adapt]'")
