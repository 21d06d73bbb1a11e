"""Move the query vectors and query tokens in the clauses of a query towards the relevant documents of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from resift.arrays import Floats
from resift.contracts.documents import TOKEN_NUMBERS, VectorField
from resift.feedback.field_feedback import Tokens, move_tokens
from resift.query.body import Query
from resift.query.dsl import Body
from resift.query.kinds import SPARSE_KIND
from resift.query.tree import ScriptedVectorClause, SemanticClause, SparseClause, VectorClause, boost_of
from resift.rewriting.clauses import bool_clause
from resift.rewriting.knowledge import FieldKnowledge, RequiredData, TextToEncode
from resift.rewriting.outcome import Note, Outcome
from resift.rewriting.similarity import json_numbers

_VECTOR_TYPES = ("float", "half_float", "byte")
# Texts of a query that the cluster encodes for Resift. A ``hybrid`` query has at most five subqueries.
_MAX_ENCODED_TEXTS = 10
# A token of the query that moving would remove keeps this weight, so that the query matches the same documents.
_SMALLEST_TOKEN_WEIGHT = 0.0001
_SMALLEST_BYTE = -128
_LARGEST_BYTE = 127
# OpenSearch's default of ``k`` in a ``neural`` clause. A ``knn`` clause has no default.
_DEFAULT_K = 10
# Options of ``neural`` and ``neural_sparse`` that say how a text is encoded. A moved clause contains the result.
_ENCODING_OPTIONS = {"query_text", "query_image", "model_id", "query_tokens", "semantic_field_search_analyzer"}
_SPARSE_ENCODING_OPTIONS = {"query_text", "model_id", "analyzer"}


class MovedClause(NamedTuple):
    """A vector clause or sparse clause of a query, adapted to the user's relevance judgements.

    The query vector or query tokens of the clause are moved towards the relevant documents.

    Attributes:
        clause: The new clause as JSON.
        topic_separation: How well the vectors in the field separate documents on the query's topic from other
            documents, from 0 to 1.
        bonus: The score to add to relevant documents if the clause is part of a ``hybrid`` query.
    """

    clause: Body
    topic_separation: float = 1.0
    bonus: float = 0.0


def required_data(query: Query, mapped: Mapping[str, VectorField]) -> RequiredData:
    """Return the data that must be loaded before the vector and sparse token clauses of a query can be rewritten.

    Args:
        query: The parsed search body.
        mapped: The fields of the index with vectors or tokens, by the names that queries use.

    Returns:
        The fields to load for the judged documents, and the query texts to encode. If the query has many texts, only
        the first are encoded, because the cluster encodes each text separately.
    """
    fields, texts = set[VectorField](), set[TextToEncode]()
    for clause in query.root.semantic_clauses():
        field = _movable_field(clause, mapped)
        if field is None or clause.is_radial:
            continue
        fields.add(field)
        text = _text_to_encode(clause, field)
        if text is not None and len(texts) < _MAX_ENCODED_TEXTS:
            texts.add(text)
    return RequiredData(fields=frozenset(fields), texts=frozenset(texts))


def move_clause(clause: SemanticClause, knowledge: FieldKnowledge, widens: bool = False) -> MovedClause | Note:
    """Move the query vector or query tokens of a clause towards the relevant documents of the session.

    All other settings of the clause stay the same. A ``neural`` clause becomes a ``knn`` clause, because its text is
    replaced with a vector.

    Args:
        clause: A clause that ranks by the vectors or tokens in a field.
        knowledge: The vectors and tokens of the judged documents, and the encoded query texts.
        widens: Whether tokens of relevant documents may match further documents.

    Returns:
        The moved clause, or a note with the reason why the clause cannot be moved.
    """
    field = _movable_field(clause, knowledge.mapped)
    if field is None:
        return Note(Outcome.NOT_MOVED, clause.field)
    if clause.is_radial:
        return Note(Outcome.THRESHOLD)
    if field.name not in (knowledge.tokens if field.has_tokens else knowledge.vectors):
        return Note(Outcome.NO_VECTORS, clause.field)
    text = _text_to_encode(clause, field)
    start = _query_vector_or_tokens(clause) if text is None else knowledge.encoded.get(text)
    if start is None:
        return Note(_encoding_obstacle(clause, field), clause.field)
    if isinstance(clause, SparseClause):
        judged = knowledge.tokens[field.name]
        moved = move_tokens(start, judged.documents, judged.grades)
        return MovedClause(_with_tokens(clause, field, start, moved, widens))
    return _with_moved_vector(clause, start, field, knowledge)


def _encoding_obstacle(clause: SemanticClause, field: VectorField) -> Outcome:
    """Return the reason why the query text of a clause could not be converted to a vector or tokens.

    Args:
        clause: The clause with the query text.
        field: The searched field. Its mapping may name the model.
    """
    if field.kind == TOKEN_NUMBERS:
        return Outcome.TOKENS_UNKNOWN
    is_named = clause.options.get("model_id") or field.model
    return Outcome.MODEL_UNAVAILABLE if is_named or clause.kind != "neural" else Outcome.MODEL_NOT_NAMED


def with_excluded_documents(clause: Body, excluded: list[Body]) -> Body:
    """Add a filter to a ``knn`` or ``neural`` clause that excludes some documents.

    Because the filter applies during the k-NN search, the clause still finds its ``k`` documents.

    Args:
        clause: The clause as JSON. A clause of another type is returned unchanged.
        excluded: Clauses that match the excluded documents.
    """
    ((kind, settings),) = clause.items()
    if kind not in ("knn", "neural"):
        return clause
    ((field, options),) = settings.items()
    own_filter = options.get("filter")
    condition = {"must_not": excluded} if own_filter is None else {"filter": [own_filter], "must_not": excluded}
    return {kind: {field: {**options, "filter": {"bool": condition}}}}


def _movable_field(clause: SemanticClause, mapped: Mapping[str, VectorField]) -> VectorField | None:
    """Return the field that a clause searches, unless Resift cannot move query vectors or query tokens in this field.

    Moving a query vector or query tokens adapts them to the user's relevance judgements.

    Args:
        clause: The vector or sparse token clause.
        mapped: The fields of the index with vectors or tokens, by name.

    Returns:
        The field, or None if the field is nested, contains binary vectors or is not in ``mapped``.
    """
    field = None if clause.field is None else mapped.get(clause.field)
    if field is None or field.nested:
        return None
    is_movable = field.has_tokens if isinstance(clause, SparseClause) else field.kind in _VECTOR_TYPES
    return field if is_movable else None


def _query_vector_or_tokens(clause: SemanticClause) -> Any:
    """Return the query vector or the query tokens that a clause contains.

    The result is None if the clause contains neither, for example because it contains a text that a model encodes.
    """
    if isinstance(clause, SparseClause):
        return clause.tokens
    return clause.vector if isinstance(clause, VectorClause) else None


def _text_to_encode(clause: SemanticClause, field: VectorField) -> TextToEncode | None:
    """Return the query text of a clause that OpenSearch must encode.

    Args:
        clause: The clause. Only ``neural`` and ``neural_sparse`` clauses have a text to encode.
        field: The searched field. Its mapping may name the model that encodes the text.

    Returns:
        The text with the model or analyzer that encodes it. The result is None if the clause has no text to encode or
        is malformed.
    """
    options = clause.options
    text, analyzer = options.get("query_text"), None
    model = options.get("model_id") or field.model
    if isinstance(clause, SparseClause):
        # Fields of this kind need the numbers of the query's tokens, which OpenSearch does not return.
        if clause.tokens is not None or field.kind == TOKEN_NUMBERS:
            return None
        analyzer = options.get("analyzer")
        model = options.get("model_id") or (None if analyzer else field.model)
        is_valid = isinstance(model or "", str) and isinstance(analyzer or "", str)
    else:
        is_valid = clause.kind == "neural" and not options.get("query_image") and isinstance(model, str)
    if not is_valid or not isinstance(text, str):
        return None
    return TextToEncode(text, model, analyzer, as_tokens=isinstance(clause, SparseClause))


def _with_tokens(clause: SparseClause, field: VectorField, own: Tokens, moved: Tokens, widens: bool) -> Body:
    """Return a ``neural_sparse`` clause that searches for the moved query tokens instead of the original tokens.

    Args:
        clause: The parsed clause.
        field: The field that the clause searches.
        own: The tokens that the clause searches for, with their weights.
        moved: The tokens and weights after the query was moved towards the relevant documents. They include tokens of
            these documents.
        widens: Whether tokens of relevant documents may match further documents.

    Returns:
        The new clause. It matches the same documents, unless it widens the search. Tokens of relevant documents only
        add to the score.
    """
    options = {name: value for name, value in clause.options.items() if name not in _SPARSE_ENCODING_OPTIONS}
    weights = {token: moved.get(token, min(weight, _SMALLEST_TOKEN_WEIGHT)) for token, weight in own.items()}
    if widens:
        return {SPARSE_KIND: {field.name: {**options, "query_tokens": {**moved, **weights}}}}
    required = {SPARSE_KIND: {field.name: {**options, "query_tokens": weights}}}
    if field.kind == TOKEN_NUMBERS:  # approximate search uses only the heaviest tokens, so weights decide what it finds
        required = clause.raw
    added = {token: weight for token, weight in moved.items() if token not in own}
    if not added:
        return required
    unnamed = {name: value for name, value in options.items() if name != "_name"}
    return bool_clause(must=[required], should=[{SPARSE_KIND: {field.name: {**unnamed, "query_tokens": added}}}])


def _with_moved_vector(
    clause: SemanticClause, start: Any, field: VectorField, knowledge: FieldKnowledge
) -> MovedClause | Note:
    """Move the query vector of a clause towards the relevant documents of the session.

    Args:
        clause: The vector clause.
        start: The query vector before it is moved, as a JSON value.
        field: The field that the clause searches.
        knowledge: The feedback learned from the vectors that the judged documents have in this field.

    Returns:
        The moved clause. If ``start`` is not a vector with as many dimensions as the field, a note that says so.
    """
    field_feedback, query = knowledge.vectors[field.name], _as_finite_vector(start)
    if query is None or query.shape != (field_feedback.dim,):
        return Note(Outcome.OTHER_DIMENSION, clause.field)
    topic_separation = field_feedback.topic_separation(query)
    vector = field_feedback.move_query(query, topic_separation)
    bonus = boost_of(clause.options) * field_feedback.relevant_bonus(vector, topic_separation, field.space)
    return MovedClause(_with_vector(clause, field, vector), topic_separation, bonus)


def _with_vector(clause: SemanticClause, field: VectorField, vector: Floats) -> Body:
    """Return a vector clause as JSON with a new query vector.

    Args:
        clause: The original clause, parsed.
        field: The searched field. If it contains byte vectors, the new vector is rounded to integers.
        vector: The new query vector, of shape (n_dimensions,).
    """
    if field.kind == "byte":
        values: list[Any] = np.clip(np.rint(vector), _SMALLEST_BYTE, _LARGEST_BYTE).astype(int).tolist()
    else:
        values = json_numbers(vector)
    if isinstance(clause, ScriptedVectorClause):
        script = clause.settings["script"]
        moved_script = {**script, "params": {**script["params"], "query_value": values}}
        return {"script_score": {**clause.settings, "script": moved_script}}
    options = {name: value for name, value in clause.options.items() if name not in _ENCODING_OPTIONS}
    if clause.kind == "neural":
        options = {"k": _DEFAULT_K, **options}
    return {"knn": {field.name: {**options, "vector": values}}}


def _as_finite_vector(vector: Any) -> Floats | None:
    """Convert a JSON value to a 32-bit float vector, or return None if the value is not a list of finite numbers."""
    try:
        with np.errstate(over="ignore"):  # numbers that are too large for 32 bits become infinite
            numbers = np.asarray(vector, np.float32)
    except (TypeError, ValueError, OverflowError):  # OverflowError: an integer of more than 308 digits
        return None
    return numbers if np.isfinite(numbers).all() else None
