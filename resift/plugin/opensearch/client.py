"""The OpenSearch client: connections, JSON, error translation, and reading a whole index.

:func:`connect` opens a client. All other modules send their requests through :func:`call`, which replaces the
exceptions of opensearch-py by the errors of :mod:`resift.errors`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import orjson
from msgspec import Struct
from opensearchpy import OpenSearch, Urllib3HttpConnection
from opensearchpy.exceptions import ConnectionError as ConnectionFailed
from opensearchpy.exceptions import OpenSearchException, SerializationError, TransportError
from opensearchpy.serializer import JSONSerializer

from resift.contracts.engine import Headers
from resift.errors import (
    BadInput,
    EngineError,
    EngineUnavailable,
    IndexNotFound,
    NotFound,
    ResiftError,
    UnsupportedCluster,
)
from resift.plugin.addresses import parse_nodes
from resift.plugin.opensearch.credentials import credentials
from resift.plugin.opensearch.failover import FailoverTransport
from resift.query.dsl import PIPELINE_PREFIX, Body
from resift.schema import documented, from_environment

T = TypeVar("T")
# The first version whose ml_inference processor takes parameters from ``ext`` of a search request.
OLDEST_VERSION = (2, 18)
_EXPECTED_VERSION = f"OpenSearch {OLDEST_VERSION[0]}.{OLDEST_VERSION[1]} or later; 2.19.1 and 3.6.0 are tested"
_TAG = re.compile("<[^>]*>")
_NOT_OPENSEARCH = "the response is not from OpenSearch"
_CLUSTER_ADDRESS = "the address of an OpenSearch cluster"
_DEFAULT_PIPELINE = "index.search.default_pipeline"
# Timeout in seconds for requests that the cluster manager node answers while a search waits for them.
_PIPELINE_SECONDS = 1.0
_PAGE_SIZE = 500  # documents per scroll page
_SCROLL_LIFETIME = "10m"  # time for which the cluster keeps a scroll open between two pages
_AS_TEXT: ContextVar[bool] = ContextVar("resift_as_text", default=False)


class JsonSerializer(JSONSerializer):  # type: ignore[misc]
    """A JSON serializer for opensearch-py that uses orjson for requests, which is several times as fast.

    Responses are parsed by the standard module ``json``. orjson would convert integers beyond 64 bits to floats, but
    documents must be returned exactly as they were written.
    """

    def dumps(self, data: Any) -> Any:
        """Return a request body as JSON text. A string is returned unchanged, because it already is JSON."""
        if isinstance(data, (str, bytes)):
            return data
        try:
            return orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY).decode()
        except TypeError:
            # orjson refuses whole numbers beyond 64 bits and keys that are not strings. opensearch-py accepts both.
            return super().dumps(data)

    def loads(self, s: str) -> Any:
        """Parse the JSON text of a response.

        If the request was sent by :func:`call_for_text`, which returns responses as text, the text is not parsed.

        Args:
            s: The JSON text.
        """
        if _AS_TEXT.get():
            return s
        return super().loads(s)


def to_json(value: Any) -> str:
    """Convert a value to JSON text, in the same way as the OpenSearch client converts the bodies of requests."""
    text: str = JsonSerializer().dumps(value)
    return text


def from_json(text: str) -> dict[str, Any]:
    """Parse the JSON text of a response.

    Raises:
        EngineError: If the text is not valid JSON.
    """
    value: dict[str, Any] = call(JsonSerializer().loads, text)
    return value


class ClientSettings(Struct, frozen=True, kw_only=True):
    """Settings for all connections to clusters.

    Each setting is read from the environment variable ``RESIFT_<NAME>``.
    """

    search_timeout: Annotated[
        float,
        documented(
            "time limit of a search in OpenSearch, in seconds, including retries on other nodes",
            ge=0.1,
            le=3600,
        ),
    ] = 5.0


class _SocketClosedAfterRefusal:
    """A mixin for connections of urllib3 that closes the socket after a response with status 400.

    OpenSearch answers a request with too long a path or header with status 400, and then ignores everything that it
    receives on the same socket, without closing it. The path and the header can come from a caller. Without this class,
    the next request on the socket, of any caller, would wait for its time limit.
    """

    sock: Any

    def getresponse(self, *arguments: Any, **options: Any) -> Any:
        """Return the response to the request that was sent."""
        response = super().getresponse(*arguments, **options)  # type: ignore[misc]
        if response.status == 400 and self.sock is not None:
            # The response can still be read, and the next request opens a new socket.
            self.sock.close()
            self.sock = None
        return response


class _NodeConnection(Urllib3HttpConnection):  # type: ignore[misc]
    """The connections to one node, of which none is used again after a response with status 400."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        pool = self.pool
        pool.ConnectionCls = type("Connection", (_SocketClosedAfterRefusal, pool.ConnectionCls), {})


