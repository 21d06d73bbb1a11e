"""Which requests are answered, by their host, their origin and their key's scope, and as whom the engine is asked.

A browser sends requests of any page to any address, also to this machine's own. So changes of other sites are refused
(CSRF), and without keys, where nothing else protects them, also requests to names that are not this machine's: a site
may let its own name point here once its page is loaded (DNS rebinding).
"""

from __future__ import annotations

import hmac
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Flask, Response, g, has_request_context, request

from resift.errors import (
    BadInput,
    Forbidden,
    HostNotAllowed,
    OriginNotAllowed,
    ResiftError,
    Unauthorized,
    UnsupportedMediaType,
)
from resift.reranker.access.keys import PREFIX, SCOPES, VARIABLE, Caller, Key, KeyFile, check_key, key_hash
from resift.schema import fields_of

if TYPE_CHECKING:
    from resift.reranker.config import Config

log = logging.getLogger(__name__)
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
        """The record of a key; None if there is no such key. It takes as long whatever is wrong with the key."""
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


OPEN = "open"
SCOPE_OF = {
    "api.embeddings": "embed",
    "api.rerank": "embed",
    "api.search": "search",
    "api.list_indices": "search",
    "api.describe_index": "search",
    "api.suggest": "search",
    "api.rewrite": "embed",
    "api.feedback": "feedback",
    "ubi.events": "feedback",
    "ubi.queries": "feedback",
    "api.get_session": "feedback",
    "api.delete_session": "feedback",
    "api.undo": "feedback",
    "reviews.list_reviews": "review",
    "reviews.begin_review": "review",
    "reviews.get_review": "review",
    "reviews.next_batch": "review",
    "reviews.judge": "review",
    "reviews.undo_judgement": "review",
    "reviews.export_review": "review",
    "reviews.delete_review": "admin",
    "review_page": OPEN,
    "metrics": "admin",
    "healthz": OPEN,
    "readyz": OPEN,
    "openapi": OPEN,
    "script": OPEN,
    "page": OPEN,
    "static": OPEN,
}
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


def scope_of(endpoint: str) -> str:
    """The scope that an endpoint needs, or ``open``; ``admin`` for one that is not known here."""
    return SCOPE_OF.get(endpoint, "admin")


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


@lru_cache(256)  # each request asks for its own, several times
def host_of(url: str) -> str:
    """The host of a URL in lower case, without its port; "" if there is none, or it is malformed.

    >>> host_of("http://LOCALHOST:8080"), host_of("//[::1]:8080"), host_of("null")
    ('localhost', '::1', '')
    """
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Whether a host is this machine, and no other machine can be meant by it.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "127.0.0.1.example")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
