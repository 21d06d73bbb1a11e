"""What the model can do, in other services' shapes: Text Embeddings Inference's (TEI) and Cohere's.

Requests, answers and errors are as theirs, so that their clients need a new address and nothing else. The errors are
made of ours at the end, whoever found them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import numpy as np
from flask import Blueprint, Response, current_app

from resift.arrays import Floats
from resift.errors import BadInput, ResiftError
from resift.reranker import validation as read
from resift.reranker.api import current_service, document_scores
from resift.reranker.limits import MAX_DOCUMENTS, MAX_INPUTS
from resift.text import word_places

tei = Blueprint("tei", __name__)
cohere = Blueprint("cohere", __name__, url_prefix="/v2")

_DIRECTIONS = ["Right", "Left", "right", "left"]
_COHERE_VERSION = {"api_version": {"version": "2"}}


@tei.post("/embed")
def embed() -> Any:
    """Vectors of texts, in TEI's shape."""
    body, model = read.json_body(data=True), current_service().model
    prompt = body.get("prompt_name")
    if prompt is not None:
        raise BadInput("the model has no prompts", value=prompt, expected="null")
    read.check_dimensions(body, model)
    normalize, texts = read.flag(body, "normalize", True), _tei_texts(body, "inputs", MAX_INPUTS)
    if not texts:
        return _empty("inputs")
    rows = model.encode(texts)
    # a text without a known word has no direction, and keeps its zeros
    return list(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30) if normalize else rows)


@tei.post("/rerank")
def rerank() -> Any:
    """Documents by their similarity with a query, in TEI's shape."""
    body = read.json_body(data=True)
    query, texts = read.text(body, "query"), _tei_texts(body, "texts", MAX_DOCUMENTS)
    raw, with_text = read.flag(body, "raw_scores", False), read.flag(body, "return_text", False)
    if not texts:
        return _empty("texts")
    scores = document_scores("auto", query, texts, None)
    shown = scores if raw else (1 + scores) / 2
    return [
        {"index": index, "score": round(float(shown[index]), 6), **({"text": texts[index]} if with_text else {})}
        for index in _best_first(scores)
    ]


def _tei_texts(body: dict[str, Any], name: str, most: int) -> list[str]:
    direction = read.choice(body, "truncation_direction", "Right", _DIRECTIONS)
    return read.texts(body, name, most, keep_end=direction.lower() == "left")


def _empty(name: str) -> tuple[dict[str, str], int]:
    """TEI's refusal of an empty list, the one error that it answers with 400."""
    return {"error": f"`{name}` cannot be empty", "error_type": "Empty"}, 400


@cohere.post("/rerank", endpoint="rerank")
def cohere_rerank() -> dict[str, Any]:
    """Documents by their similarity with a query, in the shape of Cohere's second version."""
    body, model = read.json_body(data=True), current_service().model
    read.text(body, "model")
    read.check_model(body, model)
    read.natural(body, "priority", 0, 999)  # of Cohere's own queue, and none here
    query, documents = read.text(body, "query"), read.texts(body, "documents", MAX_DOCUMENTS, truncate=True)
    if not documents:
        raise BadInput("documents is empty", value="documents", expected="a list of one or more texts")
    if body.get("max_tokens_per_doc") is not None:
        words = read.natural(body, "max_tokens_per_doc", 0, 10**9, low=1)
        documents = [_first_words(text, words) for text in documents]
    top = read.natural(body, "top_n", len(documents), 10**9, low=1)
    scores = document_scores("auto", query, documents, None)
    shown = (1 + scores) / 2
    results = [{"index": index, "relevance_score": round(float(shown[index]), 6)} for index in _best_first(scores)]
    return {"id": str(uuid4()), "results": results[:top], "meta": _COHERE_VERSION}


def _first_words(text: str, count: int) -> str:
    places = word_places(text) if len(text) > count else []
    return text[: places[count][0]] if len(places) > count else text


def _best_first(scores: Floats) -> Sequence[int]:
    found: list[int] = np.argsort(-scores, kind="stable").tolist()
    return found


@tei.after_request
def as_tei(response: Response) -> Response:
    """Errors in TEI's shape, and with its statuses: 422 for what is wrong with a request."""
    error = _error_of(response)
    if error is not None:
        status = 422 if response.status_code == BadInput.status else response.status_code
        kind = "Unhealthy" if status == 503 else "Backend" if status >= 500 else "Validation"
        _answer(response, {"error": error, "error_type": kind}, status)
    return response


@cohere.after_request
def as_cohere(response: Response) -> Response:
    """Errors in Cohere's shape; the statuses are the same."""
    error = _error_of(response)
    if error is not None:
        _answer(response, {"id": str(uuid4()), "message": error}, response.status_code)
    return response


def _error_of(response: Response) -> str | None:
    """What our answer says is wrong, with the value and what was expected; None where it is no error of ours."""
    body = response.get_json(silent=True) if response.status_code >= 400 else None
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    return str(ResiftError(error["message"], value=error.get("value"), expected=error.get("expected")))


def _answer(response: Response, body: dict[str, str], status: int) -> None:
    response.set_data(current_app.json.dumps(body))
    response.status_code = status
