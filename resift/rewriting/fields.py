"""Clauses of an index's own fields: ``knn``, ``neural`` and ``knn_score``, whose vectors the judged documents' vectors
move, and ``neural_sparse``, whose tokens their tokens move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from resift.arrays import Floats
from resift.contracts.documents import VectorField
from resift.feedback.field_feedback import move_tokens
from resift.query.dsl import Body
from resift.rewriting.clauses import (
    KINDS,
    SCORING,
    VECTOR_KINDS,
    boost_of,
    inner_clauses,
    kind_of,
    numbers,
    scores_by_vectors,
)
from resift.rewriting.outcome import Note, Outcome
from resift.sessions.documents import AskedText, FieldKnowledge

# A smallest score there decides what matches: nothing inside may score otherwise.
_NO_THRESHOLD = ("function_score", "script_score", "has_child")
_K = 10  # of neural, where it names none; knn must
_OF_NEURAL = ("query_text", "query_image", "model_id", "query_tokens", "semantic_field_search_analyzer")
_OF_SPARSE_TEXTS = ("query_text", "model_id", "analyzer")
_THRESHOLDS = ("min_score", "max_distance")
_SMALLEST, _LARGEST = -128, 127  # of bytes


class Moved(NamedTuple):
    """A ``clause`` whose vector was moved, by the ``distinction`` of its field's vectors, and the ``bonus`` that
    relevant documents have in a list of its hits, as :class:`resift.feedback.field_feedback.FieldFeedback` has both."""

    clause: Body
    distinction: float = 1.0
    bonus: float = 0.0


@dataclass(frozen=True)
class FieldQuery:
    """What a clause asks a field for: the field's ``name``, with ``settings``."""

    clause: Body
    name: str
    settings: Mapping[str, Any]
    kinds: ClassVar[tuple[str, ...]] = ()  # of fields

    def field(self, mapped: Mapping[str, VectorField]) -> VectorField | None:
        """The field; None of those that nothing is moved in: nested, binary or unknown ones."""
        field = mapped.get(self.name)
        return field if field is not None and not field.nested and field.kind in self.kinds else None

    @property
    def has_threshold(self) -> bool:
        """Whether a score or a distance decides what matches, which another vector would change."""
        return bool(_thresholds(self.settings))

    @property
    def given(self) -> Any:
        """The vector, or the tokens, that it names itself; None if it names none."""
        raise NotImplementedError

    def text(self, field: VectorField) -> AskedText | None:
        """The text that the engine makes the vector or the tokens of, where it does."""
        raise NotImplementedError

    def moved(self, known: FieldKnowledge) -> Moved | Note:
        """The clause with its vector or tokens moved, or why they cannot be. What else it says stays."""
        field = self.field(known.mapped)
        if field is None:
            return Note(Outcome.NOT_MOVED, self.name)
        if self.has_threshold:
            return Note(Outcome.THRESHOLD)
        if field.name not in (known.tokens if field.kind == "tokens" else known.vectors):
            return Note(Outcome.NO_VECTORS, self.name)
        asked = self.text(field)
        start = self.given if asked is None else known.encoded.get(asked)
        return Note(Outcome.MODEL_UNAVAILABLE, self.name) if start is None else self._moved_from(start, field, known)

    def _moved_from(self, start: Any, field: VectorField, known: FieldKnowledge) -> Moved | Note:
        raise NotImplementedError


class VectorQuery(FieldQuery):
    """A clause by a vector, or by a text and a model. ``neural`` becomes ``knn`` of the same documents."""

    kinds = ("float", "byte")

    @property
    def given(self) -> list[Any] | None:
        """The vector that it names itself."""
        vector = self.settings.get("query_value" if "script_score" in self.clause else "vector")
        return vector if isinstance(vector, list) else None

    def text(self, field: VectorField) -> AskedText | None:
        """The text and the model, where it is ``neural``."""
        text, model = self.settings.get("query_text"), self.settings.get("model_id") or field.model
        if "neural" not in self.clause or self.settings.get("query_image"):
            return None
        return AskedText(text, model) if isinstance(model, str) and isinstance(text, str) else None

    def _moved_from(self, start: Any, field: VectorField, known: FieldKnowledge) -> Moved | Note:
        own, query = known.vectors[field.name], _numeric(start)
        if query is None or query.shape != (own.dim,):
            return Note(Outcome.OTHER_DIMENSION, self.name)
        distinction = own.distinction(query)
        vector = own.move_query(query, distinction)
        bonus = boost_of(self.settings) * own.relevant_bonus(vector, distinction, field.space)
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


