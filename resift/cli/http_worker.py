"""A gunicorn worker that waits for clients in one thread and hands requests to others only when they are complete.

gunicorn's own threaded worker reads a request in the thread that answers it: a few clients that send theirs slowly, or
do not take their answers, keep every thread. Here waitress does the reading and writing. gunicorn keeps what waitress
has not: several processes over one loaded model, which are started anew when they die.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import os
import resource
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from gunicorn.workers.base import Worker
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask

from resift.errors import DeadlineExceeded, RequestTimeout, ResiftError, TooBusy
from resift.reranker.access.requests import REQUEST_ID_HEADER, request_id
from resift.reranker.request_log import http_error, identified

THREADS = 8
COMPUTING_THREADS = 2
# what costs computing alone, in proportion to the body: a small one is answered as all else is
COMPUTING = frozenset(("/v1/rerank", "/v1/embeddings"))
SMALL_BODY = 2048
KEEP_ALIVE = 30.0  # seconds that a connection without a request is kept
CONNECTIONS = 1000  # of a process at a time
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_FILES = 3  # that a connection may need: itself, and temporary ones for what it sends and gets
_OTHER_FILES = 500
_HEAD = 64 * 1024
_RECEIVED_AT_ONCE = 64 * 1024
_SENT_IN_TIME = 2**20
_ACCEPTED_AT_ONCE = 100
_RETRY_SECONDS = 5
_GIVEN_ONCE = (b"host", b"content-length", b"transfer-encoding")


class HttpWorker(Worker):  # type: ignore[misc]
    """A process of ``resift serve``. Its application is one of :func:`resift.reranker.create_app`."""

    _next_check = 0.0

    def init_signals(self) -> None:
        """Listen to signals, those that came since the fork among them."""
        super().init_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def run(self) -> None:
        """Serve until the parent process ends this one, or has ended."""
        _log_like_gunicorn(self.log)
        (listener,) = self.sockets
        config = self.wsgi.config["RESIFT"]
        if config.index:
            threading.Thread(target=self.wsgi.extensions["resift"].warm_up, daemon=True).start()
        channels: dict[int, Any] = {}
        most = _allowed_connections()
        adjustments = Adjustments(
            sockets=[listener.sock],
            # clients that send no Host are taken for such that know the address
            server_name=listener.sock.getsockname()[0],
            ident=None,
            connection_limit=most + _OTHER_FILES,  # beyond which waitress would let all others wait
            recv_bytes=_RECEIVED_AT_ONCE,
            max_request_header_size=_HEAD,
            max_request_body_size=config.max_body + 1,  # waitress refuses bodies of just as many
        )
        server = _Listener(self.wsgi, channels, adjustments, listener.sock, most, config.max_connections_per_address)
        while self.alive and self.ppid == os.getppid():
            self._turn(server, channels, config.deadline)
        wasyncore.dispatcher.close(server)  # accepts no more; requests that are under way are answered
        end = time.monotonic() + self.cfg.graceful_timeout
        while server.active_channels and time.monotonic() < end:
            self._turn(server, channels, config.deadline, stopping=True)

    def _turn(self, server: Any, channels: dict[int, Any], deadline: float, stopping: bool = False) -> None:
        """Read and write what can be read and written, and close connections that are overdue."""
        wasyncore.loop(timeout=0.5, use_poll=True, map=channels, count=1)
        now = time.monotonic()
        if now >= self._next_check or stopping:
            self.notify()  # or gunicorn takes this process for one that hangs
            self._next_check = now + min(1.0, deadline / 4)
            for connection in list(server.active_channels.values()):
                connection.check(now, deadline, 0.0 if stopping else KEEP_ALIVE)


class _Listener(TcpWSGIServer):  # type: ignore[misc]
    """Accepts connections: at most ``most``, and ``most_of_one`` from one address.

    Beyond these a new connection takes the place of one that waits for its client, the one of those of its address
    whose request began first; of the address that has the most where there are too many in all. Where all are being
    answered, the new one is refused.
    """

    def __init__(
        self, app: Any, channels: dict[int, Any], settings: Any, bound: Any, most: int, most_of_one: int
    ) -> None:
        self._most, self._most_of_one = most, most_of_one
        super().__init__(
            app,
            channels,
            _sock=bound,
            dispatcher=_Threads(),
            adj=settings,
            sockinfo=(bound.family, bound.type, bound.proto, bound.getsockname()),
            bind_socket=False,
        )

    def handle_accept(self) -> None:
        """Accept many at once: waitress takes one a turn, and a turn takes the longer the more there are."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted = self.accept()
                if accepted is None:
                    return
                self.set_socket_options(accepted[0])
            except OSError as error:  # its client has gone, or there are too many files
                self.logger.warning("no connection accepted: %s", error)
                return
            crowd = self._crowd(_network(accepted[1][0]))
            connection = Connection(self, *accepted, self.adj, map=self._map)
            if crowd is not None:
                waiting = [one for one in crowd if not (one.requests or one.total_outbufs_len)]
                min(waiting, key=lambda one: one.began, default=connection).give_way()

    def _crowd(self, address: str) -> list[Connection] | None:
        """The connections of which one has to go for a new one from an address; None if there is room for it."""
        addresses = Counter(one.address for one in self.active_channels.values())
        if addresses[address] < self._most_of_one:
            if addresses.total() < self._most:
                return None
            ((address, _),) = addresses.most_common(1)
        return [one for one in self.active_channels.values() if one.address == address]


