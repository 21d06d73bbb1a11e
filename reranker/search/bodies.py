"""Search bodies: what the engine is asked, from what the caller asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from resift.errors import BadInput
from resift.plugin.documents import IndexInfo
from resift.plugin.query_dsl import MAX_RESULTS
from resift.reranker.search.request import ParsedSearch, Search
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
# what describes the whole result and not a hit: it comes with the first request, which is the caller's own
_OF_RESULT = ("aggs", "aggregations", "suggest", "profile", "track_total_hits", "from", "size")
# queries that OpenSearch takes at the top of a body alone
_TOP_ONLY = ("hybrid",)


def search_body(search: Search, info: IndexInfo) -> tuple[dict[str, Any], str]:
    """The engine's search body for a search, and the text that is encoded ("" where there is none).

    Raises BadInput for a body whose own ``query`` is no clause, or whose ``size`` or ``from`` is no whole number.
    """
    if isinstance(search.query, str):
        clause = text_clause(search.query, info.fields)
        query = {"bool": {"must": [clause], "filter": [search.filter]}} if search.filter else clause
        highlighted: dict[str, Any] = {name: {} for name in info.fields or ["*"]}
        highlight = {"highlight": {"fields": highlighted, "encoder": "html"}}
        return {"query": query, **(highlight if search.highlight else {})}, search.query
    body = dict(search.query) if "query" in search.query or not search.query else {"query": search.query}
    if not isinstance(body.get("query", {}), dict):
        raise BadInput("malformed query", value=body["query"], expected="a query clause")
    for name in ("size", "from"):
        value = body.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise BadInput(f"{name} is {value!r}", value=value, expected="a whole number, 0 or more")
    if search.filter:
        body["query"] = {"bool": {"must": [body.get("query", {"match_all": {}})], "filter": [search.filter]}}
    return body, find_text(body.get("query", {}))


def expanded_body(parsed: ParsedSearch, terms: Mapping[str, float]) -> dict[str, Any] | None:
    """The search with a session's expansion ``terms`` (word → weight) as further clauses; None if it takes none.

    Of a query text a hit may match the terms alone; a query clause of the caller's own must still match.
    """
    query = parsed.body.get("query", {"match_all": {}})
    # a hit's score with the terms says nothing of what it has without them, which min_score is about
    if not terms or "min_score" in parsed.body or not query.keys().isdisjoint(_TOP_ONLY):
        return None
    # the terms' weights are for a query of length 1: this scales them to the query's own length
    length = sum(count**2 for count in Counter(tokenize(parsed.text)).values()) ** 0.5 or 1.0
    fields = parsed.info.fields
    clauses = [text_clause(word, fields, boost=round(weight * length, 4)) for word, weight in terms.items()]
    if not parsed.is_text:
        return {**of_hits(parsed.body), "query": {"bool": {"must": [query], "should": clauses}}}
    own, conditions = text_clause(parsed.text, fields), parsed.search.filter
    filtering = {"filter": [conditions], "minimum_should_match": 1} if conditions else {}
    return {**of_hits(parsed.body), "query": {"bool": {"should": [own, *clauses], **filtering}}}


def of_hits(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body without what describes the whole result, for a further request about the same search's hits."""
    return {**{key: value for key, value in body.items() if key not in _OF_RESULT}, "track_total_hits": False}


def members_body(query: Mapping[str, Any], hits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A search for those of these hits that the ``query`` of a query text finds, with that query's scores."""
    # put into the query's own bool, if it has one: the embedded engine scores and highlights no bool in another one
    clauses = query["bool"] if set(query) == {"bool"} else {"must": [query]}
    # beside a filter the clauses of `should` are optional unless this says otherwise
    matching = {} if "must" in clauses else {"minimum_should_match": 1}
    ids = {"ids": {"values": [hit["_id"] for hit in hits]}}
    return {
        "query": {"bool": {**clauses, **matching, "filter": [*clauses.get("filter", []), ids]}},
        # an id may be found in each of several indices
        "size": min(len(hits) * len({hit["_index"] for hit in hits}), MAX_RESULTS),
        "_source": False,
        "track_total_hits": False,
    }


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
    stored = body.get("stored_fields")
    if stored == "_none_" or (isinstance(stored, list) and "_none_" in stored):
        return "hits without stored fields have no ids"
    if body.get("size", search.size) == 0:
        return "no hits were asked for"
    if not text and search.session is None:
        return "the query has no text"
    return None
