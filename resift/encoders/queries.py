"""Static queries: a word table that encodes queries for documents that a transformer encoded."""

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

# weights against BM25, chosen on Cranfield and CISI with documents of all-MiniLM-L6-v2
QUERY_ALPHA, QUERY_MAX_ALPHA = 0.75, 0.85


class StaticQueries(Model):
    """Puts a query where its ``teacher`` would put it: the weighted mean of rows that were learned for that.

    Documents are the teacher's: their vectors are in ``field`` of the index (None: whichever the index names), and are
    not made by us. :mod:`resift_lab.training.queries` learns the ``table`` and the ``centre``.

    Many transformers put all texts into one narrow cone: the mean of their vectors is long, and what tells texts apart
    is short. The words' mean, at length 1, is what tells a text apart, and ``centre`` (K,) is added to it: the mean of
    the teacher's vectors over the length of what is left without it. None is a teacher without such a mean.

    Raises DimensionMismatch if the centre does not have the table's dimensions.
    """

    kind = "queries"

    def __init__(
        self, table: WordVectors, teacher: str, field: str | None = None, centre: NDArray[Any] | None = None
    ) -> None:
        super().__init__("queries", table, "mean", "cosine", alphas=Alphas(QUERY_ALPHA, QUERY_MAX_ALPHA))
        self.teacher, self.field = teacher, field
        self.centre = None if centre is None else np.asarray(centre, np.float32)
        if self.centre is not None and self.centre.shape != (table.dim,):
            raise DimensionMismatch(f"a centre of {self.centre.shape}", expected=f"{(table.dim,)}, as the word vectors")

    @classmethod
    def restore(cls, info: dict[str, Any], table: WordVectors, arrays: dict[str, NDArray[Any]]) -> StaticQueries:
        """A saved model from the settings, the word table and the arrays of its folder."""
        model = cls(table, info["teacher"], info["field"], arrays.get("centre"))
        model.alpha, model.max_alpha = info["alpha"], info["max_alpha"]
        return model

    def _encode(self, texts: Sequence[str]) -> Floats:
        return self._placed(super()._encode(texts))

    def _encode_short(self, text: str) -> Floats | None:
        vector = super()._encode_short(text)
        return None if vector is None else self._placed(vector)

    def _placed(self, vectors: Floats) -> Floats:
        """Vectors (..., K) of length 1 or 0 as they lie among the teacher's; a text without known words stays zero."""
        if self.centre is None:
            return vectors
        return unit_rows(vectors + self.centre * vectors.any(axis=-1, keepdims=True))

    def require_documents(self) -> None:
        """Raises BadInput: it encodes queries alone."""
        where = f"the field {self.field!r}" if self.field else "a field"
        message = f"model {self.hash} is of queries alone: the vectors of their documents are those of {self.teacher}"
        raise BadInput(message, value=self.hash, expected=f"a model of documents, or an index that has them in {where}")

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "teacher": self.teacher, "field": self.field}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**super()._arrays(), **({} if self.centre is None else {"centre": self.centre})}
