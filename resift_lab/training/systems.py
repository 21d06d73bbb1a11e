"""Systems for evaluation that depend on training modules.

Callers pass the result of :func:`system_builders` to :func:`resift_lab.evaluation.registry.build_system`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from resift.arrays import Floats
from resift.encoders.builders import build_model
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.evaluation.registry import SystemBuilder
from resift_lab.evaluation.system import Encoder
from resift_lab.training.device import Device
from resift_lab.training.options import AdaptOptions
from resift_lab.training.progress import Progress
from resift_lab.training.self_supervised import adapt
from resift_lab.training.transformer import Transformer

# A context manager that shows a progress bar and returns the function to report progress with.
Bar = AbstractContextManager[Progress | None]


class AdaptedSystem:
    """A retrieval system whose word vectors are adapted to the documents, if this improves the ranking.

    Args:
        vectors: The word vectors to adapt.
        options: The settings of the adaptation.
        bar: A function without arguments that returns a context manager. The context manager shows a progress bar.

    Attributes:
        note: The reason why the vectors were not adapted, or an empty string if they were adapted.
    """

    similarity = "cosine"

    def __init__(self, vectors: WordVectors, options: AdaptOptions, bar: Callable[[], Bar] = nullcontext) -> None:
        self.options, self.note, self._bar = options, "", bar
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
                model = adapt(documents, self.table, self.options, progress)
        except BadInput as error:
            # The system is evaluated as it would be used. If an adaptation is impossible, the original vectors are
            # used.
            self.note = error.message
        else:
            if model.table.info["adapted"]["better"]:
                self._model = model
            else:
                self.note = "the adapted vectors are no better than the original vectors"
        return self.encode_queries(documents)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Encode queries with the adapted word vectors, or with the original vectors before :meth:`fit`.

        Args:
            texts: The n queries.

        Returns:
            Vectors of shape (n, K) for K dimensions.
        """
        return self._model.encode(texts)


def sentence_transformer(folder: str, device: Device | None = None) -> Encoder:
    """Load a sentence-transformers model as a retrieval system. Its vectors have unit length.

    Args:
        folder: The local folder of the model.
        device: The device of the model. None means a GPU if torch finds one, and the CPU otherwise.

    Raises:
        MissingExtra: If sentence-transformers is not installed.
        BadInput: If the folder contains no model.
    """
    model = Transformer(folder, device)
    return Encoder(lambda texts: unit_rows(model.encode(texts, batch=32)))


def system_builders(device: Device | None = None, bar: Callable[[], Bar] = nullcontext) -> dict[str, SystemBuilder]:
    """Return the functions that build the systems ``adapted`` and ``st``, by these names.

    Args:
        device: The device of sentence-transformers models. None means a GPU if torch finds one, and the CPU otherwise.
        bar: A function that returns a context manager, which shows the progress of adapting word vectors.
    """
    return {
        "adapted": lambda source, kind: AdaptedSystem(
            source.table(), AdaptOptions(mixed=kind == "mixed", seed=source.seed), bar
        ),
        "st": lambda _, folder: sentence_transformer(folder, device),
    }
