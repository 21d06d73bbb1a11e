"""A search: as a caller asks for it, and as it is once its query was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from resift.arrays import Floats
from resift.plugin.documents import IndexInfo
from resift.reranker.sessions import MAX_QUERY


@dataclass(frozen=True)
class Search:
    """One search as a caller asks for it.

    ``index``: an index's name, or on OpenSearch whatever stands for several. ``query``: a text, a query clause or a
    whole search body, whose own ``size`` and ``from`` win over ``size`` and ``start``. ``session``: the id of the
    session whose judgements count. ``window``: how many of the engine's first hits are reranked. ``alpha``: weight of
    the similarity, 0 to 1, and ``normalization``: one of :data:`resift.ranking.fusion.NORMALIZATIONS`; None is the
    method's own. ``method``: ``late`` (the trained reranker), ``vectors``, or ``auto``, which is late where one is in
    service. ``knn``: how many nearest documents join the candidates; None is the configured number, which is another
    one in a session that has learned something. ``highlight``: whether the words of a query text are highlighted.
    ``filter``: a query clause that every hit must match. ``headers``: the caller's own HTTP headers, which the engine
    is asked with.
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


@dataclass(frozen=True)
class ParsedSearch:
    """A search whose query was read, for the steps of reranking.

    ``body``: what the engine is asked; of a query text without its highlights, which are in ``highlight``, or None.
    ``text``: what is encoded, "" where the query has no text, and ``vector`` (K,) its vector.
    """

    search: Search
    info: IndexInfo
    body: dict[str, Any]
    highlight: dict[str, Any] | None
    text: str
    vector: Floats

    @property
    def is_text(self) -> bool:
        """Whether a text was searched for, and not a query clause or body of the caller's own."""
        return isinstance(self.search.query, str)

    @property
    def start(self) -> int:
        """Position of the page's first hit in the ranking."""
        start: int = self.body.get("from", self.search.start)
        return start

    @property
    def size(self) -> int:
        """Hits of a page."""
        size: int = self.body.get("size", self.search.size)
        return size

    @property
    def judged_query(self) -> str:
        """The query as judgements made for it have it: sessions keep the first MAX_QUERY characters."""
        return self.text[:MAX_QUERY]
