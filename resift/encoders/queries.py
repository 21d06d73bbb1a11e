"""Encode queries for documents that a transformer encoded, without running the transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput, DimensionMismatch
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift.vectors.weights import Alphas

QUERY_ALPHA = 0.75
"""Default weight of the similarity. Chosen on Cranfield and CISI, with documents encoded by all-MiniLM-L6-v2."""

QUERY_MAX_ALPHA = 0.85
"""Default maximum weight in sessions. Chosen on the same collections."""


class StaticQueries(Model):
    """An encoder of queries that imitates a transformer (the teacher) by a weighted mean of word vectors.

    The documents are encoded by the teacher, outside of Resift. :mod:`resift_lab.training.queries` trains the word
    vectors and the centre.

    Many transformers place all texts in a narrow cone: their vectors have a large mean, and differ little from it. In
    this model, the centre represents the mean of the teacher's vectors. The mean of a text's word vectors, scaled to
    unit length, represents the difference between the text's vector and the centre.

    Args:
        table: Word vectors with K dimensions, trained for the teacher's vectors.
        teacher: Name of the transformer.
        field: Index field with the vectors of the documents. None means the field that the index declares.
        centre: Vector of shape (K,) that is added to the mean of a text's word vectors, after this mean was scaled to
            unit length. If m is the mean of the teacher's vectors, the centre is m, divided by the mean distance of
            the teacher's vectors from m. None adds nothing.

    Raises:
        DimensionMismatch: If the centre does not have K dimensions.
    """

    kind = "queries"

    def __init__(
        self, table: WordVectors, teacher: str, field: str | None = None, centre: NDArray[Any] | None = None
    ) -> None:
        super().__init__("queries", table, "mean", "cosine", alphas=Alphas(QUERY_ALPHA, QUERY_MAX_ALPHA))
        self.teacher, self.field = teacher, field
        self.centre = None if centre is None else np.asarray(centre, np.float32)
        if self.centre is not None and self.centre.shape != (table.dim,):
            message = f"the centre has the shape {self.centre.shape}"
            raise DimensionMismatch(message, expected=f"{(table.dim,)}, as the word vectors")

    @classmethod
    def restore(cls, info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]) -> StaticQueries:
        """Create a model from the contents of a saved folder.

        Args:
            info: The settings, as saved in JSON.
            words: The saved words, in the order of their rows.
            arrays: The saved arrays by name. The array ``centre``, if any, is added to the mean word vector.
        """
        table = WordVectors.restore(words, arrays, info["vectors"])
        model = cls(table, info["teacher"], info["field"], arrays.get("centre"))
        model.alpha, model.max_alpha = info["alpha"], info["max_alpha"]
        return model

    @property
    def is_plain_mean(self) -> bool:
        """Whether a text's vector is just the mean of its word vectors, because the model has no centre to add."""
        return self.centre is None

    @property
    def _can_encode_short(self) -> bool:
        """True, because a vector is the mean of word vectors plus a constant, the centre."""
        return True

    def _encode(self, texts: Sequence[str]) -> Floats:
        return self._add_centre(super()._encode(texts))

    def _encode_short(self, text: str) -> Floats | None:
        vector = super()._encode_short(text)
        return None if vector is None else self._add_centre(vector)

    def _add_centre(self, vectors: Floats) -> Floats:
        """Add the model's centre to vectors, and scale the sums to unit length.

        The centre is a constant vector. It represents the mean of the vectors of the transformer that this model
        imitates. Zero vectors, which represent texts without known words, stay zero.

        Args:
            vectors: The vectors, of shape (..., n_dimensions).
        """
        if self.centre is None:
            return vectors
        return unit_rows(vectors + self.centre * vectors.any(axis=-1, keepdims=True))

    def require_documents(self) -> None:
        """Raise BadInput, because this model encodes queries only."""
        where = f"the field {self.field!r}" if self.field else "a field"
        message = f"model {self.hash} encodes queries only: its documents have vectors of {self.teacher}"
        expected = f"a model that encodes documents, or an index that has their vectors in {where}"
        raise BadInput(message, value=self.hash, expected=expected)

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "teacher": self.teacher, "field": self.field}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**super()._arrays(), **({} if self.centre is None else {"centre": self.centre})}
