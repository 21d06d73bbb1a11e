"""A transport for opensearch-py that sends a request to another node, within its time limit, if a node fails."""

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

# Time limit for opening a connection, in seconds. TCP resends a lost packet after one second.
CONNECT_SECONDS = 2.0
# Time limit in seconds for a quick request to one node, as long as another node can still be tried.
PATIENCE_SECONDS = 3.0
# Time in seconds for which a failed node gets no requests, however often it has failed. By default, opensearch-py
# doubles this time with each failure. This would have two disadvantages. The node would be left out for longer than a
# restart takes. And if all nodes have failed, opensearch-py tries the node whose time ends first: of two nodes, that
# would be the node that failed most recently.
_DEAD_SECONDS = 30
# The last part of the path of searches. _search/scroll is left out, because sending it twice would skip a page.
_SEARCHES = {"_search", "_msearch", "_count"}
# Endpoints with method POST whose second execution changes nothing more. _bulk requests name the ids of documents.
_IDEMPOTENT_POSTS = {"_bulk", "_refresh", "_delete_by_query"}
_PING_SECONDS = 1.0
# Statuses with which a proxy answers if the node behind it does not answer.
_LOST_BY_GATEWAY = (502, 504)


class FailoverTransport(Transport):  # type: ignore[misc]
    """A transport for opensearch-py that tries several nodes, with a single deadline for the whole request.

    If there are several nodes, a node gets only PATIENCE_SECONDS to answer a search or a request for a single document.
    Only the last node gets all of the remaining time. A search is therefore not lost if a node hangs, and a slow search
    can still finish. A search that must not be repeated (see :data:`resift.contracts.engine.RETRYABLE`) is sent to a
    single node, which gets all of the time.

    Args:
        hosts: The addresses of the nodes, in the format of opensearch-py.
        timeout: The time limit of a request in seconds.
        search_timeout: The time limit in seconds of a request that only reads, such as a search. It is usually shorter,
            because a user is waiting.
        **settings: Other settings of opensearch-py's transport.

    Attributes:
        seconds: The time limit of a request.
        search_seconds: The time limit of a request that only reads.
    """

    connection_pool: Any

    def __init__(self, hosts: list[dict[str, Any]], timeout: float, search_timeout: float, **settings: Any) -> None:
        retry_settings = {"max_retries": 0, "retry_on_timeout": True}
        dead_settings = {"dead_timeout": _DEAD_SECONDS, "timeout_cutoff": 0}
        super().__init__(hosts, timeout=timeout, **retry_settings, **dead_settings, **settings)
        self.seconds, self.search_seconds = timeout, search_timeout
        self._thread_state = threading.local()
        self._process = os.getpid()
        self._lock = threading.Lock()

    def perform_request(  # noqa: PLR0913 - the signature of opensearch-py
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        timeout: float | None = None,
        ignore: Collection[int] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request to one node after another, until a node answers or the time limit is reached.

        The time limit is the first of these values that is set: the argument ``timeout``, the URL parameter
        ``request_timeout``, the URL parameter ``timeout``, and the limit of this transport.

        Args:
            method: The HTTP method.
            url: The path of the request.
            params: The URL parameters.
            body: The body of the request, which is converted to JSON.
            timeout: The time limit in seconds.
            ignore: HTTP statuses that do not raise an exception.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.

        Returns:
            The parsed body of the response.

        Raises:
            ConnectionTimeout: If no node answers within the time limit.
            TransportError: If the connection to the last node fails, or if the response has an error status.
        """
        params = dict(params or {})
        default_seconds = self.search_seconds if _only_reads(method, url) else self.seconds
        seconds = timeout or params.pop("request_timeout", None) or params.pop("timeout", None) or default_seconds
        deadline = time.monotonic() + seconds
        headers = self._merge_headers(headers)
        nodes = len(self.connection_pool.connection_opts)
        for remaining_tries in reversed(range(max(2, nodes))):
            remaining_seconds = max(deadline - time.monotonic(), 0.1)
            has_other_node = remaining_tries > 0 and nodes > 1
            wait = remaining_seconds
            if has_other_node and _is_quick_and_repeatable(method, url):
                wait = min(PATIENCE_SECONDS, remaining_seconds)
            limits = Timeout(connect=min(CONNECT_SECONDS, wait), read=wait)
            try:
                return super().perform_request(method, url, {**params}, body, limits, ignore, headers)
            except TransportError as error:
                is_late = time.monotonic() >= deadline
                if is_late or not remaining_tries or not self._may_retry(error, method, url):
                    if isinstance(error, ConnectionTimeout):
                        raise ConnectionTimeout("TIMEOUT", f"none within {seconds:g} seconds", error.info) from error
                    raise
        raise AssertionError("the loop returns or raises")  # pragma: no cover

    def _merge_headers(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        """Return the HTTP headers to send with a request: the caller's headers and the caller's X-Opaque-Id.

        The names are in lower case, so that the headers replace the headers of opensearch-py. The X-Opaque-Id is read
        from a context variable. It is not in ``headers``, because ``headers`` is a part of cache keys, and the id
        differs for each request.

        Args:
            headers: The caller's headers, or None.

        Raises:
            BadInput: If the caller sends an Authorization header, but requests are signed for AWS.
        """
        lowered = {name.lower(): value for name, value in (headers or {}).items()}
        if (id := OPAQUE_ID.get()) is not None:
            lowered[OPAQUE_ID_HEADER.lower()] = id
        if "authorization" in lowered and self.kwargs.get("http_auth") is not None:
            # The AWS signature would replace this header, and the caller would get the rights of the service.
            raise BadInput(
                "the header Authorization cannot be passed on to a cluster with AWS signatures",
                expected="no Authorization header",
            )
        return lowered

    def get_connection(self) -> Any:
        """Choose a node for the next request of the current thread, and return the connection to it."""
        if self._process != os.getpid():
            self._reconnect_after_fork()
        self._thread_state.node = super().get_connection()
        return self._thread_state.node

    def _reconnect_after_fork(self) -> None:
        """Replace all connections after the process was forked.

        A forked process that used the connections of its parent would read the responses to the parent's requests.
        """
        with self._lock:
            if self._process != os.getpid():
                hosts = [host for _, host in self.connection_pool.connection_opts]
                self.connection_pool = EmptyConnectionPool()  # set_connections would reuse connections of the old pool
                self.set_connections(hosts)
                self._process = os.getpid()

    def _may_retry(self, error: TransportError, method: str, url: str) -> bool:
        """Return whether a failed request may be sent to another node.

        A search may have crashed its node, and must not crash a second node. It is only repeated if the first node
        still answers a ping.

        Args:
            error: The exception that the request raised.
            method: The HTTP method.
            url: The path of the request.
        """
        if isinstance(error.info, (NewConnectionError, ConnectTimeoutError)):
            return True  # the request was never sent
        if not _is_repeatable(method, url):
            return False
        if isinstance(error, ConnectionTimeout):
            return len(self.connection_pool.connection_opts) > 1
        if isinstance(error, ConnectionFailed) or error.status_code in _LOST_BY_GATEWAY:
            return _endpoint(url) not in _SEARCHES or _is_alive(self._thread_state.node)
        return error.status_code in self.retry_on_status


def _is_quick_and_repeatable(method: str, url: str) -> bool:
    """Return whether a request is normally answered at once, and may be sent again to another node.

    Requests that only read and requests for a single document are answered at once, unlike bulk requests.

    Args:
        method: The HTTP method.
        url: The path of the request.
    """
    is_quick = _only_reads(method, url) or "_doc" in url.split("/") or "/_create/" in url
    return is_quick and _is_repeatable(method, url)


def _only_reads(method: str, url: str) -> bool:
    return method in ("GET", "HEAD") or _endpoint(url) in _SEARCHES


def _is_repeatable(method: str, url: str) -> bool:
    if _endpoint(url) in _SEARCHES:
        return RETRYABLE.get()
    return method != "POST" or _endpoint(url) in _IDEMPOTENT_POSTS


def _is_alive(node: Connection) -> bool:
    try:
        node.perform_request("HEAD", "/", timeout=_PING_SECONDS)
    except TransportError as error:
        return error.status_code in (401, 403)  # the node refuses the credentials, so it is alive
    return True


def _endpoint(url: str) -> str:
    """Return the last part of the path of a request, such as ``_search``."""
    return url.rsplit("/", 1)[-1]
