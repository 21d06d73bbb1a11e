"""What each request passes before and after its route.

It gets an id, is admitted by its host, its origin and its key's scope, asks the engine as its caller, and is logged and
counted.

A browser sends requests of any page to any address, also to this machine's own. So changes of other sites are refused
(CSRF), and without keys, where nothing else protects them, also requests to names that are not this machine's: a site
may let its own name point here once its page is loaded (DNS rebinding).
"""

from __future__ import annotations

import hmac
import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, current_app, g, has_app_context, has_request_context, request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from werkzeug.datastructures import Headers

from resift.contracts.engine import OPAQUE_ID, OPAQUE_ID_HEADER, REQUEST_ID
from resift.errors import (
    BadInput,
    Forbidden,
    HostNotAllowed,
    OriginNotAllowed,
    ResiftError,
    Unauthorized,
    UnsupportedMediaType,
)
from resift.plugin.addresses import host_of, is_loopback
from resift.reranker.access.keys import (
    OPEN,
    PREFIX,
    SCOPES,
    VARIABLE,
    Caller,
    Key,
    KeyFile,
    check_key,
    key_hash,
    scope_of,
)
from resift.reranker.request_log import log as answers
from resift.rewriting.outcome import Outcome
from resift.schema import fields_of

if TYPE_CHECKING:
    from resift.service.config import Config

log = logging.getLogger(__name__)
ANSWERED = "X-Request-Id"
_ID = re.compile(r"[!-~]{1,128}")  # what can stand in a header, and in a line of a log
_CHECK_SECONDS = 1.0  # after which the file of keys is looked at again
_NO_VERSION = (0, 0, 0)

_SAFE = ("GET", "HEAD", "OPTIONS")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:{images}; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# no script of the page may make elements of a text: what documents hold stays text
PAGE_POLICY = _POLICY.format(images=" http: https:") + "; require-trusted-types-for 'script'; trusted-types 'none'"
_HEADERS = {
    "Content-Security-Policy": _POLICY.format(images=""),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_CORS = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Api-Key, X-Request-Id, X-Opaque-Id",
    "Access-Control-Expose-Headers": "X-Request-Id",
    "Access-Control-Max-Age": "600",
}
_COUNTED = {  # by the functions at the end
    "rewrites": "Searches of pipelines by what became of them: the codes of resift.rewriting.outcome",
    "searches": "Searches of /v1/search whose hits were reranked, in part, or not, and stand in the engine's order",
    "ubi": "Events and queries of UBI that were sent, and events that were read, by what became of them",
}


def add_request_ids(app: Flask) -> None:
    """Take each request's id from ``X-Opaque-Id`` or ``X-Request-Id``, or give it one, note when it began, and log
    what was answered.

    A value that cannot stand in a header again, or has more than 128 characters, is not taken.
    """

    @app.before_request
    def begin() -> None:
        g.started = time.perf_counter()
        id = request_id(request.headers)
        REQUEST_ID.set(id)
        OPAQUE_ID.set(id if id == request.headers.get(OPAQUE_ID_HEADER) else None)

    @app.after_request
    def answer(response: Response) -> Response:
        response.headers[ANSWERED] = REQUEST_ID.get() or ""
        if answers.isEnabledFor(logging.INFO):
            seconds = round(time.perf_counter() - g.get("started", time.perf_counter()), 6)
            fields = {"method": request.method, "path": request.path, "status": response.status_code}
            answers.info("answered", extra={"fields": {**fields, "seconds": seconds}})
        return response

    @app.teardown_request
    def end(error: BaseException | None) -> None:
        for variable in (REQUEST_ID, OPAQUE_ID):  # the thread answers others too
            variable.set(None)


def request_id(headers: Mapping[str, str] | Headers) -> str:
    """The id that a request's headers give it, or a new one."""
    given = (headers.get(name, "") for name in (OPAQUE_ID_HEADER, ANSWERED))
    return next(filter(_ID.fullmatch, given), None) or uuid.uuid4().hex


