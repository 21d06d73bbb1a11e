"""Hooks that run before and after each request: request ids, access control, security headers, logs and metrics.

A browser sends requests of any web page to any address, including addresses of this machine. The hooks defend against
two attacks:

- Cross-site request forgery (CSRF): requests from other websites that change data are refused.
- DNS rebinding: a website can let its own host name resolve to this machine after its page was loaded. If the service
  has no API keys, requests to host names other than those of this machine are refused.
"""

from __future__ import annotations

import hmac
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
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
    KeyFile,
    KeyRecord,
    check_key,
    key_hash,
    required_scope,
)
from resift.reranker.request_log import log as access_log
from resift.rewriting.outcome import Outcome
from resift.schema import fields_of

if TYPE_CHECKING:
    from resift.service.config import Config

log = logging.getLogger(__name__)
REQUEST_ID_HEADER = "X-Request-Id"
_ID = re.compile(r"[!-~]{1,128}")
"""Request ids that are accepted from a caller. They are printed in logs and response headers."""
_CHECK_SECONDS = 1.0
"""Seconds after which the file of keys is checked for changes."""
_NO_VERSION = (0, 0, 0)
"""The version of a file of keys that does not exist."""

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:{images}; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Trusted types: scripts cannot create elements from strings, so that the text of documents is never parsed as HTML.
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
_COUNTERS = {
    "rewrites": "Searches of pipelines, by the outcome code of resift.rewriting.outcome",
    "searches": "Searches of /v1/search: reranked, reranked in part, or in the engine's order",
    "ubi": "UBI events and queries that were received or read, by outcome",
}
"""Names and descriptions of the counters that the functions at the end of this module increment."""


def add_request_ids(app: Flask) -> None:
    """Give each request an id, and log each response together with the id.

    The id is also sent to the client in the response header ``X-Request-Id``. The function :func:`request_id` chooses
    the id.

    Args:
        app: The Flask application.
    """

    @app.before_request
    def begin() -> None:
        g.started = time.perf_counter()
        id = request_id(request.headers)
        REQUEST_ID.set(id)
        OPAQUE_ID.set(id if id == request.headers.get(OPAQUE_ID_HEADER) else None)

    @app.after_request
    def log_response(response: Response) -> Response:
        response.headers[REQUEST_ID_HEADER] = REQUEST_ID.get() or ""
        if access_log.isEnabledFor(logging.INFO):
            seconds = round(time.perf_counter() - g.get("started", time.perf_counter()), 6)
            fields = {"method": request.method, "path": request.path, "status": response.status_code}
            outcome = {"outcome": g.outcome} if "outcome" in g else {}
            access_log.info("answered", extra={"fields": {**fields, "seconds": seconds, **outcome}})
        return response

    @app.teardown_request
    def end(error: BaseException | None) -> None:
        for variable in (REQUEST_ID, OPAQUE_ID):  # the thread will serve other requests
            variable.set(None)


def request_id(headers: Mapping[str, str] | Headers) -> str:
    """Return the id of a request, from the header ``X-Opaque-Id`` or ``X-Request-Id``, or else a new random id.

    Ids with more than 128 characters, or with characters other than visible ASCII, are ignored.

    Args:
        headers: The headers of the request.
    """
    ids = (headers.get(name, "") for name in (OPAQUE_ID_HEADER, REQUEST_ID_HEADER))
    return next(filter(_ID.fullmatch, ids), None) or f"{random.getrandbits(128):032x}"


