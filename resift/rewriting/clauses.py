"""The clauses and rescore stages of which rewritten queries are made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from resift.feedback.judgements import DocumentKey
from resift.query.dsl import REWRITTEN_NAME, Body

# The name in ``matched_queries`` of hits that match only a widened query, and not the original query.
WIDENED_NAME = "resift-widened"
# Demotion multiplies the scores of all other hits in the rescore window by this factor. Demoted documents keep their
# scores, so they stay ahead of the hits beyond the window. With smaller scores instead, a demoted document could become
# the last hit of each page.
NOT_DEMOTED_FACTOR = 1000.0
# The maximum number of lists of judged documents that are added to a query or to one of its clauses: documents that
# must not gain from expansion words, documents that are hidden or keep their scores, and one list for each of the two
# factors of irrelevant documents.
MAX_DOCUMENT_LISTS = 4


def bool_clause(
    must: Sequence[Body] = (),
    should: Sequence[Body] = (),
    filter: Sequence[Any] = (),
    must_not: Sequence[Any] = (),
) -> Body:
    """Build a ``bool`` query. Parts without clauses are left out.

    Args:
        must: Clauses that every hit must match.
        should: Optional clauses that add to the score.
        filter: Clauses that every hit must match, without a score.
        must_not: Clauses that no hit may match.
    """
    parts = {"must": must, "should": should, "filter": filter, "must_not": must_not}
    return {"bool": {name: list(clauses) for name, clauses in parts.items() if clauses}}


def marked_bool(
    must: Sequence[Body], should: Sequence[Body] = (), filter: Sequence[Any] = (), must_not: Sequence[Any] = ()
) -> Body:
    """Build a ``bool`` query that can be recognised as a query that Resift has rewritten.

    The query gets an additional filter, a ``match_all`` clause with the ``_name``
    :data:`resift.query.dsl.REWRITTEN_NAME`. OpenSearch tests each hit against named clauses, and ``match_all`` is the
    cheapest clause to test.

    Args:
        must: Clauses that every hit must match.
        should: Optional clauses that add to the score.
        filter: Clauses that every hit must match, without a score.
        must_not: Clauses that no hit may match.
    """
    return bool_clause(must, should, [*filter, {"match_all": {"_name": REWRITTEN_NAME}}], must_not)


def document_clauses(documents: Collection[DocumentKey], has_several_indices: bool) -> list[Body]:
    """Build query clauses that match some documents, for example all judged documents of a session.

    Args:
        documents: The index and the id of each document.
        has_several_indices: Whether several indices are searched. Then each clause is restricted to one index, because
            documents in different indices can have the same id.

    Returns:
        A single clause if a single index is searched. Otherwise one clause for each index that contains some of the
        documents. Empty if there are no documents.
    """
    if not has_several_indices:
        return [_ids_clause([id for _, id in documents])] if documents else []
    ids_by_index: dict[str, list[str]] = {}
    for index, id in documents:
        ids_by_index.setdefault(index, []).append(id)
    return [
        {"bool": {"filter": [_ids_clause(ids_in_index), {"term": {"_index": index}}]}}
        for index, ids_in_index in ids_by_index.items()
    ]


def _ids_clause(ids: Sequence[str]) -> Body:
    return {"ids": {"values": list(ids)}}


def factor_clauses(factors: Mapping[DocumentKey, float], has_several_indices: bool) -> list[tuple[Body, float]]:
    """Build query clauses for documents whose scores are multiplied by factors, one clause for each distinct factor.

    If several indices are searched, there is one clause for each factor and index.

    Args:
        factors: The factor of each document.
        has_several_indices: Whether several indices are searched. See :func:`document_clauses`.

    Returns:
        Clauses that match the documents, each with its factor.
    """
    by_factor: dict[float, list[DocumentKey]] = {}
    for document, factor in factors.items():
        by_factor.setdefault(factor, []).append(document)
    return [
        (clause, factor)
        for factor, documents in by_factor.items()
        for clause in document_clauses(documents, has_several_indices)
    ]


def constant_score(documents: Body, score: float) -> Body:
    """Build a query clause that gives every matching document the same score.

    Args:
        documents: A clause that matches the documents.
        score: The score, which is rounded to a 32-bit float.
    """
    return {"constant_score": {"filter": documents, "boost": float(np.float32(score))}}


def with_scaled_scores(query: Body, factors: Sequence[tuple[Body, float]]) -> Body:
    """Wrap a query in another query that multiplies the scores of some documents by factors.

    The new query matches the same documents as the original query.

    Args:
        query: The query to wrap.
        factors: Clauses that match the documents whose scores are multiplied, each with its factor, which is rounded to
            four decimal places. If empty, the query is returned as it is.
    """
    if not factors:
        return query
    functions = [{"filter": documents, "weight": round(factor, 4)} for documents, factor in factors]
    return {"function_score": {"query": query, "functions": functions, "score_mode": "first"}}


def widened_hit_marker(query: Body) -> Body:
    """Build a query clause that labels the hits that match only a widened query, and not the original query.

    A widened query also searches for related words, so it has more hits. OpenSearch evaluates named clauses for each
    hit separately, even inside a clause that matches no document. The returned clause matches no document, so it
    changes neither the hits nor their scores. It contains a named clause that is true for documents that do not match
    the original query. OpenSearch lists its name, :data:`WIDENED_NAME`, in the ``matched_queries`` of these hits.

    Args:
        query: The original query, before it was widened.
    """
    return bool_clause([{"bool": {"must_not": [query], "_name": WIDENED_NAME}}], must_not=[{"match_all": {}}])


def rescore_stage(window_size: int, query: Body, score_mode: str) -> Body:
    """Build a rescore stage for a search body.

    In a rescore stage, OpenSearch scores the top hits of each shard again with a second query.

    Args:
        window_size: The number of top hits on each shard to rescore.
        query: The second query, which scores these hits again.
        score_mode: How the two scores are combined, for example ``total`` or ``multiply``.
    """
    return {"window_size": window_size, "query": {"rescore_query": query, "score_mode": score_mode}}


def demotion_stage(window_size: int, documents: list[Body]) -> Body:
    """Build a rescore stage that moves some documents behind all other hits in the rescore window.

    Args:
        window_size: The number of top hits on each shard to rescore.
        documents: Clauses that match the documents to move back.
    """
    rest = {"constant_score": {"filter": {"bool": {"must_not": documents}}, "boost": NOT_DEMOTED_FACTOR}}
    return rescore_stage(window_size, rest, "multiply")


def rescore_stages(body: Body, stages: Sequence[Body]) -> list[Body]:
    """Return the rescore stages of a search body, with further stages appended.

    Args:
        body: The search body, which may already contain a rescore stage or a list of stages.
        stages: The stages to append.
    """
    own_stages = body.get("rescore") or []
    return [*(own_stages if isinstance(own_stages, list) else [own_stages]), *stages]


def marked_stages(stages: Sequence[Body]) -> list[Body]:
    """Return a copy of rescore stages that marks the search as rewritten.

    The query of the first stage is marked by :func:`marked_bool`. Use this function for searches whose main query
    cannot be marked.

    Args:
        stages: The rescore stages. If there are none, the result is empty.
    """
    if not stages:
        return []
    first, *rest = stages
    query = {**first["query"], "rescore_query": marked_bool(must=[first["query"]["rescore_query"]])}
    return [{**first, "query": query}, *rest]


def highlight_section(body: Body, query: Body) -> Body:
    """Return the ``highlight`` section of a search body, restricted to the words of a given query.

    Without this restriction, OpenSearch would also highlight words that Resift has added to the query.

    Args:
        body: The original search body.
        query: The query whose words are highlighted, unless the ``highlight`` section names another query.

    Returns:
        ``{"highlight": …}``, or an empty object if the body requests no highlights.
    """
    highlight = body.get("highlight")
    return {"highlight": {"highlight_query": query, **highlight}} if isinstance(highlight, Mapping) else {}
