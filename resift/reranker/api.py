"""The HTTP API under /v1. Paths and fields are described in openapi.json."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from flask import Blueprint, Response, current_app, request
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.contracts.query_dsl import MAX_WINDOW
from resift.errors import BadInput, EngineUnavailable, ModelMismatch, NotFound, SessionsUnavailable
from resift.plugin.opensearch.packed_vectors import sent_body
from resift.ranking.feedback import Feedback
from resift.ranking.fusion import NORMALIZATIONS, combine, factors_of
from resift.ranking.judgements import GRADES, collect_marks
from resift.ranking.late_interaction import LateInteraction
from resift.reranker import validation as read
from resift.reranker.access.requests import current_caller, engine_headers
from resift.reranker.json_provider import to_json
from resift.reranker.limits import MAX_DOCUMENTS, MAX_INPUTS, check_word_pairs
from resift.reranker.metrics import count_rewrite, count_search
from resift.reranker.search.request import DOCUMENTS, Search
from resift.reranker.search.service import Reranker
from resift.rewriting.settings import JUDGED

log = logging.getLogger(__name__)
api = Blueprint("api", __name__, url_prefix="/v1")


def current_service() -> Reranker:
    """The application's service."""
    service: Reranker = current_app.extensions["resift"]
    return service


@api.post("/embeddings")
def embeddings() -> dict[str, Any]:
    """Vectors of texts, in OpenAI's shape."""
    body, model = read.json_body(data=True), current_service().model
    read.check_model(body, model)
    read.check_dimensions(body, model)
    rows: Any = model.encode(read.texts(body, "input", MAX_INPUTS))
    if read.choice(body, "encoding_format", "float", ["float", "base64"]) == "base64":
        rows = [b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    # clients of OpenAI's read it, and some fail without it; nothing is counted here
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    return {"object": "list", "model": model.name, "data": data, "usage": usage}


@api.post("/rerank")
def rerank() -> dict[str, Any]:
    """Documents by their similarity with a query, in Cohere's and Jina's shape."""
    body, service = read.json_body(data=True), current_service()
    read.check_model(body, service.model)
    query, documents = read.text(body, "query"), read.texts(body, "documents", MAX_DOCUMENTS)
    top = read.natural(body, "top_n", len(documents), 10**9)
    feedback, note = _feedback(query, read.text(body, "session", None))
    method = read.choice(body, "method", "auto", ["auto", "vectors", "dynamax", "late"])
    scores = document_scores(method, query, documents, feedback)
    order = np.argsort(-scores, kind="stable")[:top].tolist()
    results = [_result(position, (1 + float(scores[position])) / 2) for position in order]
    if read.flag(body, "return_documents", False):
        results = [{**result, "document": {"text": documents[result["index"]]}} for result in results]
    return {"model": service.model.name, "results": results, **note}


def _feedback(query: str, session: str | None) -> tuple[Feedback | None, dict[str, Any]]:
    """What a session has learned; where it cannot be asked for, nothing, and what the answer says of that.

    Raises SessionsUnavailable or EngineUnavailable if there is no query either.
    """
    try:
        return current_service().knowledge.session_feedback(session, engine_headers()), {}
    except (SessionsUnavailable, EngineUnavailable) as error:
        if not query:
            raise
        log.warning("ranking without the session: %s", error.message)
        return None, {"resift": {"session": None, "reason": error.message}}


def document_scores(method: str, query: str, documents: Sequence[str], feedback: Feedback | None) -> Floats:
    """Scores (n,) of documents from -1 to 1. Raises BadInput for a session with a method that it does not change."""
    service = current_service()
    # a session wins over the trained reranker unless the caller asks for the latter
    late = None if feedback is not None and method == "auto" else service.late_interaction(method)
    if late is not None:
        if feedback is not None:
            raise BadInput("a session does not change the trained reranker", value="late", expected="vectors")
        check_word_pairs(query, documents, every=False)
        return 2 * late.scores(query, documents) - 1
    if method != "dynamax":
        return service.compared(query, service.search_model.encode(documents), feedback)[0]
    if feedback is not None:
        raise BadInput("dynamax compares words, which a session does not change", value="dynamax", expected="vectors")
    check_word_pairs(query, documents, every=True)
    return service.model.compare_words(query, documents)


def _result(index: int, relevance: float) -> dict[str, Any]:
    """A result in Cohere's shape. Its number has at most six digits and none that JSON would write with an exponent:
    ML Commons takes no other."""
    rounded = round(relevance, 6)
    return {"index": index, "relevance_score": rounded if rounded >= 1e-4 else 0.0}


@api.post("/score")
def score() -> dict[str, Any]:
    """Combined scores of hits that the caller brings, in the engine's order."""
    body, service = read.json_body(data=True), current_service()
    read.check_model(body, service.model)
    query, session = read.text(body, "query", ""), read.text(body, "session", None)
    feedback, note = _feedback(query, session or None)
    if not query and feedback is None:
        raise BadInput("neither a query nor a session's feedback", value=query, expected="a query text")
    vectors = read.vectors(body, "vectors", service.search_model.dim)
    asked = _alpha(body)
    late = _late_for_texts(body, has_texts_only=vectors is None and feedback is None)
    if late is not None:
        documents = read.texts(body, "documents", MAX_DOCUMENTS)
        similar, normalization = late.support(query, documents), "z_score"
        alpha = late.alpha if asked is None else asked
    else:
        if vectors is None:
            vectors = service.search_model.encode(read.texts(body, "documents", MAX_DOCUMENTS))
        (similar, alpha), normalization = service.compared(query, vectors, feedback, asked), "min_max"
    engine = _engine_scores(body.get("engine_scores"), len(similar))
    normalization = _normalization(body, normalization)
    # as in a search, unless something else is asked for, or there are no scores that can be multiplied
    as_in_search = late is not None and not body.get("normalization") and body.get("engine_scores") is not None
    if as_in_search and (engine >= 0).all():
        scores = engine * factors_of(similar, alpha)
    else:
        scores = combine(engine, similar, alpha, normalization).astype(float)
    return {"scores": scores.round(6).tolist(), **note}


def _alpha(body: dict[str, Any]) -> float | None:
    return None if body.get("alpha") is None else read.number(body, "alpha", 0, 0, 1)


def _late_for_texts(body: dict[str, Any], has_texts_only: bool) -> LateInteraction | None:
    """The trained reranker, where a request's ``method`` takes it. It reads texts, and knows no session."""
    method = read.choice(body, "method", "auto", ["auto", "vectors", "late"])
    if has_texts_only:
        return current_service().late_interaction(method)
    if method == "late":
        raise BadInput(
            "the trained reranker scores documents, outside of a session", value="late", expected="documents or vectors"
        )
    return None


def _engine_scores(scores: Any, count: int) -> NDArray[np.float64]:
    """The engine's scores (n,) of ``count`` hits, by their order if ``scores`` is None; BadInput if they do not fit."""
    if scores is None:
        return -np.arange(count, dtype=np.float64)
    numeric = isinstance(scores, list) and all(
        isinstance(score, (int, float)) and not isinstance(score, bool) and abs(score) < 1e300 for score in scores
    )
    if not numeric or len(scores) != count:
        raise BadInput("engine_scores do not fit the documents", value=scores, expected=f"a list of {count} numbers")
    return np.asarray(scores, np.float64)


def _normalization(body: dict[str, Any], default: str) -> str:
    return read.choice(body, "normalization", default, list(NORMALIZATIONS))


@api.get("/indices")
def list_indices() -> dict[str, Any]:
    """The indices that can be searched, and the methods that they can be searched by."""
    service = current_service()
    methods = ["vectors"] if service.late_interaction("auto") is None else ["vectors", "late"]
    return {"indices": service.indices(engine_headers()), "methods": methods}


@api.get("/indices/<index>")
def describe_index(index: str) -> dict[str, Any]:
    """How an index is shown: the fields of its cards, its facets, and example queries."""
    return current_service().index(index, engine_headers())


@api.post("/search")
def search() -> Response:
    """The engine's answer to a search, reranked."""
    body, service = read.json_body(), current_service()
    requested = Search(
        query=_query(body),
        filter=_clause(body, "filter"),
        index=read.named(body, "index"),
        session=read.text(body, "session", None),
        size=read.natural(body, "size", 10, 10_000),
        start=read.natural(body, "from", 0, 10_000),
        window=None if body.get("window") is None else read.natural(body, "window", 0, MAX_WINDOW, low=1),
        alpha=_alpha(body),
        method=read.choice(body, "method", "auto", ["auto", "vectors", "late"]),
        widen=None if body.get("widen") is None else read.flag(body, "widen", False),
        knn=None if body.get("knn") is None else read.natural(body, "knn", 0, MAX_WINDOW),
        judged=read.choice(body, "judged", "keep", list(JUDGED)),
        reasons=read.flag(body, "reasons", False),
        baseline=read.flag(body, "baseline", False),
        highlight=read.flag(body, "highlight", False),
        documents=read.choice(body, "documents", "source", list(DOCUMENTS)),
        facets=tuple(read.field_names(body, "facets")),
        plane=read.flag(body, "plane", False),
        listed_only=not current_caller().may_send_bodies,
        headers=engine_headers(),
    )
    answer = service.search(requested)
    count_search(answer.resift)
    text = answer.json()
    response = Response(to_json(answer.body) if text is None else text, mimetype="application/json")
    parts = (f"{name};dur={1000 * seconds:.1f}" for name, seconds in answer.seconds.items())
    response.headers["Server-Timing"] = ", ".join(parts)
    return response


@api.post("/rewrite")
def rewrite() -> dict[str, Any]:
    """A search body with the session's words and the similarity in it, as search pipelines have it rewritten."""
    body, service = read.json_body(), current_service()
    read.check_model(body, service.model)
    search_body = _clause(body, "body", "a search body")
    if search_body is None:
        raise BadInput("body is missing", value="body", expected="a search body")
    rewritten, outcome, reason = service.rewrite_for_pipeline(read.named(body, "index"), search_body, engine_headers())
    changed = rewritten is not search_body
    count_rewrite(outcome)
    if read.flag(body, "hide_vectors", False):
        rewritten = _without_vectors(rewritten)
    return {
        "body": as_text(rewritten) if read.flag(body, "as_text", False) else rewritten,
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


def _query(body: dict[str, Any]) -> str | dict[str, Any]:
    query = body.get("query")
    if isinstance(query, str):
        return read.limited(query, "query")
    clause = _clause(body, "query", "a text or a query body")
    if clause is None:
        raise BadInput("query is missing", value="query", expected="a text or a query body")
    return clause


def _clause(body: dict[str, Any], name: str, expected: str = "a query clause") -> dict[str, Any] | None:
    value: dict[str, Any] | None = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise BadInput(f"malformed {name}", value=value, expected=expected)
    return value


@api.post("/feedback")
def feedback() -> dict[str, Any]:
    """Marks of hits, and what changed."""
    body = read.json_body()
    marks = collect_marks({name: read.identifiers(body, name) for name in GRADES}, read.scores(body, "scores"))
    session, index = read.text(body, "session"), read.named(body, "index")
    return current_service().feedback(session, index, read.text(body, "query", ""), marks, engine_headers())


@api.get("/sessions/<session>")
def get_session(session: str) -> dict[str, Any]:
    """All that is kept of a session, and what was learned from it."""
    service = current_service()
    return service.describe(service.sessions.get(session), engine_headers())


@api.put("/sessions/<session>")
def put_session(session: str) -> dict[str, Any]:
    """Make a session of the judgements that a GET gave."""
    service = current_service()
    judgements = read.judgements(read.json_body(), "judgements")
    for index in dict.fromkeys(judgement.index for judgement in judgements):
        with suppress(NotFound, ModelMismatch):  # documents are not looked for: those that are gone teach nothing
            service.require_served(index, engine_headers())
    return service.describe(service.sessions.put(session, judgements), engine_headers())


@api.delete("/sessions/<session>")
def delete_session(session: str) -> dict[str, Any]:
    """Forget a session."""
    current_service().sessions.delete(session)
    return {"session": session, "deleted": True}


@api.delete("/sessions")
def delete_sessions() -> dict[str, Any]:
    """Forget all sessions with a judgement in an index."""
    index = request.args.get("index")
    if not index:
        raise BadInput("index is missing", value="index", expected="/v1/sessions?index=NAME")
    current_service().served_indices.require_name(index)
    return {"index": index, "deleted": current_service().sessions.store.delete_index(index)}


@api.post("/sessions/<session>/undo")
def undo(session: str) -> dict[str, Any]:
    """Take a session's last step back."""
    service = current_service()
    return service.describe(service.sessions.undo(session), engine_headers())
