"""The clauses and rescore stages of which rewritten queries are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from resift.query.dsl import REWRITTEN_NAME, Body

# The name by which hits without any word of the query itself are recognised, in matched_queries.
WIDENED_NAME = "resift-widened"
# Factor of every hit in the rescore window that is not demoted. Without demotion a document could become the last hit
# of each page; with it the document stays ahead of the hits beyond the window.
NOT_DEMOTED_FACTOR = 1000.0


def bool_clause(
    must: Sequence[Body] = (),
    should: Sequence[Body] = (),
    filter: Sequence[Any] = (),
    must_not: Sequence[Any] = (),
) -> Body:
    """Return a ``bool`` query without its empty parts."""
    parts = {"must": must, "should": should, "filter": filter, "must_not": must_not}
    return {"bool": {name: list(clauses) for name, clauses in parts.items() if clauses}}


def named_bool(
    must: Sequence[Body], should: Sequence[Body] = (), filter: Sequence[Any] = (), must_not: Sequence[Any] = ()
) -> Body:
    """Return a ``bool`` query with the name that marks a rewritten query.

    The name is that of a ``match_all`` clause: OpenSearch tests for each hit whether it matches a named clause, and no
    clause is cheaper to test.
    """
    return bool_clause(must, should, [*filter, {"match_all": {"_name": REWRITTEN_NAME}}], must_not)


def document_clauses(ids: Sequence[str], home_indices: Mapping[str, str]) -> list[Body]:
    """Return clauses that match documents by their ids.

    Args:
        ids: The ids of the documents.
        home_indices: The index of each document by its id, where several indices are searched: each of them can have
            another document with the same id. Empty where a single index is searched.
    """
    if not home_indices:
        return [_ids_clause(ids)] if ids else []
    ids_by_index: dict[str, list[str]] = {}
    for id in ids:
        ids_by_index.setdefault(home_indices[id], []).append(id)
    return [
        {"bool": {"filter": [_ids_clause(ids_in_index), {"term": {"_index": index}}]}}
        for index, ids_in_index in ids_by_index.items()
    ]


def _ids_clause(ids: Sequence[str]) -> Body:
    return {"ids": {"values": list(ids)}}


def constant_score(documents: Body, score: float) -> Body:
    """Return a clause that gives a fixed score to the documents that a clause matches."""
    return {"constant_score": {"filter": documents, "boost": float(np.float32(score))}}


def scaled(query: Body, documents: Sequence[Body], factor: float) -> Body:
    """Return a query that matches the same documents, with the scores of some of them multiplied by a factor."""
    if not documents:
        return query
    functions = [{"filter": clause, "weight": round(factor, 4)} for clause in documents]
    return {"function_score": {"query": query, "functions": functions, "score_mode": "first"}}


def not_widened_marker(query: Body) -> Body:
    """Return a clause that adds no documents and no score, and is named for hits that a query does not match.

    OpenSearch tests the named clause for each hit. The clause contains the words of the query itself, which are fewer
    than the words that widen it.
    """
    return bool_clause([{"bool": {"must_not": [query], "_name": WIDENED_NAME}}], must_not=[{"match_all": {}}])


def rescore_stage(window_size: int, query: Body, score_mode: str) -> Body:
    """Return a rescore stage for the first hits of each shard."""
    return {"window_size": window_size, "query": {"rescore_query": query, "score_mode": score_mode}}


def demotion_stage(window_size: int, documents: list[Body]) -> Body:
    """Return the rescore stage that ranks documents behind all other hits in the window."""
    rest = {"constant_score": {"filter": {"bool": {"must_not": documents}}, "boost": NOT_DEMOTED_FACTOR}}
    return rescore_stage(window_size, rest, "multiply")


def rescore_stages(body: Body, stages: Sequence[Body]) -> list[Body]:
    """Return the rescore stages of a search body, followed by further stages."""
    own_stages = body.get("rescore") or []
    return [*(own_stages if isinstance(own_stages, list) else [own_stages]), *stages]


def highlight_of(body: Body, query: Body) -> Body:
    """Return the ``highlight`` section of a body, under its name, so that it highlights the words of a query.

    Without it, OpenSearch would highlight the expansion words as well. Empty if the body has no highlights.
    """
    highlight = body.get("highlight")
    return {"highlight": {"highlight_query": query, **highlight}} if isinstance(highlight, Mapping) else {}
