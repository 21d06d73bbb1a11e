"""The HTTP API under /v1. What each request may say stands in its body's type, and all of it in ``openapi``."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from typing import Any

import numpy as np
import orjson
from flask import Blueprint, Response, current_app, request
from flask.json.provider import DefaultJSONProvider
from msgspec import structs

from resift.contracts.search_options import SearchRequest
from resift.errors import BadInput
from resift.plugin.opensearch.documents import sent_body
from resift.ranking.judgements import GRADES, collect_marks
from resift.reranker import validation as read
from resift.reranker.access.requests import current_caller, engine_headers
from resift.reranker.request_bodies import (
    EmbeddingsRequest,
    FeedbackRequest,
    RerankRequest,
    RewriteRequest,
)
from resift.reranker.request_log import count_rewrite, count_search
from resift.reranker.search.bodies import Search
from resift.reranker.search.service import Reranker
from resift.sessions.sessions import MAX_QUERY

log = logging.getLogger(__name__)
api = Blueprint("api", __name__, url_prefix="/v1")


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


def current_service() -> Reranker:
    """The application's service."""
    service: Reranker = current_app.extensions["resift"]
    return service


@api.post("/embeddings")
def embeddings() -> dict[str, Any]:
    """Vectors of texts, in OpenAI's shape."""
    body, model = read.body_of(EmbeddingsRequest, data=True), current_service().model
    read.check_model(body.model, model)
    if body.dimensions not in (None, model.dim):
        message = f"vectors cannot have {body.dimensions} dimensions"
        raise BadInput(message, value=body.dimensions, expected=str(model.dim))
    rows: Any = model.encode(read.texts("input", body.input, body.truncate))
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
    body, service = read.body_of(RerankRequest, data=True), current_service()
    read.check_model(body.model, service.model)
    documents = read.texts("documents", body.documents, body.truncate)
    late = service.served_reranker.get(body.method)
    if late is None:
        model = service.search_model
        relevance = np.float32(0.5) + model.score(model.encode_one(body.query), model.encode(documents)) / 2
    else:
        read.check_word_pairs(body.query, documents)
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
    return {"indices": service.catalogue.indices(service.model, service.queries, engine_headers()), "methods": methods}


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
    """What a text that is being typed, ``q``, may become by words of the index, at most four.

    They are of 3,000 of its documents that the caller may read, which the first call begins to look at.
    """
    text = request.args.get("q", "")[:MAX_QUERY]
    service, headers = current_service(), engine_headers()
    return {"suggestions": service.words.complete(text, service.info(index, headers), headers)}


@api.post("/search")
def search() -> Response:
    """The engine's answer to a search, rewritten by vectors and what the session taught."""
    body, service = read.body_of(SearchRequest), current_service()
    headers, listed_only = engine_headers(), not current_caller().may_send_bodies
    requested = Search(**structs.asdict(body), listed_only=listed_only, headers=headers)
    answer = service.search(requested)
    count_search(answer.resift)
    text = answer.json()
    return Response(to_json(answer.body) if text is None else text, mimetype="application/json")


@api.post("/rewrite")
def rewrite() -> dict[str, Any]:
    """A search body with the session's words and the similarity in it, as search pipelines have it rewritten.

    The body that comes back is one that the engine runs by itself. What cannot be rewritten comes back as it was.
    """
    body, service = read.body_of(RewriteRequest), current_service()
    read.check_model(body.model, service.model)
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
    """Marks of hits, and what the session has learned.

    A session keeps 100 judgements; more of them push the oldest steps out.
    """
    body = read.body_of(FeedbackRequest)
    marks = collect_marks({name: getattr(body, name) for name in GRADES}, body.scores)
    return current_service().feedback(body.session, body.index, body.query, marks, engine_headers())


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
