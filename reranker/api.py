"""The HTTP API under /v1. Paths and fields are described in openapi.json."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from flask import Blueprint, current_app, request
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.ranking.feedback import Feedback
from resift.ranking.fusion import NORMALIZATIONS, combine
from resift.ranking.judgements import GRADES, collect_marks
from resift.ranking.late_interaction import LateInteraction
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
    authorization = request.headers.get("Authorization")
    return None if authorization is None else {"Authorization": authorization}


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
    scores = _document_scores(method, query, documents, feedback)
    order = np.argsort(-scores, kind="stable")[:top].tolist()
    results = [_result(position, (1 + float(scores[position])) / 2) for position in order]
    if read.flag(body, "return_documents", False):
        results = [{**result, "document": {"text": documents[result["index"]]}} for result in results]
    return {"model": service.model.name, "results": results}


def _document_scores(method: str, query: str, documents: Sequence[str], feedback: Feedback | None) -> Floats:
    """Scores (n,) of documents from -1 to 1. Raises BadInput for a session with a method that it does not change."""
    service = _service()
    # a session wins over the trained reranker unless the caller asks for the latter
    late = None if feedback is not None and method == "auto" else service.late_interaction(method)
    if late is not None:
        if feedback is not None:
            raise BadInput("a session does not change the trained reranker", value="late", expected="vectors")
        return 2 * late.scores(query, documents) - 1
    if method != "dynamax":
        return service.similarities(query, service.model.encode(documents), feedback)
    if feedback is not None:
        raise BadInput("dynamax compares words, which a session does not change", value="dynamax", expected="vectors")
    first, *others = service.model.word_rows([query, *documents])
    return np.array([dynamax(first, other) for other in others], np.float32)


def _result(index: int, relevance: float) -> dict[str, Any]:
    """A result in Cohere's shape. Its number has at most six digits and none that JSON would write with an exponent:
    ML Commons takes no other."""
    rounded = round(relevance, 6)
    return {"index": index, "relevance_score": rounded if rounded >= 1e-4 else 0.0}


@api.post("/score")
def score() -> dict[str, Any]:
    """Scores of hits in the engine's order, for a search pipeline's ``ml_inference`` and ``by_field``; in Cohere's
    shape for its ``rerank``, which passes on one text, a ``line`` of the session and then the query."""
    body, service = read.json_body(data=True), _service()
    read.check_model(body, service.model)
    query, session = _query_and_session(body)
    feedback = service.feedback_of(session, _headers())
    if not query and feedback is None:
        raise BadInput("neither a query nor a session's feedback", value=query, expected="a query text")
    vectors = read.vectors(body, "vectors", service.model.dim)
    late = _late_for_texts(body, has_texts_only=vectors is None and feedback is None)
    if late is not None:
        similar, alpha, normalization = late.scores(query, read.texts(body, "documents")), late.alpha, "z_score"
    else:
        if vectors is None:
            vectors = service.model.encode(read.texts(body, "documents"))
        similar, alpha, normalization = service.similarities(query, vectors, feedback), service.alpha, "min_max"
    engine = _engine_scores(body.get("engine_scores"), len(similar))
    alpha = read.number(body, "alpha", alpha, 0, 1)
    scores = combine(engine, similar, alpha, _normalization(body, normalization)).astype(float)
    if body.get("line") is not None:
        return {"results": [_result(position, score) for position, score in enumerate(scores.tolist())]}
    return {"scores": scores.round(6).tolist()}


def _query_and_session(body: dict[str, Any]) -> tuple[str, str | None]:
    """The query and the session's id, None if there is none; of a ``line`` in place of both, if it is given."""
    line = read.text(body, "line", None)
    query, session = read.text(body, "query", ""), read.text(body, "session", None)
    if line is not None:
        first, separator, rest = line.partition("\n")
        query, session = (rest, first) if separator else (line, None)
    return query, session or None


def _late_for_texts(body: dict[str, Any], has_texts_only: bool) -> LateInteraction | None:
    """The trained reranker, where a request's ``method`` takes it. It reads texts, and knows no session."""
    method = read.choice(body, "method", "auto", ["auto", "vectors", "late"])
    if has_texts_only:
        return _service().late_interaction(method)
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


@api.post("/search")
def search() -> dict[str, Any]:
    """The engine's answer to a search, reranked."""
    body, service = read.json_body(), _service()
    requested = Search(
        query=_query(body),
        filter=_filter(body),
        index=read.text(body, "index"),
        session=read.text(body, "session", None),
        size=read.natural(body, "size", 10, 10_000),
        start=read.natural(body, "from", 0, 10_000),
        window=read.natural(body, "window", service.config.window, 10_000, low=1),
        alpha=None if body.get("alpha") is None else read.number(body, "alpha", 0, 0, 1),
        normalization=None if body.get("normalization") is None else _normalization(body, "min_max"),
        method=read.choice(body, "method", "auto", ["auto", "vectors", "late"]),
        knn=None if body.get("knn") is None else read.natural(body, "knn", 0, 10_000),
        highlight=read.flag(body, "highlight", False),
        headers=_headers(),
    )
    return service.search(requested)


def _query(body: dict[str, Any]) -> str | dict[str, Any]:
    query: str | dict[str, Any] | None = body.get("query")
    if isinstance(query, str):
        return read.limited(query, "query")
    if isinstance(query, dict):
        return query
    message = "query is missing" if query is None else "malformed query"
    raise BadInput(message, value=query, expected="a text or a query body")


def _filter(body: dict[str, Any]) -> dict[str, Any] | None:
    condition: dict[str, Any] | None = body.get("filter")
    if condition is not None and not isinstance(condition, dict):
        raise BadInput("malformed filter", value=condition, expected="a query clause")
    return condition


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
