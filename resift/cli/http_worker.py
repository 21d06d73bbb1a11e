"""A gunicorn worker that handles connections in a single thread, and passes complete requests to a thread pool.

gunicorn's own threaded worker reads a request in the thread that answers it. A few clients that send slowly, or do not
read their responses, would therefore occupy all threads. Here waitress reads and writes. gunicorn provides what
waitress lacks: several processes that share a loaded model and are restarted when they exit.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import os
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Hashable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple

from gunicorn.workers.base import Worker
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, WSGITask

from resift.cli.lanes import Lanes
from resift.errors import DeadlineExceeded, RequestTimeout, ResiftError, TooBusy
from resift.memory import release_memory
from resift.reranker.access.requests import REQUEST_ID_HEADER, ApiKeys, request_id
from resift.reranker.queueing import LONGEST_WAIT, WAITED
from resift.reranker.request_log import error_body, http_error

KEEP_ALIVE = 30.0  # seconds after which a connection without a request is closed
CONNECTIONS = 1000  # maximum number of concurrent connections of a process
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)  # signals that stop a worker
_FILES = 3  # maximum number of open files of a connection: its socket, and temporary files for request and response
_OTHER_FILES = 500  # number of open files that are reserved for other purposes
_HEAD = 64 * 1024  # maximum bytes of a request's head
_RECEIVED_AT_ONCE = 64 * 1024  # bytes that are read from a socket at a time
_SENT_AT_ONCE = 64 * 1024  # bytes of a response that are collected before they are sent
_SENT_IN_TIME = 2**20  # bytes that a slow client must read within a deadline to get another deadline
_ACCEPTED_AT_ONCE = 100  # maximum number of connections that are accepted in a turn
_RELEASE_SECONDS = 5.0  # seconds after which unused memory is returned to the operating system
_RETRY_SECONDS = 5  # value of Retry-After
# If a request has waited longer than this time in seconds, the server checks whether the client has closed the
# connection. A client that closes only its sending half, and still waits for the response, looks the same. Such a
# client therefore gets a response as long as the service is not overloaded.
_PATIENCE = 0.1
_UNIQUE_HEADERS = (b"host", b"content-length", b"transfer-encoding")  # headers that must not be repeated


class HttpWorker(Worker):  # type: ignore[misc]
    """A worker process of ``resift serve``, which answers HTTP requests with the Flask application."""

    _next_check = 0.0
    _next_release = 0.0

    def init_signals(self) -> None:
        """Install the signal handlers of the worker, and unblock signals.

        The parent process blocks signals before it starts a worker. Signals that arrived since then are handled now.
        """
        super().init_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def run(self) -> None:
        """Answer requests until a signal stops this process, or until the parent process has ended.

        Requests in progress are completed before the method returns.
        """
        _log_like_gunicorn(self.log)
        (listener,) = self.sockets
        config = self.wsgi.config["RESIFT"]
        # Only the service's own application has sessions to load. The proxy of the benchmarks has none.
        if service := self.wsgi.extensions.get("resift"):
            service.loader.start()
            if self.age == 1:  # the first of the processes
                service.loader.submit("engine", service.check_engine)
            if config.index:
                service.loader.submit("start", service.warm_up)
        channels: dict[int, Any] = {}
        max_connections = _max_open_connections()
        adjustments = Adjustments(
            sockets=[listener.sock],
            # The server name of requests without a Host header is the server's address.
            server_name=listener.sock.getsockname()[0],
            ident=None,
            connection_limit=max_connections
            + _OTHER_FILES,  # beyond this limit, waitress would stop accepting connections
            recv_bytes=_RECEIVED_AT_ONCE,
            send_bytes=_SENT_AT_ONCE,
            max_request_header_size=_HEAD,
            max_request_body_size=config.max_body + 1,  # waitress refuses a body of exactly this size
        )
        limits = _ConnectionLimits(max_connections, config.max_connections_per_address)
        server = _Listener(self.wsgi, channels, adjustments, listener.sock, limits)
        while self.alive and self.ppid == os.getppid():
            self._run_once(server, channels, config.deadline)
        wasyncore.dispatcher.close(server)  # accept no more connections, but answer the requests in progress
        end = time.monotonic() + self.cfg.graceful_timeout
        while server.active_channels and time.monotonic() < end:
            self._run_once(server, channels, config.deadline, stopping=True)
        if service:
            service.close()

    def _run_once(self, server: Any, channels: dict[int, Any], max_seconds: float, stopping: bool = False) -> None:
        """Run one iteration of the main loop: read and send data, and close connections that exceed a time limit.

        Args:
            server: The server socket.
            channels: The map from file descriptors to open sockets.
            max_seconds: The maximum number of seconds for a request.
            stopping: Whether the server is shutting down. Idle connections are then closed at once.
        """
        lanes = server.task_dispatcher
        timeout = lanes.seconds_until_late(time.monotonic(), at_most=0.5)
        wasyncore.loop(timeout=timeout, use_poll=True, map=channels, count=1)
        now = time.monotonic()
        lanes.answer_late(now)
        if now >= self._next_check or stopping:
            self.notify()  # otherwise gunicorn would kill this process because it seems to hang
            self._next_check = now + min(1.0, max_seconds / 4)
            if now >= self._next_release:
                release_memory()
                self._next_release = now + _RELEASE_SECONDS
            for connection in list(server.active_channels.values()):
                connection.enforce_time_limits(now, max_seconds, 0.0 if stopping else KEEP_ALIVE)


class _ConnectionLimits(NamedTuple):
    """The maximum numbers of open connections of a worker process.

    Attributes:
        total: The maximum number of connections from all clients.
        per_address: The maximum number of connections from the same network address.
    """

    total: int
    per_address: int


class _Listener(TcpWSGIServer):  # type: ignore[misc]
    """A server socket that accepts a limited number of connections.

    If a limit is reached, a new connection replaces an existing connection:

    - If the limit of a network address is reached, a connection from the same address is replaced.
    - If the total limit is reached, a connection from the address with the most connections is replaced.

    Of these connections, the connection with the oldest request is replaced. Connections on which the server is
    processing a request are never replaced. If there are no others, the new connection is refused.

    Args:
        app: The WSGI application.
        channels: The map from file descriptors to open sockets that waitress uses.
        settings: The settings for waitress.
        bound: The socket on which the server listens, bound to an address.
        limits: The maximum numbers of connections.
    """

    def __init__(
        self, app: Any, channels: dict[int, Any], settings: Any, bound: Any, limits: _ConnectionLimits
    ) -> None:
        self._limits = limits
        keys: ApiKeys = app.extensions["resift_keys"]

        def caller_of(connection: Connection) -> Hashable:
            headers = getattr(connection.requests[0], "headers", None) or {}
            return keys.name_of(_http_headers(headers)) or connection.address

        super().__init__(
            app,
            channels,
            _sock=bound,
            dispatcher=Lanes(caller_of),
            adj=settings,
            sockinfo=(bound.family, bound.type, bound.proto, bound.getsockname()),
            bind_socket=False,
        )

    def handle_accept(self) -> None:
        """Accept the waiting connections, at most _ACCEPTED_AT_ONCE of them.

        The base class in waitress accepts a single connection per iteration of the main loop, which is slow if many
        clients connect at the same time.

        The number of open connections is limited, in total and for each client address. If a limit has been reached, an
        older connection that is not answering a request gives way to the new connection.
        """
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted = self.accept()
                if accepted is None:
                    return
                self.set_socket_options(accepted[0])
            except OSError as error:  # the client closed the connection, or there are too many open files
                self.logger.warning("no connection accepted: %s", error)
                return
            candidates = self._replaceable_connections(_client_network(accepted[1][0]))
            connection = Connection(self, *accepted, self.adj, map=self._map)
            if candidates is not None:
                waiting = [candidate for candidate in candidates if not candidate.is_answering]
                min(waiting, key=lambda candidate: candidate.began, default=connection).give_way()

    def _replaceable_connections(self, address: str) -> list[Connection] | None:
        """Return the open connections among which one must be closed to make room for a new connection.

        If the network address of the new connection has reached its limit, these are the other connections from this
        address. If only the total limit is reached, these are the connections from the address with the most
        connections.

        Args:
            address: The network address of the new connection.

        Returns:
            The connections, or None if no limit is reached, so that no connection must be closed.
        """
        addresses = Counter(connection.address for connection in self.active_channels.values())
        if addresses[address] < self._limits.per_address:
            if addresses.total() < self._limits.total:
                return None
            ((address, _),) = addresses.most_common(1)
        return [connection for connection in self.active_channels.values() if connection.address == address]


def _client_network(address: str) -> str:
    """Return the network of a client. The server limits the number of open connections per network.

    For IPv4, the network is the address itself. For IPv6, it is the /64 network, because a client usually controls all
    addresses of a /64 network.

    Args:
        address: The IP address of the client.

    >>> [_client_network(address) for address in ("10.0.0.1", "::ffff:10.0.0.1", "2001:db8::7")]
    ['10.0.0.1', '10.0.0.1', '2001:db8::/64']
    """
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed), 64), strict=False))


class _Task(WSGITask):  # type: ignore[misc]
    """A request that a thread passes to the Flask application, and the response to it.

    The WSGI environment of the request states how long the request has waited for a thread.
    """

    def finish(self) -> None:
        """Complete the response, and send it. A short response is sent at once, together with its head."""
        super().finish()
        self.channel.flush()

    def get_environment(self) -> dict[str, Any]:
        """Return the WSGI environment of the request, with the times that requests waited for a thread.

        The keys of these times are WAITED and LONGEST_WAIT of :mod:`resift.reranker.queueing`.
        """
        environment: dict[str, Any] = super().get_environment()
        environment[WAITED] = self.channel.waited
        environment[LONGEST_WAIT] = self.channel.server.task_dispatcher.longest_wait()
        return environment


class _Parser(HTTPRequestParser):  # type: ignore[misc]
    """The HTTP request parser of waitress, extended with checks that reject ambiguous requests.

    Examples are requests with two Host headers, or with both Transfer-Encoding and Content-Length.
    """

    def parse_header(self, header_plus: bytes) -> None:
        """Parse the request line and the headers of a request, and reject ambiguous requests.

        A request is ambiguous if a proxy could interpret it differently than this server. An attacker could use such a
        request to hide a second request in its body, or to bypass a check of the host name.

        Args:
            header_plus: The request line and the headers, separated by line breaks.

        Raises:
            ParsingError: If the request line or the headers are ambiguous or are not valid HTTP.
        """
        names = [line.partition(b":")[0].lower() for line in header_plus.split(b"\r\n")]
        repeated = [name.decode() for name in _UNIQUE_HEADERS if names.count(name) > 1]
        if repeated:
            raise ParsingError(f"more than one {repeated[0]}")
        if b"transfer-encoding" in names and b"content-length" in names:
            raise ParsingError("both transfer-encoding and content-length")
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # for example, int() refuses a length of 5,000 digits
            raise ParsingError(str(error)) from error
        if self.version != "1.1" and b"transfer-encoding" in names:
            raise ParsingError("transfer-encoding in HTTP/1.0")
        if self.version == "1.1" and b"host" not in names:
            raise ParsingError("no host")
        if self.proxy_netloc and self.proxy_netloc.lower() != self.headers.get("HOST", "").lower():
            raise ParsingError("the host is not that of the URL")


class _InvalidRequestResponse(ErrorTask):  # type: ignore[misc]
    """An error response for a request that is too large or is not valid HTTP.

    The response has the same JSON format as the errors of the Flask application.
    """

    def execute(self) -> None:
        """Send the error response as JSON. The connection is closed afterwards."""
        error, max_body = self.request.error, self.channel.adj.max_request_body_size - 1
        # The standard status of an unknown transfer coding is 501, but 5xx would trigger alarms.
        status = HTTPStatus(400 if error.code == 501 else error.code)
        # The message of waitress names its own limit, which is larger by one byte.
        message = f"{status.phrase}: the body is too large" if error.code == 413 else f"{status.phrase}: {error.body}"
        details = http_error(status, message, getattr(self.request, "path", ""), max_body)
        id = _request_id(self.request)
        body = _json_bytes(error_body(details, id))
        self.status = f"{status.value} {status.phrase}"
        self.response_headers += [("Content-Type", "application/json"), (REQUEST_ID_HEADER, id)]
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Connection(HTTPChannel):  # type: ignore[misc]
    """A connection to a client. Each request has a time limit, from its first byte to the end of its response.

    All times are in seconds, from ``time.monotonic()``.

    Attributes:
        address: The network of the client. The server limits the number of connections per network.
        began: The time at which the first byte of the current request arrived.
        used: The time of the last activity on the connection.
        response_started: Whether a part of the response has been written.
        queued: The time at which the request began to wait for a free computing thread, or infinity if it is not
            waiting.
        unsent: The number of bytes of the response that were still to be sent when the time limit was last extended.
        waited: The number of seconds that the request has waited for a thread.
    """

    task_class = _Task
    parser_class = _Parser
    error_task_class = _InvalidRequestResponse
    response_started = False
    queued = math.inf
    unsent = math.inf
    waited = 0.0

    def __init__(self, server: Any, sock: Any, address: Any, *arguments: Any, **options: Any) -> None:
        self.began = self.used = time.monotonic()
        self.address = _client_network(address[0])
        super().__init__(server, sock, address, *arguments, **options)

    @property
    def is_answering(self) -> bool:
        """Whether a request is being processed, or a part of the response has not been sent yet."""
        return bool(self.requests or self.total_outbufs_len)

    def answer(self, waited: float) -> None:
        """Answer the next request of the connection.

        A thread of a pool calls this method. If the client has closed the connection meanwhile, the request is only
        removed.

        Args:
            waited: The number of seconds that the request has waited for the thread.
        """
        self.queued, self.waited = math.inf, waited
        try:
            if waited > _PATIENCE and self._is_abandoned():
                self.connected = False
            self.service()
        except Exception:  # the pool would keep the exception without reporting it
            self.logger.exception("answering failed")

    def _is_abandoned(self) -> bool:
        """Return whether the client has closed the connection while its request waited for a thread.

        This check is needed because no data is read from a connection until its request has been answered. A closed
        connection would otherwise not be noticed.
        """
        try:
            return not self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except (AttributeError, OSError):  # the connection is closed
            return True

    def received(self, data: bytes) -> Any:
        """Process data from the client, and record the start time of a request when its first byte arrives.

        No data is read while a request is being answered, so new data always belongs to the current or the next
        request.

        Args:
            data: The bytes that were read from the socket.

        Returns:
            The result of the base class in waitress.
        """
        self.used = time.monotonic()
        if self.request is None:
            self.began, self.response_started, self.unsent = self.used, False, math.inf
        return super().received(data)

    def write_soon(self, data: bytes) -> Any:
        """Send a part of the response, or buffer it until enough data is collected.

        Args:
            data: The bytes to send.

        Returns:
            The result of the base class in waitress.
        """
        self.response_started, self.used = True, time.monotonic()
        return super().write_soon(data)

    def flush(self) -> None:
        """Send as much of the response as the client accepts. The main loop sends the rest."""
        with self.outbuf_lock:
            if self.total_outbufs_len:
                self._flush_exception(self._flush_some, do_close=False)

    def writable(self) -> bool:
        """Return whether the main loop has data to send on this connection.

        The result is False while the thread that answers the request sends the data itself. The base class in waitress
        would return True in this case, so the main loop would run without a pause, and searches would take 20 % more
        time.
        """
        if self.requests and self.total_outbufs_len <= self.adj.outbuf_high_watermark:
            return bool(self.will_close or self.close_when_flushed)
        return bool(super().writable())

    def handle_expt(self) -> None:
        """Close the connection because urgent (out-of-band) TCP data has arrived.

        HTTP does not use urgent data. While such data is unread, the main loop would run without a pause.
        """
        self.handle_close()

    def enforce_time_limits(self, now: float, max_seconds: float, keep_alive: float) -> None:
        """Close the connection if the client or the application has exceeded a time limit.

        If no response has been started, the client receives an error response first.

        Args:
            now: The current time in seconds, from ``time.monotonic()``.
            max_seconds: The maximum time in seconds from the first byte of a request to the end of its response.
            keep_alive: The time in seconds after which an idle connection is closed.
        """
        if not (self.requests or self.total_outbufs_len or self.request):
            if now - self.used > keep_alive:
                self.handle_close()
        elif now - self.began <= max_seconds:
            if now - self.queued > max_seconds / 3:
                expected = f"another try in {_RETRY_SECONDS} s"
                self.refuse(TooBusy("too many requests are being computed", expected=expected))
        elif self.requests:
            extra = {"request_id": _request_id(self.requests[0])}
            self.logger.warning("no answer to %s within %g s", self.requests[0].path, max_seconds, extra=extra)
            self.refuse(
                DeadlineExceeded(
                    f"no answer within {max_seconds:g} s", expected="less work, or a larger RESIFT_DEADLINE"
                )
            )
        elif not self.total_outbufs_len:
            expected = f"the complete request within {max_seconds:g} s"
            self.refuse(RequestTimeout("the request arrived too slowly", expected=expected))
        elif self.total_outbufs_len <= self.unsent - _SENT_IN_TIME:
            # A long response over a slow connection may continue as long as the client reads some of it.
            self.began, self.unsent = now, self.total_outbufs_len
        else:
            self.handle_close()

    def give_way(self) -> None:
        """Close the connection to make room for a new connection of another client.

        The client receives an error response first if it has just connected or has already sent a part of a request.
        """
        if self.request or self.began == self.used:
            self.refuse(TooBusy("too many connections", expected="fewer from one address"))
        else:
            self.handle_close()

    def refuse(self, error: ResiftError) -> None:
        """Close the connection, and send an error response first if no response has been started.

        If a thread is still working on the request, the thread gets an error when it writes its response.

        Args:
            error: The error to send. Its status is the HTTP status of the response.
        """
        with self.outbuf_lock:
            if not self.response_started:
                id = _request_id(self.requests[0] if self.requests else self.request)
                body = _json_bytes(error_body(error.to_dict(), id))
                retry_after = f"Retry-After: {_RETRY_SECONDS}\r\n" if isinstance(error, TooBusy) else ""
                head = (
                    f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nContent-Type: application/json\r\n"
                    f"{REQUEST_ID_HEADER}: {id}\r\n{retry_after}Content-Length: {len(body)}\r\n"
                    "Connection: close\r\n\r\n"
                )
                with suppress(OSError):
                    self.socket.send(head.encode() + body)
            self.handle_close()


def _request_id(request: Any) -> str:
    """Return the id that the client sent with a request, or a new id if there is none.

    Args:
        request: A parsed request, whose headers may be missing.
    """
    return request_id(_http_headers(getattr(request, "headers", None) or {}))


def _http_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Convert header names of the server waitress, such as ``X_API_KEY``, to HTTP's spelling, such as ``X-Api-Key``.

    Args:
        headers: The headers of a request that waitress has parsed.

    Returns:
        The headers with the new names and unchanged values.
    """
    return {name.replace("_", "-").title(): value for name, value in headers.items()}


def _json_bytes(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode() + b"\n"


def _max_open_connections() -> int:
    """Return how many connections this process can have open at the same time.

    The result is CONNECTIONS, or a smaller number if the process is not allowed to open enough files. This function
    first raises the limit on open files, which is often 1,024, as far as the operating system allows.

    With too many connections, no more files could be opened. The main loop would then use a whole CPU core for failing
    attempts to accept further connections.
    """
    limit, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    sufficient = _FILES * CONNECTIONS + _OTHER_FILES
    if limit == resource.RLIM_INFINITY or limit >= sufficient:
        return CONNECTIONS
    limit = sufficient if maximum == resource.RLIM_INFINITY else min(sufficient, maximum)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, maximum))
    return max(10, (limit - _OTHER_FILES) // _FILES)


def _log_like_gunicorn(log: Any) -> None:
    """Send the log messages of waitress to the log of gunicorn.

    Messages about requests that wait for a free thread are dropped, because nobody has to act on them.

    Args:
        log: The logger of the gunicorn worker.
    """
    logging.getLogger("waitress").handlers = log.error_log.handlers
    logging.getLogger("waitress").propagate = False
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
