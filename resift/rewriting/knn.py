"""Vector clauses: ``knn``, ``neural`` and ``knn_score``, whose query vectors the documents' own vectors move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from resift.arrays import Floats
from resift.contracts.documents import VectorField
from resift.contracts.query_dsl import Body
from resift.rewriting.clauses import VECTOR_KINDS, boost_of, kind_of, numbers, scores_by_vectors
from resift.rewriting.outcome import Note, Outcome
from resift.sessions.index_knowledge import FieldKnowledge

_K = 10  # of neural, where it names none; knn must
_OF_NEURAL = ("query_text", "query_image", "model_id", "query_tokens", "semantic_field_search_analyzer")
_THRESHOLDS = ("min_score", "max_distance")
_SMALLEST, _LARGEST = -128, 127  # of bytes


class Moved(NamedTuple):
    """A ``clause`` whose vector was moved, by the ``distinction`` of its field's vectors, and the ``bonus`` that
    relevant documents have in a list of its hits, as :class:`resift.ranking.own_vectors.OwnVectors` has both."""

    clause: Body
    distinction: float = 1.0
    bonus: float = 0.0


@dataclass(frozen=True)
class VectorQuery:
    """What a vector clause asks for: the ``name`` of a field, with ``settings``, by a vector, or a text and a model."""

    clause: Body
    name: str
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, clause: Any) -> VectorQuery | None:
        """What a clause asks for; None of one that is no vector clause, or malformed."""
        kind = kind_of(clause)
        if scores_by_vectors(clause):
            params = clause[kind]["script"].get("params")
            is_whole = isinstance(params, Mapping) and isinstance(params.get("field"), str)
            return cls(clause, params["field"], {**params, **_thresholds(clause[kind])}) if is_whole else None
        if kind not in VECTOR_KINDS or len(clause[kind]) != 1:
            return None
        ((name, settings),) = clause[kind].items()
        return cls(clause, name, settings) if isinstance(settings, Mapping) else None

    def field(self, mapped: Mapping[str, VectorField]) -> VectorField | None:
        """The field of the documents' vectors; None where vectors cannot be moved: nested, binary or unknown ones."""
        field = mapped.get(self.name)
        return field if field is not None and not field.nested and field.kind in ("float", "byte") else None

    @property
    def given(self) -> list[Any] | None:
        """The vector that it names itself."""
        vector = self.settings.get("query_value" if "script_score" in self.clause else "vector")
        return vector if isinstance(vector, list) else None

    def text(self, field: VectorField) -> tuple[str, str] | None:
        """The model and the text that the engine makes a vector of, where it does."""
        text, model = self.settings.get("query_text"), self.settings.get("model_id") or field.model
        if "neural" not in self.clause or self.settings.get("query_image"):
            return None
        return (model, text) if isinstance(model, str) and isinstance(text, str) else None

    @property
    def has_threshold(self) -> bool:
        """Whether a score or a distance decides what matches, which another vector would change."""
        return bool(_thresholds(self.settings))

    def moved(self, known: FieldKnowledge) -> Moved | Note:
        """The clause with the vector moved, or why it cannot be.

        What else it says stays: k, filter, boost and so on. ``neural`` becomes ``knn`` of the same documents.
        """
        field = self.field(known.mapped)
        if field is None:
            return Note(Outcome.NOT_MOVED, self.name)
        if self.has_threshold:
            return Note(Outcome.THRESHOLD)
        own, asked = known.vectors.get(field.name), self.text(field)
        if own is None:
            return Note(Outcome.NO_VECTORS, self.name)
        vector = self.given if asked is None else known.encoded.get(asked)
        if vector is None:
            return Note(Outcome.MODEL_UNAVAILABLE, self.name)
        query = _numeric(vector)
        if query is None or query.shape != (own.dim,):
            return Note(Outcome.OTHER_DIMENSION, self.name)
        distinction = own.distinction(query)
        vector = own.moved(query, distinction)
        bonus = boost_of(self.settings) * own.bonus(vector, distinction, field.space)
        return Moved(self._with(field, vector), distinction, bonus)

    def _with(self, field: VectorField, vector: Floats) -> Body:
        if field.kind == "byte":
            values: list[Any] = np.clip(np.rint(vector), _SMALLEST, _LARGEST).astype(int).tolist()
        else:
            values = numbers(vector)
        if "script_score" in self.clause:
            inner = self.clause["script_score"]
            script = {**inner["script"], "params": {**inner["script"]["params"], "query_value": values}}
            return {"script_score": {**inner, "script": script}}
        settings = {name: value for name, value in self.settings.items() if name not in _OF_NEURAL}
        default = {} if "knn" in self.clause else {"k": _K}
        return {"knn": {field.name: {**default, **settings, "vector": values}}}


def _thresholds(settings: Mapping[str, Any]) -> Body:
    return {name: settings[name] for name in _THRESHOLDS if settings.get(name) is not None}


def _numeric(vector: Any) -> Floats | None:
    try:
        found = np.asarray(vector, np.float32)
    except (TypeError, ValueError):
        return None
    return found if np.isfinite(found).all() else None


def without_documents(clause: Body, excluded: list[Body]) -> Body:
    """A ``knn`` or ``neural`` clause that finds as many documents as before, without some."""
    kind = kind_of(clause)
    if kind not in VECTOR_KINDS or len(clause[kind]) != 1:
        return clause
    ((name, settings),) = clause[kind].items()
    if not isinstance(settings, Mapping):
        return clause
    own = [settings["filter"]] if settings.get("filter") is not None else []
    condition = {"bool": {"filter": own, "must_not": excluded}} if own else {"bool": {"must_not": excluded}}
    return {kind: {name: {**settings, "filter": condition}}}
