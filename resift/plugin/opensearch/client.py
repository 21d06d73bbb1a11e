"""The OpenSearch client: how it is opened, writes and reads JSON, raises our errors, and reads all of an index."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import orjson
from msgspec import Struct
from opensearchpy import OpenSearch
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
from resift.plugin.addresses import nodes_of
from resift.plugin.opensearch.credentials import credentials
from resift.plugin.opensearch.failover import FailoverTransport
from resift.query.dsl import PIPELINE_PREFIX, Body
from resift.schema import documented, from_environment

T = TypeVar("T")
_TAG = re.compile("<[^>]*>")
_STRANGE = "the answer is not OpenSearch's"
_A_CLUSTER = "the address of an OpenSearch cluster"
_DEFAULT_PIPELINE = "index.search.default_pipeline"
_SLOW_SECONDS = 1.0  # that the node which manages the cluster may take: searches wait for it
_PAGE = 500  # documents that are read together
_KEPT = "10m"  # how long the cluster keeps its place, between two pages
OLDEST = (2, 18)  # the first that takes parameters of ml_inference in a search's ext
_AS_TEXT: ContextVar[bool] = ContextVar("resift_as_text", default=False)
_EXPECTED = f"OpenSearch {OLDEST[0]}.{OLDEST[1]} or later; 2.19.1 and 3.6.0 are tested"


class JsonSerializer(JSONSerializer):  # type: ignore[misc]
    """opensearch-py's serializer, which writes with orjson: it is several times as fast.

    It does not read with it: to orjson a whole number beyond 64 bits is a float, and a document must come back as it
    was written.
    """

    def dumps(self, data: Any) -> Any:
        """The JSON text of a request; a string is taken for JSON already."""
        if isinstance(data, (str, bytes)):
            return data
        try:
            return orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY).decode()
        except TypeError:
            # What orjson refuses and opensearch-py takes: whole numbers beyond 64 bits, keys that are not strings.
            return super().dumps(data)

    def loads(self, s: str) -> Any:
        """The value of an answer's JSON text; the text itself for :func:`call_for_text`."""
        if _AS_TEXT.get():
            return s
        return super().loads(s)


def to_json(value: Any) -> str:
    """JSON text as the client sends it."""
    text: str = JsonSerializer().dumps(value)
    return text


def from_json(text: str) -> dict[str, Any]:
    """What the client makes of an answer's JSON text. Raises BadInput for what is no JSON, as :func:`call` does."""
    value: dict[str, Any] = call(JsonSerializer().loads, text)
    return value


class ClientSettings(Struct, frozen=True, kw_only=True):
    """Settings of every connection with a cluster, by variables RESIFT_<NAME>."""

    search_timeout: Annotated[
        float, documented("seconds that a search may take in OpenSearch, however many nodes are asked", ge=0.1, le=3600)
    ] = 5.0


def connect(address: str, timeout: float) -> OpenSearch:
    """A client of the cluster at ``address``, the URLs of one or several nodes; nothing is sent yet.

    A request takes at most ``timeout`` seconds, however many nodes are asked, and one that only reads no more than
    RESIFT_SEARCH_TIMEOUT. The URLs may hold a user and a password; other credentials come from the environment
    (:func:`credentials`). Raises BadInput for an address or a variable that does not fit.
    """
    nodes, settings = nodes_of(address), from_environment(ClientSettings, os.environ)
    hosts = [
        {"host": node.host, "port": node.port, "use_ssl": node.scheme == "https", "url_prefix": node.prefix}
        for node in nodes
    ]
    return OpenSearch(
        hosts,
        transport_class=FailoverTransport,
        timeout=timeout,
        search_timeout=min(timeout, settings.search_timeout),
        # More than the threads that a reranker serves with: urllib3 closes connections beyond its pool after each use.
        pool_maxsize=32,
        serializer=JsonSerializer(),
        **credentials(nodes),
    )


# What OpenSearch ends in where it does not check a request that it cannot make sense of, such as one for highlights
# between no tags: errors of Java, and some of its own for which it names no status. It calls them 500, or 503, as if
# the cluster failed. Where it did fail the cause is another: of files, of connections, of shards that are away.
# "exception" has no other cause: what fails for one of the others is named after it. "index_not_found" is of an index
# that the body has it read, and "status" is a refusal of a plugin, whose status is lost where each shard meets it.
_IMPOSSIBLE = re.compile(
    r"(?:(?:aggregation_initialization|aggregation_execution|arithmetic|array_index_out_of_bounds|class_cast|"
    r"illegal_argument|illegal_state|index_not_found|index_out_of_bounds|input_coercion|json_parse|negative_array_size|"
    r"no_such_element|null_pointer|number_format|search|status|string_index_out_of_bounds|too_complex_to_determinize|"
    r"too_many_buckets|unsupported_operation)_)?exception|too_many_(?:nested_)?clauses"
)
_REMOTE = re.compile(r'Error from remote service: \{"error":.*?"message":("(?:[^"\\]|\\.)*")')


