"""The HTTP API under /v1. Paths and fields are described in openapi.json."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
from flask import Blueprint, current_app, request

from resift.errors import BadInput
from resift.ranking.fusion import NORMALIZATIONS, combine
from resift.ranking.judgements import GRADES, collect_marks
from resift.reranker import validation as read
from resift.reranker.search.request import Search
from resift.reranker.search.service import Reranker
from resift.vectors.similarity import dynamax

api = Blueprint("api", __name__, url_prefix="/v1")


def _service() -> Reranker:
    service: Reranker = current_app.extensions["resift"]
    return service


def _headers() -> dict[str, str] | None:
    """The caller's own credentials, which the engine is asked with."""
    given = request.headers.get("Authorization")
    return None if given is None else {"Authorization": given}


@api.post("/embeddings")
def embeddings() -> dict[str, Any]:
    """Vectors of texts, in OpenAI's shape."""
    body, model = read.json_body(data=True), _service().model
    read.check_model(body, model)
    rows: Any = model.encode(read.texts(body, "input"))
    if read.choice(body, "encoding_format", "float", ["float", "base64"]) == "base64":
        rows = [b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    return {"object": "list", "model": model.name, "data": data}


@api.post("/rerank")
def rerank() -> dict[str, Any]:
    """Documents by their similarity with a query, in Cohere's and Jina's shape."""
    body, service = read.json_body(data=True), _service()
    read.check_model(body, service.model)
    query, documents = read.text(body, "query"), read.texts(body, "documents")
    top = read.natural(body, "top_n", len(documents), 10**9)
    feedback = service.feedback_of(read.text(body, "session", None), _headers())
    method = read.choice(body, "method", "auto", ["auto", "vectors", "dynamax", "late"])
    late = None if feedback is not None and method == "auto" else service.late_interaction(method)
    if late is not None and feedback is not None:
        raise BadInput("a session does not change the trained reranker", value="late", expected="vectors")
    if late is not None:
        scores = 2 * late.scores(query, documents) - 1
    elif method != "dynamax":
        scores = service.similarities(query, service.model.encode(documents), feedback)
    elif feedback is None:
        first, *others = service.model.word_rows([query, *documents])
        scores = np.array([dynamax(first, other) for other in others], np.float32)
    else:
        raise BadInput("dynamax compares words, which a session does not change", value="dynamax", expected="vectors")
    order = np.argsort(-scores, kind="stable")[:top]
    results: list[dict[str, Any]] = [
        {"index": int(i), "relevance_score": _decimal((1 + float(scores[i])) / 2)} for i in order
    ]
    if read.flag(body, "return_documents", False):
        results = [{**result, "document": {"text": documents[result["index"]]}} for result in results]
    return {"model": service.model.name, "results": results}


def _decimal(value: float) -> float:
    """At most six digits, and none that JSON would write with an exponent: ML Commons takes no other number."""
    rounded = round(value, 6)
    return rounded if rounded >= 1e-4 else 0.0


@api.post("/score")
def score() -> dict[str, Any]:
    """Scores of hits given in the engine's order, for a search pipeline's ``ml_inference`` and ``by_field``; in
    Cohere's shape for its ``rerank``, which passes on one text, a ``line`` of the session and then the query."""
    body, service = read.json_body(data=True), _service()
    read.check_model(body, service.model)
    line = read.text(body, "line", None)
    query, session = read.text(body, "query", ""), read.text(body, "session", None) or None
    if line is not None:
        first, broken, rest = line.partition("\n")
        query, session = (rest, first or None) if broken else (line, None)
    feedback = service.feedback_of(session, _headers())
    if not query and feedback is None:
        raise BadInput("neither a query nor a session's feedback", value=query, expected="a query text")
    vectors = read.vectors(body, "vectors", service.model.dim)
    method = read.choice(body, "method", "auto", ["auto", "vectors", "late"])
    if method == "late" and (vectors is not None or feedback is not None):
        raise BadInput(
            "the trained reranker scores documents, outside of a session", value="late", expected="documents or vectors"
        )
    late = service.late_interaction(method) if vectors is None and feedback is None else None
    if late is not None:
        documents = read.texts(body, "documents")
        similar = late.scores(query, documents)
    else:
        if vectors is None:
            vectors = service.model.encode(read.texts(body, "documents"))
        similar = service.similarities(query, vectors, feedback)
    given = body.get("engine_scores")
    ranks = -np.arange(len(similar), dtype=np.float64) if given is None else _engine_scores(given, len(similar))
    alpha = read.number(body, "alpha", service.alpha if late is None else late.alpha, 0, 1)
    scores = combine(ranks, similar, alpha, _normalization(body, "min_max" if late is None else "z_score"))
    if line is not None:
        return {
            "results": [{"index": i, "relevance_score": _decimal(score)} for i, score in enumerate(scores.tolist())]
        }
    return {"scores": scores.astype(float).round(6).tolist()}


def _engine_scores(given: Any, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    numeric = isinstance(given, list) and all(
        isinstance(score, (int, float)) and not isinstance(score, bool) and abs(score) < 1e300 for score in given
    )
    if not numeric or len(given) != count:
        raise BadInput("engine_scores do not fit the documents", value=given, expected=f"a list of {count} numbers")
    return np.asarray(given, np.float64)


def _normalization(body: dict[str, Any], default: str) -> str:
    return read.choice(body, "normalization", default, list(NORMALIZATIONS))


@api.post("/search")
def search() -> dict[str, Any]:
    """The engine's answer to a search, reranked."""
    body, config = read.json_body(), _service().config
    query, condition = body.get("query"), body.get("filter")
    if isinstance(query, str):
        read.limited(query, "query")
    elif not isinstance(query, dict):
        raise BadInput(
            "query is missing" if query is None else "malformed query",
            value=query,
            expected="a text or a query body",
        )
    if condition is not None and not isinstance(condition, dict):
        raise BadInput("malformed filter", value=condition, expected="a query clause")
    wanted = Search(
        index=read.text(body, "index"),
        query=query,
        session=read.text(body, "session", None),
        size=read.natural(body, "size", 10, 10_000),
        start=read.natural(body, "from", 0, 10_000),
        window=read.natural(body, "window", config.window, 10_000, low=1),
        alpha=None if body.get("alpha") is None else read.number(body, "alpha", 0, 0, 1),
        normalization=None if body.get("normalization") is None else _normalization(body, "min_max"),
        method=read.choice(body, "method", "auto", ["auto", "vectors", "late"]),
        knn=None if body.get("knn") is None else read.natural(body, "knn", 0, 10_000),
        highlight=read.flag(body, "highlight", False),
        filter=condition,
        headers=_headers(),
    )
    return _service().search(wanted)


@api.post("/feedback")
def feedback() -> dict[str, Any]:
    """Marks of hits, and what changed."""
    body = read.json_body()
    marks = collect_marks({name: read.identifiers(body, name) for name in GRADES})
    session, index = read.text(body, "session"), read.text(body, "index")
    return _service().feedback(session, index, read.text(body, "query", ""), marks, _headers())


@api.get("/sessions/<session>")
def get_session(session: str) -> dict[str, Any]:
    """All that is kept of a session, and what was learned from it."""
    service = _service()
    return service.describe(service.sessions.get(session), _headers())


@api.put("/sessions/<session>")
def put_session(session: str) -> dict[str, Any]:
    """Make a session of the judgements that a GET gave."""
    service = _service()
    judgements = read.judgements(read.json_body(), "judgements")
    return service.describe(service.sessions.put(session, judgements), _headers())


@api.delete("/sessions/<session>")
def delete_session(session: str) -> dict[str, Any]:
    """Forget a session."""
    _service().sessions.delete(session)
    return {"session": session, "deleted": True}


@api.delete("/sessions")
def delete_sessions() -> dict[str, Any]:
    """Forget all sessions with a judgement in an index."""
    index = request.args.get("index")
    if not index:
        raise BadInput("index is missing", value="index", expected="/v1/sessions?index=NAME")
    return {"index": index, "deleted": _service().sessions.store.delete_index(index)}


@api.post("/sessions/<session>/undo")
def undo(session: str) -> dict[str, Any]:
    """Take a session's last step back."""
    service = _service()
    return service.describe(service.sessions.undo(session), _headers())