class SparseQuery(FieldQuery):
    """A clause by tokens, or by a text and a model or an analyzer."""

    kinds = ("tokens",)

    @property
    def given(self) -> dict[str, float] | None:
        """The tokens that it names itself."""
        tokens = self.settings.get("query_tokens")
        if not isinstance(tokens, Mapping) or not tokens:
            return None
        is_whole = all(isinstance(weight, (int, float)) for weight in tokens.values())
        return {token: float(weight) for token, weight in tokens.items()} if is_whole else None

    def text(self, field: VectorField) -> AskedText | None:
        """The text, and the model or the analyzer."""
        text, analyzer = self.settings.get("query_text"), self.settings.get("analyzer")
        model = self.settings.get("model_id") or (None if analyzer else field.model)
        if self.given is not None or not all(isinstance(name, str) for name in (text, model or "", analyzer or "")):
            return None
        return AskedText(str(text), model, analyzer, tokens=True)

    def _moved_from(self, start: Any, field: VectorField, known: FieldKnowledge) -> Moved | Note:
        rest = {name: value for name, value in self.settings.items() if name not in _OF_SPARSE_TEXTS}
        tokens = move_tokens(start, *known.tokens[field.name])
        return Moved({"neural_sparse": {field.name: {**rest, "query_tokens": tokens}}})


def field_query(clause: Any) -> FieldQuery | None:
    """What a clause asks a field of vectors or tokens for; None of any other clause, and of malformed ones."""
    kind = kind_of(clause)
    if scores_by_vectors(clause):
        params = clause[kind]["script"].get("params")
        is_whole = isinstance(params, Mapping) and isinstance(params.get("field"), str)
        return VectorQuery(clause, params["field"], {**params, **_thresholds(clause[kind])}) if is_whole else None
    if kind not in (*VECTOR_KINDS, "neural_sparse") or len(clause[kind]) != 1:
        return None
    ((name, settings),) = clause[kind].items()
    if not isinstance(settings, Mapping):
        return None
    return (SparseQuery if kind == "neural_sparse" else VectorQuery)(clause, name, settings)


def _thresholds(settings: Mapping[str, Any]) -> Body:
    return {name: settings[name] for name in _THRESHOLDS if settings.get(name) is not None}


def _numeric(vector: Any) -> Floats | None:
    try:
        found = np.asarray(vector, np.float32)
    except (TypeError, ValueError):
        return None
    return found if np.isfinite(found).all() else None


def vector_clauses(query: Any) -> Iterator[Body]:
    """The scoring clauses of a query that rank by vectors or tokens."""
    kind = kind_of(query)
    if kind is None:
        return
    if scores_by_vectors(query) or (kind in KINDS and kind != "hybrid"):
        yield query
        return
    for one in inner_clauses(query):
        yield from vector_clauses(one)


def changed(clause: Body, change: Callable[[Body], Any]) -> Body:
    """A clause whose inner ones, as far as they score, are what ``change`` makes of them; the same one if all are."""
    kind = kind_of(clause)
    inner = clause[kind] if kind else {}
    if kind in _NO_THRESHOLD and inner.get("min_score") is not None:
        return clause
    parts: Body = {}
    for name in SCORING.get(kind or "", ()):
        value = inner.get(name)
        if isinstance(value, list):
            made = [change(one) for one in value]
            same = all(new is old for new, old in zip(made, value, strict=True))
            parts |= {} if same else {name: made}
        elif value is not None and (one := change(value)) is not value:
            parts[name] = one
    return {kind: {**inner, **parts}} if kind and parts else clause


def without_documents(clause: Body, excluded: list[Body]) -> Body:
    """A ``knn`` or ``neural`` clause that finds as many documents as before, without some."""
    kind, asked = kind_of(clause), field_query(clause)
    if kind not in VECTOR_KINDS or asked is None:
        return clause
    own = [asked.settings["filter"]] if asked.settings.get("filter") is not None else []
    condition = {"bool": {"filter": own, "must_not": excluded}} if own else {"bool": {"must_not": excluded}}
    return {kind: {asked.name: {**asked.settings, "filter": condition}}}
