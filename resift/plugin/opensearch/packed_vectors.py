"""The vectors of hits, asked for in the same request whatever fields it asks for, and packed by a script of ours."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.contracts.query_dsl import Body, JoinedFields, VectorFields, patterns, vector_field_names, without_vector
from resift.errors import BadInput
from resift.plugin.opensearch.documents import stored_vector
from resift.rewriting.clauses import script_source
from resift.vectors.similarity import joined

_NAME = "_resift_vector"  # of the scripted field; of several each but the first has its number behind it
_JOINS = {"has_child", "has_parent"}


def sent_body(body: Body, vectors: VectorFields | None) -> Body:
    """The body as OpenSearch is sent it: our vector fields left out unless it names them, the ``vectors`` packed.

    They are left out of collapsed hits, of parents and children and of ``top_hits`` too. They are asked for by a
    scripted field, since ``_source`` is the caller's, and is slow to read. Raises BadInput for a malformed ``_source``.
    """
    sent = {**_without_vectors(body), **_inner_without_vectors(body)}
    scripted = body.get("script_fields") or {}
    # Of what is no object OpenSearch says itself what is wrong.
    if vectors and body.get("size") != 0 and isinstance(scripted, Mapping):
        packed = {
            name: {"script": {"source": script_source("packed_vector"), "params": {"field": field}}}
            for name, field in _scripted(vectors)
            if not _names(body.get("_source"), field)
        }
        sent = {**sent, "script_fields": {**scripted, **packed}} if packed else sent
    return sent


def _without_vectors(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """A body, or a part of one that asks for hits, with a ``_source`` that leaves out our vector fields."""
    # With stored or scripted fields of the caller's there is no _source unless it is asked for; that of ours must not
    # switch it off.
    if "_source" not in part and ("stored_fields" in part or part.get("script_fields")):
        return part
    return {**part, "_source": without_vector(part.get("_source"))}


def _inner_without_vectors(body: Mapping[str, Any]) -> Body:
    """The parts of a body that ask for more hits than its own, without vectors. What is malformed stays."""
    inner = {name: _aggs_without_vectors(body[name]) for name in ("aggs", "aggregations") if name in body}
    inner |= {name: _joined_without_vectors(body[name]) for name in ("query", "post_filter") if name in body}
    collapse = body.get("collapse")
    if isinstance(collapse, Mapping) and "inner_hits" in collapse:
        asked = collapse["inner_hits"]
        several = [_without_vectors(one) if isinstance(one, Mapping) else one for one in _listed(asked)]
        inner["collapse"] = {**collapse, "inner_hits": several if isinstance(asked, list) else several[0]}
    return inner


def _joined_without_vectors(clause: Any) -> Any:
    """A query clause whose parents and children are shown without vectors as inner hits. Nested objects have none.

    Raises BadInput for one with parents or children that is too deep.
    """
    try:
        return _changed(clause) if _shows_joined(clause) else clause
    except RecursionError:
        raise BadInput("queries are too deep inside each other", expected="at most 100 of them") from None


def _shows_joined(clause: Any) -> bool:
    """Whether parents or children are asked for as inner hits anywhere in a clause, however deep it is."""
    left = [clause]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            if any(isinstance(one.get(kind), Mapping) and "inner_hits" in one[kind] for kind in _JOINS):
                return True
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
    return False


def _changed(clause: Any) -> Any:
    if isinstance(clause, list):
        return [_changed(one) for one in clause]
    if not isinstance(clause, Mapping):
        return clause
    changed = {name: _changed(value) for name, value in clause.items()}
    for kind in _JOINS & changed.keys():
        join = changed[kind]
        if isinstance(join, dict) and isinstance(join.get("inner_hits"), dict):
            join["inner_hits"] = _without_vectors(join["inner_hits"])
    return changed


def _aggs_without_vectors(aggs: Any) -> Any:
    if not isinstance(aggs, Mapping):
        return aggs
    changed: Body = {}
    for name, agg in aggs.items():
        if isinstance(agg, Mapping):
            hits = agg.get("top_hits")
            found = {"top_hits": _without_vectors(hits)} if isinstance(hits, Mapping) else {}
            agg = {**agg, **found, **_inner_without_vectors(agg)}
        changed[name] = agg
    return changed


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _scripted(vectors: VectorFields) -> list[tuple[str, str]]:
    """The name of the scripted field for each vector field, and that field."""
    return [(f"{_NAME}{number or ''}", field) for number, field in enumerate(vector_field_names(vectors))]


def _names(spec: Any, field: str) -> bool:
    """Whether a ``_source`` names a field, whose values its hits then bring; a pattern that matches does not count."""
    if spec is None or isinstance(spec, bool):
        return False
    return field in patterns(spec if isinstance(spec, Mapping) else {"includes": spec}, "includes")


def take_vectors(hits: Sequence[dict[str, Any]], vectors: VectorFields) -> list[Floats | None]:
    """The vector (K,) of each hit, out of which a packed one is taken; None of one that brings none.

    Those of several fields are joined.
    """
    columns = [_column(hits, name, field) for name, field in _scripted(vectors)]
    return columns[0] if isinstance(vectors, str) else _joined(columns, vectors)


def _joined(columns: Sequence[Sequence[Floats | None]], fields: JoinedFields) -> list[Floats | None]:
    """Of each hit the vectors in its ``columns`` joined, zero for one that it lacks; None where it lacks all."""
    held = [row for row, parts in enumerate(zip(*columns, strict=True)) if any(part is not None for part in parts)]
    zeros = [np.zeros(dim, np.float32) for dim in fields.dims]
    filled = [
        np.reshape([zero if column[row] is None else column[row] for row in held], (len(held), dim))
        for column, zero, dim in zip(columns, zeros, fields.dims, strict=True)
    ]
    vectors: list[Floats | None] = [None] * len(columns[0])
    for row, vector in zip(held, joined(filled, fields.lengths), strict=True):
        vectors[row] = vector
    return vectors


def _column(hits: Sequence[dict[str, Any]], name: str, field: str) -> list[Floats | None]:
    """The vector of each hit in one field, packed under a ``name`` or in its fields."""
    found = [_take(hit, name, field) for hit in hits]
    vectors = iter(unpacked([one for one in found if isinstance(one, str)]))
    return [next(vectors) if isinstance(one, str) else one for one in found]


def unpacked(packed: Sequence[str]) -> list[Floats]:
    """The vectors (K,) that ``packed_vector.painless`` packs, each of them base64 of 4 + 2 K bytes."""
    raw = [a2b_base64(one) for one in packed]
    if len({len(one) for one in raw}) != 1:  # none, or of several indices, one of which is not ours
        return [vector for one in packed for vector in unpacked([one])]
    # all at a time: one by one, a hundred of them took as long as half of their search
    rows = np.frombuffer(b"".join(raw), "<i2").reshape(len(raw), -1)
    return list(rows[:, 2:] * np.ascontiguousarray(rows[:, :2]).view("<f4"))


def _take(hit: dict[str, Any], name: str, field: str) -> Floats | str | None:
    """A hit's packed vector, which is taken out of it, or the one in its fields."""
    fields = hit.get("fields", {})
    if name not in fields:
        return stored_vector(hit, field)
    packed: str | None
    (packed,) = fields.pop(name)
    if not fields:
        del hit["fields"]
    return packed
