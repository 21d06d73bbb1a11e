"""Clauses that rewritten queries are made of: one under our name, and those for judged documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resift.contracts.query_dsl import Body

NAME = "resift"  # of the clause around a rewritten query: hits tell it in matched_queries


def named_bool(
    must: Sequence[Body], should: Sequence[Body] = (), filter: Sequence[Any] = (), must_not: Sequence[Any] = ()
) -> Body:
    """A ``bool`` query with our name in it, without the parts that are empty."""
    # OpenSearch looks for each hit whether it matches what has a name, which costs least of what all match
    return plain_bool(must, should, [*filter, {"match_all": {"_name": NAME}}], must_not)


def plain_bool(
    must: Sequence[Body], should: Sequence[Body] = (), filter: Sequence[Any] = (), must_not: Sequence[Any] = ()
) -> Body:
    """The same without our name."""
    parts = {"must": must, "should": should, "filter": filter, "must_not": must_not}
    return {"bool": {name: list(clauses) for name, clauses in parts.items() if clauses}}


def highlighted(body: Body, asked: Body) -> Body:
    """What a body says of highlights, if anything, for them to be of what was ``asked``, not of a session's words."""
    highlight = body.get("highlight")
    return {"highlight": {"highlight_query": asked, **highlight}} if isinstance(highlight, Mapping) else {}


def is_named(query: Mapping[str, Any]) -> bool:
    """Whether a query, or one that a ``hybrid`` query is made of, is one of :func:`named_bool`; OpenSearch has filled
    in the defaults of one that comes back to us."""
    if isinstance(query.get("hybrid"), Mapping):
        parts = query["hybrid"].get("queries")
        return any(is_named(part) for part in parts if isinstance(part, Mapping)) if isinstance(parts, list) else False
    inner = query.get("bool")
    conditions = inner.get("filter") if isinstance(inner, Mapping) else None
    clauses = conditions if isinstance(conditions, list) else []
    everything = [one.get("match_all") for one in clauses if isinstance(one, Mapping)]
    return any(isinstance(one, Mapping) and one.get("_name") == NAME for one in everything)


def sunk(query: Body, documents: Sequence[Body], factor: float) -> Body:
    """A query whose scores of some ``documents`` are multiplied by a ``factor`` below 1; it finds what it found."""
    if not documents:
        return query
    functions = [{"filter": one, "weight": round(factor, 4)} for one in documents]
    return {"function_score": {"query": query, "functions": functions, "score_mode": "first"}}


def ids_clause(ids: Sequence[str]) -> Body:
    """The documents with these ids."""
    return {"ids": {"values": list(ids)}}


def document_clauses(ids: Sequence[str], homes: Mapping[str, str]) -> list[Body]:
    """Clauses for judged documents, by their ``homes`` where those are known: of several indices each may have another
    document of the same id."""
    if not homes:
        return [ids_clause(ids)] if ids else []
    by_home: dict[str, list[str]] = {}
    for id in ids:
        by_home.setdefault(homes[id], []).append(id)
    return [{"bool": {"filter": [ids_clause(those), {"term": {"_index": home}}]}} for home, those in by_home.items()]
