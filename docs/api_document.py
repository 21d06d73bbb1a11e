"""Generate the OpenAPI 3.1 description of the HTTP API from the types of requests, responses and errors.

``python docs/reference.py`` writes it to ``resift/reranker/openapi.json``. A test checks that the file is current.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import api_answers as answers
import msgspec

from resift import errors
from resift.contracts.search_options import MAX_TEXT, PipelineOptions, SearchRequest, SessionId
from resift.errors import ResiftError
from resift.feedback.methods import METHODS
from resift.query.limits import MAX_DEPTH, MAX_QUERY_VALUES
from resift.reranker import api, collector, reviews_api
from resift.reranker.access.keys import OPEN, SCOPES, required_scope
from resift.reranker.collector import MAX_ITEM_BYTES, MAX_ITEMS, MAX_ITEMS_PER_MINUTE
from resift.reranker.request_bodies import (
    BatchRequest,
    EmbeddingsRequest,
    FeedbackRequest,
    JudgementsRequest,
    ReaderRequest,
    RerankRequest,
    ReviewRequest,
    RewriteRequest,
    UndoRequest,
)
from resift.schema import fields_of, schema_of, without_links
from resift.service.config import Config
from resift.strict_json import MAX_CONTAINERS, MAX_VALUES
from resift.version import __version__

Schema = dict[str, Any]
_JSON, _TEMPLATE = "application/json", "#/components/schemas/{name}"
_SECTIONS = re.compile(r"\n\n(?:Args|Attributes|Raises|Returns|Source|Yields):\n")
_EXTENSIBLE = ("SearchResponse", "Hit", "TextObject")
"""Schemas of objects that may have further fields."""
_HTTP_ERROR_STATUSES = {"no_such_path": 404, "method_not_allowed": 405, "http_error": None}
_DESCRIPTION = (
    "Bodies are JSON objects, sent with the header Content-Type: application/json. If the service has API keys, each "
    "request needs a key with the scope in its `security`. Without keys, the service only answers requests to host "
    "names of its own machine and those in RESIFT_HOSTS. In requests, null counts as missing. NaN, infinity and "
    f"unknown fields are refused. A body may have RESIFT_MAX_BODY bytes (by default {{max_body}}) and {MAX_VALUES} "
    f"values, including {MAX_CONTAINERS} lists and objects. A text may have RESIFT_MAX_TEXT characters (by default "
    f"{MAX_TEXT}). A query or filter may have {MAX_DEPTH} levels of lists and objects, and {MAX_QUERY_VALUES} values."
)


class Operation(NamedTuple):
    """The description of a Flask endpoint.

    Attributes:
        call: HTTP method and path.
        answer: Type of the response, or its media type if the response is text.
        errors: Statuses of possible errors, in addition to those of all similar endpoints.
        body: Type of the request body.
        example: An example of the request body.
        about: Summary and description, if the view has no docstring.
    """

    call: str
    answer: Any
    errors: str = ""
    body: Any = None
    example: Any = None
    about: str = ""


_ANNA: Schema = {"session": "anna", "index": "resift-news", "query": "fire"}
_SEARCH = {**_ANNA, "size": 3, "highlight": True, "reasons": True}
_BODY: Schema = {"query": {"match": {"title": "fire"}}, "ext": {"resift": {"session": "anna", "alpha": 0.5}}}
_TEXTS = ["the bank", "flames in the forest"]
_RERANK: Schema = {"query": "fire", "documents": _TEXTS, "top_n": 1, "return_documents": True}
_UBI: Schema = {"application": "shop", "query_id": "q-1", "client_id": "anna", "timestamp": "2026-11-22T12:00:00.000Z"}
_OBJECT: Schema = {"object": {"object_id": "B07", "object_id_field": "sku"}, "position": {"ordinal": 3}}
_CLICK: Schema = {**_UBI, "action_name": "click", "session_id": "visit-1", "event_attributes": _OBJECT}
_OF_SESSION, _OF_REVIEW = "/v1/sessions/{session}", "/v1/reviews/{review}"
OPERATIONS = {
    "api.search": Operation("POST /v1/search", answers.SearchResponse, "404 409", SearchRequest, _SEARCH),
    "api.list_indices": Operation("GET /v1/indices", answers.IndicesResponse),
    "api.describe_index": Operation("GET /v1/indices/{index}", answers.ShownIndex, "404 409"),
    "api.suggest": Operation("GET /v1/indices/{index}/suggestions", answers.Suggestions, "404 409"),
    "api.rewrite": Operation(
        "POST /v1/rewrite", answers.RewriteResponse, "404 409", RewriteRequest, {"index": "resift-news", "body": _BODY}
    ),
    "api.feedback": Operation(
        "POST /v1/feedback",
        answers.MarkedSession,
        "404 409 429",
        FeedbackRequest,
        {**_ANNA, "relevant": ["1"], "irrelevant": ["3"]},
    ),
    "api.get_session": Operation(f"GET {_OF_SESSION}", answers.Session, "404 409"),
    "api.delete_session": Operation(f"DELETE {_OF_SESSION}", answers.Deleted, "404"),
    "api.undo": Operation(f"POST {_OF_SESSION}/undo", answers.Session, "404 409 415"),
    "api.rerank": Operation("POST /v1/rerank", answers.RerankResponse, "404", RerankRequest, _RERANK),
    "api.embeddings": Operation(
        "POST /v1/embeddings",
        answers.EmbeddingsResponse,
        "404",
        EmbeddingsRequest,
        {"input": ["a bushfire", "the ceasefire"]},
    ),
    "reviews.list_reviews": Operation("GET /v1/reviews", answers.Reviews),
    "reviews.begin_review": Operation(
        f"PUT {_OF_REVIEW}", answers.Review, "404 429", ReviewRequest, {"index": "resift-news", "topic": "bush fires"}
    ),
    "reviews.get_review": Operation(f"GET {_OF_REVIEW}", answers.Review, "404"),
    "reviews.delete_review": Operation(f"DELETE {_OF_REVIEW}", answers.DeletedReview, "404"),
    "reviews.next_batch": Operation(f"POST {_OF_REVIEW}/next", answers.Batch, "404 429", BatchRequest, {"size": 10}),
    "reviews.judge": Operation(
        f"POST {_OF_REVIEW}/judgements",
        answers.Judged,
        "404 429",
        JudgementsRequest,
        {"relevant": ["1"], "irrelevant": ["3"], "by": "anna"},
    ),
    "reviews.undo_judgement": Operation(f"POST {_OF_REVIEW}/undo", answers.Judged, "404", UndoRequest, {"by": "anna"}),
    "reviews.release_documents": Operation(
        f"POST {_OF_REVIEW}/release", answers.Released, "404", ReaderRequest, {"by": "anna"}
    ),
    "reviews.export_review": Operation(f"GET {_OF_REVIEW}/export", "text/csv", "404"),
    "ubi.events": Operation("POST /ubi_events", answers.UbiTaken, "429", list, [_CLICK]),
    "ubi.queries": Operation("POST /ubi_queries", answers.UbiTaken, "429", list, [{**_UBI, "user_query": "fire"}]),
    "healthz": Operation(
        "GET /healthz", answers.Health, about="Check that the service is running, without a request to the engine."
    ),
    "readyz": Operation(
        "GET /readyz", answers.Readiness, "503", about="Check that the service is running and that the engine answers."
    ),
    "metrics": Operation(
        "GET /metrics", "text/plain", about="Return metrics for Prometheus: requests, durations and outcomes."
    ),
    "openapi": Operation("GET /openapi.json", dict, about="Return this document."),
    "script": Operation(
        "GET /resift.js",
        "text/javascript",
        about="Return the script with which your own web pages can search and mark.",
    ),
    "review_page": Operation("GET /reviews/{review}", "text/html", about="Return the page of a review."),
    "page": Operation("GET /", "text/html", about="Return the search page. Its scripts and styles are under /static."),
}
_TAGS = {
    "/v1/(search|indices|rewrite)": "search",
    "/v1/reviews": "reviews",
    "/v1/(feedback|sessions)|/ubi": "sessions",
    "/v1": "models",
}
# Endpoints that call the engine with the caller's own credentials.
_AS_CALLER = ("search", "list_indices", "describe_index", "suggest", "feedback", "get_session", "undo")
_TEXT: Schema = {"type": "string", "minLength": 1}
_PARAMETERS: dict[str, Schema] = {
    "session": {"in": "path", "required": True, "example": "anna", "schema": schema_of(SessionId)},
    "index": {"in": "path", "required": True, "example": "resift-news", "schema": _TEXT},
    "review": {
        "in": "path",
        "required": True,
        "example": "fires",
        "schema": {**_TEXT, "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    },
}
_IN_QUERY: dict[str, Schema] = {
    "api.suggest": {"name": "q", "in": "query", "example": "fir", "schema": {"type": "string"}},
    "api.get_session": {
        "name": "feedback",
        "in": "query",
        "example": "mask",
        "schema": {"type": "string", "enum": list(METHODS)},
    },
    "reviews.export_review": {
        "name": "format",
        "in": "query",
        "example": "csv",
        "schema": {"type": "string", "enum": ["csv", "ris", "qrels", "json"]},
    },
    "page": {"name": "index", "in": "query", "example": "resift-news", "schema": {"type": "string"}},
}
_KEY_ONLY = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "rsf_…",
        "description": "An API key of the service. It is not passed to the engine. The roles are scopes: "
        f"{', '.join(SCOPES)}.",
    },
    "key_header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "An API key of the service, for requests whose Authorization header is meant for the engine.",
    },
}
_CREDENTIALS = {
    scheme: {
        "type": "http",
        "scheme": scheme,
        "description": "Credentials other than API keys of the service are passed to the engine.",
    }
    for scheme in ("basic", "bearer")
}


@cache
def document() -> Schema:
    """Return the OpenAPI document."""
    paths: Schema = {}
    for endpoint, operation in OPERATIONS.items():
        method, path = operation.call.split()
        paths.setdefault(path, {})[method.lower()] = _operation(endpoint, operation)
        if names := re.findall(r"{(\w+)}", path):
            paths[path]["parameters"] = [{"name": name, **_PARAMETERS[name]} for name in names]
    refused = sorted({status for status in statuses().values() if status is not None})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Resift",
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": _DESCRIPTION.format(max_body=fields_of(Config)["max_body"].default),
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name} for name in (*_TAGS.values(), "operations")],
        "paths": paths,
        "components": {
            "securitySchemes": {**_KEY_ONLY, **_CREDENTIALS},
            "responses": {f"Status{status}": _refusal(status) for status in refused},
            "schemas": _schemas(),
        },
    }


def _operation(endpoint: str, operation: Operation) -> Schema:
    scope, path, name = required_scope(endpoint), operation.call.split()[1], endpoint.rpartition(".")[2]
    views = {"api": api, "reviews": reviews_api}.get(endpoint.partition(".")[0], collector)
    summary, _, description = _description(operation.about or getattr(views, name).__doc__).partition("\n\n")
    statuses = {"403", *operation.errors.split()}
    statuses |= set() if scope == OPEN else {"401"} if endpoint == "metrics" else {"400", "401", "503"}
    statuses |= {"413", "415"} if operation.body else set()
    text_kind = isinstance(operation.answer, str)
    content = {"schema": {"type": "string"} if text_kind else _reference(operation.answer)}
    described: Schema = {
        "operationId": _camel(endpoint.removeprefix("api.").replace(".", "_")),
        "tags": [next((tag for start, tag in _TAGS.items() if re.match(start, path)), "operations")],
        "summary": " ".join(summary.split()).rstrip("."),
        "description": " ".join(description.split()),
        "security": [] if scope == OPEN else list(_security(scope, name in _AS_CALLER)),
        "responses": {
            "200": {
                "description": _meaning(operation.answer),
                "content": {operation.answer if text_kind else _JSON: content},
            },
            **{status: {"$ref": f"#/components/responses/Status{status}"} for status in sorted(statuses)},
            "default": {"description": "Any other error.", "content": {_JSON: {"schema": _reference(answers.Error)}}},
        },
    }
    if endpoint in _IN_QUERY:
        described["parameters"] = [_IN_QUERY[endpoint]]
    if operation.body:
        content = {"schema": _reference(operation.body), "example": operation.example}
        described["requestBody"] = {"required": True, "content": {_JSON: content}}
    return described


def _camel(name: str) -> str:
    first, *following = name.split("_")
    return first + "".join(map(str.title, following))


def _meaning(answer: Any) -> str:
    if not isinstance(answer, type(msgspec.Struct)):
        return "The requested content."
    return " ".join(_description(answer.__doc__).split())


def _description(docstring: str | None) -> str:
    """Return a docstring without its indentation and without sections such as ``Args:``."""
    return _SECTIONS.split(inspect.cleandoc(docstring or ""))[0]


def _reference(kind: Any) -> Schema:
    named = {list: "UbiItems", dict: None}.get(kind, getattr(kind, "__name__", None))
    return {"type": "object"} if named is None else {"$ref": _TEMPLATE.format(name=named)}


def _security(scope: str, as_caller: bool) -> Iterator[Schema]:
    yield from ({}, {"key": [scope]}, {"key_header": [scope]})
    if as_caller:
        yield from ({name: []} for name in _CREDENTIALS)
        yield from ({name: [], "key_header": [scope]} for name in _CREDENTIALS)


def _kinds() -> list[type[ResiftError]]:
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ResiftError)]


def statuses() -> dict[str, int | None]:
    """Return the HTTP status of each error code; None if it varies."""
    return {**{kind.code: kind("").status for kind in _kinds()}, **_HTTP_ERROR_STATUSES}


def _refusal(status: int) -> Schema:
    """Return the description of responses with an error status: its codes and their meanings."""
    meanings = {
        kind.code: " ".join(_description(kind.__doc__).split()) for kind in _kinds() if kind("").status == status
    }
    refusal: Schema = {
        "description": " ".join(f"{code}: {meaning}" for code, meaning in meanings.items()) or "No such route.",
        "content": {_JSON: {"schema": _reference(answers.Error)}},
    }
    if status == errors.QuotaExceeded.status:
        wait = {"description": "Seconds until the next day in UTC.", "schema": {"type": "integer"}}
        refusal["headers"] = {"Retry-After": wait}
    return refusal


def _schemas() -> Schema:
    bodies = dict.fromkeys(operation.body for operation in OPERATIONS.values())  # operations can have the same type
    requests = [body for body in bodies if body not in (None, list)]
    kinds = [
        operation.answer for operation in OPERATIONS.values() if isinstance(operation.answer, type(msgspec.Struct))
    ]
    _, components = msgspec.json.schema_components(
        [*requests, PipelineOptions, *kinds, answers.Error], ref_template=_TEMPLATE
    )
    schemas: Schema = _without_links(components)
    for schema in schemas.values():
        schema["description"] = _description(schema.get("description"))
    for kind in [*requests, PipelineOptions]:
        _let_null_count_as_missing(schemas[kind.__name__])
    for name in _EXTENSIBLE:
        schemas[name]["additionalProperties"] = True
    code = schemas["Problem"]["properties"]["code"]
    code |= {"enum": list(statuses()), "x-statuses": statuses()}
    schemas["UbiItems"] = {
        "type": "array",
        "description": "Events or queries in the format of UBI 1.3. Malformed items, items of more than "
        f"{MAX_ITEM_BYTES} bytes, items beyond the first {MAX_ITEMS} of a request, and items beyond "
        f"{MAX_ITEMS_PER_MINUTE} per client and minute are dropped and counted. They are not an error. A missing "
        "timestamp, or one in the future, is replaced by the current time.",
        "items": {},
    }
    return schemas


def _without_links(value: Any) -> Any:
    """Return a schema in whose descriptions links are replaced by their text. The links refer to pages in docs/."""
    if isinstance(value, Mapping):
        return {name: _without_links(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_links(inner) for inner in value]
    return without_links(value) if isinstance(value, str) else value


def _let_null_count_as_missing(schema: Schema) -> None:
    for name, its in schema["properties"].items():
        if its.get("default", "") is None:
            del its["default"]  # same as a missing field
        if name in schema["required"]:
            continue
        if "anyOf" in its:
            its["anyOf"] += [] if {"type": "null"} in its["anyOf"] else [{"type": "null"}]
        elif "enum" in its:
            its["enum"] = [*its["enum"], None]
        else:
            its["type"] = [its["type"], "null"]