def connect(address: str, timeout: float) -> OpenSearch:
    """Create a client for a cluster. No request is sent yet.

    Args:
        address: The URLs of one or more nodes, separated by commas. They may contain a user and a password. Other
            credentials come from the environment (see :func:`resift.plugin.opensearch.credentials.credentials`).
        timeout: The time limit of a request in seconds, including retries on other nodes. For requests that only read,
            the time limit is ``RESIFT_SEARCH_TIMEOUT`` if that value is smaller.

    Raises:
        BadInput: If the address or an environment variable is invalid.
    """
    nodes, settings = parse_nodes(address), from_environment(ClientSettings, os.environ)
    hosts = [
        {"host": node.host, "port": node.port, "use_ssl": node.scheme == "https", "url_prefix": node.prefix}
        for node in nodes
    ]
    return OpenSearch(
        hosts,
        transport_class=FailoverTransport,
        connection_class=_NodeConnection,
        timeout=timeout,
        search_timeout=min(timeout, settings.search_timeout),
        # More than the number of threads of the service: urllib3 closes connections beyond its pool after each use.
        pool_maxsize=32,
        serializer=JsonSerializer(),
        **credentials(nodes),
    )


# OpenSearch does not validate every request. Some malformed requests, for example for highlighting without tags, end in
# a Java exception, or in an exception of OpenSearch without a status of its own. OpenSearch reports them with status
# 500 or 503, as if the cluster had failed.
#
# If the innermost cause of an error is one of the following exception types, the request is at fault, and
# translate_error reports status 400. A real failure of the cluster has another innermost cause, about files,
# connections or missing shards. Three types need an explanation:
# - "exception" is a plain exception without a cause. Real failures have more specific types.
# - "index_not_found" refers to an index that the search body reads from, for example in a terms lookup.
# - "status" is a refusal by a plugin. Its status is lost if every shard raises it.
_CAUSED_BY_REQUEST = re.compile(
    r"(?:(?:aggregation_initialization|aggregation_execution|arithmetic|array_index_out_of_bounds|class_cast|"
    r"illegal_argument|illegal_state|index_not_found|index_out_of_bounds|input_coercion|json_parse|negative_array_size|"
    r"no_such_element|null_pointer|number_format|search|status|string_index_out_of_bounds|too_complex_to_determinize|"
    r"too_many_buckets|unsupported_operation)_)?exception|too_many_(?:nested_)?clauses"
)
_REMOTE = re.compile(r'Error from remote service: \{"error":.*?"message":("(?:[^"\\]|\\.)*")')


