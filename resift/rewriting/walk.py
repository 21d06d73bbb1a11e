"""The walk through a query: its clauses that score, and those that are changed in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from resift.contracts.query_dsl import Body

# Where a clause has others whose scores become part of its own.
SCORING = {
    "bool": ("must", "should"),
    "dis_max": ("queries",),
    "boosting": ("positive",),
    "function_score": ("query",),
    "script_score": ("query",),
    "nested": ("query",),
    "has_child": ("query",),
    "has_parent": ("query",),
    "hybrid": ("queries",),
}
# A smallest score there decides what matches: nothing inside may score otherwise.
_NO_THRESHOLD = ("function_score", "script_score", "has_child")
VECTOR_KINDS = ("knn", "neural")
KINDS = (*VECTOR_KINDS, "neural_sparse", "hybrid")


def kind_of(clause: Any) -> str | None:
    """The kind of a clause; None of what is none."""
    if not isinstance(clause, Mapping) or len(clause) != 1:
        return None
    ((kind, inner),) = clause.items()
    return kind if isinstance(kind, str) and isinstance(inner, Mapping) else None


def boost_of(settings: Mapping[str, Any]) -> float:
    """The boost that a clause names, as a number or as a text of one, which OpenSearch takes too; 1 without any."""
    try:
        return float(settings.get("boost", 1.0))
    except (TypeError, ValueError):
        return 1.0  # OpenSearch says itself what is wrong


def is_malformed(query: Any) -> bool:
    """Whether a query is no clause, or a ``hybrid`` one of nothing."""
    if not isinstance(query, Mapping) or len(query) != 1:
        return True
    inner = query.get("hybrid")
    queries = inner.get("queries") if isinstance(inner, Mapping) else None
    return inner is not None and not (isinstance(queries, list) and queries)


def scores_by_vectors(clause: Any) -> bool:
    """Whether a script scores by the distance of vectors, ``knn_score``."""
    inner = clause.get("script_score") if isinstance(clause, Mapping) else None
    script = inner.get("script") if isinstance(inner, Mapping) else None
    return isinstance(script, Mapping) and (script.get("lang"), script.get("source")) == ("knn", "knn_score")


def inner_clauses(clause: Body) -> Iterator[Any]:
    """The clauses whose scores become part of a clause's own."""
    for name in SCORING.get(kind_of(clause) or "", ()):
        value = next(iter(clause.values())).get(name)
        yield from value if isinstance(value, list) else [] if value is None else [value]


def holds_better(clause: Any) -> bool:
    """Whether a query ranks by meaning already: by vectors or tokens of the index's own, or by ``hybrid``."""
    kind = kind_of(clause)
    if kind is None:
        return False
    return kind in KINDS or scores_by_vectors(clause) or any(map(holds_better, inner_clauses(clause)))


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
