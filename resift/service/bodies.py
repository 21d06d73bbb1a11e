"""Check search requests, and convert them to OpenSearch search bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from resift.contracts.documents import IndexInfo
from resift.contracts.search_options import SearchRequest
from resift.errors import BadInput
from resift.query.allow_list import check_against_allow_list
from resift.query.body import Query
from resift.query.dsl import Body
from resift.query.limits import check_limits
from resift.query.lookups import named_indices
from resift.query.questions import question_clause, shorten_to_distinctive_words
from resift.rewriting.options import Options, read_options

# The number of characters of a field in which OpenSearch looks for highlights. Without a limit, a document with a
# million characters makes the whole search fail.
_HIGHLIGHTED_CHARACTERS = 100_000
# Keys of a search body without a query. An object with any other single key is a query clause.
_KEYS_WITHOUT_QUERY = ("aggs", "aggregations", "suggest", "sort", "size", "from")


class Search(SearchRequest, frozen=True, kw_only=True):
    """A search request, with the access rights of its caller.

    Attributes:
        listed_only: Whether the caller may only send queries from the allow-list (see :mod:`resift.query.allow_list`).
        headers: The caller's HTTP headers, which are passed on to the search engine.
    """

    listed_only: bool = False
    headers: Mapping[str, str] | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether the search may be sent to another node of the cluster if a node fails.

        A search that made a node fail could make the next node fail, too. Therefore only harmless searches are
        repeated: searches for a text without a filter, and searches that were checked against the allow-list.
        """
        return self.listed_only or (isinstance(self.query, str) and self.filter is None)


def search_body(search: Search, info: IndexInfo, rarity: Callable[[str], float]) -> Body:
    """Return the OpenSearch search body for a search request.

    Args:
        search: The request. Its query can be a text, a query clause or a whole search body.
        info: The names and fields of the searched index.
        rarity: A function that returns how rare a word is. It is used to shorten a text that is too long for the
            engine. See :func:`resift.query.questions.shorten_to_distinctive_words`.

    Raises:
        BadInput: If the query is malformed, or ``size`` or ``from`` is not a whole number. Also if the query is a
            clause or a body, and ``documents`` is not "source". This option selects the parts of documents that hits
            contain, but a search body selects them by its own ``_source``.
    """
    page = {"size": search.size, "from": search.start}
    if isinstance(search.query, str):
        return {**page, **_text_body(search, search.query, info, rarity)}
    if search.documents != "source":
        expected = "source: a body says by _source what comes back"
        raise BadInput(f"documents is {search.documents!r}", value=search.documents, expected=expected)
    body = dict(as_body(search.query))
    if not isinstance(body.get("query", {}), dict):
        raise BadInput("malformed query", value=body["query"], expected="a query clause")
    for name in ("size", "from"):
        value = body.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise BadInput(f"{name} is {value!r}", value=value, expected="a whole number, 0 or more")
    if search.filter:
        body["query"] = with_filter(body.get("query", {"match_all": {}}), search.filter)
    return {**page, **body}


def _text_body(search: Search, text: str, info: IndexInfo, rarity: Callable[[str], float]) -> Body:
    """Return the OpenSearch search body for a search request whose query is a text.

    The caller adds ``from`` and ``size``.

    Args:
        search: The request, with its filter and options for highlights and documents.
        text: The query text.
        info: The names and fields of the searched index.
        rarity: A function that returns how rare a word is, used to shorten very long texts.
    """
    searched_text = shorten_to_distinctive_words(text, len(info.fields), rarity)
    query = question_clause(searched_text, info.query_fields(searched_text))
    if search.filter:
        query = {"bool": {"must": [query], "filter": [search.filter]}}
    body: Body = {"query": query}
    if search.highlight:
        fields: Body = {name: {} for name in info.fields or ["*"]}
        body["highlight"] = {"fields": fields, "encoder": "html", "max_analyzer_offset": _HIGHLIGHTED_CHARACTERS}
    if search.documents == "none":
        body["_source"] = False
    return body


def with_filter(query: Body, condition: Body) -> Body:
    """Return a query that matches only those hits of another query that fulfil a condition.

    The result is a ``bool`` query. OpenSearch does not allow a ``hybrid`` query inside another query, so for a
    ``hybrid`` query the condition is added to its own ``filter``.

    Args:
        query: The query, as JSON. It is not modified.
        condition: A clause that every hit must match.
    """
    hybrid = query.get("hybrid")
    if not isinstance(hybrid, dict):
        return {"bool": {"must": [query], "filter": [condition]}}
    if "filter" in hybrid:
        condition = {"bool": {"filter": [hybrid["filter"], condition]}}
    return {"hybrid": {**hybrid, "filter": condition}}


def is_query_clause(query: Body) -> bool:
    """Return whether a JSON object is a query clause, such as ``{"match": …}``, rather than a whole search body."""
    return len(query) == 1 and query.keys().isdisjoint(("query", *_KEYS_WITHOUT_QUERY))


def as_body(query: Body) -> Body:
    """Return a query clause as a search body, and a search body unchanged."""
    return {"query": query} if is_query_clause(query) else query


def check_search(search: Search, max_text: int, listed_only: bool) -> list[str]:
    """Check the size of a search's query and filter, or check both against the allow-list of query clauses.

    Args:
        search: The search request.
        max_text: The maximum length of each text in the query or the filter, in characters.
        listed_only: Whether to check against the allow-list (see :mod:`resift.query.allow_list`) instead of the size.

    Returns:
        The names of other indices in which the query or the filter looks something up. Empty with ``listed_only``,
        because the allow-list contains no lookups.

    Raises:
        BadInput: If the query or the filter is too large, or malformed.
        TextTooLong: If a text in the query or the filter is too long.
        ClauseNotAllowed: If the query or the filter contains something that the allow-list does not contain.
    """
    indices: list[str] = []
    for name, value in (("query", search.query), ("filter", search.filter)):
        if not isinstance(value, dict):
            continue
        if listed_only:
            shape = "clause" if name == "filter" or is_query_clause(value) else "body"
            check_against_allow_list(name, value, shape, search.size)
        else:
            indices.extend(named_indices(check_limits(name, value, max_text)))
    return indices


def rewriting_options(search: Search, query: Query) -> Options:
    """Return the rewriting options of a search request.

    Options can be set in the request and in ``ext.resift`` of its search body. The request takes precedence.

    Args:
        search: The search request.
        query: The parsed search body.

    Raises:
        BadInput: If ``ext.resift`` or ``ext.ml_inference`` is malformed.
    """
    options = structs.replace(read_options(query), through_cluster=False)
    stated: dict[str, Any] = {}
    if isinstance(search.query, str):
        stated |= {"text": search.query, "widen": True}
    for name in ("session", "alpha", "window", "widen", "knn", "feedback"):
        if getattr(search, name) is not None:
            stated[name] = getattr(search, name)
    if search.judged != "keep":
        stated["judged"] = search.judged
    if search.without:
        stated["without"] = search.without
    return structs.replace(options, **stated)
