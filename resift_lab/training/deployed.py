"""Text embedding models that are deployed in an OpenSearch cluster (ML Commons)."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import numpy as np

from resift.arrays import Floats
from resift.errors import NotFound, TeacherUnavailable
from resift.plugin.cluster.client import Cluster


def embed_texts(cluster: Cluster, model_id: str, texts: Sequence[str]) -> Floats:
    """Encode texts with a text embedding model of a cluster (ML Commons).

    The model may run in the cluster or be connected to a remote service.

    Args:
        cluster: The client of the cluster.
        model_id: The id of the deployed model.
        texts: The n texts to encode.

    Returns:
        Vectors of shape (n, D) for D dimensions, float32.

    Raises:
        NotFound: If no such model is deployed.
        TeacherUnavailable: If the model's response contains no vectors.
        ResiftError: If the request to the cluster fails.
    """
    path = f"/_plugins/_ml/_predict/text_embedding/{quote(model_id, safe='')}"
    body = {"text_docs": list(texts), "return_number": True, "target_response": ["sentence_embedding"]}
    try:
        answer = cluster.request("POST", path, body)
    except NotFound as error:
        message = f"model {model_id!r} is not deployed in the cluster"
        raise NotFound(message, value=model_id, expected="the id of a deployed model of ML Commons") from error
    try:
        # Depending on the model, there is a result for each text, or a single result for all texts.
        outputs = [output for result in answer["inference_results"] for output in result["output"]]
        rows = [output["data"] for output in outputs]
        return np.array(rows, np.float32).reshape(len(texts), -1)
    except (KeyError, TypeError, ValueError) as error:
        message = f"the response of model {model_id!r} contains no vectors"
        raise TeacherUnavailable(message, value=model_id, expected="a text embedding model") from error
