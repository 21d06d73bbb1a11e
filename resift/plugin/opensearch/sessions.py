"""A session store in an OpenSearch index, which several replicas of the service share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from resift.contracts.documents import check_name
from resift.contracts.session_store import PURGE_BATCH, SEARCH_TIMEOUT, SessionRecord, SessionStore
from resift.errors import EngineError, EngineUnavailable, NotFound, SessionsUnavailable
from resift.plugin.opensearch.client import T, call, connect, create_if_missing, scroll

_DELETE_ATTEMPTS = 20
# The key of the write id in a stored session, next to the session's own keys. Every write stores a new random id.
_WRITE = "write"
_TIMEOUT = 5.0  # seconds
# Prefix of the document ids. A session id may be "." or "..", which cannot be a part of a URL path.
_KEY = "s:"
SETTINGS = {
    "number_of_shards": 1,
    "auto_expand_replicas": "0-1",
    "index.hidden": True,  # searches on * leave the index out
    "index.refresh_interval": "30s",  # sessions are read by id, which needs no refresh
    "index.codec": "best_compression",
}
MAPPINGS = {
    "dynamic": "strict",
    "properties": {
        "expires": {"type": "date", "format": "epoch_millis"},
        "indices": {"type": "keyword"},
        "session": {"type": "object", "enabled": False},  # stored, not indexed
    },
}


class OpenSearchSessionStore(SessionStore):
    """A store for search sessions in an OpenSearch index. Several instances of the service can share it.

    The first write creates the index. Each session is a document. The cluster detects concurrent writes: an update
    names the sequence number and primary term of the version that was read (``if_seq_no``, ``if_primary_term``), and a
    new session is written with ``op_type=create``.

    Args:
        url: The URLs of the cluster.
        index: The name of the index.
    """

    def __init__(self, url: str, index: str) -> None:
        self.index = check_name(index)
        self.client = connect(url, _TIMEOUT)
        self._created = False

    def _call(self, function: Callable[..., T], **keywords: Any) -> T:
        """Call a method of the OpenSearch client, and convert errors of the cluster to SessionsUnavailable.

        Args:
            function: The method of the client.
            **keywords: The arguments of the method.

        Raises:
            SessionsUnavailable: If the cluster cannot be reached, or refuses the request.
        """
        try:
            return call(function, **keywords)
        except (EngineUnavailable, EngineError) as error:
            forbidden = isinstance(error, EngineError) and error.status in (401, 403)
            expected = "a user with rights to this index" if forbidden else "a reachable cluster"
            if "cluster_block_exception" in error.message:  # set by an operator, or by OpenSearch if a disk is full
                expected = "no block on this index; OpenSearch removes its own block when disk space is available again"
            raise SessionsUnavailable(f"sessions: {error.message}", value=self.index, expected=expected) from error

    def read(self, id: str, wait: bool = True) -> SessionRecord | None:
        """Return the latest version of a session, or None if the session does not exist.

        Args:
            id: The id of the session.
            wait: Whether the caller can wait. If True, the request is repeated for up to five seconds while the shard
                is not available. If False, SessionsUnavailable is raised after half a second without an answer, so that
                a search does not wait.
        """
        response = self._get(id, wait)
        if not response.get("found"):
            # An "error" means that the index is missing: it was dropped, and the next write must create it.
            self._created = self._created and "error" not in response
            return None
        return _session_record(response["_source"], (response["_seq_no"], response["_primary_term"]))

    def _get(self, id: str, wait: bool) -> dict[str, Any]:
        """Request the document that stores a session, and return OpenSearch's response.

        Args:
            id: The id of the session.
            wait: Whether to try again while the shard is not available, because the index was just created or a node is
                restarting.
        """
        deadline = time.monotonic() + (_TIMEOUT if wait else 0)
        while True:
            try:
                params = {"ignore": 404, **_time_limit(wait)}
                return self._call(self.client.get, index=self.index, id=f"{_KEY}{id}", params=params)
            except SessionsUnavailable as error:
                if "no_shard_available" not in error.message or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def write(self, id: str, session: SessionRecord, wait: bool = True) -> bool:
        """Write a session, unless another process has changed the stored session since it was read.

        Args:
            id: The id of the session.
            session: The new contents, with the version that was read. For a new session, the version is None.
            wait: Whether the request may take several seconds. Otherwise, it times out after half a second, so that a
                search does not wait.

        Returns:
            Whether the session was written.
        """
        params: dict[str, Any] = {"ignore": (404, 409), **_time_limit(wait)}
        if session.version is None:
            if not self._created:
                body = {"settings": SETTINGS, "mappings": MAPPINGS}
                self._call(create_if_missing, client=self.client, index=self.index, body=body)
                self._created = True
            params |= {"op_type": "create"}
        else:
            params |= {"if_seq_no": session.version[0], "if_primary_term": session.version[1]}
        write_id = secrets.token_hex(4)
        body = {
            "expires": round(session.expires * 1000),
            "indices": session.indices,
            "session": {**session.body, _WRITE: write_id},
        }
        response = self._call(self.client.index, index=self.index, id=f"{_KEY}{id}", body=body, params=params)
        if "error" not in response:
            return True
        # If the response to a write is lost, the client sends the write again, and the cluster reports a conflict with
        # the first attempt. Reporting this conflict would make the caller add the same marks a second time.
        return response.get("status") == 409 and self._was_written_by(id, write_id)

    def _was_written_by(self, id: str, write_id: str) -> bool:
        """Return whether a write request has stored the current version of a session.

        Args:
            id: The id of the session.
            write_id: The random id that the write request has stored in the session.
        """
        response = self._call(self.client.get, index=self.index, id=f"{_KEY}{id}", params={"ignore": 404})
        session = response["_source"].get("session") if response.get("found") else None
        return isinstance(session, dict) and session.get(_WRITE) == write_id

    def delete(self, id: str) -> bool:
        """Delete a session, and return whether it existed."""
        response = self._call(self.client.delete, index=self.index, id=f"{_KEY}{id}", params={"ignore": 404})
        return bool(response.get("result") == "deleted")

    def scan(self, index: str | None = None) -> Iterator[tuple[str, SessionRecord]]:
        """Return an iterator over the ids and contents of all sessions.

        Args:
            index: If not None, only sessions with judgements in this index are returned.
        """
        query = {"match_all": {}} if index is None else {"term": {"indices": index}}
        return (
            (hit["_id"].removeprefix(_KEY), _session_record(hit["_source"])) for hit in self._hits({"query": query})
        )

    def scan_indices(self) -> Iterator[tuple[str, Any]]:
        """Yield the id of each stored session, and the names of the indices that contain its judged documents."""
        hits = self._hits({"query": {"match_all": {}}, "_source": ["indices"]})
        return ((hit["_id"].removeprefix(_KEY), hit["_source"].get("indices")) for hit in hits)

    def _hits(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Search the index of the stored sessions, and return all hits, or no hits if the index does not exist."""
        try:
            self._refresh()
            # Reading all hits here raises errors here, and not in the caller's loop.
            return self._call(lambda: list(scroll(self.client, self.index, body)))
        except NotFound:
            return []

    def delete_index(self, index: str) -> int:
        """Delete the sessions in which documents of an index were judged. The index itself is not deleted.

        Args:
            index: The name of the index.

        Returns:
            The number of deleted sessions.
        """
        return self._delete({"term": {"indices": index}})

    def purge(self, before: float, wait: bool = True) -> int:
        """Delete expired sessions, and return how many were deleted.

        Args:
            before: A Unix time in seconds. Sessions that expired before this time are deleted.
            wait: Whether to wait until all of these sessions are deleted. If False, only a first batch is deleted, and
                SessionsUnavailable is raised after half a second, although the cluster continues.
        """
        return self._delete({"range": {"expires": {"lt": round(before * 1000)}}}, all_batches=wait)

    def _delete(self, query: dict[str, Any], all_batches: bool = True) -> int:
        """Delete the sessions that match a query, and return how many were deleted.

        Args:
            query: The query clause that selects the stored sessions.
            all_batches: Whether to delete all matching sessions, with several requests if necessary. Otherwise, a
                single request deletes at most PURGE_BATCH sessions, and times out after half a second.
        """
        params: dict[str, Any] = {"conflicts": "proceed", **_time_limit(all_batches)}
        if not all_batches:
            params["max_docs"] = PURGE_BATCH
        deleted = 0
        for _ in range(_DELETE_ATTEMPTS):
            try:
                if all_batches:
                    # On a blocked index, _delete_by_query waits for a long time. Deleting a document that does not
                    # exist fails at once there.
                    self.delete("")
                    self._refresh()
                response = self._call(
                    self.client.delete_by_query, index=self.index, body={"query": query}, params=params
                )
            except NotFound:
                break
            deleted += response["deleted"]
            # Sessions that were written during the deletion are skipped as conflicts. The next attempt checks whether
            # they still match.
            if not all_batches or not response["version_conflicts"]:
                break
        return deleted

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def _refresh(self) -> None:
        """Make all writes visible to queries now. Otherwise, they become visible after at most 30 seconds."""
        self._call(self.client.indices.refresh, index=self.index)


def _time_limit(wait: bool) -> dict[str, float]:
    """Return the URL parameters that set the timeout of a request to the cluster.

    Args:
        wait: Whether the caller can wait for several seconds. Then the result is empty, so that the client's timeout of
            five seconds applies. If False, the timeout is half a second, because a user is waiting for the response.
    """
    return {} if wait else {"request_timeout": SEARCH_TIMEOUT}


def _session_record(source: dict[str, Any], version: Any = None) -> SessionRecord:
    expires = source.get("expires")
    body = source.get("session")
    if isinstance(body, dict):
        body = {name: value for name, value in body.items() if name != _WRITE}
    return SessionRecord(
        body=body,
        expires=expires / 1000 if isinstance(expires, (int, float)) else None,
        indices=source.get("indices"),
        version=version,
    )
