"""What pages in browsers may do: by which names the server is reached, which other sites may use it, and the headers.

A browser sends requests of any page to any address, also to this machine's own. So changes of other sites are refused
(CSRF), and without keys, where nothing else protects them, also requests to names that are not this machine's: a site
may let its own name point here once its page is loaded (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Sequence

from flask import Flask, Response, request

from resift.errors import HostNotAllowed, OriginNotAllowed, UnsupportedMediaType
from resift.reranker.access.hosts import host_of, is_loopback
from resift.reranker.access.keys import Keys

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
