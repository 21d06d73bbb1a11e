"""The HTTP API under /v1: its routes, how their bodies are read, and how answers are written.

What each request may say stands in its body's type, and all of it in ``openapi``.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import msgspec
import numpy as np
import orjson
from flask import Blueprint, Response, current_app, request
from flask.json.provider import DefaultJSONProvider
from werkzeug.exceptions import RequestEntityTooLarge

from resift import schema
from resift.contracts.search_options import SearchRequest
from resift.encoders.model import Model
from resift.errors import BadInput, MalformedJson, ModelNotFound, TextTooLong, UnsupportedMediaType
from resift.feedback.judgements import GRADES, collect_marks
from resift.plugin.opensearch.documents import sent_body
from resift.reranker.access.requests import count_rewrite, count_search, current_caller, engine_headers
from resift.reranker.request_bodies import (
    EmbeddingsRequest,
    FeedbackRequest,
    RerankRequest,
    RewriteRequest,
    TextObject,
    check_word_pairs,
)
from resift.service.bodies import Search
from resift.service.search_service import SearchService, session_summary
from resift.sessions.sessions import MAX_QUERY

api = Blueprint("api", __name__, url_prefix="/v1")
S = TypeVar("S", bound=msgspec.Struct)
# Bytes alone do not bound the work: a list of empty texts is short and its answer is long, and a small body can hold a
# million lists, or words that are all compared with each other.
MAX_VALUES = 500_000  # of a JSON body: numbers, texts and whatever else stands in lists and objects
MAX_CONTAINERS = 100_000  # lists and objects, which take more memory than other values
_MARKS = (b",", b"[", b"{")
_PART = 2**20  # bytes that are looked at together
_CUT = ("input", "documents")  # texts that a request may have cut: see texts


class JsonProvider(DefaultJSONProvider):
    """Writes answers by orjson, which takes NumPy's arrays as they are and writes null for NaN and Infinity."""

    sort_keys = False

    def response(self, *args: Any, **kwargs: Any) -> Response:
        """The response to a view's return value."""
        return Response(to_json(self._prepare_response_obj(args, kwargs)) + b"\n", mimetype=self.mimetype)


def to_json(value: Any) -> bytes:
    """The JSON of a value, in UTF-8."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError:
        # texts of an index may hold lone surrogates, which the standard library writes as escapes
        return json.dumps(value, default=_plain).encode()


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else DefaultJSONProvider.default(value)


def current_service() -> SearchService:
    """The application's service."""
    service: SearchService = current_app.extensions["resift"]
    return service


def body_of(kind: type[S], data: bool = False) -> S:
    """The request's body, as its type declares it. Raises MalformedJson unless it is a JSON object without NaN and
    Infinity, and BadInput or TextTooLong for what the type or the configured limit of texts refuses.

    ``data``: it holds texts or vectors, and is read by orjson, which is faster. Search bodies are not: orjson would
    round their whole numbers beyond 64 bits, and take the last of several clauses of one name, and the engine would be
    asked for something else.
    """
    body = schema.read_struct(kind, _json_value(data, dict, "a JSON object"))
    for name in set(body.__struct_fields__).difference(_CUT):
        if isinstance(text := getattr(body, name), str):
            schema.check_text(name, text, _max_text())
    return body


def _max_text() -> int:
    limit: int = current_app.config["RESIFT"].max_text
    return limit


def json_items() -> list[Any]:
    """The items of a request whose body is a JSON array. Raises MalformedJson for any other."""
    items: list[Any] = _json_value(True, list, "a JSON array")
    return items


def _json_value(data: bool, kind: type, expected: str) -> Any:
    """The request's body, as :func:`body_of` reads it, of this kind."""
    raw = _raw_body()
    check_json_size(raw)
    quoted = raw[:100].decode("utf-8", "replace")
    try:
        body = _parsed_fast(raw) if data else _parsed(raw)
    except (ValueError, RecursionError) as error:
        if isinstance(error, MalformedJson):
            raise
        raise MalformedJson(f"the body is not JSON: {error}", value=quoted, expected=expected) from None
    if not isinstance(body, kind):
        raise MalformedJson(f"the body is a {type(body).__name__}", value=quoted, expected=expected)
    return body


def _raw_body() -> bytes:
    """The body's bytes.

    Raises RequestEntityTooLarge beyond the configured limit, UnsupportedMediaType if it is compressed, and BadInput if
    it is malformed.
    """
    coding = request.headers.get("Content-Encoding", "").strip()
    if coding.lower() not in ("", "identity"):
        expected = "a body that is not compressed"
        raise UnsupportedMediaType(f"the Content-Encoding is {coding[:100]}", value=coding[:100], expected=expected)
    limit = current_app.config["RESIFT"].max_body
    # One byte more than is allowed: of a body without a length, which comes in chunks, Werkzeug would drop the rest
    # at its limit and say nothing.
    request.max_content_length = limit + 1
    try:
        raw = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise
    except Exception as error:  # the server's own kinds: of a malformed chunk, or of a connection that ended
        reason = error.__context__ or error  # Werkzeug has one of its own for some of them, which says less
        raise BadInput(f"the body cannot be read: {reason}", value="body", expected="a complete body") from None
    if len(raw) > limit:
        raise RequestEntityTooLarge
    return raw


