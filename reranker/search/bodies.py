"""Search bodies: what the engine is asked, before it is rewritten."""

from __future__ import annotations

from typing import Any

from resift.errors import BadInput
from resift.plugin.documents import IndexInfo
from resift.plugin.rewriting.clauses import text_clause
from resift.reranker.search.request import Search


def search_body(search: Search, info: IndexInfo) -> dict[str, Any]:
    """The search body that a search stands for.

    Raises BadInput for a body whose own ``query`` is no clause, or whose ``size`` or ``from`` is no whole number.
    """
    page = {"size": search.size, "from": search.start}
    if isinstance(search.query, str):
        clause = text_clause(search.query, info.fields)
        query = {"bool": {"must": [clause], "filter": [search.filter]}} if search.filter else clause
        highlighted: dict[str, Any] = {name: {} for name in info.fields or ["*"]}
        highlight = {"highlight": {"fields": highlighted, "encoder": "html"}} if search.highlight else {}
        return {**page, "query": query, **highlight}
    body = dict(search.query) if "query" in search.query or not search.query else {"query": search.query}
    if not isinstance(body.get("query", {}), dict):
        raise BadInput("malformed query", value=body["query"], expected="a query clause")
    for name in ("size", "from"):
        value = body.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise BadInput(f"{name} is {value!r}", value=value, expected="a whole number, 0 or more")
    if search.filter:
        body["query"] = {"bool": {"must": [body.get("query", {"match_all": {}})], "filter": [search.filter]}}
    return {**page, **body}
