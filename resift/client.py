"""Call the service from the backend of an application: ``body = resift.rewrite("papers", body, session="anna")``.

This is for clusters without ML Commons, or whose search pipelines cannot be changed. The function :func:`rewrite` sends
the body to a running service (``resift serve``), which rewrites it according to the session's judgements. The backend
then sends the rewritten body to OpenSearch with its own client. The functions :func:`mark` and :func:`forget` change
the session.

All functions share their connections, and one circuit breaker for each address of a service.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import date
from decimal import Decimal
from functools import cache, wraps
from typing import Any, ParamSpec, TypedDict, TypeVar
from urllib.parse import quote

import msgspec
import orjson
import urllib3

from resift.circuit_breaker import CircuitBreaker
from resift.errors import BadInput, ResiftError, ServiceUnavailable, SessionNotFound
from resift.options_section import with_options, without_options

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

log = logging.getLogger(__name__)
_MAX_IDLE_CONNECTIONS = 100
"""Connections to the service that stay open. Further connections are closed after each response."""
_OFF = "off"
"""Value of ``RESIFT_URL`` with which no service is called."""
_NOT_REWRITTEN = ("failed", "overloaded", "session_not_loaded")
"""Outcomes that cause a warning, because the search is run without its session."""
_REMEDIES = {
    "unauthorized": "Set RESIFT_API_KEY, or the argument key, to a key of `resift keys create NAME --scopes embed`.",
    "forbidden": "Use a key that has this scope: `resift keys create NAME --scopes embed,feedback`.",
    "host_not_allowed": "Use the address 127.0.0.1, set RESIFT_HOSTS for the service, or create API keys.",
    "too_large": "Send a smaller body, or set RESIFT_MAX_BODY for the service.",
}
"""Advice for requests that the service refuses, by error code."""


class _Report(msgspec.Struct):
    """The section ``resift`` of a response: whether the body was rewritten, and why not.

    Attributes:
        rewritten: Whether the service changed the body.
        outcome: The code of the outcome. See :class:`resift.rewriting.outcome.Outcome`.
        reason: The reason why something was not rewritten, or "".
        warning: Whether the reason should be logged: the session was not loaded, or an option is unknown.
    """

    rewritten: bool
    outcome: str = ""
    reason: str = ""
    warning: bool = False


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


class SessionSummary(TypedDict):
    """The state of a session after a mark was stored.

    Attributes:
        session: The id of the session.
        created: The time of the first mark, in seconds since 1970.
        expires: The time at which the session expires if it is not used.
        steps: The number of steps, each of which is one call of :func:`mark`.
    """

    session: str
    created: float
    expires: float
    steps: int


class _Deletion(msgspec.Struct):
    """A response of ``DELETE /v1/sessions/{session}``."""

    deleted: bool


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

    If the body cannot be rewritten, it is returned as it is, but without the section ``ext.resift``, which OpenSearch
    refuses. Apart from a body of the wrong type, no error is raised. The reason is logged:

    - as a warning, if the service does not answer in time, fails, or has not loaded the session yet, or if an option is
      unknown or malformed
    - as an error, if the service refuses the request, for example because of its API key, or if the index does not
      exist or is not served, or if an argument is malformed

    After three calls in a row without an answer of the service, only one call every five seconds is sent to the
    service until it answers. All other calls return the body at once and log nothing. An error that the service itself
    reports is an answer.

    Args:
        index: The index, alias, pattern or data stream that will be searched.
        body: Any search body. It is not modified.
        session: The id of the session. Without a session, clicks of the client in ``ext.ubi`` are used. Without these,
            only indices with Resift's vectors are ranked differently.
        url: URL of the service, by default the environment variable ``RESIFT_URL``, or http://127.0.0.1:8080. If it is
            ``off``, no service is called, and the body is not rewritten.
        key: An API key with the scope ``embed``, by default the environment variable ``RESIFT_API_KEY``.
        timeout: Seconds to wait for a connection and for the response.
        **options: Further options of ``ext.resift``, such as ``query``, ``judged`` or ``window``.

    Returns:
        The rewritten body. If nothing was added, the result is ``body`` without the section ``ext.resift``, or ``body``
        itself if there is no such section.

    Raises:
        BadInput: If the body is not a dictionary.
    """
    content = {"index": index, "body": with_options(body, session=session, **options)}
    unchanged = without_options(body)
    try:
        address = _address(url)
    except BadInput as error:
        log.error("searching without the session: %s", error)
        return unchanged
    if address == _OFF:
        return unchanged
    try:
        response = _call(_RewriteResponse, "POST", address, "/v1/rewrite", content, key, timeout)
    except ResiftError as error:
        if error.status < 500:
            log.error("searching without the session: %s", _with_remedy(error))
        elif not _breaker(address).is_open:  # the circuit breaker has logged the reason
            log.warning("searching without the session: %s", error)
        return unchanged
    _log_problems(index, response.resift)
    return response.body if response.resift.rewritten else unchanged


