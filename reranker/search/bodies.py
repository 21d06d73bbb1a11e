"""Search bodies: what the engine is asked, from what the caller asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from resift.plugin.documents import IndexInfo
from resift.reranker.search.request import Search
from resift.text import tokenize

_ENGINE_ORDER = ("sort", "search_after", "collapse", "rescore")
_TEXT_CLAUSES = (
    "match",
    "multi_match",
    "match_phrase",
    "query_string",
    "simple_query_string",
    "combined_fields",
)
# aggregations and totals are left out: they describe the result of the first request, which is the caller's own
_OF_HITS = ("size", "_source", "highlight", "fields", "docvalue_fields")


def search_body(search: Search, info: IndexInfo) -> tuple[dict[str, Any], str]:
    """The engine's search body for a search, and the text that is encoded ("" where there is none)."""
    if isinstance(search.query, str):
        clause = text_clause(search.query, info.fields)
        query = {"bool": {"must": [clause], "filter": [search.filter]}} if search.filter else clause
        highlighted: dict[str, Any] = {name: {} for name in info.fields or ["*"]}
        highlight = {"highlight": {"fields": highlighted, "encoder": "html"}}
        return {"query": query, **(highlight if search.highlight else {})}, search.query
    body = dict(search.query) if "query" in search.query or not search.query else {"query": search.query}
    if search.filter:
        body["query"] = {"bool": {"must": [body.get("query", {"match_all": {}})], "filter": [search.filter]}}
    return body, find_text(body.get("query", {}))


def expanded_body(
    body: dict[str, Any], text: str, terms: Mapping[str, float], fields: Sequence[str]
) -> dict[str, Any] | None:
    """``body`` with a session's expansion ``terms`` (word → weight) as further clauses; None if there are no terms.

    Of a query ``text`` a hit may match the terms alone; a query clause of the caller's own must still match. What
    describes the whole result, such as aggregations, is left out.
    """
    if not terms:
        return None
    # the terms' weights are for a query of length 1: this scales them to the query's own length
    length = sum(count**2 for count in Counter(tokenize(text)).values()) ** 0.5 or 1.0
    clauses = [text_clause(word, fields, boost=round(weight * length, 4)) for word, weight in terms.items()]
    query = body.get("query", {"match_all": {}})
    of_hits = {name: body[name] for name in _OF_HITS if name in body}
    return {**of_hits, "query": {"bool": _with_clauses(query, clauses, text_clause(text, fields))}}


def _with_clauses(query: dict[str, Any], clauses: list[dict[str, Any]], own: dict[str, Any]) -> dict[str, Any]:
    """A ``bool`` of the query and further clauses; ``own`` is the clause that a query text is asked with."""
    inner = query.get("bool", {}) if set(query) == {"bool"} else {}
    if set(query) == {"multi_match"}:
        return {"should": [query, *clauses]}
    if set(inner) == {"must", "filter"} and inner["must"] == [own]:
        return {"should": [own, *clauses], "filter": inner["filter"], "minimum_should_match": 1}
    return {"must": [query], "should": clauses}


def text_clause(text: str, fields: Sequence[str], **settings: Any) -> dict[str, Any]:
    """The query clause that asks for a text in an index's ``fields``, in all of them if it names none."""
    return {"multi_match": {"query": text, "fields": list(fields) or ["*"], **settings}}


def find_text(query: Any) -> str:
    """The first text that a query clause asks for, depth first; "" if there is none.

    >>> find_text({"bool": {"must": [{"match": {"title": {"query": "bush fire"}}}]}})
    'bush fire'
    """
    if isinstance(query, Mapping):
        return next((found for found in (_text_of_clause(*item) for item in query.items()) if found), "")
    if isinstance(query, list):
        return next((found for found in map(find_text, query) if found), "")
    return ""


def _text_of_clause(kind: Any, body: Any) -> str:
    if kind not in _TEXT_CLAUSES or not isinstance(body, Mapping):
        return find_text(body)
    # {"multi_match": {"query": text}}, {"match": {field: text}} or {"match": {field: {"query": text}}}
    inner = body.get("query", next(iter(body.values()), ""))
    found = inner.get("query", "") if isinstance(inner, Mapping) else inner
    return found if isinstance(found, str) else ""


def why_not_reranked(body: dict[str, Any], text: str, search: Search) -> str | None:
    """Why a search is left in the engine's order; None if it is reranked."""
    for name in _ENGINE_ORDER:
        if name in body:
            return f"the query has {name!r}"
    if body.get("size", search.size) == 0:
        return "no hits were asked for"
    if not text and search.session is None:
        return "the query has no text"
    return None