class ApiKeys:
    """The API keys that a running service accepts.

    The file of keys is checked for changes once a second. If the new version cannot be read, the error is logged and
    the old keys stay valid. A service that has had keys always requires a key, even after the file is deleted.

    Args:
        path: The file of keys.
        extra_key: An additional key that has all scopes (permissions), or "" for no additional key.
        must_exist: Whether to raise BadInput if the file does not exist.
        clock: A function that returns the time in seconds.

    Raises:
        BadInput: If a key or the file is malformed, or ``must_exist`` is true and the file does not exist.
    """

    def __init__(
        self, path: str, extra_key: str = "", must_exist: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.file, self.clock = KeyFile(path), clock
        self._extra_records = [KeyRecord.create(VARIABLE, SCOPES, check_key(extra_key, VARIABLE))] if extra_key else []
        self._keys: list[KeyRecord] = []
        self._required = bool(extra_key)
        self._version = _NO_VERSION
        self._lock = threading.Lock()
        self._load()
        self._checked = clock()
        if must_exist and self._version == _NO_VERSION:
            expected = "resift keys create NAME --scopes search,feedback"
            raise BadInput(f"the file of API keys {path} does not exist", value=path, expected=expected)

    @classmethod
    def from_config(cls, config: Config) -> ApiKeys:
        """Load the API keys that the settings of the service specify.

        If the settings name a file of keys explicitly, the file must exist. Otherwise the service would accept requests
        without a key by mistake.

        Args:
            config: The settings of the service.

        Raises:
            BadInput: If a key or the file is malformed, or the file does not exist.
        """
        return cls(config.keys, config.api_key, must_exist=config.keys != fields_of(type(config))["keys"].default)

    @property
    def required(self) -> bool:
        """Whether requests need an API key. This is the case as soon as the service has had a key."""
        self._reload_if_changed()
        return self._required

    def find(self, key: str) -> KeyRecord | None:
        """Return the record of an API key, or None if the key is unknown.

        The comparison takes the same time for all keys, so attackers cannot guess a key by measuring the duration.

        Args:
            key: The API key that a caller sent.
        """
        self._reload_if_changed()
        hashed, match = key_hash(key), None
        for candidate in [*self._keys, *self._extra_records]:
            if hmac.compare_digest(candidate.hash, hashed):
                match = candidate
        return match

    def name_of(self, headers: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the name of the API key in a request, to identify the caller before the request is processed.

        Args:
            headers: The headers of the request.

        Returns:
            The pair ``("key", NAME)``, or None if the request has no key of this service. The word "key" distinguishes
            the names of keys from the IP addresses that identify callers without a key.
        """
        presented = _presented_key(headers)
        key = self.find(presented) if presented else None
        return None if key is None else ("key", key.name)

    def _reload_if_changed(self) -> None:
        with self._lock:
            now = self.clock()
            if now - self._checked <= _CHECK_SECONDS:
                return
            self._checked = now
            try:
                self._load()
            except ResiftError as error:
                log.error("the file of API keys was not reloaded: %s", error.message)

    def _load(self) -> None:
        try:
            status = self.file.path.stat()
        except FileNotFoundError:
            self._keys, self._version = [], _NO_VERSION
            return
        except OSError as error:
            path = str(self.file.path)
            raise BadInput(f"{path} cannot be read: {error}", value=path, expected="a file of API keys") from error
        # Two versions may have the same time and size. But each change replaces the file, so their inodes differ.
        version = (status.st_mtime_ns, status.st_ino, status.st_size)
        if version != self._version:
            self._keys, self._version, self._required = self.file.read(), version, True


def protect_browsers(app: Flask, keys: ApiKeys, hosts: Sequence[str], origins: Sequence[str]) -> None:
    """Protect an application against attacks through web browsers.

    The headers ``Host``, ``Origin`` and ``Content-Type`` of each request are checked, and security headers are added to
    each response.

    Args:
        app: The Flask application.
        keys: The API keys of the service.
        hosts: Accepted host names, in addition to the names of this machine. If this list is empty and the service has
            API keys, all names are accepted.
        origins: The origins of other websites whose pages may use the API, such as ``https://shop.example``.
    """

    @app.before_request
    def check() -> None:
        host = host_of(f"//{request.host}")
        if (hosts or not keys.required) and host not in hosts and not is_loopback(host):
            raise HostNotAllowed(
                f"requests to the host {request.host!r} are not accepted",
                value=request.host,
                expected="localhost, or a name in RESIFT_HOSTS",
            )
        if request.method not in _SAFE_METHODS and _is_from_foreign_page(origins):
            origin = request.headers.get("Origin", "another site")
            expected = "the same origin, or one in RESIFT_CORS"
            raise OriginNotAllowed(f"{origin} may not send requests that change data", value=origin, expected=expected)
        if request.endpoint is not None and _sends_data() and not request.is_json:
            raise UnsupportedMediaType(
                f"the Content-Type is {request.mimetype or 'missing'}",
                value=request.content_type or "",
                expected="Content-Type: application/json",
            )

    @app.after_request
    def add_headers(response: Response) -> Response:
        present = {name.lower() for name, _ in response.headers}
        response.headers.extend([header for header in _HEADERS.items() if header[0].lower() not in present])
        if origins:
            response.vary.add("Origin")
        origin = request.headers.get("Origin")
        if origin in origins:
            response.headers.update({"Access-Control-Allow-Origin": origin, **_CORS})
        return response


def _sends_data() -> bool:
    """Return whether the current HTTP request has a body, and a method other than GET, HEAD and OPTIONS.

    GET, HEAD and OPTIONS do not change data. A request with the header ``Content-Type`` or ``Transfer-Encoding`` counts
    as a request with a body.
    """
    is_declared = any(name in request.headers for name in ("Content-Type", "Transfer-Encoding"))
    return request.method not in _SAFE_METHODS and (is_declared or bool(request.content_length))


def _is_from_foreign_page(origins: Sequence[str]) -> bool:
    """Return whether the current request was sent by a web page of a website that may not use the API.

    Args:
        origins: The origins of other websites that may use the API, such as ``https://shop.example``.
    """
    origin = request.headers.get("Origin")
    if origin in origins:
        return False
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        # The browser compared the sites itself. This is also correct behind a proxy that changes the Host header.
        return site not in ("same-origin", "none")
    # Programs other than browsers send no Origin. Schemes are not compared, since a proxy may terminate TLS.
    return origin is not None and origin.partition("://")[2].lower() != request.host.lower()


_WITHOUT_BODIES = frozenset(SCOPES) - {"body", "review", "admin"}
"""The scopes of callers on other machines if the service has no API keys."""
_EXPECTED = f"Authorization: Bearer {PREFIX}… or X-Api-Key: {PREFIX}…"
_OWN_KEY = re.compile(rf"(?:^|[\s,:]){PREFIX}")
"""Matches an API key of the service in an Authorization header. Commas join several headers of the same name."""


def require_keys(app: Flask, keys: ApiKeys) -> None:
    """Make an application reject requests without an API key that has the scope (permission) for the endpoint.

    If the service has no keys, callers on this machine may do everything. Other callers have the scopes that are safe
    for a public key.

    Args:
        app: The Flask application.
        keys: The API keys of the service.
    """

    @app.before_request
    def check() -> None:
        if request.endpoint is None or request.method == "OPTIONS":
            # Requests without an endpoint are answered with 404 or 405. Browsers send OPTIONS without the page's key.
            return
        scope = required_scope(request.endpoint)
        if not keys.required:
            # Remote callers are anonymous here, so they only get the scopes that are safe for a public key.
            g.caller = Caller() if _is_local() else Caller(scopes=_WITHOUT_BODIES)
            if scope != OPEN and scope not in g.caller.scopes:
                message = "without API keys, only callers on this machine may send this request"
                raise Forbidden(message, value=request.path, expected=f"a key with the scope {scope}")
        elif scope != OPEN:
            g.caller = _caller(keys, scope)

    @app.after_request
    def challenge(response: Response) -> Response:
        if response.status_code == Unauthorized.status and "WWW-Authenticate" not in response.headers:
            response.headers["WWW-Authenticate"] = 'Bearer realm="resift"'
        return response


def _is_local() -> bool:
    """Return whether the current request comes from this machine and is sent to a local name such as ``localhost``.

    Requests that a reverse proxy on this machine forwards for another host name do not count as local.
    """
    return is_loopback(request.remote_addr or "") and is_loopback(host_of(f"//{request.host}"))


def current_caller() -> Caller:
    """Return the caller of the current HTTP request. Outside a request, a caller with all permissions is returned."""
    caller: Caller = g.get("caller", Caller()) if has_request_context() else Caller()
    return caller


def engine_headers() -> dict[str, str] | None:
    """Return the headers that authenticate the caller of this service to the search engine.

    The credentials are copied from the HTTP request that is being answered. API keys of this service are never passed
    on to the engine.

    Returns:
        The headers, or None if the request contains no credentials for the engine, or the engine ignores them.
    """
    if not current_app.extensions["resift"].engine.uses_headers:
        return None
    authorization = request.headers.get("Authorization")
    if authorization is None or any(_OWN_KEY.search(part) for part in _possible_keys(authorization)):
        return None
    return {"Authorization": authorization}


def _caller(keys: ApiKeys, scope: str) -> Caller:
    presented = _presented_key(request.headers)
    if not presented:
        raise Unauthorized("this request needs an API key", expected=_EXPECTED)
    key = keys.find(presented)
    # The message does not quote the key, since responses may be logged.
    if key is None:
        raise Unauthorized("this API key is unknown", expected=_EXPECTED)
    if scope not in key.scopes:
        raise Forbidden(
            f"API key {key.name!r} does not have the scope {scope!r}",
            value=",".join(key.scopes),
            expected=f"the scope {scope}",
        )
    return key.caller


def _presented_key(headers: Mapping[str, str] | Headers) -> str | None:
    """Return the API key in the headers of a request, or None if there is no key of this service.

    Args:
        headers: The headers, of which ``X-Api-Key`` or ``Authorization`` can contain the key.
    """
    if api_key := headers.get("X-Api-Key"):
        return api_key
    scheme, _, token = headers.get("Authorization", "").strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token.startswith(PREFIX) else None


def _possible_keys(authorization: str) -> Iterator[str]:
    """Yield the parts of an ``Authorization`` header that could be an API key.

    These are the value after the scheme and, for basic authentication, the user name and the password.

    Args:
        authorization: The value of the header.
    """
    yield authorization
    try:
        decoded = request.authorization
    except ValueError:  # characters beyond ASCII instead of base64
        return
    if decoded is not None and decoded.type == "basic":
        yield f"{decoded.username}:{decoded.password}"


def add_metrics(app: Flask) -> None:
    """Count requests and measure their duration by endpoint, and serve these metrics under ``/metrics``.

    If the environment variable ``PROMETHEUS_MULTIPROC_DIR`` names a folder, the metrics of all processes that use this
    folder are added up.

    Args:
        app: The Flask application.
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

    for name, description in _COUNTERS.items():
        app.extensions[name] = Counter(f"resift_{name}", description, ["outcome"], registry=registry)

    counter_of, histogram_of = cache(count.labels), cache(seconds.labels)

    @app.after_request
    def end(response: Response) -> Response:
        endpoint = request.endpoint or "none"
        counter_of(endpoint, response.status_code).inc()
        histogram_of(endpoint).observe(time.perf_counter() - g.get("started", time.perf_counter()))
        return response

    @app.get("/metrics")
    def metrics() -> Response:
        source = CollectorRegistry() if shared else registry
        if shared:
            multiprocess.MultiProcessCollector(source)  # type: ignore[no-untyped-call]
        return Response(generate_latest(source), content_type=CONTENT_TYPE_LATEST)


def count_rewrite(outcome: Outcome) -> None:
    """Count a search that an OpenSearch search pipeline has sent to be rewritten, in the metrics and in the log line.

    Args:
        outcome: How the rewriting of the search ended.
    """
    g.outcome = outcome.code
    current_app.extensions["rewrites"].labels(outcome.code).inc()


def count_search(report: dict[str, Any]) -> None:
    """Count a search of the route ``/v1/search`` in the metrics, by how its hits were ranked.

    The search counts as ``reranked`` if Resift ranked the hits, as ``in_part`` if Resift had to leave out a part of its
    changes, and as ``engine_order`` if the hits have the engine's own order.

    Args:
        report: The section ``resift`` of the response to the search.
    """
    outcome = "in_part" if "reason" in report else "reranked"
    if not report["reranked"]:
        outcome = "engine_order"
    current_app.extensions["searches"].labels(outcome).inc()


def count_ubi(outcome: str, items: int) -> None:
    """Count processed events and queries of User Behavior Insights (UBI) in the metrics.

    Outside a Flask application, nothing is counted.

    Args:
        outcome: The result of processing the events or queries, for example ``stored``.
        items: The number of events or queries.
    """
    if items and has_app_context():
        current_app.extensions["ubi"].labels(outcome).inc(items)