def _parsed_fast(raw: bytes) -> Any:
    """JSON; what orjson refuses the standard library may read (other encodings, lone surrogates), or explain."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _parsed(raw)


def _parsed(raw: bytes) -> Any:
    return json.loads(
        raw, parse_constant=_refuse_number, parse_float=_finite, object_pairs_hook=_object_of_different_keys
    )


def _finite(digits: str) -> float:
    number = float(digits)
    # 1e400 is JSON, but as a number it would be sent to the engine as null: {"gte": null} has no limit
    return number if math.isfinite(number) else _refuse_number(digits)


def _refuse_number(name: str) -> NoReturn:
    raise MalformedJson(f"the body holds {name[:100]}", value=name[:100], expected="finite numbers")


def _object_of_different_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise MalformedJson(f"an object has {twice!r} twice", value=twice, expected="each key once")
    return found


def texts(name: str, given: str | Sequence[str | TextObject | None], truncate: bool) -> list[str]:
    """Texts that a request brings; null among them counts as "", and one text as a list of one.

    With ``truncate`` long texts are cut to the configured limit instead of refused, and lone surrogates are replaced.
    Raises TextTooLong or BadInput for a text that does not fit.
    """
    items = [given] if isinstance(given, str) else given
    strings = [(item.text if isinstance(item, TextObject) else item) or "" for item in items]
    limit = _max_text()
    if truncate:
        return [text[:limit].encode("utf-8", "replace").decode() for text in strings]
    return [schema.check_text(f"{name}[{position}]", text, limit) for position, text in enumerate(strings)]


def check_model(requested: str | None, model: Model) -> None:
    """Raise ModelNotFound if a request names another model than the one in service."""
    if requested not in (None, "", model.name, model.hash):
        raise ModelNotFound(
            f"model {requested!r} is not in service here", value=requested, expected=f"{model.name} | {model.hash}"
        )


def check_json_size(raw: bytes) -> None:
    """Raises TextTooLong for a JSON body of too many values, before it is parsed: they take up to fifty times the
    memory that they take as text."""
    # what stands in texts is counted as well at first: that is fast, and seldom makes a difference
    if not _fits(*(raw.count(mark) for mark in _MARKS)):
        counts = _count_outside_of_texts(raw)
        if not _fits(*counts):
            values, containers = sum(counts), sum(counts[1:])
            raise TextTooLong(
                f"the body has {values} values, of which {containers} are lists and objects",
                value=values,
                expected=f"at most {MAX_VALUES} values, and {MAX_CONTAINERS} lists and objects",
            )


def _fits(commas: int, lists: int, objects: int) -> bool:
    return commas + lists + objects <= MAX_VALUES and lists + objects <= MAX_CONTAINERS


def _count_outside_of_texts(raw: bytes) -> list[int]:
    """How many commas, lists and objects JSON has."""
    # of a run of backslashes each second one is escaped itself
    plain = raw.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    counts, inside = [0] * len(_MARKS), False
    for start in range(0, len(plain), _PART):
        part = np.frombuffer(plain, np.uint8, min(_PART, len(plain) - start), start)
        in_text = np.logical_xor.accumulate(part == ord('"')) ^ inside
        inside = bool(in_text[-1])
        outside = part[~in_text].tobytes()
        counts = [count + outside.count(mark) for count, mark in zip(counts, _MARKS, strict=True)]
    return counts


@api.post("/embeddings")
def embeddings() -> dict[str, Any]:
    """Vectors of texts, in OpenAI's shape."""
    body, model = body_of(EmbeddingsRequest, data=True), current_service().model
    check_model(body.model, model)
    if body.dimensions not in (None, model.dim):
        message = f"vectors cannot have {body.dimensions} dimensions"
        raise BadInput(message, value=body.dimensions, expected=str(model.dim))
    rows: Any = model.encode(texts("input", body.input, body.truncate))
    if body.encoding_format == "base64":
        rows = [b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    # clients of OpenAI's read it, and some fail without it; nothing is counted here
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    return {"object": "list", "model": model.name, "data": data, "usage": usage}


@api.post("/rerank")
def rerank() -> dict[str, Any]:
    """Documents by their similarity with a query, in Cohere's and Jina's shape.

    The engine's scores have no part in it, and so no alpha; /v1/rewrite has the engine mix both.
    """
    body, service = body_of(RerankRequest, data=True), current_service()
    check_model(body.model, service.model)
    documents = texts("documents", body.documents, body.truncate)
    late = service.served_reranker.get(body.method)
    if late is None:
        model = service.model
        relevance = np.float32(0.5) + model.score(model.encode_one(body.query), model.encode(documents)) / 2
    else:
        check_word_pairs(body.query, documents)
        relevance = late.scores(body.query, documents)
    order = np.argsort(-relevance, kind="stable")[: body.top_n].tolist()
    results = [_result(position, float(relevance[position])) for position in order]
    if body.return_documents:
        results = [{**result, "document": {"text": documents[result["index"]]}} for result in results]
    return {"model": service.model.name, "results": results}


def _result(index: int, relevance: float) -> dict[str, Any]:
    """A result in Cohere's shape. Its number has at most six digits and none that JSON would write with an exponent:
    ML Commons takes no other."""
    rounded = round(relevance, 6)
    return {"index": index, "relevance_score": rounded if rounded >= 1e-4 else 0.0}


@api.get("/indices")
def list_indices() -> dict[str, Any]:
    """The indices that can be searched, and the methods that they can be searched by.

    Where the engine lets the caller see no list, its own error comes back; indices can be searched by name all the
    same.
    """
    service = current_service()
    methods = ["vectors"] if service.served_reranker.get() is None else ["vectors", "late"]
    return {"indices": service.catalogue.indices(service.model, engine_headers()), "methods": methods}


@api.get("/indices/<index>")
def describe_index(index: str) -> dict[str, Any]:
    """How an index is shown: the fields of its cards, its facets, and example queries.

    The fields are those of RESIFT_PAGE_FIELDS or guessed from documents that the caller may read; queries and guesses
    are remembered for ten minutes, for callers with the same Authorization.
    """
    service, headers = current_service(), engine_headers()
    return service.catalogue.describe(service.info(index, headers), headers)


@api.get("/indices/<index>/suggestions")
def suggest(index: str) -> dict[str, Any]:
    """What a text that is being typed, ``q``, may become by words of the index and its titles, at most four of either.

    They are of 3,000 of its documents that the caller may read, which the first call begins to look at.
    """
    text = request.args.get("q", "")[:MAX_QUERY]
    service, headers = current_service(), engine_headers()
    return {"suggestions": service.words.complete(text, service.info(index, headers), headers)}


@api.post("/search")
def search() -> Response:
    """The engine's answer to a search, rewritten by vectors and what the session taught."""
    body, service = body_of(SearchRequest), current_service()
    headers, listed_only = engine_headers(), not current_caller().may_send_bodies
    requested = Search(**msgspec.structs.asdict(body), listed_only=listed_only, headers=headers)
    answer = service.search(requested)
    count_search(answer.resift)
    text = answer.json()
    return Response(to_json(answer.body) if text is None else text, mimetype="application/json")


@api.post("/rewrite")
def rewrite() -> dict[str, Any]:
    """A search body with the session's words and the similarity in it, as search pipelines have it rewritten.

    The body that comes back is one that the engine runs by itself. What cannot be rewritten comes back as it was.
    """
    body, service = body_of(RewriteRequest), current_service()
    check_model(body.model, service.model)
    rewritten, outcome, reason = service.rewrite_for_pipeline(body.index, body.body, engine_headers())
    changed = rewritten is not body.body
    count_rewrite(outcome)
    # of an index without vectors of ours nothing has to be hidden, and its searches go out as they came
    if body.hide_vectors and service.info(body.index, engine_headers()).model is not None:
        rewritten = _without_vectors(rewritten)
    return {
        "body": as_text(rewritten) if body.as_text else rewritten,
        "resift": {"rewritten": changed, "outcome": outcome.code, **({"reason": reason} if reason else {})},
    }


def as_text(body: dict[str, Any]) -> str:
    """The JSON text of a search body in which ML Commons finds no name of its own to fill in, such as ${body}."""
    return to_json(body).decode().replace("$", "\\u0024")


def _without_vectors(body: dict[str, Any]) -> dict[str, Any]:
    """A search body whose hits do not show our vectors to clients that know nothing of them."""
    try:
        return sent_body(body, None)
    except BadInput:  # of a malformed _source OpenSearch says itself what is wrong
        return body


@api.post("/feedback")
def feedback() -> dict[str, Any]:
    """Store marks of hits in a session, and return the session's id, times and number of steps.

    With `explain` the answer is that of `GET /v1/sessions/{session}`: the session's judgements, and what they taught.
    A session keeps 100 judgements. Further marks remove its oldest steps.
    """
    body, service, headers = body_of(FeedbackRequest), current_service(), engine_headers()
    marks = collect_marks({name: getattr(body, name) for name in GRADES}, body.scores)
    session = service.feedback(body.session, body.index, body.query, marks, headers)
    return service.describe(session, headers) if body.explain else session_summary(session)


@api.get("/sessions/<session>")
def get_session(session: str) -> dict[str, Any]:
    """All that is kept of a session, and what was learned from it."""
    service = current_service()
    return service.describe(service.sessions.get(session), engine_headers())


@api.delete("/sessions/<session>")
def delete_session(session: str) -> dict[str, Any]:
    """Forget a session."""
    current_service().sessions.delete(session)
    return {"session": session, "deleted": True}


@api.post("/sessions/<session>/undo")
def undo(session: str) -> dict[str, Any]:
    """Take a session's last step back.

    Takes no body. A session without a step left answers 400.
    """
    service = current_service()
    return service.describe(service.sessions.undo(session), engine_headers())
