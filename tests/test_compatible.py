"""The endpoints in other services' shapes: what their clients send, what they read, and how they learn of errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from reranker_app import config as config
from reranker_app import plain as plain
from reranker_app import post

from resift import Model

TEXTS = ["gun of the army", "bush fire", "", "forest flame"]


def test_tei_embeds_as_its_clients_expect(plain: FlaskClient, model: Model) -> None:
    rows = np.array(post(plain, "/embed", inputs=["bush fire", "zzz"], truncate=False))
    raw = model.encode(["bush fire", "zzz"])
    np.testing.assert_allclose(rows[0], raw[0] / np.linalg.norm(raw[0]), rtol=1e-5)
    assert not rows[1].any()
    np.testing.assert_allclose(post(plain, "/embed", inputs="bush fire", normalize=False, dimensions=8), raw[:1])


def test_tei_cuts_texts_at_either_end(plain: FlaskClient, model: Model) -> None:
    # the limit is 10,000 characters, of which what is kept has but one kind of words
    long = "gun " * 2500 + "fire " * 2000
    for direction, word in (("Left", "fire"), ("right", "gun")):
        kept = post(plain, "/embed", inputs=[long], truncate=True, truncation_direction=direction)
        np.testing.assert_allclose(kept, post(plain, "/embed", inputs=word), rtol=1e-5)


@pytest.mark.parametrize("raw", [False, True])
def test_tei_reranks_as_its_clients_expect(plain: FlaskClient, raw: bool) -> None:
    ranked = post(plain, "/rerank", query="fire", texts=TEXTS, raw_scores=raw, return_text=True)
    ours = post(plain, "/v1/rerank", query="fire", documents=TEXTS)["results"]
    assert [one["index"] for one in ranked] == [one["index"] for one in ours]
    assert [one["text"] for one in ranked] == [TEXTS[one["index"]] for one in ours]
    expected = [2 * one["relevance_score"] - 1 if raw else one["relevance_score"] for one in ours]
    np.testing.assert_allclose([one["score"] for one in ranked], expected, atol=3e-6)
    assert "text" not in post(plain, "/rerank", query="fire", texts=TEXTS)[0]


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "said"),
    [
        ("/embed", {}, 422, "Validation", "inputs is missing (expected a list of strings)"),
        ("/embed", {"inputs": []}, 400, "Empty", "`inputs` cannot be empty"),
        ("/embed", {"inputs": [[101, 7]]}, 422, "Validation", "inputs[0] is not a string (got '[101, 7]'"),
        ("/embed", {"inputs": "x" * 10_001}, 413, "Validation", "inputs[0] has 10001 characters (expected at most 1"),
        ("/embed", {"inputs": ["x"] * 2049}, 413, "Validation", "inputs has 2049 items (expected at most 2048)"),
        ("/embed", {"inputs": "x" * 300_000}, 413, "Validation", "Request Entity Too Large"),
        ("/embed", {"inputs": "x", "dimensions": 4}, 422, "Validation", "cannot have 4 dimensions (expected 8)"),
        ("/embed", {"inputs": "x", "prompt_name": "query"}, 422, "Validation", "no prompts (got 'query'"),
        ("/embed", {"input": "x"}, 422, "Validation", "unknown field 'input' (expected inputs | normalize"),
        ("/rerank", {"query": "x", "texts": []}, 400, "Empty", "`texts` cannot be empty"),
        ("/rerank", {"query": "x", "texts": 5}, 422, "Validation", "texts is not a list of strings (got 5"),
    ],
)
def test_tei_says_what_is_wrong(
    plain: FlaskClient, path: str, body: dict[str, Any], status: int, kind: str, said: str
) -> None:
    answer = post(plain, path, status, **body)
    assert answer.keys() == {"error", "error_type"}
    assert (answer["error_type"], said in answer["error"]) == (kind, True), answer


def test_tei_says_so_where_it_fails_itself(plain: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resift.reranker.compatible.document_scores", lambda *_: 1 / 0)
    answer = post(plain, "/rerank", 500, query="x", texts=["y"])
    assert (answer["error_type"], "log has the details" in answer["error"]) == ("Backend", True)


def test_cohere_reranks_as_its_clients_expect(plain: FlaskClient, model: Model) -> None:
    answer = post(plain, "/v2/rerank", model=model.name, query="fire", documents=TEXTS, top_n=2)
    ours = post(plain, "/v1/rerank", query="fire", documents=TEXTS, top_n=2)["results"]
    assert answer["results"] == ours
    assert (answer["meta"], isinstance(answer["id"], str)) == ({"api_version": {"version": "2"}}, True)


def test_cohere_cuts_documents(plain: FlaskClient, model: Model) -> None:
    asked: dict[str, Any] = {"model": model.name, "query": "fire"}
    documents = ["fire, gun of the army", "gun of fire", "fire " * 3000]
    results = post(plain, "/v2/rerank", **asked, documents=documents, max_tokens_per_doc=1, priority=3)["results"]
    scores = {one["index"]: one["relevance_score"] for one in results}
    assert scores[0] == scores[2] == pytest.approx(1, abs=1e-5)
    assert scores[1] < scores[0]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"query": "x", "documents": ["y"]}, 400, "model is missing (expected a string)"),
        ({"model": "rerank-v3.5", "query": "x", "documents": ["y"]}, 404, "model 'rerank-v3.5' is not in service here"),
        ({"model": "mean", "query": "x", "documents": []}, 400, "documents is empty (expected a list of one or more"),
        ({"model": "mean", "query": "x", "documents": ["y"], "top_n": 0}, 400, "top_n is not a whole number from 1"),
    ],
)
def test_cohere_says_what_is_wrong(plain: FlaskClient, body: dict[str, Any], status: int, said: str) -> None:
    answer = post(plain, "/v2/rerank", status, **body)
    assert answer.keys() == {"id", "message"}
    assert said in answer["message"]
