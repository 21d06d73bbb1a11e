"""Two models side by side: documents have our vectors, and beside them those of a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import hypot, sqrt
from typing import Any

from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.encoders.queries import StaticQueries
from resift.errors import BadInput
from resift.vectors.folder import content_hash
from resift.vectors.similarity import alpha_of, beta_of, joined

Weights = tuple[float, float]  # alpha and max_alpha


def joint_weights(first: Weights, second: Weights) -> tuple[tuple[float, float], Weights]:
    """The weights of a joined query's two parts, and its own ones against BM25 without and with a session.

    ``first`` and ``second`` are those of the two models, and each cosine counts as it does by itself: hits' scores are
    multiplied by exp(β₁ · cosine₁ + β₂ · cosine₂). The joined cosine is that exponent over √(2β₁² + 2β₂²), its own β.
    """
    betas, most = ([beta_of(each) for each in pair] for pair in zip(first, second, strict=True))
    return (betas[0], betas[1]), (alpha_of(sqrt(2) * hypot(*betas)), alpha_of(sqrt(2) * hypot(*most)))


class JointModel(Model):
    """The vectors of a ``model`` and of ``queries``, static ones of a transformer's documents, joined (K = K₁ + K₂).

    A hit counts by both models' cosines (:func:`joint_weights`). It is the query alone whose parts are weighted for
    that: documents have both vectors, each in its field, which count alike where they are joined. It is no model of its
    own that an index could name. Raises BadInput for a model whose vectors are not compared by cosine.
    """

    kind = "joint"

    def __init__(self, model: Model, queries: StaticQueries) -> None:
        if model.similarity != "cosine":
            message = f"{model.name} compares vectors by {model.similarity}, static queries by cosine"
            raise BadInput(message, value=model.name, expected="a model of cosine beside static queries")
        self.parts: tuple[Model, Model] = (model, queries)
        self._weights, (alpha, max_alpha) = joint_weights(
            (model.alpha, model.max_alpha), (queries.alpha, queries.max_alpha)
        )
        super().__init__(model.name, model.table, "mean", "cosine", alpha=alpha, max_alpha=max_alpha)

    @property
    def dim(self) -> int:
        """K₁ + K₂."""
        return sum(part.dim for part in self.parts)

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits that identify both."""
        return content_hash({"kind": self.kind, "parts": [part.hash for part in self.parts]}, [], {})

    @cached_property
    def _plain(self) -> bool:
        return False

    def encode_one(self, text: str) -> Floats:
        """The joined vector of one text, shape (K,), float32."""
        return joined([part.encode_one(text) for part in self.parts], self._weights)

    def _encode(self, texts: Sequence[str]) -> Floats:
        return joined([part._encode(texts) for part in self.parts], self._weights)

    def nearest_words(self, vector: NDArray[Any], count: int = 5) -> list[str]:
        """The frequent words nearest to the first model's part of ``vector`` (K,), best first."""
        first = self.parts[0]
        return first.nearest_words(vector[: first.dim], count)

    def top_words(self, dimension: int, count: int = 5) -> list[str]:
        """Words whose rows are largest in one dimension, largest first."""
        first, second = self.parts
        return (
            first.top_words(dimension, count)
            if dimension < first.dim
            else second.top_words(dimension - first.dim, count)
        )
