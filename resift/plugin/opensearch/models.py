"""Encoding of query texts by the cluster's own models (ML Commons) and analyzers (``_analyze``)."""

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

# Time limit in seconds for a model or an analyzer. A search pipeline waits one second for the whole rewriting. If the
# model is slower, the search is rewritten without it.
_SECONDS = 0.7
_DEFAULT_ANALYZER = "bert-uncased"  # the default of neural_sparse queries
# Asymmetric models encode queries differently from documents. They refuse requests without this parameter, and all
# other models refuse requests with it.
_AS_QUERY = {"parameters": {"content_type": "query"}}


def query_embedding(client: OpenSearch, model: str, text: str, headers: Headers) -> Floats:
    """Return the vector of a query text, which an embedding model in the cluster computes.

    Args:
        client: The client of opensearch-py that is connected to the cluster.
        model: The id of the model. It may be a local or a remote model.
        text: The query text.
        headers: The HTTP headers of the caller, which are passed on to OpenSearch.

    Returns:
        The query vector, of shape (n_dimensions,).

    Raises:
        EngineError: If the cluster refuses the request, or if the response contains no vector.
        EngineUnavailable: If the model does not answer within 0.7 seconds.
    """
    try:
        response = _predict(client, "text_embedding", model, {"text_docs": [text]}, headers)
    except EngineError as error:
        if error.status != 400:
            raise
        response = _predict(client, "text_embedding", model, {"text_docs": [text], **_AS_QUERY}, headers)
    for output in _outputs(response):
        if output.get("data"):
            return np.asarray(output["data"], np.float32)
    raise EngineError(f"the model {model!r} returned no vector", value=model, expected="a text embedding model")


def sparse_tokens(client: OpenSearch, model: str, text: str, headers: Headers) -> dict[str, float]:
    """Convert a query text to weighted tokens, with a sparse encoding model or a tokenizer model in the cluster.

    Args:
        client: The client of opensearch-py that is connected to the cluster.
        model: The id of the model.
        text: The query text.
        headers: The HTTP headers of the caller, which are passed on to OpenSearch.

    Returns:
        The weight of each token.

    Raises:
        EngineError: If the cluster refuses the request, or if the response contains no tokens.
        EngineUnavailable: If the model does not answer within 0.7 seconds.
    """
    body = {"text_docs": [text]}
    try:
        response = _predict(client, "sparse_encoding", model, body, headers)
    except EngineError as error:
        if error.status != 400:
            raise
        response = _predict(client, "sparse_tokenize", model, body, headers)
    for output in _outputs(response):
        for tokens in (output.get("dataAsMap") or {}).get("response", ()):
            return {token: float(weight) for token, weight in tokens.items()}
    raise EngineError(f"the model {model!r} returned no tokens", value=model, expected="a sparse model")


def analyzed_tokens(client: OpenSearch, analyzer: str | None, text: str, headers: Headers) -> dict[str, float]:
    """Convert a query text to weighted tokens, with an analyzer of the cluster.

    The weight of a token is the number in its payload, or 1 if the token has no payload.

    Args:
        client: The client of opensearch-py that is connected to the cluster.
        analyzer: The name of the analyzer. None stands for ``bert-uncased``.
        text: The query text.
        headers: The HTTP headers of the caller, which are passed on to OpenSearch.

    Returns:
        The weight of each token.
    """
    body = {"analyzer": analyzer or _DEFAULT_ANALYZER, "text": text, "explain": True, "attributes": ["payload"]}
    response = call(client.indices.analyze, body=body, headers=headers, params={"request_timeout": _SECONDS})
    tokens: dict[str, float] = {}
    for token in response["detail"]["analyzer"]["tokens"]:
        tokens[token["token"]] = _payload_weight(token["payload"]) if token.get("payload") else 1.0
    return tokens


def _payload_weight(payload: str) -> float:
    """Decode the weight in the payload of a token.

    Args:
        payload: The payload as text, such as ``[40 3a 37 29]``. These are the hexadecimal bytes of a big-endian float.
    """
    weight: float
    (weight,) = struct.unpack(">f", bytes(int(byte, 16) for byte in payload.strip("[]").split()))
    return weight


def _predict(client: OpenSearch, function: str, model: str, body: dict[str, Any], headers: Headers) -> dict[str, Any]:
    path = f"/_plugins/_ml/_predict/{function}/{quote(model, safe='')}"
    params = {"request_timeout": _SECONDS}
    response: dict[str, Any] = call(
        client.transport.perform_request, "POST", path, body=body, headers=headers, params=params
    )
    return response


def _outputs(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [output for result in response.get("inference_results", ()) for output in result.get("output", ())]
