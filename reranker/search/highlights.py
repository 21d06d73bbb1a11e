"""Highlights of a page's hits, asked for once the page is known: for all candidates they cost more than the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from resift.plugin.engine import Engine
from resift.ranking.feedback import Feedback
from resift.reranker.search.bodies import expanded_body, members_body
from resift.reranker.search.hits import HitKey, hit_key
from resift.reranker.search.request import ParsedSearch

Hits = Sequence[dict[str, Any]]


def add_highlights(engine: Engine, parsed: ParsedSearch, page: Hits, feedback: Feedback | None) -> None:
    """Give the page's hits the fragments that match a query text, if the search wants any.

    For hits that the search's own query finds these are that query's, for others those of the expanded query.
    """
    if not parsed.highlight:
        return
    joined = [hit for hit in page if hit["resift"]["engine_rank"] is None]
    asked = [(parsed.body["query"], page)]
    expanded = feedback and expanded_body(parsed, feedback.expansion_terms)
    if expanded:
        asked.append((expanded["query"], joined))
    bodies = [{**members_body(query, hits), "highlight": parsed.highlight} for query, hits in asked if hits]
    if bodies:
        fragments: dict[HitKey, Any] = {}
        # the search's own query first: what joined may match it as well, and then its fragments are shown
        for answer in engine.search_all(parsed.search.index, bodies, headers=parsed.search.headers):
            for hit in answer.hits:
                if hit.get("highlight") is not None:
                    fragments.setdefault(hit_key(hit), hit["highlight"])
        for hit in page:
            if hit_key(hit) in fragments:
                hit["highlight"] = fragments[hit_key(hit)]