def mark(  # noqa: PLR0913 - the fields of POST /v1/feedback
    index: str,
    query: str,
    *,
    session: str,
    relevant: Iterable[str | int] = (),
    irrelevant: Iterable[str | int] = (),
    clicked: Iterable[str | int] = (),
    skipped: Iterable[str | int] = (),
    neutral: Iterable[str | int] = (),
    scores: Mapping[str, float] | None = None,
    url: str | None = None,
    key: str | None = None,
    timeout: float = 2.0,
) -> SessionSummary | None:
    """Judge documents for a query, as one step of a session. The first mark creates the session.

    Clicked and skipped hits have a smaller weight than documents that are marked explicitly. If the service does not
    answer in time, it may nevertheless store the marks.

    Args:
        index: The index of the documents, best under the name that was searched.
        query: The query text that the marks were made for.
        session: The id of the session.
        relevant: Ids of relevant documents.
        irrelevant: Ids of documents that are not relevant.
        clicked: Ids of hits that were opened.
        skipped: Ids of hits above an opened hit that were not opened.
        neutral: Ids of documents whose earlier marks are withdrawn.
        scores: A model's judgements by document id, from -1 (irrelevant) to 1 (relevant).
        url: URL of the service, as in :func:`rewrite`.
        key: An API key with the scope ``feedback``, by default the environment variable ``RESIFT_API_KEY``.
        timeout: Seconds to wait for a connection and for the response.

    Returns:
        The session's id, times and number of steps, or None if the service is switched off (``RESIFT_URL=off``).

    Raises:
        BadInput: If an argument is malformed, nothing is marked, or a document is marked twice.
        NotFound: If a document does not exist. Nothing is stored in that case.
        Unauthorized: If the service requires an API key, or does not know the key.
        Forbidden: If the API key does not have the scope ``feedback``.
        SessionNotFound: If the session belongs to another API key.
        ServiceUnavailable: If the service does not answer in time, or did not answer three times in a row.
        ResiftError: If the service fails or refuses the request for another reason.
    """
    ids = {"relevant": relevant, "irrelevant": irrelevant, "clicked": clicked, "skipped": skipped, "neutral": neutral}
    if not isinstance(scores or {}, Mapping):
        raise BadInput("scores is not a mapping", value=scores, expected="a dictionary from document ids to scores")
    content = {"index": index, "query": query, "session": session, "scores": dict(scores or {})}
    content |= {name: _document_ids(name, listed) for name, listed in ids.items()}
    address = _address(url)
    return None if address == _OFF else _call(SessionSummary, "POST", address, "/v1/feedback", content, key, timeout)


def forget(session: str, *, url: str | None = None, key: str | None = None, timeout: float = 2.0) -> bool:
    """Delete a session with all its marks.

    Args:
        session: The id of the session.
        url: URL of the service, as in :func:`rewrite`.
        key: The API key that created the session, or a key with the scope ``admin``. The default is the environment
            variable ``RESIFT_API_KEY``.
        timeout: Seconds to wait for a connection and for the response.

    Returns:
        Whether the session existed. The result is False for a session that belongs to another API key, and if the
        service is switched off (``RESIFT_URL=off``).

    Raises:
        BadInput: If an argument is malformed.
        Unauthorized: If the service requires an API key, or does not know the key.
        Forbidden: If the API key does not have the scope ``feedback``.
        ServiceUnavailable: If the service does not answer in time, or did not answer three times in a row.
        ResiftError: If the service fails or refuses the request for another reason.
    """
    if not isinstance(session, str) or not session:
        raise BadInput("session is not the id of a session", value=session, expected="a text")
    try:
        path = f"/v1/sessions/{quote(session, safe='')}"
    except UnicodeEncodeError:
        raise BadInput("session contains a lone surrogate", value=session, expected="Unicode text") from None
    address = _address(url)
    if address == _OFF:
        return False
    try:
        return _call(_Deletion, "DELETE", address, path, None, key, timeout).deleted
    except SessionNotFound:
        return False


