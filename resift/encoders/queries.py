"""Static queries: a word table for the queries of documents whose vectors another model, a transformer, has made."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from resift.encoders.model import Model
from resift.errors import BadInput
from resift.vectors.table import WordVectors

# chosen on Cranfield and CISI with documents of all-MiniLM-L6-v2
QUERY_ALPHA, QUERY_MAX_ALPHA = 0.75, 0.85


class StaticQueries(Model):
    """Puts a query where its ``teacher`` would put it: the weighted mean of rows that were learned for that.

    Documents are the teacher's: their vectors are in ``field`` of the index (None: whichever the index names), and are
    not made by us. :mod:`resift.training.queries` learns the ``table``.
    """

    kind = "queries"

    def __init__(self, table: WordVectors, teacher: str, field: str | None = None) -> None:
        super().__init__("queries", table, "mean", "cosine", alpha=QUERY_ALPHA, max_alpha=QUERY_MAX_ALPHA)
        self.teacher, self.field = teacher, field

    @classmethod
    def restore(cls, info: dict[str, Any], table: WordVectors, arrays: dict[str, NDArray[Any]]) -> StaticQueries:
        """A saved model from the settings, the word table and the arrays of its folder."""
        model = cls(table, info["teacher"], info["field"])
        model.alpha, model.max_alpha = info["alpha"], info["max_alpha"]
        return model

    def require_documents(self) -> None:
        """Raises BadInput: it encodes queries alone."""
        where = f"the field {self.field!r}" if self.field else "a field"
        message = f"model {self.hash} is of queries alone: the vectors of their documents are those of {self.teacher}"
        raise BadInput(message, value=self.hash, expected=f"a model of documents, or an index that has them in {where}")

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "teacher": self.teacher, "field": self.field}
