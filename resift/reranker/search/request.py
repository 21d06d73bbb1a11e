"""A search as a caller asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DOCUMENTS = ("source", "card", "none")


@dataclass(frozen=True)
class Search:
    """One search.

    ``index``: an index's name, or on OpenSearch whatever stands for several. ``query``: a text, a query clause or a
    whole search body, whose own ``size`` and ``from`` win over ``size`` and ``start``. ``session``: the id of the
    session whose judgements count. ``window``: how many of the engine's first hits are scored anew, and ``alpha``:
    weight of the similarity, 0 to 1; None is the configured window and the method's own weight. ``method``: ``late``
    (the trained reranker), ``vectors``, or ``auto``, which is late where one is in service. ``widen``: whether the
    session may find documents that the query itself does not match, with ``knn`` of the nearest ones; None is yes for a
    query text, and the configured number. ``judged``: what happens to documents that were judged before, as
    :class:`resift.rewriting.rewrite.RewriteSettings` has it. ``reasons``: whether hits tell what their scores
    are made of, and in a session which judgement moved them. ``baseline``: whether hits tell their rank in the engine's
    own answer. ``highlight``: whether the words of a query text are highlighted. ``filter``: a query clause
    that every hit must match. ``documents``: what hits have of their documents: the ``source``, as the engine gives it,
    or of a query text also a ``card`` or ``none``. ``facets``: fields whose most frequent values are counted.
    ``plane``: whether the answer has the hits, marks and query as points of a plane. ``listed_only``: whether clauses
    and bodies may hold only what :mod:`resift.reranker.access.search_list` lists. ``headers``: the caller's own HTTP
    headers, which the engine is asked with.
    """

    index: str
    query: str | dict[str, Any]
    session: str | None = None
    size: int = 10
    start: int = 0
    window: int | None = None
    alpha: float | None = None
    method: str = "auto"
    widen: bool | None = None
    knn: int | None = None
    judged: str = "keep"
    reasons: bool = False
    baseline: bool = False
    highlight: bool = False
    filter: dict[str, Any] | None = None
    documents: str = "source"
    facets: tuple[str, ...] = ()
    plane: bool = False
    listed_only: bool = False
    headers: Mapping[str, str] | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether all of it is within bounds, so that it may be sent to another node after one failed: texts, and what
        is listed."""
        return self.listed_only or (isinstance(self.query, str) and self.filter is None)
