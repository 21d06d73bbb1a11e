"""One line before a backend's own search: ``body = resift.rewrite("papers", body, session="anna")``.

For clusters without ML Commons, or with other people's rules: the body goes to a running ``resift serve``, comes back
with what the session knows in it, and is sent to OpenSearch by whatever client the backend has.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import orjson
import urllib3

from resift.errors import BadInput, ResiftError

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)
_CONNECTIONS = 100  # that are kept to the reranker; beyond them each is closed after its answer


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
    """The search body with what a session knows in it, ready to be sent to OpenSearch.

    Args:
        index: what will be searched: an index, an alias, a pattern or a data stream. Nothing has to be written to it.
        body: any search body; it is not changed.
        session: the person's session, or that of an agent; without one, the client that ``ext.ubi`` names.
        url: where ``resift serve`` answers; by default ``RESIFT_URL``, or http://127.0.0.1:8080.
        key: an API key of the scope ``embed``; by default ``RESIFT_API_KEY``.
        timeout: seconds to wait, for a connection and for the answer.
        options: what else ``ext.ml_inference`` may say, such as ``query``, ``judged`` or ``window``.

    Where the reranker is away, slow or fails, or a session or an option is malformed, the body comes back as it was,
    and a warning is logged: a search never fails because of this. Raises what else the reranker says is wrong with the
    request: IndexNotFound, Unauthorized, ….
    """
    base = (url or os.environ.get("RESIFT_URL") or "http://127.0.0.1:8080").rstrip("/")
    token = key or os.environ.get("RESIFT_API_KEY")
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    sent = {"index": index, "body": with_options(body, session=session, **options)}
    try:
        waiting = urllib3.Timeout(total=timeout)
        # opensearch-py takes arrays of NumPy for vectors, too
        data = orjson.dumps(sent, option=orjson.OPT_SERIALIZE_NUMPY)
        answer = _pool().request("POST", f"{base}/v1/rewrite", body=data, headers=headers, timeout=waiting)
        received = orjson.loads(answer.data)
    except TypeError as error:  # what orjson cannot say in JSON, the backend's own client may
        log.warning("searching without the session: the body is not JSON: %s", error)
        return body
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        log.warning("searching without the session: %s does not answer: %s", base, error)
        return body
    if answer.status >= 500:
        log.warning("searching without the session: %s answers %d", base, answer.status)
        return body
    if answer.status >= 400:
        raise _error(received.get("error", {}), answer.status)
    return _rewritten(received, body)


def for_event_loop(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """A function for an event loop, which goes on meanwhile; it takes the same arguments."""

    @wraps(function)
    async def run(*given: P.args, **named: P.kwargs) -> R:
        return await asyncio.to_thread(function, *given, **named)

    return run


rewrite_async = for_event_loop(rewrite)


def with_options(body: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The body with the ``options`` that are not None in ``ext.ml_inference``, where search pipelines have them too."""
    if not isinstance(body, dict):
        raise BadInput("body is not a search body", value=body, expected="a dictionary, as OpenSearch takes it")
    asked = {name: value for name, value in options.items() if value is not None}
    ext = body.get("ext") or {}
    if not asked or not isinstance(ext, dict):  # OpenSearch itself says what is wrong with an ext of another form
        return body
    return {**body, "ext": {**ext, "ml_inference": {**(ext.get("ml_inference") or {}), **asked}}}


def with_ext_of(rewritten: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """The rewritten body with the ``ext`` of the original one: without ML Commons, OpenSearch refuses ours."""
    changed = {name: value for name, value in rewritten.items() if name != "ext"}
    return {**changed, "ext": body["ext"]} if "ext" in body else changed


def _rewritten(received: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """The body that was received, or the caller's own where nothing was added; what was malformed is logged."""
    told = received["resift"]
    if told.get("outcome") == "failed":
        log.warning("searching without the session: %s", told["reason"].removeprefix("failed: "))
    return with_ext_of(received["body"], body) if told["rewritten"] else body


def _error(given: dict[str, Any], status: int) -> ResiftError:
    """The error that the reranker answered with, as an exception of its own class."""
    classes, known = [ResiftError], dict[str, type[ResiftError]]()
    while classes:
        classes += (kind := classes.pop()).__subclasses__()
        known.setdefault(kind.code, kind)
    kind = known.get(str(given.get("code")), ResiftError)
    message = str(given.get("message", f"the reranker answers {status}"))
    return kind(message, value=given.get("value"), expected=given.get("expected"))


@cache
def _pool() -> urllib3.PoolManager:
    return urllib3.PoolManager(maxsize=_CONNECTIONS, retries=False)
