"""Highlights of a page's hits, asked for once the page is known: for all candidates they cost more than the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from resift.plugin.engine import Engine
from resift.ranking.feedback import Feedback
from resift.reranker.search.bodies import expanded_body
from resift.reranker.search.hits import hit_key
from resift.reranker.search.request import ParsedSearch

Hits = Sequence[dict[str, Any]]


def add_highlights(engine: Engine, parsed: ParsedSearch, page: Hits, feedback: Feedback | None) -> None:
    """Give the page's hits the fragments that match a query text, if the search wants any.

    For hits that the engine's own query found these are that query's, for others those of the expanded query.
    """
    if not parsed.highlight:
        return
    own = [hit for hit in page if hit["resift"]["engine_rank"] is not None]
    joined = [hit for hit in page if hit["resift"]["engine_rank"] is None]
    asked = [(parsed.body["query"], own)]
    expanded = feedback and expanded_body(parsed.body, parsed.text, feedback.expansion_terms, parsed.info.fields)
    if expanded:
        asked.append((expanded["query"], joined))
    bodies = [_highlight_body(query, hits, parsed.highlight) for query, hits in asked if hits]
    if bodies:
        answers = engine.search_all(parsed.search.index, bodies, headers=parsed.search.headers)
        fragments = {hit_key(hit): hit.get("highlight") for answer in answers for hit in answer.hits}
        for hit in page:
            if fragments.get(hit_key(hit)) is not None:
                hit["highlight"] = fragments[hit_key(hit)]


def _highlight_body(query: dict[str, Any], hits: Hits, highlight: dict[str, Any]) -> dict[str, Any]:
    """A search for the fragments of these hits alone."""
    clauses = query["bool"] if set(query) == {"bool"} else {"must": [query]}
    # beside a filter the clauses of `should` are optional unless this says otherwise
    matching = {} if "must" in clauses else {"minimum_should_match": 1}
    ids = {"ids": {"values": [hit["_id"] for hit in hits]}}
    return {
        "query": {"bool": {**clauses, **matching, "filter": [*clauses.get("filter", []), ids]}},
        # an id may be found in each of several indices
        "size": len(hits) * len({hit["_index"] for hit in hits}),
        "_source": False,
        "highlight": highlight,
    }
