"""Systems to evaluate that need what trains.

:data:`LEARNERS` is what a caller hands to :func:`resift_lab.evaluation.registry.build_system`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from resift.arrays import Floats
from resift.encoders.builders import build_model
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.evaluation.registry import Learner, Source
from resift_lab.evaluation.system import Encoder
from resift_lab.training.distill import load
from resift_lab.training.options import AdaptOptions
from resift_lab.training.progress import Progress
from resift_lab.training.self_supervised import adapt

Bar = AbstractContextManager[Progress | None]


class Adapted:
    """Word vectors adapted to the documents, or as they were where that gains nothing; ``note`` then says why.

    ``bar`` opens what is told how many steps are done, and of how many.
    """

    similarity = "cosine"

    def __init__(self, vectors: WordVectors, seed: int, bar: Callable[[], Bar] = nullcontext) -> None:
        self.seed, self.note, self._bar = seed, "", bar
        self._model = build_model("mean", vectors)

    @property
    def table(self) -> WordVectors:
        """The word table, adapted after ``fit``."""
        return self._model.table

    @property
    def alpha(self) -> float:
        """The model's, see :class:`resift.encoders.model.Model`."""
        return self._model.alpha

    @property
    def max_alpha(self) -> float:
        """The model's, see :class:`resift.encoders.model.Model`."""
        return self._model.max_alpha

    def fit(self, documents: Sequence[str]) -> Floats:
        """Adapt to the documents, if they are enough; their vectors, (N, K)."""
        try:
            with self._bar() as progress:
                model = adapt(documents, self.table, AdaptOptions(seed=self.seed), progress)
        except BadInput as error:
            # a system is measured as it would be used: where nothing can be adapted, with the vectors as they are
            self.note = error.message
        else:
            if model.table.info["adapted"]["better"]:
                self._model = model
            else:
                self.note = "adapting made nothing better"
        return self.queries(documents)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Vectors of other texts, (n, K)."""
        return self._model.encode(texts)


def sentence_transformer(folder: str) -> Encoder:
    """A sentence-transformers model as a system, its vectors at length 1.

    Raises MissingExtra without sentence-transformers, BadInput where the folder holds no model.
    """
    model = load(folder)

    def encode(texts: Sequence[str]) -> Floats:
        vectors: Any = model.encode(list(texts), batch_size=32, convert_to_numpy=True, show_progress_bar=False)
        return unit_rows(vectors)

    return Encoder(encode)


def _adapted(source: Source, options: str) -> Adapted:
    return Adapted(source.table(), source.seed)


def _sentence_transformer(source: Source, options: str) -> Encoder:
    return sentence_transformer(options)


LEARNERS: dict[str, Learner] = {"adapted": _adapted, "st": _sentence_transformer}