def _network(address: str) -> str:
    """Whose connections are counted together: an IPv4 address, or the 64 bits of an IPv6 network, which is one's own.

    >>> [_network(address) for address in ("10.0.0.1", "::ffff:10.0.0.1", "2001:db8::7")]
    ['10.0.0.1', '10.0.0.1', '2001:db8::/64']
    """
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv4Address):
        return address
    return str(found.ipv4_mapped or ipaddress.IPv6Network((int(found), 64), strict=False))


class _Threads:
    """The threads that answer requests: of what only computes, of what asks nobody, and of all else.

    Those that compute are few, so that searches find a processor, and health checks a thread.

    Those of waitress take turns, so that each request finds the caches of another thread: SQLite's, and memory that the
    allocator keeps by thread. Here one client has one thread, and its searches take two thirds of the time.
    """

    def __init__(self) -> None:
        self._others, self._computing, self._health = map(ThreadPoolExecutor, (THREADS, COMPUTING_THREADS, 1))

    def add_task(self, connection: Connection) -> None:
        """Answer the connection's next request."""
        request = connection.requests[0]
        path, pool = getattr(request, "path", ""), self._others
        if path in COMPUTING and request.body_bytes_received > SMALL_BODY:
            connection.queued, pool = time.monotonic(), self._computing
        elif path == "/healthz":
            pool = self._health
        pool.submit(_answer, connection)


def _answer(connection: Connection) -> None:
    connection.queued = math.inf
    try:
        connection.service()
    except Exception:  # nobody looks at what the pool keeps of it
        connection.logger.exception("answering failed")


class _Parser(HTTPRequestParser):  # type: ignore[misc]
    """Reads a request."""

    def parse_header(self, header_plus: bytes) -> None:
        """Read the request's head. Raises ParsingError for what is no HTTP.

        What another server on the way may read differently is refused too: it would take a part of the body for a
        request, or check another host than we do.
        """
        names = [line.partition(b":")[0].lower() for line in header_plus.split(b"\r\n")]
        twice = [name.decode() for name in _GIVEN_ONCE if names.count(name) > 1]
        if twice:
            raise ParsingError(f"more than one {twice[0]}")
        if b"transfer-encoding" in names and b"content-length" in names:
            raise ParsingError("both transfer-encoding and content-length")
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # such as of int(), which takes no length of 5,000 digits
            raise ParsingError(str(error)) from error
        if self.version != "1.1" and b"transfer-encoding" in names:
            raise ParsingError("transfer-encoding in HTTP/1.0")
        if self.version == "1.1" and b"host" not in names:
            raise ParsingError("no host")
        if self.proxy_netloc and self.proxy_netloc.lower() != self.headers.get("HOST", "").lower():
            raise ParsingError("the host is not that of the URL")


