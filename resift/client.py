"""Rewrite search bodies in the backend of an application: ``body = resift.rewrite("papers", body, session="anna")``.

This is for clusters without ML Commons, or whose search pipelines cannot be changed. The function :func:`rewrite` sends
the body to a running service (``resift serve``), which rewrites it according to the session's judgements. The backend
then sends the rewritten body to OpenSearch with its own client.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import msgspec
import orjson
import urllib3

from resift.errors import ResiftError
from resift.options_section import with_options, without_options

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

log = logging.getLogger(__name__)
_MAX_IDLE_CONNECTIONS = 100
"""Connections to the service that stay open. Further connections are closed after each response."""


class _Report(msgspec.Struct):
    """The section ``resift`` of a response: whether the body was rewritten, and why not.

    Attributes:
        rewritten: Whether the service changed the body.
        outcome: The code of the outcome. See :class:`resift.rewriting.outcome.Outcome`.
        reason: The reason why something was not rewritten, or "".
    """

    rewritten: bool
    outcome: str = ""
    reason: str = ""


class _RewriteResponse(msgspec.Struct):
    """A response of ``POST /v1/rewrite``.

    Attributes:
        body: The rewritten search body.
        resift: Whether and how the body was rewritten.
    """

    body: dict[str, Any]
    resift: _Report


class _Problem(msgspec.Struct):
    """The error in a response of the service.

    Attributes:
        code: The code of the error, which identifies an exception class (see :attr:`resift.errors.ResiftError.code`).
        message: A description of the error.
        value: The value in the request that caused the error, or None.
        expected: A description of valid values, or None.
    """

    code: str
    message: str
    value: Any = None
    expected: Any = None


class _ErrorResponse(msgspec.Struct):
    """A response with which the service refuses a request."""

    error: _Problem


def rewrite(
    index: str,
    body: dict[str, Any],
    session: str | None = None,
    *,
    url: str | None = None,
    key: str | None = None,
    timeout: float = 1.0,
    **options: Any,
) -> dict[str, Any]:
    """Rewrite a search body according to a session's judgements, and return a body that OpenSearch can run.

    If the rewriting fails, the body is returned as it is, but without the section ``ext.resift``, which OpenSearch
    refuses, and a warning is logged. This happens in these cases:

    - The service does not answer in time, or fails, or the answer is not from Resift's service.
    - The session's id, an option, ``timeout`` or ``key`` is malformed.
    - The index does not exist, or is not served.
    - The body contains a value that JSON cannot represent.

    A request that the service refuses (a 4xx status) raises an error.

    Args:
        index: The index, alias, pattern or data stream that will be searched.
        body: Any search body. It is not modified.
        session: The id of the session. Without a session, clicks of the client in ``ext.ubi`` are used.
        url: URL of the service, by default the environment variable ``RESIFT_URL``, or http://127.0.0.1:8080.
        key: An API key with the scope ``embed``, by default the environment variable ``RESIFT_API_KEY``.
        timeout: Seconds to wait for a connection and for the response.
        **options: Further options of ``ext.resift``, such as ``query``, ``judged`` or ``window``.

    Returns:
        The rewritten body. If nothing was added, the result is ``body`` without the section ``ext.resift``, or ``body``
        itself if there is no such section.

    Raises:
        BadInput: If the body is not a dictionary.
        Unauthorized: If the service requires an API key.
        ResiftError: If the service refused the request for another reason.
    """
    sent = {"index": index, "body": with_options(body, session=session, **options)}
    unchanged = without_options(body)
    base = (url or os.environ.get("RESIFT_URL") or "http://127.0.0.1:8080").rstrip("/")
    token = (key or os.environ.get("RESIFT_API_KEY") or "").strip()  # a file with a key often ends with a line end
    if not (token.isascii() and token.isprintable()):
        # Without this check, the error of the HTTP client would contain the key.
        log.warning("searching without the session: the API key contains characters that no key has")
        return unchanged
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        limit = urllib3.Timeout(total=timeout)
    except ValueError:
        log.warning("searching without the session: timeout is %r, not a positive number of seconds", timeout)
        return unchanged
    try:
        # Like opensearch-py, accept NumPy arrays for vectors.
        data = orjson.dumps(sent, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError as error:  # the backend's own client may be able to serialize the body
        log.warning("searching without the session: the body is not JSON: %s", error)
        return unchanged
    try:
        response = _pool().request("POST", f"{base}/v1/rewrite", body=data, headers=headers, timeout=limit)
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        log.warning("searching without the session: %s does not answer: %s", base, error)
        return unchanged
    if response.status >= 500:
        log.warning("searching without the session: %s answers with status %d", base, response.status)
        return unchanged
    try:
        if response.status >= 400:
            problem = _parse_response(response.data, _ErrorResponse).error
        else:
            return _body_of_response(_parse_response(response.data, _RewriteResponse), unchanged)
    except (ValueError, msgspec.ValidationError):
        message = "searching without the session: %s answers with status %d, but not as Resift"
        log.warning(message, base, response.status)
        return unchanged
    raise _exception_of(problem)


def for_event_loop(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Convert a blocking function to a coroutine function, which runs the function in a thread.

    Applications with an event loop (asyncio) can await the result without blocking the loop.
    """

    @wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(function, *args, **kwargs)

    return run


rewrite_async = for_event_loop(rewrite)


def _parse_response(data: bytes, type: type[T]) -> T:
    """Parse a JSON response of the service.

    Args:
        data: The content of the response.
        type: The type of the object to create, a subclass of ``msgspec.Struct``.

    Raises:
        ValueError: If the response is not JSON.
        msgspec.ValidationError: If the response is from a server other than Resift's service.
    """
    return msgspec.convert(orjson.loads(data), type)


def _body_of_response(response: _RewriteResponse, body: dict[str, Any]) -> dict[str, Any]:
    """Return the search body in a response of the service. Log a warning if the service failed to rewrite it.

    Args:
        response: The response of ``POST /v1/rewrite``.
        body: The search body without rewriting, which is returned if the service did not change it.
    """
    report = response.resift
    if report.outcome in ("failed", "index_unavailable"):
        log.warning("searching without the session: %s", report.reason.removeprefix("failed: "))
    return response.body if report.rewritten else body


def _exception_of(problem: _Problem) -> ResiftError:
    """Convert an error in a response of the service to an exception.

    Returns:
        An instance of the exception class with the error's code, or of ResiftError if no class has this code.
    """
    pending, classes = [ResiftError], dict[str, type[ResiftError]]()
    while pending:
        pending += (error_class := pending.pop()).__subclasses__()
        classes.setdefault(error_class.code, error_class)
    error_class = classes.get(problem.code, ResiftError)
    return error_class(problem.message, value=problem.value, expected=problem.expected)


@cache
def _pool() -> urllib3.PoolManager:
    """Return the pool of connections to the service, which all calls share. Failed requests are not repeated."""
    return urllib3.PoolManager(maxsize=_MAX_IDLE_CONNECTIONS, retries=False)


if hasattr(os, "register_at_fork"):  # not on Windows
    # A forked process that used the connections of its parent would read the responses to the parent's requests.
    os.register_at_fork(after_in_child=_pool.cache_clear)
