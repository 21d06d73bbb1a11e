"""Several nodes behind one client: the others are asked when one fails, within the time that a request may take."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

from opensearchpy import Connection, Transport
from opensearchpy.connection_pool import EmptyConnectionPool
from opensearchpy.exceptions import ConnectionError as ConnectionFailed
from opensearchpy.exceptions import ConnectionTimeout, TransportError
from urllib3 import Timeout
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from resift.contracts.engine import OPAQUE_ID, OPAQUE_ID_HEADER, RETRYABLE
from resift.errors import BadInput

CONNECT_SECONDS = 2.0  # one lost packet is sent again after a second
PATIENCE_SECONDS = 3.0  # what a node may take for a quick request while there is another to ask
# A node that failed is left alone so long, however often it did. opensearch-py's doubling would outlast a restart, and
# where all have failed it asks the one whose time is over first: of two that would be the one that failed just now.
_DEAD_SECONDS = 30
_SEARCHES = {"_search", "_msearch", "_count"}  # not _search/scroll, which would leave out a page if it is sent twice
# Writes that change nothing more the second time, although their method is POST: those of _bulk name their documents.
_IDEMPOTENT_POSTS = {"_bulk", "_refresh", "_delete_by_query"}
_PING_SECONDS = 1.0
_GATEWAY_LOST_IT = (502, 504)  # what a proxy answers whose node has gone


class FailoverTransport(Transport):  # type: ignore[misc]
    """opensearch-py's transport with a deadline for each request, however many nodes are asked.

    ``timeout`` is the seconds that a request may take in all, and ``search_timeout`` those of one that only reads, such
    as a search: somebody waits for it, while a bulk request may take long where all is well. Of several nodes each but
    the last that is asked gets PATIENCE_SECONDS for a search or a single document; so a frozen node does not cost a
    search its whole time, and a search that takes long has the rest of it. A search that is not RETRYABLE is sent to
    one node alone, which has the whole time.
    """

    connection_pool: Any

    def __init__(self, hosts: list[dict[str, Any]], timeout: float, search_timeout: float, **settings: Any) -> None:
        failing = {"max_retries": 0, "retry_on_timeout": True, "dead_timeout": _DEAD_SECONDS, "timeout_cutoff": 0}
        super().__init__(hosts, timeout=timeout, **failing, **settings)
        self.seconds, self.search_seconds = timeout, search_timeout
        self._asked, self._process, self._lock = threading.local(), os.getpid(), threading.Lock()

    def perform_request(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        timeout: float | None = None,
        ignore: Collection[int] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request to one node after the other until one answers or the time is up; as opensearch-py's does."""
        params = dict(params or {})
        usual = self.search_seconds if _only_reads(method, url) else self.seconds
        seconds = timeout or params.pop("request_timeout", None) or params.pop("timeout", None) or usual
        deadline = time.monotonic() + seconds
        headers = self._own_headers(headers)
        nodes = len(self.connection_pool.connection_opts)
        for others in reversed(range(max(2, nodes))):
            left = max(deadline - time.monotonic(), 0.1)
            wait = min(PATIENCE_SECONDS, left) if others and nodes > 1 and _is_soon_sent_on(method, url) else left
            limits = Timeout(connect=min(CONNECT_SECONDS, wait), read=wait)
            try:
                return super().perform_request(method, url, {**params}, body, limits, ignore, headers)
            except TransportError as error:
                late = time.monotonic() >= deadline
                if late or not others or not self._may_try_again(error, method, url):
                    if isinstance(error, ConnectionTimeout):
                        raise ConnectionTimeout("TIMEOUT", f"none within {seconds:g} seconds", error.info) from error
                    raise
        raise AssertionError("the loop returns or raises")  # pragma: no cover

    def _own_headers(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        """A caller's headers by names in lower case, as opensearch-py has its own: they replace those of one name.

        Beside them stands the caller's X-Opaque-Id. It is none of the ``headers`` that callers hand on, since what was
        read for a caller is remembered by these.
        """
        lowered = {name.lower(): value for name, value in (headers or {}).items()}
        if (id := OPAQUE_ID.get()) is not None:
            lowered[OPAQUE_ID_HEADER.lower()] = id
        if "authorization" in lowered and self.kwargs.get("http_auth") is not None:
            # The signature would take the header's place, and the caller get the service's rights.
            raise BadInput("Authorization cannot be handed on to a cluster of AWS", expected="no Authorization header")
        return lowered

    def get_connection(self) -> Any:
        """The node that this thread's next request goes to; remembered until the one after it."""
        if self._process != os.getpid():
            self._connect_anew()
        self._asked.node = super().get_connection()
        return self._asked.node

    def _connect_anew(self) -> None:
        """Leave a parent's connections: a forked process would read the answers to the requests of the parent."""
        with self._lock:
            if self._process != os.getpid():
                hosts = [host for _, host in self.connection_pool.connection_opts]
                self.connection_pool = EmptyConnectionPool()  # of which no connection is kept
                self.set_connections(hosts)
                self._process = os.getpid()

    def _may_try_again(self, error: TransportError, method: str, url: str) -> bool:
        """Whether another node may be asked after one failed: what can fell a node is never sent to a second one.

        A search whose node is gone may be the reason for it, unless that node answers a ping.
        """
        if isinstance(error.info, (NewConnectionError, ConnectTimeoutError)):
            return True  # it was never sent
        if not _is_repeatable(method, url):
            return False
        if isinstance(error, ConnectionTimeout):
            return len(self.connection_pool.connection_opts) > 1
        if isinstance(error, ConnectionFailed) or error.status_code in _GATEWAY_LOST_IT:
            return _last(url) not in _SEARCHES or _is_alive(self._asked.node)
        return error.status_code in self.retry_on_status


def _is_soon_sent_on(method: str, url: str) -> bool:
    """Whether a request may go to another node, and is answered soon where all is well: no bulk of documents."""
    is_quick = _only_reads(method, url) or "_doc" in url.split("/") or "/_create/" in url
    return is_quick and _is_repeatable(method, url)


def _only_reads(method: str, url: str) -> bool:
    return method in ("GET", "HEAD") or _last(url) in _SEARCHES


def _is_repeatable(method: str, url: str) -> bool:
    if _last(url) in _SEARCHES:
        return RETRYABLE.get()
    return method != "POST" or _last(url) in _IDEMPOTENT_POSTS


def _is_alive(node: Connection) -> bool:
    try:
        node.perform_request("HEAD", "/", timeout=_PING_SECONDS)
    except TransportError as error:
        return error.status_code in (401, 403)  # which is an answer too
    return True


def _last(url: str) -> str:
    return url.rsplit("/", 1)[-1]