def for_event_loop(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Convert a blocking function to a coroutine function, which runs the function in a thread.

    Applications with an event loop (asyncio) can await the result without blocking the loop.
    """

    @wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(function, *args, **kwargs)

    return run


rewrite_async = for_event_loop(rewrite)
mark_async = for_event_loop(mark)
forget_async = for_event_loop(forget)


def _address(url: str | None) -> str:
    """Return the address of the service: an argument, or the environment variable ``RESIFT_URL``, or the default.

    Raises:
        BadInput: If the argument is not a string.
    """
    if url is not None and not isinstance(url, str):
        raise BadInput(f"url is {url!r}", value=url, expected="a text")
    return (url or os.environ.get("RESIFT_URL") or "http://127.0.0.1:8080").rstrip("/")


def _document_ids(name: str, ids: Iterable[str | int]) -> list[str]:
    """Return document ids as a list of strings.

    Args:
        name: The name of the argument that contains the ids, for error messages.
        ids: The ids. OpenSearch stores numeric ids as strings.

    Raises:
        BadInput: If the argument is a single id.
    """
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise BadInput(f"{name} is not a list", value=ids, expected="a list of document ids")
    return [str(id) for id in ids]


def _json_value(value: Any) -> Any:
    """Return the JSON form that opensearch-py sends for a value that orjson does not know.

    Such values are decimal numbers, and dates of subclasses such as pandas' ``Timestamp``.

    Args:
        value: The value.

    Raises:
        TypeError: If opensearch-py refuses the value as well.
    """
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def _call(  # noqa: PLR0913 - the parts of a request
    type: type[T], method: str, address: str, path: str, content: Any, key: str | None, timeout: float
) -> T:
    """Send a request to the service, and return its answer.

    Args:
        type: The type of the answer, which msgspec can create from JSON.
        method: The HTTP method.
        address: The address of the service.
        path: The path of the route.
        content: The body of the request, which is sent as JSON, or None.
        key: An API key, or None to use the environment variable ``RESIFT_API_KEY``.
        timeout: Seconds to wait for a connection and for the response.

    Raises:
        BadInput: If the key or the timeout is malformed, or the content contains a value that JSON cannot represent.
        ServiceUnavailable: If the service does not answer, or its circuit breaker is open, or the answer is not from
            Resift's service.
        ResiftError: If the service fails or refuses the request.
    """
    headers = _authorization(key)
    limit, data = _time_limit(timeout), None
    if content is not None:
        headers["Content-Type"] = "application/json"
        try:
            # Like opensearch-py, accept NumPy arrays for vectors.
            data = orjson.dumps(content, default=_json_value, option=orjson.OPT_SERIALIZE_NUMPY)
        except TypeError as error:
            raise BadInput(f"the body is not JSON: {error}") from None
    breaker = _breaker(address)
    if not breaker.allow_call():
        raise ServiceUnavailable(f"{address} has failed several times in a row, so it is not called now")
    try:
        response = _pool().request(method, f"{address}{path}", body=data, headers=headers, timeout=limit)
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        breaker.report_failure(error)
        raise ServiceUnavailable(f"{address} does not answer: {error}") from error
    has_failed = False
    try:
        if response.status < 400:
            return _parse_response(response.data, type)
        problem = _parse_response(response.data, _ErrorResponse).error
    except (ValueError, msgspec.ValidationError):
        has_failed = response.status >= 500
        suffix = "" if has_failed else ", but not as Resift"
        raise ServiceUnavailable(f"{address} answers with status {response.status}{suffix}") from None
    finally:
        # An error of status 5xx that the service itself reports can concern only one route, for example if OpenSearch
        # cannot read the marked documents. Calls of other routes can still succeed.
        if has_failed:
            breaker.report_failure(f"status {response.status}")
        else:
            breaker.report_success()
    raise _exception_of(problem, response.status)


def _time_limit(timeout: float) -> urllib3.Timeout:
    """Return the limit of the time for a connection and for the response, as the HTTP client requires it.

    Args:
        timeout: The limit in seconds.

    Raises:
        BadInput: If the limit is not a positive number, or too large for a socket.
    """
    try:
        limit = urllib3.Timeout(total=timeout)
        is_valid = timeout is None or timeout <= threading.TIMEOUT_MAX  # False for NaN
    except ValueError:
        is_valid = False
    if not is_valid:
        raise BadInput(f"timeout is {timeout!r}", value=timeout, expected="a positive number of seconds")
    return limit


def _authorization(key: str | None) -> dict[str, str]:
    """Return the HTTP headers that contain the API key. Empty if there is no key.

    Args:
        key: An API key, or None to use the environment variable ``RESIFT_API_KEY``.

    Raises:
        BadInput: If the key is malformed.
    """
    if key is not None and not isinstance(key, str):
        raise BadInput("the API key is not a text")  # without the value, which may be a secret of another type
    token = (key or os.environ.get("RESIFT_API_KEY") or "").strip()  # a file with a key often ends with a line end
    if not (token.isascii() and token.isprintable()):
        # Without this check, the error of the HTTP client would contain the key.
        raise BadInput("the API key contains characters that no key has")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _parse_response(data: bytes, type: type[T]) -> T:
    """Parse a JSON response of the service.

    Args:
        data: The content of the response.
        type: The type of the object to create.

    Raises:
        ValueError: If the response is not JSON.
        msgspec.ValidationError: If the response is from a server other than Resift's service.
    """
    return msgspec.convert(orjson.loads(data), type)


def _log_problems(index: str, report: _Report) -> None:
    """Log why a search is run without its session, or what is wrong with its options.

    Args:
        index: The index that will be searched.
        report: The report in the response of ``POST /v1/rewrite``.
    """
    if report.outcome == "index_unavailable":
        remedy = "Check its name with `resift indices`, and RESIFT_INDICES of the service."
        log.error("searching without the session: %s. %s", report.reason, remedy)
    elif report.outcome in _NOT_REWRITTEN:
        log.warning("searching without the session: %s", report.reason.removeprefix("failed: "))
    elif report.warning:
        log.warning("the search of %r is not rewritten completely: %s", index, report.reason)


def _with_remedy(error: ResiftError) -> str:
    """Return the message of an error, followed by what to do about it if this is known."""
    remedy = _REMEDIES.get(error.code)
    return str(error) if remedy is None else f"{error}. {remedy}"


def _exception_of(problem: _Problem, status: int) -> ResiftError:
    """Convert an error in a response of the service to an exception.

    Args:
        problem: The error.
        status: The HTTP status of the response.

    Returns:
        An instance of the exception class with the error's code, or of ResiftError if no class has this code.
    """
    pending, classes = [ResiftError], dict[str, type[ResiftError]]()
    while pending:
        pending += (error_class := pending.pop()).__subclasses__()
        classes.setdefault(error_class.code, error_class)
    error = classes.get(problem.code, ResiftError)(problem.message, value=problem.value, expected=problem.expected)
    error.status = status
    return error


@cache
def _pool() -> urllib3.PoolManager:
    """Return the pool of connections to the service, which all calls share. Failed requests are not repeated."""
    return urllib3.PoolManager(maxsize=_MAX_IDLE_CONNECTIONS, retries=False)


@cache
def _breaker(address: str) -> CircuitBreaker:
    """Return the circuit breaker for a service, which all calls share.

    Args:
        address: The address of the service.
    """
    return CircuitBreaker(address)


if hasattr(os, "register_at_fork"):  # not on Windows
    # A forked process that used the connections of its parent would read the responses to the parent's requests.
    os.register_at_fork(after_in_child=_pool.cache_clear)
    # Another thread of the parent may hold the lock of a circuit breaker.
    os.register_at_fork(after_in_child=_breaker.cache_clear)
