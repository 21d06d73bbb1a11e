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
    """Return a ``bool`` query that is marked as rewritten.

    The mark is a filter: a ``match_all`` clause with the ``_name`` :data:`resift.query.dsl.REWRITTEN_NAME`. OpenSearch
    tests for each hit whether it matches a named clause, and no clause is cheaper to test.
    """
    return bool_clause(must, should, [*filter, {"match_all": {"_name": REWRITTEN_NAME}}], must_not)


def document_clauses(ids: Sequence[str], home_indices: Mapping[str, str]) -> list[Body]:
    """Return clauses that match documents by their ids.

    Args:
        ids: The ids of the documents.
        home_indices: A mapping from the id of a document to the name of its index, if several indices are searched.
            Each of these indices can contain a different document with the same id. Empty if a single index is
            searched.
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
    """Return a clause that gives a fixed score to certain documents.

    Args:
        documents: A clause that matches the documents.
        score: The score, which is rounded to a 32-bit float.
    """
    return {"constant_score": {"filter": documents, "boost": float(np.float32(score))}}


def scaled(query: Body, documents: Sequence[Body], factor: float) -> Body:
    """Return a query that matches the same documents, but multiplies the scores of some of them.

    Args:
        query: The query.
        documents: Clauses that match the documents whose scores are multiplied. If empty, ``query`` is returned.
        factor: The factor, which is rounded to four decimal places.
    """
    if not documents:
        return query
    functions = [{"filter": clause, "weight": round(factor, 4)} for clause in documents]
    return {"function_score": {"query": query, "functions": functions, "score_mode": "first"}}


def not_widened_marker(query: Body) -> Body:
    """Return a clause that marks the hits that a query does not match.

    The clause itself matches no documents and adds no score. Inside, it contains a clause with the ``_name``
    :data:`WIDENED_NAME`, and OpenSearch tests for each hit whether the hit matches this named clause. The test needs
    only the words of the original query, which are fewer than the words that widen it.

    Args:
        query: The original query, before it is widened.
    """
    return bool_clause([{"bool": {"must_not": [query], "_name": WIDENED_NAME}}], must_not=[{"match_all": {}}])


def rescore_stage(window_size: int, query: Body, score_mode: str) -> Body:
    """Return a rescore stage: OpenSearch scores the top-ranked hits of each shard with a second query.

    Args:
        window_size: The number of top-ranked hits on each shard that are rescored.
        query: The second query.
        score_mode: How the second score is combined with the first one, for example ``total`` or ``multiply``.
    """
    return {"window_size": window_size, "query": {"rescore_query": query, "score_mode": score_mode}}


def demotion_stage(window_size: int, documents: list[Body]) -> Body:
    """Return a rescore stage that ranks certain documents behind all other hits that are rescored.

    Args:
        window_size: The number of top-ranked hits on each shard that are rescored.
        documents: Clauses that match the documents.
    """
    rest = {"constant_score": {"filter": {"bool": {"must_not": documents}}, "boost": NOT_DEMOTED_FACTOR}}
    return rescore_stage(window_size, rest, "multiply")


def rescore_stages(body: Body, stages: Sequence[Body]) -> list[Body]:
    """Return the rescore stages that a search body already has, followed by further stages."""
    own_stages = body.get("rescore") or []
    return [*(own_stages if isinstance(own_stages, list) else [own_stages]), *stages]


def highlight_of(body: Body, query: Body) -> Body:
    """Return ``{"highlight": …}`` for a search body, so that only the words of a certain query are highlighted.

    By default, OpenSearch would also highlight the words that were added to the query.

    Args:
        body: The original search body.
        query: The query whose words are highlighted, unless the ``highlight`` section names another query.

    Returns:
        An object with the key ``highlight``, or an empty object if the body requests no highlights.
    """
    highlight = body.get("highlight")
    return {"highlight": {"highlight_query": query, **highlight}} if isinstance(highlight, Mapping) else {}
