"""Systems for evaluation that depend on training modules.

Callers pass :data:`LEARNERS` to :func:`resift_lab.evaluation.registry.build_system`.
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
from resift_lab.training.distill import load_sentence_transformer
from resift_lab.training.options import AdaptOptions
from resift_lab.training.progress import Progress
from resift_lab.training.self_supervised import adapt

# A context manager that shows a progress bar and returns the function to report progress with.
Bar = AbstractContextManager[Progress | None]


class Adapted:
    """A retrieval system whose word vectors are adapted to the documents, if this improves the ranking.

    Args:
        vectors: The word vectors to adapt.
        seed: The seed of the training.
        bar: A function without arguments that returns a context manager. The context manager shows a progress bar.

    Attributes:
        note: The reason why the vectors were not adapted, or an empty string if they were adapted.
    """

    similarity = "cosine"

    def __init__(self, vectors: WordVectors, seed: int, bar: Callable[[], Bar] = nullcontext) -> None:
        self.seed, self.note, self._bar = seed, "", bar
        self._model = build_model("mean", vectors)

    @property
    def table(self) -> WordVectors:
        """The word vectors: the original vectors before :meth:`fit`, and the adapted vectors afterwards.

        If adapting does not improve the ranking, the original vectors remain.
        """
        return self._model.table

    @property
    def alpha(self) -> float:
        """The weight of the vector similarity relative to BM25 in searches without feedback, 0 to 1."""
        return self._model.alpha

    @property
    def max_alpha(self) -> float:
        """The largest weight of the vector similarity relative to BM25, 0 to 1.

        The weight approaches this value as a user judges more documents.
        """
        return self._model.max_alpha

    def fit(self, documents: Sequence[str]) -> Floats:
        """Adapt the word vectors to the documents, and encode the documents.

        Args:
            documents: The texts of the N documents.

        Returns:
            Vectors of shape (N, K) for K dimensions.
        """
        try:
            with self._bar() as progress:
                model = adapt(documents, self.table, AdaptOptions(seed=self.seed), progress)
        except BadInput as error:
            # The system is evaluated as it would be used. If an adaptation is impossible, the original vectors are
            # used.
            self.note = error.message
        else:
            if model.table.info["adapted"]["better"]:
                self._model = model
            else:
                self.note = "the adapted vectors are no better than the original vectors"
        return self.queries(documents)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Encode queries with the adapted word vectors, or with the original vectors before :meth:`fit`.

        Args:
            texts: The n queries.

        Returns:
            Vectors of shape (n, K) for K dimensions.
        """
        return self._model.encode(texts)


def sentence_transformer(folder: str) -> Encoder:
    """Load a sentence-transformers model as a retrieval system. Its vectors have unit length.

    Args:
        folder: The local folder of the model.

    Raises:
        MissingExtra: If sentence-transformers is not installed.
        BadInput: If the folder contains no model.
    """
    model = load_sentence_transformer(folder)

    def encode(texts: Sequence[str]) -> Floats:
        vectors: Any = model.encode(list(texts), batch_size=32, convert_to_numpy=True, show_progress_bar=False)
        return unit_rows(vectors)

    return Encoder(encode)


def _adapted(source: Source, options: str) -> Adapted:
    return Adapted(source.table(), source.seed)


def _sentence_transformer(source: Source, options: str) -> Encoder:
    return sentence_transformer(options)


LEARNERS: dict[str, Learner] = {"adapted": _adapted, "st": _sentence_transformer}
