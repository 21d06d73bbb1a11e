"""The HTTP API under ``/v1``: routes, and functions that read request bodies and write responses.

The types of request bodies are in :mod:`resift.reranker.request_bodies` and :mod:`resift.contracts.search_options`. The
file ``openapi.json`` describes the whole API.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
import orjson
from flask import Blueprint, Response, current_app, request
from flask.json.provider import DefaultJSONProvider
from werkzeug.exceptions import RequestEntityTooLarge

from resift import schema
from resift.arrays import Floats
from resift.contracts.search_options import SearchRequest
from resift.encoders.model import Model
from resift.errors import BadInput, MalformedJson, ModelNotFound, UnsupportedMediaType
from resift.feedback.judgements import GRADES, collect_marks
from resift.feedback.methods import MethodName
from resift.plugin.opensearch.documents import prepare_body
from resift.query.body import restore_body
from resift.reranker.access.requests import count_rewrite, count_search, current_caller, engine_headers
from resift.reranker.queueing import failed_log, has_no_options, is_late, late_log, unknown_keys_log
from resift.reranker.request_bodies import (
    EmbeddingsRequest,
    FeedbackRequest,
    RerankRequest,
    RewriteRequest,
    TextObject,
    UnparsedRewriteRequest,
    check_dynamax_pairs,
    check_word_pairs,
)
from resift.rewriting.options import describe_unknown_keys
from resift.rewriting.outcome import Outcome
from resift.service.bodies import Search
from resift.service.marks import session_summary
from resift.service.rewriter import RewrittenBody
from resift.service.search_service import SearchService
from resift.sessions.sessions import MAX_QUERY
from resift.strict_json import check_json_size, parse_strict

api = Blueprint("api", __name__, url_prefix="/v1")
S = TypeVar("S", bound=msgspec.Struct)

_TRUNCATED_FIELDS = ("input", "documents")
"""Fields of request bodies whose length is checked by :func:`checked_texts`, since the request may ask to cut them."""


class JsonProvider(DefaultJSONProvider):
    """A JSON provider for Flask that uses orjson.

    It supports NumPy arrays, and writes NaN and infinity as null.
    """

    sort_keys = False

    def response(self, *args: Any, **kwargs: Any) -> Response:
        """Return the JSON response for the return value of a route."""
        return Response(to_json(self._prepare_response_obj(args, kwargs)) + b"\n", mimetype=self.mimetype)


def to_json(value: Any) -> bytes:
    """Return a value as JSON in UTF-8."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError:
        # Documents may contain lone surrogates. The standard library writes them as escape sequences.
        return json.dumps(value, default=_json_default).encode()


