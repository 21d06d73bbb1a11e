"""Tests of the HTTP API of models: embeddings and rerank."""

from __future__ import annotations

from base64 import b64decode

import numpy as np
import pytest
from flask.testing import FlaskClient
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import filled as filled
from service_app import plain as plain
from service_app import post

from resift import Model


def test_embeddings(plain: FlaskClient, model: Model) -> None:
    answer = post(plain, "/v1/embeddings", input=["fire", "", "zzz", None], model=model.hash)
    assert [item["index"] for item in answer["data"]] == [0, 1, 2, 3]
    np.testing.assert_allclose(
        [i["embedding"] for i in answer["data"]], model.encode(["fire", "", "zzz", ""]), rtol=1e-6
    )
    # some clients of OpenAI fail without it
    assert answer["usage"] == {"prompt_tokens": 0, "total_tokens": 0}
    assert len(post(plain, "/v1/embeddings", input="fire", dimensions=model.dim)["data"]) == 1
    other = plain.post("/v1/embeddings", json={"input": "fire", "dimensions": 4})
    assert (other.status_code, other.json["error"]["expected"]) == (400, str(model.dim))
    assert post(plain, "/v1/embeddings", input=[])["data"] == []
    coded = post(plain, "/v1/embeddings", input=["fire", "gun"], encoding_format="base64")["data"]
    rows = [np.frombuffer(b64decode(item["embedding"]), "<f4") for item in coded]
    np.testing.assert_array_equal(rows, model.encode(["fire", "gun"]))
    answer = plain.post("/v1/embeddings", json={"input": "fire", "encoding_format": "int8"})
    assert (answer.status_code, answer.json["error"]["expected"]) == (400, "base64 | float")


def test_rerank(plain: FlaskClient, model: Model) -> None:
    documents = ["gun of the army", "bush fire", "", {"text": "forest flame"}]
    answer = post(plain, "/v1/rerank", query="fire", documents=documents, return_documents=True)
    results = answer["results"]
    assert sorted(result["index"] for result in results) == [0, 1, 2, 3]
    scores = [result["relevance_score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    assert results[0]["document"]["text"] in ("bush fire", "forest flame")
    expected = (1 + model.score(model.encode(["fire"])[0], model.encode(["bush fire"]))[0]) / 2
    assert next(r for r in results if r["index"] == 1)["relevance_score"] == pytest.approx(expected, abs=1e-6)
    assert len(post(plain, "/v1/rerank", query="fire", documents=documents, top_n=2)["results"]) == 2


def test_rerank_numbers_are_what_ml_commons_can_read(plain: FlaskClient, model: Model) -> None:
    query = "fire"
    opposite = list(model.table.words)
    raw = plain.post("/v1/rerank", json={"query": query, "documents": opposite}).get_data(as_text=True)
    for number in raw.replace(" ", "").split('"relevance_score":')[1:]:
        text = number.split("}")[0].split(",")[0]
        assert "." in text
        assert "e" not in text.lower()
        assert len(text) <= 18


def test_long_texts_of_a_pipeline_are_cut_not_refused(plain: FlaskClient, model: Model) -> None:
    long = "fire " * 3000
    answer = post(plain, "/v1/embeddings", input=[long, "gun"], truncate=True)
    np.testing.assert_allclose(answer["data"][0]["embedding"], model.encode(["fire"])[0], rtol=1e-5)
