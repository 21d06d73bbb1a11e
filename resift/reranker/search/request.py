"""A search as a caller asks for it."""

from __future__ import annotations

from collections.abc import Mapping

from resift.contracts.search_options import SearchRequest


class Search(SearchRequest, frozen=True, kw_only=True):
    """A search with what its caller may do.

    ``listed_only``: whether clauses and bodies may hold only what :mod:`resift.reranker.access.search_list` lists.
    ``headers``: the caller's own HTTP headers, which the engine is asked with.
    """

    listed_only: bool = False
    headers: Mapping[str, str] | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether all of it is within bounds, so that it may be sent to another node after one failed: texts, and what
        is listed."""
        return self.listed_only or (isinstance(self.query, str) and self.filter is None)
