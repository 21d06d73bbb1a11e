"""Search bodies as OpenSearch is sent them: with the versions of hits, or for versions alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from resift.plugin.opensearch.client import to_json
from resift.plugin.query_dsl import MAX_RESULTS, Body, names_vector, without_vector

# The keys of a body whose hits can be completed from the hit cache. It has the fields of documents and nothing else:
# no highlights, sort values, explanations or scripted fields.
_COMPLETABLE = {
    *("query", "size", "from", "_source", "aggs", "aggregations", "min_score", "post_filter", "rescore", "suggest"),
    *("indices_boost", "timeout", "terminate_after", "track_scores", "track_total_hits"),
}


def asks_for_vector(body: Mapping[str, Any]) -> bool:
    """Whether a body names the vector field, so that its hits bring their vectors themselves."""
    return names_vector(body.get("_source"))


def whole_hits(body: Body, vectors: bool) -> Body:
    """The body with the vector field left out unless it names it; with ``vectors`` its hits bring their versions."""
    versions = {"seq_no_primary_term": True} if vectors and not asks_for_vector(body) else {}
    # a body with stored fields has no _source of its own accord, and must not be given one here
    source = (
        {} if "stored_fields" in body and "_source" not in body else {"_source": without_vector(body.get("_source"))}
    )
    return {**body, **source, **versions}


def numbered_hits(body: Body) -> str | None:
    """The body as JSON, its hits by their sequence numbers alone; None if more is asked of them than their fields."""
    if not _COMPLETABLE.issuperset(body) or asks_for_vector(body):
        return None
    bare = {
        "_source": False,
        "stored_fields": "_none_",  # without it OpenSearch reads each document's id, most of what fetching costs
        "seq_no_primary_term": True,
        # That the index has no pipeline of its own was true up to five seconds ago. One that came since must not run
        # over hits without fields; and several bodies sent together have no URL parameter each to say so.
        "search_pipeline": "_none",
    }
    text = to_json({**body, **bare})
    return None if '"inner_hits":' in text else text


def lookup(clauses: list[Body], indices: Collection[str], count: int, source: Any) -> Body:
    """A body for the documents of ``indices`` that match all ``clauses``, ``count`` in each at most, with versions.

    ``search_pipeline`` keeps pipelines of the index away: they belong to the searches of its clients.
    """
    return {
        "query": {"bool": {"filter": [*clauses, {"terms": {"_index": list(indices)}}]}},
        "size": min(len(indices) * count, MAX_RESULTS),
        "_source": source,
        "seq_no_primary_term": True,
        "track_total_hits": False,
        "search_pipeline": "_none",
    }
