"""Search bodies: what the engine is asked, from what the caller asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resift.plugin.documents import IndexInfo
from resift.text import tokenize

_AS_IT_IS = ("sort", "search_after", "collapse", "rescore")
_TEXT_CLAUSES = (
    "match",
    "multi_match",
    "match_phrase",
    "query_string",
    "simple_query_string",
    "combined_fields",
)


@dataclass(frozen=True)
class Search:
    """One search as a caller asked for it; ``query`` is a text, a query clause or a whole search body.

    ``method``: ``late`` (the trained reranker), ``vectors``, or ``auto``: late where one is in service. ``alpha``
    and ``normalization`` None are the method's own. ``knn`` None is the configured number of nearest documents,
    which is another where a session has taught something.
    """

    index: str
    query: str | dict[str, Any]
    session: str | None = None
    size: int = 10
    start: int = 0
    window: int = 100
    alpha: float | None = None
    normalization: str | None = None
    method: str = "auto"
    knn: int | None = None
    highlight: bool = False
    filter: dict[str, Any] | None = None
    headers: Mapping[str, str] | None = None


def search_body(search: Search, info: IndexInfo) -> tuple[dict[str, Any], str]:
    """The engine's search body, and the text that is encoded ('' where none is found)."""
    if isinstance(search.query, str):
        fields = list(info.fields) or ["*"]
        text = own_text(search.query, info.fields)
        query = {"bool": {"must": [text], "filter": [search.filter]}} if search.filter else text
        highlight = {"highlight": {"fields": {name: {} for name in fields}, "encoder": "html"}}
        return {"query": query, **(highlight if search.highlight else {})}, search.query
    body = dict(search.query) if "query" in search.query or not search.query else {"query": search.query}
    if search.filter:
        body["query"] = {"bool": {"must": [body.get("query", {"match_all": {}})], "filter": [search.filter]}}
    return body, find_text(body.get("query", {}))


def longer_body(
    body: dict[str, Any], text: str, terms: Mapping[str, float], fields: Sequence[str]
) -> dict[str, Any] | None:
    """The search body that asks for a session's ``terms`` too; None where there are none.

    A query text may be left unmatched then, a query clause may not. What is asked of the whole result (aggregations,
    totals) is left to the first request.
    """
    if not terms:
        return None
    length = sum(count**2 for count in Counter(tokenize(text)).values()) ** 0.5 or 1.0
    clauses = [
        {"multi_match": {"query": word, "fields": list(fields) or ["*"], "boost": round(weight * length, 4)}}
        for word, weight in terms.items()
    ]
    query = body.get("query", {"match_all": {}})
    inner = query.get("bool", {}) if set(query) == {"bool"} else {}
    if set(query) == {"multi_match"}:
        longer: dict[str, Any] = {"should": [query, *clauses]}
    elif set(inner) == {"must", "filter"} and inner.get("must") == [own_text(text, fields)]:
        longer = {"should": [*inner["must"], *clauses], "filter": inner["filter"], "minimum_should_match": 1}
    else:
        longer = {"must": [query], "should": clauses}
    kept: dict[str, Any] = {
        name: body[name] for name in ("size", "_source", "highlight", "fields", "docvalue_fields") if name in body
    }
    return {**kept, "query": {"bool": longer}}


def own_text(text: str, fields: Sequence[str]) -> dict[str, Any]:
    """The clause that a query text is asked with."""
    return {"multi_match": {"query": text, "fields": list(fields) or ["*"]}}


def find_text(query: Any) -> str:
    """The first text that a query clause asks for, depth first.

    >>> find_text({"bool": {"must": [{"match": {"title": {"query": "bush fire"}}}]}})
    'bush fire'
    """
    if isinstance(query, Mapping):
        for kind, body in query.items():
            if kind in _TEXT_CLAUSES and isinstance(body, Mapping):
                inner = body.get("query", next(iter(body.values()), ""))
                found = inner.get("query", "") if isinstance(inner, Mapping) else inner
            else:
                found = find_text(body)
            if isinstance(found, str) and found:
                return found
    if isinstance(query, list):
        return next((found for found in map(find_text, query) if found), "")
    return ""


def _why_not(body: dict[str, Any], text: str, search: Search) -> str | None:
    """Why a search is left in the engine's order, or None."""
    for name in _AS_IT_IS:
        if name in body:
            return f"the query has {name!r}"
    if body.get("size", search.size) == 0:
        return "no hits were asked for"
    if not text and search.session is None:
        return "the query has no text"
    return None
