"""Sessions in an OpenSearch index, for several replicas of the reranker."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from resift.contracts.documents import check_name
from resift.contracts.session_store import PURGE_BATCH, SEARCH_TIMEOUT, SessionRecord, SessionStore
from resift.errors import EngineError, EngineUnavailable, NotFound, SessionsUnavailable
from resift.plugin.opensearch.client import T, call, connect, create_unless_there, scroll

_ATTEMPTS = 20
_WRITE = "write"  # beside a session's own keys: a random name of the write that stored it
_TIMEOUT = 5.0  # seconds
_KEY = "s:"  # before a session's id, which may be "." or "..": no path can hold that
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
        "session": {"type": "object", "enabled": False},  # stored as it is, not indexed
    },
}


class OpenSearchSessionStore(SessionStore):
    """Sessions as documents of ``index`` in the cluster at ``url``; the index is created by the first write.

    A write names the sequence number and the primary term that were read (``if_seq_no``, ``if_primary_term``), and a
    new session is written with ``op_type=create``; the cluster refuses both if another writer was faster.
    """

    def __init__(self, url: str, index: str) -> None:
        self.index = check_name(index)
        self.client = connect(url, _TIMEOUT)
        self._created = False

    def _call(self, function: Callable[..., T], **named: Any) -> T:
        try:
            return call(function, **named)
        except (EngineUnavailable, EngineError) as error:
            forbidden = isinstance(error, EngineError) and error.status in (401, 403)
            expected = "a user with rights to it" if forbidden else "a cluster that answers"
            if "cluster_block_exception" in error.message:  # set by somebody, or by OpenSearch where a disk is full
                expected = "no block on that index; OpenSearch lifts its own when there is disk space again"
            raise SessionsUnavailable(f"sessions: {error.message}", value=self.index, expected=expected) from error

    def read(self, id: str, wait: bool = True) -> SessionRecord | None:
        answer = self._get(id, wait)
        if not answer.get("found"):
            # An error means that there is not even an index: somebody dropped it, and the next write must create it.
            self._created = self._created and "error" not in answer
            return None
        return _stored(answer["_source"], (answer["_seq_no"], answer["_primary_term"]))

    def _get(self, id: str, wait: bool) -> dict[str, Any]:
        """The engine's answer. The shard may be starting: another writer makes the index now, or a node is back."""
        deadline = time.monotonic() + (_TIMEOUT if wait else 0)
        while True:
            try:
                params = {"ignore": 404, **_limit(wait)}
                return self._call(self.client.get, index=self.index, id=f"{_KEY}{id}", params=params)
            except SessionsUnavailable as error:
                if "no_shard_available" not in error.message or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def write(self, id: str, session: SessionRecord, wait: bool = True) -> bool:
        params: dict[str, Any] = {"ignore": (404, 409), **_limit(wait)}
        if session.version is None:
            if not self._created:
                body = {"settings": SETTINGS, "mappings": MAPPINGS}
                self._call(create_unless_there, client=self.client, index=self.index, body=body)
                self._created = True
            params |= {"op_type": "create"}
        else:
            params |= {"if_seq_no": session.version[0], "if_primary_term": session.version[1]}
        write = secrets.token_hex(4)
        body = {
            "expires": round(session.expires * 1000),
            "indices": session.indices,
            "session": {**session.body, _WRITE: write},
        }
        answer = self._call(self.client.index, index=self.index, id=f"{_KEY}{id}", body=body, params=params)
        # A write whose answer got lost is sent again, and the cluster refuses it because of the first one: whoever is
        # told so would add the same marks a second time.
        return "error" not in answer or (answer.get("status") == 409 and self._holds(id, write))

    def _holds(self, id: str, write: str) -> bool:
        """Whether what is stored under an id comes from this very write."""
        answer = self._call(self.client.get, index=self.index, id=f"{_KEY}{id}", params={"ignore": 404})
        session = answer["_source"].get("session") if answer.get("found") else None
        return isinstance(session, dict) and session.get(_WRITE) == write

    def delete(self, id: str) -> bool:
        answer = self._call(self.client.delete, index=self.index, id=f"{_KEY}{id}", params={"ignore": 404})
        return bool(answer.get("result") == "deleted")

    def scan(self, index: str | None = None) -> Iterator[tuple[str, SessionRecord]]:
        query = {"match_all": {}} if index is None else {"term": {"indices": index}}
        try:
            self._refresh()
            # A list, so that what goes wrong while scanning is raised in here.
            hits = self._call(lambda: list(scroll(self.client, self.index, {"query": query})))
        except NotFound:
            hits = []
        return ((hit["_id"].removeprefix(_KEY), _stored(hit["_source"])) for hit in hits)

    def delete_index(self, index: str) -> int:
        return self._delete({"term": {"indices": index}})

    def purge(self, before: float, wait: bool = True) -> int:
        return self._delete({"range": {"expires": {"lt": round(before * 1000)}}}, everything=wait)

    def _delete(self, query: dict[str, Any], everything: bool = True) -> int:
        """Delete the sessions that match; return how many. Without ``everything``, one request and no refresh."""
        params = {"conflicts": "proceed", **({} if everything else {"max_docs": PURGE_BATCH})}
        deleted = 0
        for _ in range(_ATTEMPTS):
            try:
                if everything:
                    self.delete("")  # refused at once where the index is blocked: a deletion by query would wait
                    self._refresh()
                answer = self._call(self.client.delete_by_query, index=self.index, body={"query": query}, params=params)
            except NotFound:
                break
            deleted += answer["deleted"]
            # A session that was written meanwhile was passed over: it is looked at again, and may match no more.
            if not everything or not answer["version_conflicts"]:
                break
        return deleted

    def close(self) -> None:
        self.client.close()

    def _refresh(self) -> None:
        """Make what was written visible to queries, which the index itself does every 30 s."""
        self._call(self.client.indices.refresh, index=self.index)


def _limit(wait: bool) -> dict[str, float]:
    """The parameters of a request that may have to hurry."""
    return {} if wait else {"request_timeout": SEARCH_TIMEOUT}


def _stored(source: dict[str, Any], version: Any = None) -> SessionRecord:
    expires = source.get("expires")
    seconds = expires / 1000 if isinstance(expires, (int, float)) else None
    body = source.get("session")
    if isinstance(body, dict):
        body = {name: value for name, value in body.items() if name != _WRITE}
    return SessionRecord(body, seconds, source.get("indices"), version)
