"""Models of others that are deployed in a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import numpy as np

from resift.arrays import Floats
from resift.errors import NotFound, TeacherUnavailable
from resift.plugin.cluster.client import Cluster


def embed(cluster: Cluster, model_id: str, texts: Sequence[str]) -> Floats:
    """Vectors (n, D) of texts by a text embedding model that is deployed in ML Commons, local or remote.

    Raises NotFound where there is no such model, TeacherUnavailable for one whose answers are no vectors, and what the
    cluster raises.
    """
    path = f"/_plugins/_ml/_predict/text_embedding/{quote(model_id, safe='')}"
    asked = {"text_docs": list(texts), "return_number": True, "target_response": ["sentence_embedding"]}
    try:
        answer = cluster.request("POST", path, asked)
    except NotFound as error:
        message = f"no model {model_id!r} is deployed"
        raise NotFound(message, value=model_id, expected="the id of a model of ML Commons") from error
    try:
        # one answer for each text, or one answer with all of them: models differ in it
        outputs = [output for result in answer["inference_results"] for output in result["output"]]
        rows = [output["data"] for output in outputs]
        return np.array(rows, np.float32).reshape(len(texts), -1)
    except (KeyError, TypeError, ValueError) as error:
        expected = "a text embedding model"
        raise TeacherUnavailable(f"model {model_id!r} gives no vectors", value=model_id, expected=expected) from error