class _Refusal(ErrorTask):  # type: ignore[misc]
    """The answer to what is no HTTP, or too large: as the application answers errors, and not as plain text."""

    def execute(self) -> None:
        error, max_body = self.request.error, self.channel.adj.max_request_body_size - 1
        # a transfer coding that is not known is 501 by the standard; but 5xx alarms those who watch a server
        status = HTTPStatus(400 if error.code == 501 else error.code)
        found = http_error(status, f"{status.phrase}: {error.body}", getattr(self.request, "path", ""), max_body)
        id = _id_of(self.request)
        body = _json(identified(**found, id=id))
        self.status = f"{status.value} {status.phrase}"
        self.response_headers += [("Content-Type", "application/json"), (REQUEST_ID_HEADER, id)]
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Connection(HTTPChannel):  # type: ignore[misc]
    """A client's connection, with a deadline for each request from its first byte to its answer."""

    parser_class = _Parser
    error_task_class = _Refusal
    answering = False
    queued = math.inf  # when its request began to wait for a thread that computes
    unsent = math.inf  # bytes of the answer that were left when its time was last extended

    def __init__(self, server: Any, sock: Any, address: Any, *arguments: Any, **options: Any) -> None:
        self.began = self.used = time.monotonic()
        self.address = _network(address[0])
        super().__init__(server, sock, address, *arguments, **options)

    def received(self, data: bytes) -> Any:
        """Take what the client sent. While a request is answered nothing is read, so this may begin the next one."""
        self.used = time.monotonic()
        if self.request is None:
            self.began, self.answering, self.unsent = self.used, False, math.inf
        return super().received(data)

    def write_soon(self, data: bytes) -> Any:
        """Send a part of the answer."""
        self.answering, self.used = True, time.monotonic()
        return super().write_soon(data)

    def writable(self) -> bool:
        """Whether there is something to send that the thread which answers does not send itself.

        waitress says so while that thread is at it, and its main loop spins until the thread is done, which costs a
        fifth of a search's time.
        """
        if self.requests and self.total_outbufs_len <= self.adj.outbuf_high_watermark:
            return bool(self.will_close or self.close_when_flushed)
        return bool(super().writable())

    def handle_expt(self) -> None:
        """Close a connection with urgent data, which HTTP has not: unread, it would wake the main loop for ever."""
        self.handle_close()

    def check(self, now: float, deadline: float, keep_alive: float) -> None:
        """Close the connection if its client or the application takes longer than it may, all in seconds."""
        if not (self.requests or self.total_outbufs_len or self.request):
            if now - self.used > keep_alive:
                self.handle_close()
        elif now - self.began <= deadline:
            if now - self.queued > deadline / 3:
                self.refuse(TooBusy("too many requests compute", expected=f"another try in {_RETRY_SECONDS} s"))
        elif self.requests:
            told = {"request_id": _id_of(self.requests[0])}
            self.logger.warning("no answer to %s within %g s", self.requests[0].path, deadline, extra=told)
            self.refuse(
                DeadlineExceeded(f"no answer within {deadline:g} s", expected="less work, or a larger RESIFT_DEADLINE")
            )
        elif not self.total_outbufs_len:
            self.refuse(RequestTimeout("the request came too slowly", expected=f"all of it within {deadline:g} s"))
        elif self.total_outbufs_len <= self.unsent - _SENT_IN_TIME:
            # a long answer over a slow line: it may go on as long as some of it is taken
            self.began, self.unsent = now, self.total_outbufs_len
        else:
            self.handle_close()

    def give_way(self) -> None:
        """Close the connection for want of room; whoever has begun a request, or only just come, is told."""
        if self.request or self.began == self.used:
            self.refuse(TooBusy("too many connections", expected="fewer from one address"))
        else:
            self.handle_close()

    def refuse(self, error: ResiftError) -> None:
        """Answer with an error, unless an answer has begun, and close the connection.

        A thread that is still at work on the request notices when it wants to answer.
        """
        with self.outbuf_lock:
            if not self.answering:
                id = _id_of(self.requests[0] if self.requests else self.request)
                body = _json(identified(error.to_dict(), id))
                retry = f"Retry-After: {_RETRY_SECONDS}\r\n" if isinstance(error, TooBusy) else ""
                head = (
                    f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nContent-Type: application/json\r\n"
                    f"{REQUEST_ID_HEADER}: {id}\r\n{retry}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                )
                with suppress(OSError):
                    self.socket.send(head.encode() + body)
            self.handle_close()


def _id_of(request: Any) -> str:
    """The id of a request, as far as it was read; a new one where its client gave it none."""
    headers = getattr(request, "headers", None) or {}
    return request_id({name.replace("_", "-").title(): value for name, value in headers.items()})


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode() + b"\n"


def _allowed_connections() -> int:
    """CONNECTIONS, or as many as there may be files for: where these run out, the main loop would spin.

    The limit of open files is raised, which is often 1,024, as far as the system allows.
    """
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = _FILES * CONNECTIONS + _OTHER_FILES
    if limit == resource.RLIM_INFINITY or limit >= enough:
        return CONNECTIONS
    limit = enough if most == resource.RLIM_INFINITY else min(enough, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    return max(10, (limit - _OTHER_FILES) // _FILES)


def _log_like_gunicorn(log: Any) -> None:
    """Let waitress log where gunicorn does, and not that requests wait for a thread, which is nothing to act on."""
    logging.getLogger("waitress").handlers = log.error_log.handlers
    logging.getLogger("waitress").propagate = False
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
