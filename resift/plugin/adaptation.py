"""Access to the laboratory's training code, for commands that adapt or weigh word vectors.

The product does not import ``resift_lab``. The distribution registers ``resift_lab.adaptation`` under the entry point
group ``resift.adaptation``, and commands that need training load it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.contracts.tuning import Tuning
from resift.encoders.model import Model
from resift.errors import MissingExtra
from resift.ingest.readers import Files
from resift.vectors.table import WordVectors

GROUP = "resift.adaptation"


class Adaptation(Protocol):
    """The functions that an entry point of the group ``resift.adaptation`` provides."""

    def require_packages(self) -> None:
        """Raise MissingExtra if a package that adapting needs is not installed."""

    def adapt_if_better(
        self,
        texts: Sequence[str],
        vectors: WordVectors,
        progress: Callable[[int, int], None],
        remark: Callable[[str], None],
    ) -> Model | None:
        """Adapt ``vectors`` to ``texts``, and compare both on documents that were not used for the adaptation.

        Args:
            texts: Texts of the documents to learn from.
            vectors: Word vectors to start from.
            progress: Called with the number of finished steps and the total number of steps.
            remark: Called with messages for the user.

        Returns:
            The adapted model, or None if it ranks the test documents no better than ``vectors``.
        """

    def adapt_files(self, files: Files, fields: Sequence[str], out: str | Path) -> Model:
        """Adapt the packaged vectors to the documents in ``files``, and save the model in the folder ``out``."""

    def index_texts(self, engine: Engine, indices: Iterable[tuple[str, Sequence[str], int]]) -> list[str]:
        """Read texts to learn from.

        Args:
            engine: The search engine.
            indices: Name, text fields and number of documents of each index.
        """

    def weigh_index(self, engine: Engine, info: IndexInfo, model: Model) -> Tuning | None:
        """Choose the weight of the vectors of ``model`` in an index, and store the weight in the index.

        Returns:
            The stored settings, or None if the index has too few documents.
        """


@cache
def adaptation() -> Adaptation:
    """Return the installed adaptation code.

    Raises:
        MissingExtra: If no installed distribution provides the entry point ``resift.adaptation``.
    """
    for entry in entry_points(group=GROUP):
        loaded: Adaptation = entry.load()
        return loaded
    raise MissingExtra("Adapting word vectors needs the package resift_lab: pip install 'resift[lab]'")
