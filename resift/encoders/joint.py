"""Two models side by side: documents have our vectors, and beside them those of a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.encoders.queries import StaticQueries
from resift.errors import BadInput
from resift.vectors.folder import content_hash
from resift.vectors.similarity import alpha_of, beta_of, joined, lengths_of


def joint_weight(alphas: Sequence[float]) -> float:
    """The weight at which vectors joined by :func:`resift.vectors.similarity.lengths_of` count as each does by its own
    one of ``alphas``."""
    return alpha_of(sum(beta_of(alpha) for alpha in alphas))


class JointModel(Model):
    """The vectors of a ``model`` and of ``queries``, static ones of a transformer's documents, joined (K = K₁ + K₂).

    A hit counts by both models' cosines, by each as it does by itself. It is no model of its own that an index could
    name. Raises BadInput for a model whose vectors are not compared by cosine.
    """

    kind = "joint"

    def __init__(self, model: Model, queries: StaticQueries) -> None:
        if model.similarity != "cosine":
            message = f"{model.name} compares vectors by {model.similarity}, static queries by cosine"
            raise BadInput(message, value=model.name, expected="a model of cosine beside static queries")
        self.parts: tuple[Model, Model] = (model, queries)
        self._lengths = lengths_of([part.alpha for part in self.parts])
        alpha, max_alpha = (
            joint_weight(alphas) for alphas in zip(*((part.alpha, part.max_alpha) for part in self.parts), strict=True)
        )
        super().__init__(model.name, model.table, "mean", "cosine", alpha=alpha, max_alpha=max_alpha)

    @property
    def dim(self) -> int:
        """K₁ + K₂."""
        return sum(part.dim for part in self.parts)

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits that identify both."""
        return content_hash(
            {"kind": self.kind, "parts": [part.hash for part in self.parts], "lengths": self._lengths}, [], {}
        )

    @cached_property
    def is_plain(self) -> bool:
        return False

    def encode_one(self, text: str) -> Floats:
        """The joined vector of one text, shape (K,), float32."""
        return joined([part.encode_one(text) for part in self.parts], self._lengths)

    def _encode(self, texts: Sequence[str]) -> Floats:
        return joined([part._encode(texts) for part in self.parts], self._lengths)

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