def call(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Call a method of the client, and raise our errors in place of its exceptions.

    Raises EngineUnavailable if nothing answers, IndexNotFound or NotFound for status 404, BadInput if the arguments
    cannot be sent, and EngineError with OpenSearch's status for any other refusal.
    """
    try:
        return function(*arguments, **named)
    except ConnectionFailed as error:
        raise EngineUnavailable(f"no answer from OpenSearch: {error.error}", expected="a reachable cluster") from error
    except TransportError as error:
        raise translated(error) from error
    except SerializationError as error:
        if "deserialize" in str(error):  # a page of another server, with status 200
            raise EngineError(_STRANGE, expected=_A_CLUSTER) from error
        raise BadInput(f"this request cannot be sent to OpenSearch: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"this request cannot be sent to OpenSearch: {error}") from error
    except OpenSearchException as error:
        raise EngineError(str(error)) from error


def call_for_text(function: Callable[..., Any], **named: Any) -> str:
    """:func:`call` for the JSON text of an answer, which is not parsed."""
    token = _AS_TEXT.set(True)
    try:
        text = call(function, **named)
    finally:
        _AS_TEXT.reset(token)
    if not str(text).startswith("{"):
        raise EngineError(_STRANGE, expected=_A_CLUSTER)
    return str(text)


def translated(error: TransportError) -> EngineError | NotFound:
    """Our error for a refusal of OpenSearch."""
    status = error.status_code if isinstance(error.status_code, int) else 503
    body = error.info if isinstance(error.info, Mapping) else {}
    detail = body.get("error", str(error))
    reason = error_reason(detail)
    if told := _refusing(status, reason):
        return told
    # a refusal of OpenSearch is JSON: with a type or a text, or {} for a pipeline that is not there; what has no body
    # at all is an answer to HEAD
    if (error.error and not isinstance(error.info, Mapping)) or (isinstance(detail, Mapping) and "type" not in detail):
        text = " ".join(_TAG.sub(" ", str(body or error.error)).split())[:200]
        return EngineError(f"the answer ({status}) is not OpenSearch's: {text}", status=status, expected=_A_CLUSTER)
    kind, index = (detail.get("type"), detail.get("index")) if isinstance(detail, Mapping) else ("", None)
    if kind == "index_not_found_exception":
        return IndexNotFound(reason, value=index, expected="an existing index")
    if kind == "index_closed_exception":  # whose reason is "closed"
        message = f"OpenSearch: index_closed_exception: index {index!r} is closed"
        return EngineError(message, status=status, value=index, expected=f"POST /{index}/_open first")
    if status == 404:
        if "found" in body:
            id, index = body.get("_id"), body.get("_index")
            return NotFound(f"no document {id!r} in {index!r}", value=id, expected="the id of a document")
        return NotFound(f"OpenSearch: {reason}")
    if status >= 500 and _IMPOSSIBLE.fullmatch(str(_innermost(detail).get("type"))):
        status = 400
    return EngineError(f"OpenSearch: {reason}", status=status)


def _refusing(status: int, reason: str) -> EngineError | None:
    """Our error where a remote model's service refuses, whose status OpenSearch hands on, or OpenSearch itself does."""
    if told := _REMOTE.search(reason):
        return EngineError(f"a remote model's service answers: {orjson.loads(told[1])} ({status})", status=status)
    expected = "a user and a password, a client certificate or a signature that it knows"
    message = "OpenSearch does not accept these credentials (401)"
    return EngineError(message, status=status, expected=expected) if status == 401 else None


def _innermost(error: Any) -> Mapping[str, Any]:
    """The cause of an ``error`` of an answer that has no further cause."""
    found: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    while inner := found.get("caused_by") or next(iter(found.get("root_cause", [])), None):
        found = inner
    return found


def error_reason(error: Any) -> str:
    """The ``error`` of an answer as one line, with its innermost cause."""
    if not isinstance(error, Mapping):
        return str(error)
    inner = error.get("caused_by") or next(iter(error.get("root_cause", [])), None)
    deepest = error_reason(inner) if inner and inner.get("reason") != error.get("reason") else ""
    return f"{error.get('type')}: {error.get('reason')}" + (f" ({deepest})" if deepest else "")


def supported_version(info: Mapping[str, Any]) -> str:
    """The name and version of the cluster that answers ``GET /`` with ``info``.

    Raises UnsupportedCluster for another product, and for a version that lacks what we need.
    """
    version: Mapping[str, Any] = info["version"] if isinstance(info.get("version"), Mapping) else {}
    number = str(version.get("number"))
    parts = re.match(r"(\d+)\.(\d+)", number)
    if version.get("distribution") != "opensearch" or parts is None:
        found = f"Elasticsearch {number}" if "lucene_version" in version else "something else"
        raise UnsupportedCluster(f"{found} answers, not OpenSearch", value=number, expected=_EXPECTED)
    if (int(parts[1]), int(parts[2])) < OLDEST:
        raise UnsupportedCluster(f"OpenSearch {number} is too old", value=number, expected=_EXPECTED)
    return f"opensearch {number}"


def create_unless_there(client: OpenSearch, index: str, body: Body) -> None:
    """Create an index unless it exists: one that the cluster created by itself would have other mappings.

    Raises what :func:`call` raises, but not for a caller who may not create it where it is there.
    """
    try:
        call(client.indices.create, index=index, body=body)
    except EngineError as error:
        if "resource_already_exists_exception" in error.message:
            return
        try:  # a search takes no right that is not needed anyway
            call(client.search, index=index, body={"size": 0, "track_total_hits": False})
        except IndexNotFound:
            raise error from None


def scroll(client: OpenSearch, index: str, body: Body, **params: Any) -> Iterator[dict[str, Any]]:
    """Yield all hits of a search body on one index. Raises EngineUnavailable where a shard cannot be read.

    Unlike opensearch-py's ``scan``, which ends without a word where shards fail before the first hit or behind the
    last.
    """
    seconds = client.transport.seconds  # a page of documents is larger than that of a search
    # No search pipeline: the index's default one is not meant for this.
    asked = {"size": _PAGE, "sort": ["_doc"], **body, "search_pipeline": "_none"}
    whole = {"scroll": _KEPT, "allow_partial_search_results": "false", "request_timeout": seconds, **params}
    answer = _whole(call(client.search, index=index, body=asked, params=whole))
    place = answer["_scroll_id"]
    try:
        while answer["hits"]["hits"]:
            yield from answer["hits"]["hits"]
            next_page = {"scroll_id": place, "scroll": _KEPT}
            answer = _whole(call(client.scroll, body=next_page, params={"request_timeout": seconds}))
            place = answer["_scroll_id"]
    except IndexNotFound:
        raise
    except NotFound as error:
        raise EngineUnavailable(f"a shard of {index} was lost while it was read: {error.message}") from error
    finally:
        call(client.clear_scroll, body={"scroll_id": [place]}, params={"ignore": 404})


def _whole(answer: Mapping[str, Any]) -> Any:
    shards = answer["_shards"]
    if shards["failed"] or shards["successful"] + shards.get("skipped", 0) < shards["total"]:
        raise EngineUnavailable(f"only {shards['successful']} of {shards['total']} shards could be read")
    return answer


def asks_us_alone(client: OpenSearch, index: str, headers: Headers) -> bool:
    """Whether the default search pipeline of an index, or of each that a name stands for, does nothing but ask us."""
    if "*" in index or index in ("", "_all"):  # a cluster warns who asks for all settings, its own indices' too
        return False
    # local: of what the node knows that is asked, as the one that manages the cluster may hang
    params = {"flat_settings": "true", "local": "true"}
    try:
        get = client.indices.get_settings
        answer = call(get, index=index, name=_DEFAULT_PIPELINE, headers=headers, params=params)
    except ResiftError:  # such as for who may search and may not read settings: the pipeline does no harm
        return False
    names = {one["settings"].get(_DEFAULT_PIPELINE, "") for one in answer.values()}
    return bool(names) and all(name.startswith(PIPELINE_PREFIX) and _is_ours(client, name) for name in names)


def _is_ours(client: OpenSearch, pipeline: str) -> bool:
    """Whether a pipeline consists of our processor, or does not exist."""
    path, params = f"/_search/pipeline/{quote(pipeline, safe='')}", {"request_timeout": _SLOW_SECONDS, "ignore": 404}
    try:
        answer = call(client.transport.perform_request, "GET", path, params=params)
    except ResiftError:
        return False
    found: dict[str, Any] = answer.get(pipeline, {}) if isinstance(answer, dict) else {}
    processors = [*found.get("request_processors", []), *found.get("response_processors", [])]
    if found.get("phase_results_processors") or len(processors) > 1:
        return False
    return all("index" in one.get("ml_inference", {}).get("model_config", {}) for one in processors)