class Keys:
    """The keys of a running server: those of the file at ``path``, and ``single``, if given, which has all scopes.

    The file is looked at again once a second. If what is new cannot be read, that is logged and the keys before it
    stay. Once there were keys, they are required for good: a file that vanished lets nobody in. Raises BadInput for a
    malformed key or file, and with ``must_exist`` if there is no file.
    """

    def __init__(
        self, path: str, single: str = "", must_exist: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.file, self.clock = KeyFile(path), clock
        self._single = [Key.create(VARIABLE, SCOPES, check_key(single, VARIABLE))] if single else []
        self._keys: list[Key] = []
        self._required = bool(single)
        self._version = _NO_VERSION
        self._lock = threading.Lock()
        self._load()
        self._checked = clock()
        if must_exist and self._version == _NO_VERSION:
            expected = "resift keys create NAME --scopes search,feedback"
            raise BadInput(f"there is no file of keys {path}", value=path, expected=expected)

    @classmethod
    def from_config(cls, config: Config) -> Keys:
        """The keys that the settings name. Raises BadInput, also for a file that was named and is not there."""
        # such a file would leave the service open
        return cls(config.keys, config.api_key, must_exist=config.keys != fields_of(type(config))["keys"].default)

    @property
    def required(self) -> bool:
        """Whether there are keys, so that nothing is done without one."""
        self._check_now_and_then()
        return self._required

    def find(self, key: str) -> Key | None:
        """The record of a key; None if there is no such key. It takes as long whatever is wrong with it."""
        self._check_now_and_then()
        hashed, found = key_hash(key), None
        for known in [*self._keys, *self._single]:
            if hmac.compare_digest(known.hash, hashed):
                found = known
        return found

    def _check_now_and_then(self) -> None:
        with self._lock:
            now = self.clock()
            if now - self._checked <= _CHECK_SECONDS:
                return
            self._checked = now
            try:
                self._load()
            except ResiftError as error:
                log.error("the keys stay as they were: %s", error.message)

    def _load(self) -> None:
        try:
            status = self.file.path.stat()
        except FileNotFoundError:
            self._keys, self._version = [], _NO_VERSION
            return
        except OSError as error:
            path = str(self.file.path)
            raise BadInput(f"{path} cannot be read: {error}", value=path, expected="a file of keys") from error
        # the file's number too: two changes may have the same time and size
        version = (status.st_mtime_ns, status.st_ino, status.st_size)
        if version != self._version:
            self._keys, self._version, self._required = self.file.read(), version, True


def protect_browsers(app: Flask, keys: Keys, hosts: Sequence[str], origins: Sequence[str]) -> None:
    """Check each request's ``Host``, ``Origin`` and ``Content-Type``, and send the headers that browsers heed.

    ``hosts``: names by which the server may be reached, besides those of this machine; with keys any name will do
    where none are given. ``origins``: the other sites (``https://shop.example``) whose pages may use the API.
    """

    @app.before_request
    def check() -> None:
        host = host_of(f"//{request.host}")
        if (hosts or not keys.required) and host not in hosts and not is_loopback(host):
            raise HostNotAllowed(
                f"requests to {request.host!r} are not answered",
                value=request.host,
                expected="localhost, or a name in RESIFT_HOSTS",
            )
        if request.method not in _SAFE and _is_foreign(origins):
            origin = request.headers.get("Origin", "another site")
            expected = "the same origin, or one in RESIFT_CORS"
            raise OriginNotAllowed(f"{origin} may not change anything here", value=origin, expected=expected)
        if request.endpoint is not None and _has_body() and not request.is_json:
            raise UnsupportedMediaType(
                f"the Content-Type is {request.mimetype or 'missing'}",
                value=request.content_type or "",
                expected="Content-Type: application/json",
            )

    @app.after_request
    def add_headers(response: Response) -> Response:
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        if origins:
            response.vary.add("Origin")
        origin = request.headers.get("Origin")
        if origin in origins:
            response.headers.update({"Access-Control-Allow-Origin": origin, **_CORS})
        return response


def _has_body() -> bool:
    """Whether the request at hand changes something by a body, or says that it had one."""
    stated = any(name in request.headers for name in ("Content-Type", "Transfer-Encoding"))
    return request.method not in _SAFE and (stated or bool(request.content_length))


def _is_foreign(origins: Sequence[str]) -> bool:
    """Whether a page of a site that is not allowed sent the request at hand."""
    origin = request.headers.get("Origin")
    if origin in origins:
        return False
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        # what a browser says itself is right also behind a proxy that changes the Host
        return site not in ("same-origin", "none")
    # programs send no Origin. Schemes are not compared: a proxy may end https before us
    return origin is not None and origin.partition("://")[2].lower() != request.host.lower()


_WITHOUT_BODIES = frozenset(SCOPES) - {"body", "review", "admin"}
_EXPECTED = f"Authorization: Bearer {PREFIX}… or X-Api-Key: {PREFIX}…"
# also behind a comma, which joins several headers of a name
_OWN_KEY = re.compile(rf"(?:^|[\s,:]){PREFIX}")


def require_keys(app: Flask, keys: Keys) -> None:
    """Refuse requests without a key for the endpoint's scope, where there are keys. Without keys all are let in."""

    @app.before_request
    def check() -> None:
        if request.endpoint is None or request.method == "OPTIONS":
            # what has no endpoint is answered with 404 or 405, and a browser asks by OPTIONS without its page's key
            return
        if not keys.required:
            # others than this machine's own are known by nothing: they ask as a key that everybody may see
            g.caller = Caller() if _is_local() else Caller(scopes=_WITHOUT_BODIES)
            return
        scope = scope_of(request.endpoint)
        if scope != OPEN:
            g.caller = _caller(keys, scope)

    @app.after_request
    def challenge(response: Response) -> Response:
        if response.status_code == Unauthorized.status and "WWW-Authenticate" not in response.headers:
            response.headers["WWW-Authenticate"] = 'Bearer realm="resift"'
        return response


def _is_local() -> bool:
    """Whether the request at hand is this machine's own, and does not come through a proxy for another name."""
    return is_loopback(request.remote_addr or "") and is_loopback(host_of(f"//{request.host}"))


def current_caller() -> Caller:
    """Who sent the request at hand; somebody who may do everything where there are no keys, or no request."""
    caller: Caller = g.get("caller", Caller()) if has_request_context() else Caller()
    return caller


def engine_headers() -> dict[str, str] | None:
    """The caller's own credentials, which the engine is asked with; an API key of ours is never among them."""
    authorization = request.headers.get("Authorization")
    if authorization is None or any(_OWN_KEY.search(part) for part in _credentials(authorization)):
        return None
    return {"Authorization": authorization}


def _caller(keys: Keys, scope: str) -> Caller:
    presented = request.headers.get("X-Api-Key") or _bearer()
    if not presented:
        raise Unauthorized("this needs an API key", expected=_EXPECTED)
    key = keys.find(presented)
    # the key itself is not quoted: answers end up in logs
    if key is None:
        raise Unauthorized("this API key is not known", expected=_EXPECTED)
    if scope not in key.scopes:
        raise Forbidden(
            f"key {key.name!r} has no scope {scope!r}", value=",".join(key.scopes), expected=f"the scope {scope}"
        )
    return key.caller


def _bearer() -> str | None:
    """Our key in ``Authorization``; None for anybody else's credentials."""
    scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token.startswith(PREFIX) else None


def _credentials(authorization: str) -> Iterator[str]:
    """An ``Authorization`` header as it is, and the name and password in it."""
    yield authorization
    try:
        found = request.authorization
    except ValueError:  # of letters beyond ASCII in what should be base64
        return
    if found is not None and found.type == "basic":
        yield f"{found.username}:{found.password}"


def add_metrics(app: Flask) -> None:
    """Count requests and their seconds by endpoint, and serve them under ``/metrics``.

    Where the variable PROMETHEUS_MULTIPROC_DIR names a folder, the figures of all processes that share it are added up.
    """
    shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
    registry = CollectorRegistry()
    count = Counter("resift_requests", "Requests", ["endpoint", "status"], registry=registry)
    seconds = Histogram(
        "resift_request_seconds",
        "Seconds a request took",
        ["endpoint"],
        registry=registry,
        buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
    )

    for name, what in _COUNTED.items():
        app.extensions[name] = Counter(f"resift_{name}", what, ["outcome"], registry=registry)

    @app.after_request
    def end(response: Response) -> Response:
        endpoint = request.endpoint or "none"
        count.labels(endpoint, response.status_code).inc()
        seconds.labels(endpoint).observe(time.perf_counter() - g.get("started", time.perf_counter()))
        return response

    @app.get("/metrics")
    def metrics() -> Response:
        source = CollectorRegistry() if shared else registry
        if shared:
            multiprocess.MultiProcessCollector(source)  # type: ignore[no-untyped-call]
        return Response(generate_latest(source), content_type=CONTENT_TYPE_LATEST)


def count_rewrite(outcome: Outcome) -> None:
    """Count a search of a pipeline by what became of it."""
    current_app.extensions["rewrites"].labels(outcome.code).inc()


def count_search(told: dict[str, Any]) -> None:
    """Count what is said of a search: ``reranked``, ``in_part`` where it says why not wholly, or ``engine_order``."""
    outcome = "engine_order" if not told["reranked"] else "in_part" if "reason" in told else "reranked"
    current_app.extensions["searches"].labels(outcome).inc()


def count_ubi(outcome: str, items: int) -> None:
    """Count what became of so many events or queries of UBI; outside of an application nothing is counted."""
    if items and has_app_context():
        current_app.extensions["ubi"].labels(outcome).inc(items)