def call(function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
    """Call a method of the OpenSearch client, and convert its exceptions to exceptions of Resift.

    Args:
        function: A method of the client or of its transport.
        *arguments: The positional arguments of the method.
        **keywords: The keyword arguments of the method.

    Returns:
        The return value of the method.

    Raises:
        EngineUnavailable: If no node answers.
        IndexNotFound: If an index does not exist.
        NotFound: If the response has the status 404 for another reason.
        BadInput: If the arguments cannot be sent as a request.
        EngineError: If OpenSearch refuses the request. The error contains the status of the response.
    """
    try:
        return function(*arguments, **keywords)
    except ConnectionFailed as error:
        raise EngineUnavailable(f"no answer from OpenSearch: {error.error}", expected="a reachable cluster") from error
    except TransportError as error:
        raise translate_error(error) from error
    except SerializationError as error:
        if "deserialize" in str(error):  # status 200, but the body is a page of another server
            raise EngineError(_NOT_OPENSEARCH, expected=_CLUSTER_ADDRESS) from error
        raise BadInput(f"this request cannot be sent to OpenSearch: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"this request cannot be sent to OpenSearch: {error}") from error
    except OpenSearchException as error:
        raise EngineError(str(error)) from error


def call_for_text(function: Callable[..., Any], **keywords: Any) -> str:
    """Call a method of the OpenSearch client, and return the response as JSON text without parsing it.

    Exceptions of the client are converted to exceptions of Resift, as in :func:`call`.

    Args:
        function: A method of the client.
        **keywords: The keyword arguments of the method.

    Raises:
        EngineError: If the response is not a JSON object, because the server is not OpenSearch.
    """
    token = _AS_TEXT.set(True)
    try:
        text = call(function, **keywords)
    finally:
        _AS_TEXT.reset(token)
    if not str(text).startswith("{"):
        raise EngineError(_NOT_OPENSEARCH, expected=_CLUSTER_ADDRESS)
    return str(text)


def translate_error(error: TransportError) -> EngineError | NotFound:
    """Convert an error response of OpenSearch to the corresponding exception of Resift.

    Args:
        error: The exception of opensearch-py that contains the response.
    """
    status = error.status_code if isinstance(error.status_code, int) else 503
    body = error.info if isinstance(error.info, Mapping) else {}
    detail = body.get("error", str(error))
    reason = error_reason(detail)
    if (access_error := _access_error(status, reason)) is not None:
        return access_error
    if not _is_from_opensearch(error, detail):
        text = " ".join(_TAG.sub(" ", str(body or error.error)).split())[:200]
        return EngineError(f"{_NOT_OPENSEARCH} (status {status}): {text}", status=status, expected=_CLUSTER_ADDRESS)
    if isinstance(detail, Mapping) and (index_error := _index_error(detail, status, reason)) is not None:
        return index_error
    if status == 404:
        if "found" in body:
            id, index = body.get("_id"), body.get("_index")
            return NotFound(f"no document {id!r} in {index!r}", value=id, expected="the id of a document")
        return NotFound(f"OpenSearch: {reason}")
    if status >= 500 and _CAUSED_BY_REQUEST.fullmatch(str(_innermost_cause(detail).get("type"))):
        status = 400
    return EngineError(f"OpenSearch: {reason}", status=status)


def _access_error(status: int, reason: str) -> EngineError | None:
    """Return the exception for an error response that denies access, or None for other error responses.

    Either OpenSearch did not accept the credentials, or a remote model called another service and that service refused
    the call.

    Args:
        status: The HTTP status of OpenSearch's response.
        reason: The reason in the response.

    Returns:
        The error, or None if the response has another cause.
    """
    # OpenSearch passes on the status of the service that a remote model calls. This is checked first, because a 401 of
    # that service says nothing about the credentials for OpenSearch.
    if remote_message := _REMOTE.search(reason):
        message = f"the service of a remote model answered: {orjson.loads(remote_message[1])} ({status})"
        return EngineError(message, status=status)
    if status == 401:
        message = "OpenSearch does not accept these credentials (401)"
        expected = "a user and password, a client certificate or a signature that the cluster accepts"
        return EngineError(message, status=status, expected=expected)
    return None


def _is_from_opensearch(error: TransportError, detail: Any) -> bool:
    """Return whether an error response looks like a response of OpenSearch, not of a proxy or another server.

    In a response of OpenSearch, ``error`` is an object with a ``type``, or a string. OpenSearch answers ``{}`` for a
    missing pipeline, and responses to HEAD requests have no body.

    Args:
        error: The exception of opensearch-py.
        detail: The value of ``error`` in the response.
    """
    if error.error and not isinstance(error.info, Mapping):
        return False
    return not isinstance(detail, Mapping) or "type" in detail


def _index_error(detail: Mapping[str, Any], status: int, reason: str) -> EngineError | NotFound | None:
    """Return the exception for a missing or closed index. Return None for all other errors.

    Args:
        detail: The error object of the response.
        status: The HTTP status of the response.
        reason: The reason of the error, as text.
    """
    kind, index = detail.get("type"), detail.get("index")
    if kind == "index_not_found_exception":
        return IndexNotFound(reason, value=index, expected="an existing index")
    if kind == "index_closed_exception":  # OpenSearch gives only "closed" as the reason
        message = f"OpenSearch: index_closed_exception: index {index!r} is closed"
        return EngineError(message, status=status, value=index, expected=f"POST /{index}/_open first")
    return None


def _innermost_cause(error: Any) -> Mapping[str, Any]:
    """Return the innermost cause of an error, which OpenSearch nests in ``caused_by`` and ``root_cause``."""
    cause: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    while inner := cause.get("caused_by") or next(iter(cause.get("root_cause", [])), None):
        cause = inner
    return cause


def error_reason(error: Any) -> str:
    """Convert the ``error`` object of a response to a single line of text, which includes the innermost cause."""
    if not isinstance(error, Mapping):
        return str(error)
    inner = error.get("caused_by") or next(iter(error.get("root_cause", [])), None)
    deepest = error_reason(inner) if inner and inner.get("reason") != error.get("reason") else ""
    return f"{error.get('type')}: {error.get('reason')}" + (f" ({deepest})" if deepest else "")


def supported_version(info: Mapping[str, Any]) -> str:
    """Return the name and version of a server, such as ``opensearch 3.6.0``, after checking that it is supported.

    Args:
        info: The server's response to ``GET /``.

    Raises:
        UnsupportedCluster: If the server is not OpenSearch, or if its version is older than OLDEST_VERSION.
    """
    version: Mapping[str, Any] = info["version"] if isinstance(info.get("version"), Mapping) else {}
    number = str(version.get("number"))
    parts = re.match(r"(\d+)\.(\d+)", number)
    if version.get("distribution") != "opensearch" or parts is None:
        product = f"Elasticsearch {number}, not OpenSearch" if "lucene_version" in version else "not OpenSearch"
        raise UnsupportedCluster(f"the server is {product}", value=number, expected=_EXPECTED_VERSION)
    if (int(parts[1]), int(parts[2])) < OLDEST_VERSION:
        raise UnsupportedCluster(f"OpenSearch {number} is too old", value=number, expected=_EXPECTED_VERSION)
    return f"opensearch {number}"


def create_if_missing(client: OpenSearch, index: str, body: Body) -> None:
    """Create an index with its settings and mappings, unless the index already exists.

    Without this call, the first write would create the index with dynamic mappings.

    Args:
        client: The client of opensearch-py that is connected to the cluster.
        index: The name of the index.
        body: The settings and mappings of the new index.

    Raises:
        ResiftError: If no node answers, or if the cluster refuses the request. A caller without permission to create
            indices gets no error if the index exists.
    """
    try:
        call(client.indices.create, index=index, body=body)
    except EngineError as error:
        if "resource_already_exists_exception" in error.message:
            return
        try:  # check with a search, because the caller needs the right to search in any case
            call(client.search, index=index, body={"size": 0, "track_total_hits": False})
        except IndexNotFound:
            raise error from None


def scroll(client: OpenSearch, index: str, body: Body, **params: Any) -> Iterator[dict[str, Any]]:
    """Yield all hits of a search, which are requested page by page. Raise an error if a shard cannot be read.

    The function ``scan`` of opensearch-py ends without an error if shards fail before the first or after the last hit.

    Args:
        client: The client of opensearch-py that is connected to the cluster.
        index: The name of the index.
        body: The search body. By default, hits are in index order.
        **params: Additional URL parameters of the first request.

    Raises:
        EngineUnavailable: If a shard cannot be read.
    """
    seconds = client.transport.seconds  # a page is larger than the hits of a search, so it gets the longer limit
    # Skip the default search pipeline of the index, which is meant for searches by users.
    first_body = {"size": _PAGE_SIZE, "sort": ["_doc"], **body, "search_pipeline": "_none"}
    first_params = {
        "scroll": _SCROLL_LIFETIME,
        "allow_partial_search_results": "false",
        "request_timeout": seconds,
        **params,
    }
    page = _require_all_shards(call(client.search, index=index, body=first_body, params=first_params))
    scroll_id = page["_scroll_id"]
    try:
        while page["hits"]["hits"]:
            yield from page["hits"]["hits"]
            next_page = {"scroll_id": scroll_id, "scroll": _SCROLL_LIFETIME}
            page = _require_all_shards(call(client.scroll, body=next_page, params={"request_timeout": seconds}))
            scroll_id = page["_scroll_id"]
    except IndexNotFound:
        raise
    except NotFound as error:
        raise EngineUnavailable(f"a shard of {index} was lost while it was read: {error.message}") from error
    finally:
        call(client.clear_scroll, body={"scroll_id": [scroll_id]}, params={"ignore": 404})


def _require_all_shards(response: Mapping[str, Any]) -> Any:
    shards = response["_shards"]
    if shards["failed"] or shards["successful"] + shards.get("skipped", 0) < shards["total"]:
        raise EngineUnavailable(f"only {shards['successful']} of {shards['total']} shards could be read")
    return response


def has_only_rewriting_pipeline(client: OpenSearch, index: str, headers: Headers) -> bool:
    """Return whether the default search pipeline of an index does nothing except rewrite searches with Resift.

    If the result is True, a search that is already rewritten can skip the pipeline. The result is also False if the
    caller may not read the settings of the index, because running the pipeline is always safe.

    Args:
        client: The client of opensearch-py that is connected to the cluster.
        index: The name of an index or alias, or several names. All indices must meet the condition.
        headers: The HTTP headers of the caller, which are passed on to OpenSearch.
    """
    # A request for the settings of all indices would include system indices, and the cluster would log a warning.
    if "*" in index or index in ("", "_all"):
        return False
    # local: read the state that the receiving node has. The cluster manager node may hang.
    params = {"flat_settings": "true", "local": "true"}
    try:
        get_settings = client.indices.get_settings
        settings = call(get_settings, index=index, name=_DEFAULT_PIPELINE, headers=headers, params=params)
    except ResiftError:
        return False
    names = {entry["settings"].get(_DEFAULT_PIPELINE, "") for entry in settings.values()}
    return bool(names) and all(
        name.startswith(PIPELINE_PREFIX) and _only_rewrites_or_missing(client, name) for name in names
    )


def _only_rewrites_or_missing(client: OpenSearch, pipeline: str) -> bool:
    """Return whether a search pipeline does nothing except rewrite searches with Resift, or does not exist.

    Args:
        client: The client of opensearch-py that is connected to the cluster.
        pipeline: The name of the search pipeline.
    """
    path = f"/_search/pipeline/{quote(pipeline, safe='')}"
    params = {"request_timeout": _PIPELINE_SECONDS, "ignore": 404}
    try:
        response = call(client.transport.perform_request, "GET", path, params=params)
    except ResiftError:
        return False
    body: dict[str, Any] = response.get(pipeline, {}) if isinstance(response, dict) else {}
    processors = [*body.get("request_processors", []), *body.get("response_processors", [])]
    if body.get("phase_results_processors") or len(processors) > 1:
        return False
    return all(
        "resift" in processor or "index" in processor.get("ml_inference", {}).get("model_config", {})
        for processor in processors
    )
