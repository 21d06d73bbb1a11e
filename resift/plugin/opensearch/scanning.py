"""Documents read page by page, as all of them were at one time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opensearchpy import OpenSearch

from resift.contracts.query_dsl import Body
from resift.errors import EngineUnavailable, IndexNotFound, NotFound
from resift.plugin.opensearch.client import call

_PAGE = 500  # documents that are read together
_KEPT = "10m"  # how long the cluster keeps its place, between two pages


def scroll(client: OpenSearch, index: str, body: Body, **params: Any) -> Iterator[dict[str, Any]]:
    """Yield all hits of a search body on one index. Raises EngineUnavailable where a shard cannot be read.

    Unlike opensearch-py's ``scan``, which ends without a word where shards fail before the first hit or behind the
    last.
    """
    seconds = client.transport.seconds  # a page of documents is larger than that of a search
    # No search pipeline: the index's default one is not meant for this.
    asked = {"size": _PAGE, **body, "sort": ["_doc"], "search_pipeline": "_none"}
    whole = {"scroll": _KEPT, "allow_partial_search_results": "false", "request_timeout": seconds, **params}
    answer = _whole(call(client.search, index=index, body=asked, params=whole))
    place = answer["_scroll_id"]
    try:
        while answer["hits"]["hits"]:
            yield from answer["hits"]["hits"]
            next_page = {"scroll_id": place, "scroll": _KEPT}
            answer = _whole(call(client.scroll, body=next_page, params={"request_timeout": seconds}))
            place = answer["_scroll_id"]
    except IndexNotFound:
        raise
    except NotFound as error:
        raise EngineUnavailable(f"a shard of {index} was lost while it was read: {error.message}") from error
    finally:
        call(client.clear_scroll, body={"scroll_id": [place]}, params={"ignore": 404})


def _whole(answer: Mapping[str, Any]) -> Any:
    shards = answer["_shards"]
    if shards["failed"] or shards["successful"] + shards.get("skipped", 0) < shards["total"]:
        raise EngineUnavailable(f"only {shards['successful']} of {shards['total']} shards could be read")
    return answer
