"""A search as a caller asks for it, and the body that the engine is asked before it is rewritten."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from resift.contracts.documents import IndexInfo
from resift.contracts.search_options import SearchRequest
from resift.errors import BadInput
from resift.query.allow_list import check_listed
from resift.rewriting.clauses import question_clause
from resift.rewriting.request import Asked, asked_in, check_clause, telling_words

# Characters of a text that are looked at for highlights: OpenSearch fails a whole search for one document of more than
# a million, unless it is told how far to look.
_HIGHLIGHTED = 100_000
# What a body may hold alone that is not about a query. Whatever else is alone is taken for a query clause.
_WITHOUT_QUERY = ("aggs", "aggregations", "suggest", "sort", "size", "from")


class Search(SearchRequest, frozen=True, kw_only=True):
    """A search with what its caller may do.

    ``listed_only``: whether clauses and bodies may hold only what :mod:`resift.query.allow_list` lists.
    ``headers``: the caller's own HTTP headers, which the engine is asked with.
    """

    listed_only: bool = False
    headers: Mapping[str, str] | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether all of it is within bounds, so that it may be sent to another node after one failed: texts, and what
        is listed."""
        return self.listed_only or (isinstance(self.query, str) and self.filter is None)


def search_body(search: Search, info: IndexInfo, rarity: Callable[[str], float]) -> dict[str, Any]:
    """The search body that a search stands for.

    ``rarity`` says which words of a text are kept that is too long for the engine, as
    :func:`resift.rewriting.request.telling_words` has it.

    Raises BadInput for a body whose own ``query`` is no clause, or whose ``size`` or ``from`` is no whole number, and
    for a clause or body with ``documents``.
    """
    page = {"size": search.size, "from": search.start}
    if isinstance(search.query, str):
        clause = question_clause(telling_words(search.query, len(info.fields), rarity), info.fields)
        query = {"bool": {"must": [clause], "filter": [search.filter]}} if search.filter else clause
        highlighted: dict[str, Any] = {name: {} for name in info.fields or ["*"]}
        how = {"fields": highlighted, "encoder": "html", "max_analyzer_offset": _HIGHLIGHTED}
        highlight = {"highlight": how} if search.highlight else {}
        return {**page, "query": query, **highlight, **({"_source": False} if search.documents == "none" else {})}
    if search.documents != "source":
        expected = "source: a body says by _source what comes back"
        raise BadInput(f"documents is {search.documents!r}", value=search.documents, expected=expected)
    body = {"query": search.query} if is_clause(search.query) else dict(search.query)
    if not isinstance(body.get("query", {}), dict):
        raise BadInput("malformed query", value=body["query"], expected="a query clause")
    for name in ("size", "from"):
        value = body.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise BadInput(f"{name} is {value!r}", value=value, expected="a whole number, 0 or more")
    if search.filter:
        body["query"] = filtered(body.get("query", {"match_all": {}}), search.filter)
    return {**page, **body}


def filtered(query: dict[str, Any], condition: dict[str, Any]) -> dict[str, Any]:
    """A query that finds only what meets a condition; ``hybrid`` stands inside no other, and has conditions itself."""
    inner = query.get("hybrid")
    if not isinstance(inner, dict):
        return {"bool": {"must": [query], "filter": [condition]}}
    own = [inner["filter"]] if "filter" in inner else []
    return {"hybrid": {**inner, "filter": {"bool": {"filter": [*own, condition]}} if own else condition}}


def is_clause(query: dict[str, Any]) -> bool:
    """Whether an object that is asked for is a query clause, and no whole search body."""
    return len(query) == 1 and query.keys().isdisjoint(("query", *_WITHOUT_QUERY))


def check_asked(search: Search, max_text: int, listed_only: bool) -> None:
    """Raise BadInput, TextTooLong or ClauseNotAllowed for a query or filter that is too much, or not listed."""
    for name, asked in (("query", search.query), ("filter", search.filter)):
        if isinstance(asked, dict) and listed_only:
            check_listed(name, asked, "clause" if name == "filter" or is_clause(asked) else "body", search.size)
        elif isinstance(asked, dict):
            check_clause(name, asked, max_text)


def asked_by(search: Search, body: dict[str, Any]) -> Asked:
    """What a search asks of its rewriting; where it says nothing, what its ``body`` would ask through a pipeline.

    Raises BadInput for a malformed ``ext.ml_inference`` of the body.
    """
    named = {name: getattr(search, name) for name in ("session", "alpha", "window", "widen", "knn")}
    said: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if isinstance(search.query, str):
        said = {"text": search.query, "widen": True, **said}
    if search.judged != "keep":
        said["judged"] = search.judged
    if search.without:
        said["without"] = search.without
    return replace(asked_in(body), through_cluster=False, **said)