def _json_default(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else DefaultJSONProvider.default(value)


def current_service() -> SearchService:
    """Return the search service that the current Flask application uses to answer requests."""
    service: SearchService = current_app.extensions["resift"]
    return service


def read_body(kind: type[S], fast: bool = False, raw: bytes | None = None) -> S:
    """Parse the JSON body of the current request, and return it as an instance of a type that validates it.

    By default, Python's standard library parses the body. orjson is faster, but it rounds integers of more than 64 bits
    and drops duplicate keys of an object, which could change the query in a search body.

    Args:
        kind: The type of the body, such as FeedbackRequest. It declares the fields and their limits.
        fast: Whether to parse the body with orjson. This is safe if the body contains only texts or vectors.
        raw: The bytes of the body, if they have already been read from the request.

    Raises:
        MalformedJson: If the body is not a JSON object, or contains NaN or infinity.
        BadInput: If a field is unknown, missing or out of range.
        TextTooLong: If a text is longer than the settings allow.
    """
    body = schema.read_struct(kind, _parse_request_json(fast, dict, "a JSON object", raw))
    for name in set(body.__struct_fields__).difference(_TRUNCATED_FIELDS):
        if isinstance(text := getattr(body, name), str):
            schema.check_text(name, text, _max_text())
    return body


def _max_text() -> int:
    limit: int = current_app.config["RESIFT"].max_text
    return limit


def read_items() -> list[Any]:
    """Parse the body of the HTTP request that Flask is handling as a JSON array, and return its items.

    Raises:
        MalformedJson: If the body is not a JSON array.
    """
    items: list[Any] = _parse_request_json(True, list, "a JSON array")
    return items


def _parse_request_json(fast: bool, kind: type, expected: str, raw: bytes | None = None) -> Any:
    """Parse the body of the current HTTP request as JSON, and check that the value is a list or an object.

    Args:
        fast: Whether to parse the body with orjson, which accepts duplicate keys and numbers that are too large. These
            can only do harm in search bodies, so other bodies are parsed fast.
        kind: The expected type, ``list`` or ``dict``.
        expected: A description of the expected value, for the error message.
        raw: The bytes of the body. If None, they are read from the request.

    Raises:
        MalformedJson: If the body is not JSON, or has another type.
    """
    raw = _raw_body() if raw is None else raw
    check_json_size("body", raw)
    excerpt = raw[:100].decode("utf-8", "replace")
    try:
        body = _parse_fast(raw) if fast else parse_strict("body", raw)
    except (ValueError, RecursionError) as error:
        if isinstance(error, MalformedJson):
            raise
        raise MalformedJson(f"the body is not JSON: {error}", value=excerpt, expected=expected) from None
    if not isinstance(body, kind):
        raise MalformedJson(f"the body is a {type(body).__name__}", value=excerpt, expected=expected)
    return body


def _raw_body() -> bytes:
    """Read the body of the HTTP request that Flask is handling.

    Raises:
        RequestEntityTooLarge: If the body is larger than the settings allow.
        UnsupportedMediaType: If the body is compressed.
        BadInput: If the body is incomplete, or its chunks are malformed.
    """
    coding = request.headers.get("Content-Encoding", "").strip()
    if coding.lower() not in ("", "identity"):
        expected = "an uncompressed body"
        raise UnsupportedMediaType(f"the Content-Encoding is {coding[:100]}", value=coding[:100], expected=expected)
    limit = current_app.config["RESIFT"].max_body
    # Werkzeug silently cuts chunked bodies at its limit. One more byte than allowed shows that the body is too large.
    request.max_content_length = limit + 1
    try:
        raw = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise
    except Exception as error:  # server-specific exceptions for a malformed chunk or a closed connection
        reason = error.__context__ or error  # Werkzeug replaces some of them with a less specific exception
        raise BadInput(f"the body cannot be read: {reason}", value="body", expected="a complete body") from None
    if len(raw) > limit:
        raise RequestEntityTooLarge
    return raw


def _parse_fast(raw: bytes) -> Any:
    """Parse a JSON text with orjson, or with Python's standard library if orjson fails.

    The standard library accepts more encodings and lone surrogates, and its error messages are easier to understand.

    Args:
        raw: The JSON text, as bytes.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return parse_strict("body", raw)


def checked_texts(name: str, value: str | Sequence[str | TextObject | None], truncate: bool) -> list[str]:
    """Return the texts in a field of a request as a list, after checking or repairing each text.

    A null value becomes an empty text.

    Args:
        name: The name of the field, for error messages.
        value: A text or a list. Each item of the list is a text, or an object with a text.
        truncate: Whether to repair invalid texts instead of raising an error: long texts are truncated, and lone
            surrogates are replaced with "?".

    Raises:
        TextTooLong: If a text is longer than the settings allow.
        BadInput: If a text contains a lone surrogate, which is not valid Unicode.
    """
    items = [value] if isinstance(value, str) else value
    strings = [(item.text if isinstance(item, TextObject) else item) or "" for item in items]
    limit = _max_text()
    if truncate:
        return [text[:limit].encode("utf-8", "replace").decode() for text in strings]
    return [schema.check_text(f"{name}[{position}]", text, limit) for position, text in enumerate(strings)]


def check_model(requested: str | None, model: Model) -> None:
    """Check that the model named in a request, if any, is the model that the service uses.

    Args:
        requested: The name or hash of a model in the request, or None if the request names no model.
        model: The model that the service uses.

    Raises:
        ModelNotFound: If the request names a different model.
    """
    if requested not in (None, "", model.name, model.hash):
        raise ModelNotFound(
            f"this service does not have model {requested!r}",
            value=requested,
            expected=f"{model.name} | {model.hash}",
        )


@api.post("/embeddings")
def embeddings() -> dict[str, Any]:
    """Compute a vector for each text, or for each bag of vectors. The request and response have OpenAI's format.

    Only models of the kind word2doc encode queries and documents differently. To encode their queries, set `input_type`
    to `query`.
    """
    body, model = read_body(EmbeddingsRequest, fast=True), current_service().model
    check_model(body.model, model)
    if body.dimensions not in (None, model.dim):
        message = f"vectors cannot have {body.dimensions} dimensions"
        raise BadInput(message, value=body.dimensions, expected=str(model.dim))
    rows: Any = _encode_bags(model, body) if model.bags else _encode_texts(model, body)
    if body.encoding_format == "base64":
        rows = [b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    # Some clients of OpenAI's API fail without this field. Tokens are not counted.
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    return {"object": "list", "model": model.name, "data": data, "usage": usage}


def _encode_texts(model: Model, body: EmbeddingsRequest) -> Floats:
    """Compute a vector for each text in a request to ``/v1/embeddings``.

    Args:
        model: The embedding model of the service, which encodes texts.
        body: The body of the request.

    Returns:
        The vectors, of shape (n_texts, n_dimensions).

    Raises:
        BadInput: If an item is a list, and not a text.
        TextTooLong: If a text is longer than the settings allow.
    """
    items = [body.input] if isinstance(body.input, str) else body.input
    for position, item in enumerate(items):
        if isinstance(item, list):
            message = f"input[{position}] is a list, but model {model.name} encodes texts"
            raise BadInput(message, value=item, expected="a string")
    strings = checked_texts("input", cast("list[str | TextObject | None]", items), body.truncate)
    if body.input_type == "query" and strings:
        return np.stack([model.encode_query(text) for text in strings])
    return model.encode(strings)


def _encode_bags(model: Model, body: EmbeddingsRequest) -> Floats:
    """Compute a vector for each bag (list of vectors) in a request to ``/v1/embeddings``.

    The ingest pipelines of a cluster send a bag as JSON text, and ``null`` for a document without a bag.

    Args:
        model: The embedding model of the service, which encodes bags.
        body: The body of the request.

    Returns:
        The vectors, of shape (n_bags, n_dimensions).

    Raises:
        BadInput: If a bag is malformed, and the request does not ask for zero vectors of such bags.
    """
    items: list[Any] = [body.input] if isinstance(body.input, str) else list(body.input)
    bags = [None if item is None or (isinstance(item, str) and item.strip() == "null") else item for item in items]
    vectors, faults = model.encode_bags(bags)
    if faults and not body.truncate:
        position, reason = next(iter(faults.items()))
        raise BadInput(f"input[{position}]: {reason}", value=bags[position])
    return vectors


@api.post("/rerank")
def rerank() -> dict[str, Any]:
    """Rank the texts in the request by their similarity to a query, in the format of Cohere and Jina.

    The search engine is not involved, and its scores are not used. To combine similarities with the engine's scores,
    use `POST /v1/rewrite`.
    """
    body, service = read_body(RerankRequest, fast=True), current_service()
    check_model(body.model, service.model)
    documents = checked_texts("documents", body.documents, body.truncate)
    late = service.served_reranker.get(body.method)
    if body.method == "dynamax":
        check_dynamax_pairs(body.query, documents)
        relevance = service.dynamax.scores(body.query, documents)
    elif late is None:
        model = service.model
        if model.bags:
            message = f"model {model.name} encodes bags of vectors, and cannot compare texts"
            raise BadInput(message, value=body.method, expected="the method late, or a service with a model of texts")
        relevance = np.float32(0.5) + model.score(model.encode_query(body.query), model.encode(documents)) / 2
    else:
        check_word_pairs(body.query, documents)
        relevance = late.scores(body.query, documents)
    order = np.argsort(-relevance, kind="stable")[: body.top_n].tolist()
    results = [_ranked_document(position, float(relevance[position])) for position in order]
    if body.return_documents:
        results = [{**result, "document": {"text": documents[result["index"]]}} for result in results]
    return {"model": service.model.name, "results": results}


def _ranked_document(index: int, relevance: float) -> dict[str, Any]:
    """Return a ranked document in the format of Cohere's rerank API.

    The relevance is rounded to six digits, and values below 0.0001 become zero. ML Commons rejects numbers with an
    exponent, such as 1e-05.

    Args:
        index: The position of the document in the request, counted from 0.
        relevance: The similarity of the document to the query.
    """
    rounded = round(relevance, 6)
    return {"index": index, "relevance_score": rounded if rounded >= 1e-4 else 0.0}


@api.get("/indices")
def list_indices() -> dict[str, Any]:
    """List the indices that can be searched, and the available search methods.

    If the caller is not allowed to list indices, the engine's error is returned. An index can still be searched by its
    name.
    """
    service = current_service()
    methods = ["vectors", "dynamax", *([] if service.served_reranker.get() is None else ["late"])]
    return {"indices": service.catalogue.indices(service.model, engine_headers()), "methods": methods}


@api.get("/indices/<index>")
def describe_index(index: str) -> dict[str, Any]:
    """Return the fields, facets and example queries that the search page shows for an index.

    The setting RESIFT_PAGE_FIELDS selects the fields. By default, they are guessed from documents that the caller may
    read. The result is cached for ten minutes for callers with the same Authorization header.
    """
    service, headers = current_service(), engine_headers()
    return service.catalogue.describe(service.infos.get(index, headers), headers)


@api.get("/indices/<index>/suggestions")
def suggest(index: str) -> dict[str, Any]:
    """Complete the text in the query parameter `q`, which a user is typing.

    The response contains at most four words and four titles from the index. They come from a sample of 3,000 documents
    that the caller may read. The sample is read in the background after the first request for an index. Until then, the
    response contains no suggestions.
    """
    text = request.args.get("q", "")[:MAX_QUERY]
    service, headers = current_service(), engine_headers()
    return {"suggestions": service.words.complete(text, service.infos.get(index, headers), headers)}


@api.post("/search")
def search() -> Response:
    """Run a search in an index, and return the engine's response.

    If the request names a session, the hits are ranked according to the relevance judgements in this session.
    """
    body, service = read_body(SearchRequest), current_service()
    headers, listed_only = engine_headers(), not current_caller().may_send_bodies
    requested = Search(**msgspec.structs.asdict(body), listed_only=listed_only, headers=headers)
    answer = service.search(requested)
    count_search(answer.resift)
    text = answer.json()
    return Response(to_json(answer.body) if text is None else text, mimetype="application/json")


@api.post("/rewrite")
def rewrite() -> dict[str, Any]:
    """Rewrite the search body in the request, so that its hits are ranked according to the judgements in a session.

    The body names the session in its section `ext.resift` or `ext.ml_inference`. Search pipelines of OpenSearch send
    their searches to this route. The section `ext.resift` is removed from the returned body, so that OpenSearch can run
    it without Resift's plugin. Sections of `ext` that other plugins have changed, such as `ext.ubi`, are restored.
    Apart from this, a body that cannot be rewritten is returned unchanged. If the service is overloaded, requests that
    have waited longer than 0.3 s are answered without rewriting.
    """
    raw, service, headers = _raw_body(), current_service(), engine_headers()
    if (unchanged := _unchanged_response(raw)) is not None:
        return unchanged
    body = read_body(RewriteRequest, raw=raw)
    check_model(body.model, service.model)
    if is_late():
        late_log.add()
        result = RewrittenBody(restore_body(body.body), Outcome.OVERLOADED, Outcome.OVERLOADED.english)
    else:
        result = service.rewriter.rewrite_for_pipeline(body.index, body.body, headers, body.scroll)
        if result.outcome is Outcome.FAILED:
            # A search pipeline gets no reason, because OpenSearch drops it.
            failed_log.add(result.reason.removeprefix(Outcome.FAILED.english.format("")))
    if unknown_keys := describe_unknown_keys(body.body.get("ext")):
        unknown_keys_log.add(unknown_keys)
    rewritten = result.body
    info = service.infos.get_or_none(body.index, headers, cached_only=is_late())
    if body.hide_vectors and info is not None and info.model is not None:
        rewritten = _without_vectors(rewritten)
    return {
        "body": escaped_text(to_json(rewritten)) if body.as_text else rewritten,
        "resift": {
            **_rewriting_report(result.outcome, result.reason, result.is_changed),
            **({"warning": True} if result.has_warning else {}),
        },
    }


def _unchanged_response(raw: bytes) -> dict[str, Any] | None:
    """Return the response to a request for rewriting if it is certain that the search body stays unchanged.

    The search body is not parsed, which saves time. It certainly stays unchanged if it contains no session and no
    options, and if the index has no vectors of Resift.

    Args:
        raw: The JSON text of the request.

    Returns:
        The response as a JSON object, or None if the body must be parsed.
    """
    if not has_no_options(raw):
        return None
    service, headers = current_service(), engine_headers()
    try:
        body = msgspec.json.decode(raw, type=UnparsedRewriteRequest)
        text = bytes(body.body)
        as_string = escaped_text(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # the request is malformed: the caller parses it and reports the error
    if not text.startswith(b"{"):
        return None
    check_model(body.model, service.model)
    info = service.infos.get_or_none(body.index, headers, cached_only=is_late())
    if info is None or info.model is not None:
        return None
    report = _rewriting_report(Outcome.NOTHING_TO_ADD, Outcome.NOTHING_TO_ADD.english)
    return {"body": as_string if body.as_text else orjson.Fragment(text), "resift": report}


def _rewriting_report(outcome: Outcome, reason: str, is_changed: bool = False) -> dict[str, Any]:
    """Count the outcome of rewriting a search in the metrics, and return its description for the response.

    Args:
        outcome: The outcome of rewriting the search.
        reason: The reason why the whole search or a part of it was left unchanged, or "".
        is_changed: Whether the search body was changed.

    Returns:
        The keys ``rewritten`` and ``outcome``, and ``reason`` unless it is empty.
    """
    count_rewrite(outcome)
    report: dict[str, Any] = {"rewritten": is_changed, "outcome": outcome.code}
    return {**report, "reason": reason} if reason else report


def escaped_text(body: bytes) -> str:
    """Convert a JSON text from bytes to a string, and write each ``$`` as an escape sequence.

    Without the escape, ML Commons would replace ``${name}`` in the string with a parameter.

    Args:
        body: The search body, as JSON in UTF-8.
    """
    return body.decode().replace("$", "\\u0024")


def _without_vectors(body: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a search body whose hits do not contain Resift's vector fields.

    The fields are excluded in the ``_source`` option of the body.
    """
    try:
        return prepare_body(body, None)
    except BadInput:  # let OpenSearch report the malformed _source
        return body


@api.post("/feedback")
def feedback() -> dict[str, Any]:
    """Add the relevance judgements in the request to a session. If the session does not exist, it is created.

    The response contains the session's id, its creation and expiry times, and its number of steps. Each request is a
    step of the session, which `POST /v1/sessions/{session}/undo` can undo. A session stores at most 100 judgements. If
    there are more, its oldest steps are removed. With `explain`, the response is the same as the response of `GET
    /v1/sessions/{session}`.
    """
    body, service, headers = read_body(FeedbackRequest), current_service(), engine_headers()
    marks = collect_marks({name: getattr(body, name) for name in GRADES}, body.scores)
    session = service.marks.add(body.session, body.index, body.query, marks, headers)
    service.rewriter.warm_session(body.session, body.index, body.query, headers)
    return service.marks.describe_change(session, headers) if body.explain else session_summary(session)


@api.get("/sessions/<session>")
def get_session(session: str) -> dict[str, Any]:
    """Return the judgements in a session, with a summary of what searches in this session learn from them.

    The query parameter `feedback` selects the feedback method whose results are described. By default, it is the method
    in the settings of the service.
    """
    service, stated = current_service(), request.args.get("feedback")
    method = None if stated is None else schema.convert("feedback", stated, MethodName)
    return service.marks.describe_session(service.sessions.get(session), engine_headers(), method)


@api.delete("/sessions/<session>")
def delete_session(session: str) -> dict[str, Any]:
    """Delete a session with all its judgements."""
    current_service().sessions.delete(session)
    return {"session": session, "deleted": True}


@api.post("/sessions/<session>/undo")
def undo(session: str) -> dict[str, Any]:
    """Undo the last step of a session: remove the judgements that the latest feedback request stored.

    The request has no body. If the session has no steps, the status is 400. If the step was removed but the engine
    fails, the response contains no judgements, and its `notes` give the reason.
    """
    service = current_service()
    return service.marks.describe_change(service.sessions.undo(session), engine_headers())
