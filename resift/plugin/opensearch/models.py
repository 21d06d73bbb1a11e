"""Query texts as the cluster's own models and analyzers read them, by ML Commons and ``_analyze``."""

from __future__ import annotations

import struct
from typing import Any
from urllib.parse import quote

import numpy as np
from opensearchpy import OpenSearch

from resift.arrays import Floats
from resift.contracts.engine import Headers
from resift.errors import EngineError
from resift.plugin.opensearch.client import call

# A model of the cluster that takes longer does not come into this search: a pipeline waits a second for all of it.
_SECONDS = 0.7
_DEFAULT_ANALYZER = "bert-uncased"  # of neural_sparse
# Models that read queries otherwise than documents have to be told which it is, and refuse texts without; all others
# refuse to be told.
_AS_QUERY = {"parameters": {"content_type": "query"}}


def embedding(client: OpenSearch, model: str, text: str, headers: Headers) -> Floats:
    """The vector (K,) of a query text by a model that is local or remote.

    Raises EngineError where the answer has none, or the cluster refuses, and EngineUnavailable where it is too slow.
    """
    try:
        answer = _predict(client, "text_embedding", model, text, headers)
    except EngineError as error:
        if error.status != 400:
            raise
        answer = _predict(client, "text_embedding", model, text, headers, **_AS_QUERY)
    for output in _outputs(answer):
        if output.get("data"):
            return np.asarray(output["data"], np.float32)
    raise EngineError(f"the model {model!r} gives no vector", value=model, expected="a model of text embeddings")


def sparse_tokens(client: OpenSearch, model: str, text: str, headers: Headers) -> dict[str, float]:
    """The tokens and weights of a query text by a sparse model or a tokenizer. Raises what :func:`embedding` raises."""
    try:
        answer = _predict(client, "sparse_encoding", model, text, headers)
    except EngineError as error:
        if error.status != 400:
            raise
        answer = _predict(client, "sparse_tokenize", model, text, headers)
    for output in _outputs(answer):
        for tokens in (output.get("dataAsMap") or {}).get("response", ()):
            return {token: float(weight) for token, weight in tokens.items()}
    raise EngineError(f"the model {model!r} gives no tokens", value=model, expected="a sparse model")


def analyzed_tokens(client: OpenSearch, analyzer: str | None, text: str, headers: Headers) -> dict[str, float]:
    """The same by an analyzer, which says what a token weighs in its payload, a float; 1 without."""
    body = {"analyzer": analyzer or _DEFAULT_ANALYZER, "text": text, "explain": True, "attributes": ["payload"]}
    answer = call(client.indices.analyze, body=body, headers=headers, params={"request_timeout": _SECONDS})
    tokens: dict[str, float] = {}
    for one in answer["detail"]["analyzer"]["tokens"]:
        tokens[one["token"]] = _weight(one["payload"]) if one.get("payload") else 1.0
    return tokens


def _weight(payload: str) -> float:
    """The number of a payload, whose bytes are told as in ``[40 3a 37 29]``."""
    weight: float
    (weight,) = struct.unpack(">f", bytes(int(byte, 16) for byte in payload.strip("[]").split()))
    return weight


def _predict(client: OpenSearch, function: str, model: str, text: str, headers: Headers, **more: Any) -> dict[str, Any]:
    path = f"/_plugins/_ml/_predict/{function}/{quote(model, safe='')}"
    params = {"request_timeout": _SECONDS}
    body = {"text_docs": [text], **more}
    answer: dict[str, Any] = call(
        client.transport.perform_request, "POST", path, body=body, headers=headers, params=params
    )
    return answer


def _outputs(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [output for result in answer.get("inference_results", ()) for output in result.get("output", ())]
