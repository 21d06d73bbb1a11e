"""A search body, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from resift.errors import BadInput
from resift.options_section import OPTIONS_SECTION, without_options
from resift.query.dsl import Body
from resift.query.kinds import HYBRID_KIND
from resift.query.text import searched_text
from resift.query.tree import HybridClause, as_list, parse_clause
from resift.query.wrappers import decode_wrapper

_MATCH_ALL: Body = {"match_all": {}}
# Options that OpenSearch may add to a ``bool`` clause, with the values that have no effect.
_BOOL_DEFAULTS: Mapping[str, Any] = {"adjust_pure_negative": True, "boost": 1.0, "should": []}
_NO_DEFAULT = object()
_BEST_SCORE_FIRST = ("_score", {"_score": "desc"}, {"_score": {"order": "desc"}})
# Sections of ``ext``, with the fields that a plugin moves up into ``ext`` itself (see _restore_ext).
_EXT_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "ubi": ("query_id", "user_query", "client_id", "application", "object_id_field", "query_attributes"),
    "rerank": ("query_context",),
}


class TextQuery(NamedTuple):
    """The parts of a query that searches for a text, with optional filters.

    Attributes:
        clause: The clause that searches for the text. No other clause contributes to the score.
        filter: Clauses that every hit must match.
        must_not: Clauses that no hit may match.
    """

    clause: Body
    filter: list[Any]
    must_not: list[Any]


class Query:
    """A parsed OpenSearch search body.

    Attributes:
        body: The search body as JSON, without the section ``ext.resift``.
        options: The section ``ext.resift`` with Resift's options, or None if the body has no such section.
        root: The parsed clause under ``query``, or a ``match_all`` clause if the body has no query.
    """

    def __init__(self, body: Body, options: Any = None) -> None:
        self.body, self.options = body, options
        self.root = parse_clause(body.get("query", _MATCH_ALL))

    @cached_property
    def text(self) -> str:
        """The text that the query searches for, or "" if the query has no text, such as a ``match_all`` query."""
        return searched_text(self.root)

    @property
    def is_rewritten(self) -> bool:
        """Whether Resift has already rewritten the search.

        Resift marks the queries that it has rewritten by giving a clause a special name. The query itself and the
        queries of all rescore stages are checked.
        """
        stages = as_list(self.body.get("rescore"))
        inner = [stage.get("query") for stage in stages if isinstance(stage, Mapping)]
        queries = [query.get("rescore_query") for query in inner if isinstance(query, Mapping)]
        return self.root.is_rewritten or any(parse_clause(query).is_rewritten for query in queries)

    @property
    def is_malformed(self) -> bool:
        """Whether the query is not a valid clause.

        A clause is a JSON object with a single key. A ``hybrid`` clause must also contain a list of at least one query.
        """
        raw = self.root.raw
        if not isinstance(raw, Mapping) or len(raw) != 1:
            return True
        if raw.get(HYBRID_KIND) is None:
            return False
        queries = self.root.settings.get("queries")
        return not (isinstance(self.root, HybridClause) and isinstance(queries, list) and queries)

    @property
    def has_inner_hybrid(self) -> bool:
        """Whether a ``hybrid`` query is inside another clause. OpenSearch allows this only in a few cases."""
        return any(isinstance(clause, HybridClause) and clause is not self.root for clause in self.root.walk())

    @property
    def must_not_be_wrapped(self) -> bool:
        """Whether OpenSearch may reject the query if it is put inside another clause.

        This is the case for three kinds of queries:

        - A ``hybrid`` query cannot be inside another clause.
        - Reranking by maximal marginal relevance (``ext.mmr``) requires that the query is a single ``knn`` or
          ``neural`` clause.
        - A clause of an unknown plugin may have to be the whole query.
        """
        return self.has_mmr or self.root.has_unknown or isinstance(self.root, HybridClause) or self.has_inner_hybrid

    @property
    def has_mmr(self) -> bool:
        """Whether the body asks OpenSearch to rerank the hits by maximal marginal relevance (MMR, ``ext.mmr``)."""
        ext = self.body.get("ext")
        return isinstance(ext, Mapping) and ext.get("mmr") is not None

    @property
    def is_sliced_scroll(self) -> bool:
        """Whether the search reads one slice of a scroll, that is, a part of its hits.

        The value is False for a slice of a point in time (``pit``).
        """
        return "slice" in self.body and "pit" not in self.body

    @property
    def text_query(self) -> TextQuery | None:
        """The text clause and the filters of a plain text search, or None for any other query.

        A plain text search has exactly one scoring clause, and this clause searches for a text. Only such queries can
        be widened to match more documents, because their filters can be applied to the additional documents as well.

        >>> query = {"bool": {"must": {"match": {"title": "fire"}}, "filter": [{"term": {"year": 2001}}]}}
        >>> parse({"query": query}).text_query
        TextQuery(clause={'match': {'title': 'fire'}}, filter=[{'term': {'year': 2001}}], must_not=[])
        """
        root = self.root
        if root.is_text_search:
            return TextQuery(root.raw, [], [])
        if root.kind != "bool":
            return None
        settings = {
            name: value for name, value in root.settings.items() if _BOOL_DEFAULTS.get(name, _NO_DEFAULT) != value
        }
        must = root.parts.get("must", ())
        if settings.keys() - {"must", "filter", "must_not"} or len(must) != 1 or not must[0].is_text_search:
            return None
        return TextQuery(must[0].raw, as_list(settings.get("filter")), as_list(settings.get("must_not")))

    def is_sorted_by_score(self, allow_further_criteria: bool = False) -> bool:
        """Return whether the search sorts its hits by score, best first.

        Args:
            allow_further_criteria: Whether the search may have further sort criteria after the score. By default, the
                score must be the only criterion, because OpenSearch does not rescore a search with several sort
                criteria.
        """
        sort = self.body.get("sort")
        criteria = sort if isinstance(sort, list) else [] if sort is None else [sort]
        if len(criteria) > 1 and not allow_further_criteria:
            return False
        return all(criterion in _BEST_SCORE_FIRST for criterion in criteria[:1])


def parse(body: Body) -> Query:
    """Parse a search body, as :func:`restore_body` returns it.

    A malformed body raises no error here, because OpenSearch reports its errors itself.

    Args:
        body: The search body. It is not modified.

    Returns:
        The parsed body. Its attribute ``body`` is the same object as the argument if nothing was removed or undone.
    """
    ext = body.get("ext")
    return Query(restore_body(body), ext.get(OPTIONS_SECTION) if isinstance(ext, Mapping) else None)


def restore_body(body: Body) -> Body:
    """Return a search body in a form that OpenSearch can run without Resift's plugin.

    The section ``ext.resift`` is removed from the body, because OpenSearch accepts it only if Resift's plugin is
    installed, and because a search must not be rewritten twice.

    Changes that other software makes to bodies are undone:

    - The UBI plugin moves the fields of ``ext.ubi`` up into ``ext`` itself. OpenSearch refuses to read the result.
    - Neural search does the same with ``ext.rerank``.
    - The Search Relevance Workbench encodes the query in a ``wrapper`` clause.

    Args:
        body: The search body. It is not modified.

    Returns:
        The new body, or the same object if nothing was removed or undone.

    >>> restore_body({"ext": {"client_id": "anna", "user_query": None}})
    {'ext': {'ubi': {'client_id': 'anna'}}}
    """
    body = without_options(body)
    restored = {**_restore_ext(body.get("ext")), **_decode_wrapper_clause(body.get("query"))}
    return {**body, **restored} if restored else body


def _restore_ext(ext: Any) -> Body:
    """Restore the sections ``ubi`` and ``rerank`` of a search body's ``ext`` object.

    Plugins of OpenSearch move the fields of these sections up into ``ext`` itself before a search pipeline passes the
    body on. OpenSearch cannot read the result.

    Args:
        ext: The value of ``ext`` in the search body. If it is not an object, nothing is restored.

    Returns:
        ``{"ext": …}`` with the restored object, or {} if nothing has to be restored.

    >>> _restore_ext({"query_context": {"query_text": "fire"}})
    {'ext': {'rerank': {'query_context': {'query_text': 'fire'}}}}
    """
    if not isinstance(ext, Mapping):
        return {}
    restored = dict(ext)
    for section, names in _EXT_SECTIONS.items():
        if section in ext or not any(name in ext for name in names):
            continue
        shown = {name: restored.pop(name, None) for name in names}
        # Fields that the client did not send are null here, and the UBI plugin rejects null.
        restored[section] = {name: value for name, value in shown.items() if value is not None}
    return {"ext": restored} if restored != ext else {}


def _decode_wrapper_clause(query: Any) -> Body:
    """Decode a query in a ``wrapper`` clause. Such a clause contains a query as base64-encoded JSON.

    A clause that cannot be decoded, or that OpenSearch may read differently, is left to OpenSearch.

    Args:
        query: The value of ``query`` in the search body.

    Returns:
        ``{"query": …}`` with the decoded query, or {} if the query is not a ``wrapper`` clause or cannot be decoded.
    """
    wrapper = query.get("wrapper") if isinstance(query, Mapping) and len(query) == 1 else None
    if not isinstance(wrapper, Mapping) or wrapper.keys() != {"query"} or not isinstance(wrapper["query"], str):
        return {}
    try:
        opened = decode_wrapper(wrapper["query"])
    except BadInput:
        return {}
    return {"query": opened} if isinstance(opened, dict) else {}
