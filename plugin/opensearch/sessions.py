"""Sessions in an OpenSearch index, for several replicas of the reranker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from opensearchpy.helpers import scan

from resift.errors import EngineError, EngineUnavailable, NotFound, SessionsUnavailable
from resift.plugin.documents import check_name
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.session_store import PURGED_AT_ONCE, SessionStore, StoredSession

T = TypeVar("T")
_ATTEMPTS = 20
_TIMEOUT = 5.0  # seconds; a search waits no longer for its session
SETTINGS = {
    "number_of_shards": 1,
    "auto_expand_replicas": "0-1",
    "index.hidden": True,  # searches for * do not see it
    "index.refresh_interval": "30s",  # sessions are read by their ids, which needs no refresh
    "index.codec": "best_compression",
}
MAPPINGS = {
    "dynamic": "strict",
    "properties": {
        "expires": {"type": "date", "format": "epoch_millis"},
        "indices": {"type": "keyword"},
        "session": {"type": "object", "enabled": False},  # kept as it is, not indexed
    },
}


class OpenSearchSessionStore(SessionStore):
    """Sessions as documents of ``index``, which is made when it is first written to.

    A write names the sequence number and primary term that were read (``if_seq_no``, ``if_primary_term``), and a new
    session is written by ``op_type=create``; the cluster refuses both where another was faster.
    """

    def __init__(self, url: str, index: str) -> None:
        self.engine, self.index = OpenSearchEngine(url, _TIMEOUT), check_name(index)
        self.client = self.engine.client
        self._made = False

    def _call(self, function: Callable[..., T], **named: Any) -> T:
        try:
            return self.engine.call(function, **named)
        except (EngineUnavailable, EngineError) as error:
            expected = "a cluster that answers"
            raise SessionsUnavailable(f"sessions: {error}", value=self.index, expected=expected) from error

    def read(self, id: str) -> StoredSession | None:
        found = self._call(self.client.get, index=self.index, id=_key(id), params={"ignore": 404})
        if not found.get("found"):
            self._made = self._made and "error" not in found  # there is not even an index
            return None
        source = found["_source"]
        version = (found["_seq_no"], found["_primary_term"])
        return StoredSession(source["session"], source["expires"] / 1000, source["indices"], version)

    def write(self, id: str, kept: StoredSession) -> bool:
        params: dict[str, Any] = {"ignore": (404, 409)}
        if kept.version is None:
            self._make()
            params |= {"op_type": "create"}
        else:
            params |= {"if_seq_no": kept.version[0], "if_primary_term": kept.version[1]}
        body = {"expires": round(kept.expires * 1000), "indices": kept.indices, "session": kept.body}
        answer = self._call(self.client.index, index=self.index, id=_key(id), body=body, params=params)
        return "error" not in answer

    def _make(self) -> None:
        """Make the index, unless it is there: one that the cluster made by itself would have other mappings."""
        if self._made:
            return
        body = {"settings": SETTINGS, "mappings": MAPPINGS}
        try:
            if not self._call(self.client.indices.exists, index=self.index):
                self._call(self.client.indices.create, index=self.index, body=body)
        except SessionsUnavailable:
            if not self._call(self.client.indices.exists, index=self.index):
                raise
        self._made = True

    def delete(self, id: str) -> bool:
        answer = self._call(self.client.delete, index=self.index, id=_key(id), params={"ignore": 404})
        return bool(answer.get("result") == "deleted")

    def scan(self, index: str) -> Iterator[StoredSession]:
        query = {"query": {"term": {"indices": index}}}
        try:
            self._call(self.client.indices.refresh, index=self.index)
            hits = self._call(lambda: list(scan(self.client, query, index=self.index)))
        except NotFound:
            return iter(())
        held = (hit["_source"] for hit in hits)
        return (StoredSession(one["session"], one["expires"] / 1000, one["indices"]) for one in held)

    def delete_index(self, index: str) -> int:
        return self._delete({"term": {"indices": index}})

    def purge(self, before: float, wait: bool = True) -> int:
        return self._delete({"range": {"expires": {"lt": round(before * 1000)}}}, wait)

    def _delete(self, query: dict[str, Any], all_of_it: bool = True) -> int:
        """Delete what matches; a session that is written meanwhile is looked at again."""
        params: dict[str, Any] = {"conflicts": "proceed"}
        if not all_of_it:
            params |= {"max_docs": PURGED_AT_ONCE}
        deleted = 0
        for _ in range(_ATTEMPTS):
            try:
                if all_of_it:
                    self._call(self.client.indices.refresh, index=self.index)
                answer = self._call(self.client.delete_by_query, index=self.index, body={"query": query}, params=params)
            except NotFound:
                break
            deleted += answer["deleted"]
            if not all_of_it or not answer["version_conflicts"]:
                break
        return deleted

    def count(self) -> int:
        try:
            self._call(self.client.indices.refresh, index=self.index)
            return int(self._call(self.client.count, index=self.index)["count"])
        except NotFound:
            return 0

    def close(self) -> None:
        self.engine.close()


def _key(id: str) -> str:
    """The document's id; a name may be '.' or '..', which no path can hold."""
    return f"s:{id}"
