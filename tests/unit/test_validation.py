"""Tests of requests that are refused: status, error code and message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from service_app import config as config
from service_app import plain as plain
from service_app import post

from resift import Model
from resift.contracts.documents import Document

BAD = [
    ("/v1/embeddings", {}, 400, "bad_input", "input"),
    ("/v1/embeddings", {"input": 3}, 400, "bad_input", "input"),
    ("/v1/embeddings", {"input": ["a", 3]}, 400, "bad_input", "input[1]"),
    ("/v1/embeddings", {"input": "x", "model": "gpt"}, 404, "model_not_found", "gpt"),
    ("/v1/embeddings", {"input": "x" * 10_001}, 413, "too_large", "10001"),
    ("/v1/embeddings", {"input": "x" * 300_000}, 413, "too_large", "Too Large"),
    ("/v1/rerank", {"query": "x"}, 400, "bad_input", "documents"),
    ("/v1/rerank", {"query": "x", "documents": ["a"], "top_n": -1}, 400, "bad_input", "top_n"),
    ("/v1/rerank", {"query": "x", "documents": ["a"], "method": "magic"}, 400, "bad_input", "method"),
    ("/v1/rerank", {"query": ["x"], "documents": ["a"]}, 400, "bad_input", "query"),
    ("/v1/search", {"query": "x"}, 400, "bad_input", "index"),
    ("/v1/search", {"index": "docs"}, 400, "bad_input", "query"),
    ("/v1/search", {"index": "docs", "query": 3}, 400, "bad_input", "query"),
    ("/v1/search", {"index": "missing", "query": "x"}, 404, "index_not_found", "missing"),
    ("/v1/search", {"index": "docs", "query": "x", "alpha": 2}, 400, "bad_input", "alpha"),
    ("/v1/search", {"index": "docs", "query": "x", "alpha": True}, 400, "bad_input", "alpha"),
    ("/v1/search", {"index": "docs", "query": "x", "size": 1.5}, 400, "bad_input", "size"),
    ("/v1/search", {"index": "docs", "query": "x", "filter": "y"}, 400, "bad_input", "filter"),
    ("/v1/search", {"index": "docs", "query": "x" * 10_001}, 413, "too_large", "query"),
    ("/v1/search", {"index": "docs", "query": {"nonsense": {}}}, 400, "unsupported_query", "nonsense"),
    ("/v1/search", {"index": "docs", "query": {"match": {"text": [5]}}}, 400, "bad_input", "malformed"),
    ("/v1/search", {"index": "docs", "query": {"exists": 5}}, 400, "bad_input", "malformed"),
    ("/v1/search", {"index": "docs", "query": {"terms": {"n": {"a": 1}}}}, 400, "bad_input", "n is"),
    ("/v1/search", {"index": "docs", "query": {"range": {"n": {"gt": 10**20}}}}, 400, "bad_input", "malformed"),
    ("/v1/search", {"index": "docs", "query": {"range": {"n": {"gt": [1]}}}}, 400, "bad_input", "malformed"),
    (
        "/v1/search",
        {"index": "docs", "query": {"query": {"match_all": {}}, "_source": 5}},
        400,
        "bad_input",
        "malformed",
    ),
    (
        "/v1/search",
        {"index": "docs", "query": {"query": {"match": {"text": "x"}}, "highlight": 5}},
        400,
        "bad_input",
        "m",
    ),
    ("/v1/search", {"index": "docs", "query": "x", "window": 0}, 400, "bad_input", "window"),
    (
        "/v1/feedback",
        {"session": "a", "index": "docs", "query": "\ud800", "relevant": ["1"]},
        400,
        "bad_input",
        "query",
    ),
    ("/v1/search", {"index": "docs", "query": "x", "session": "é"}, 400, "bad_input", "session"),
    ("/v1/feedback", {"index": "docs", "relevant": ["1"]}, 400, "bad_input", "session"),
    ("/v1/feedback", {"session": "a", "index": "docs"}, 400, "bad_input", "no document"),
    ("/v1/feedback", {"session": "a", "index": "docs", "relevant": "1"}, 400, "bad_input", "relevant"),
    (
        "/v1/feedback",
        {"session": "a", "index": "docs", "relevant": ["1"], "irrelevant": ["1"]},
        400,
        "bad_input",
        "two different marks",
    ),
    ("/v1/feedback", {"session": "a", "index": "docs", "relevant": ["gone"]}, 404, "not_found", "gone"),
]


@pytest.mark.parametrize(("path", "body", "status", "code", "named"), BAD)
def test_errors_name_the_bad_value_and_the_service_continues(
    plain: FlaskClient, model: Model, path: str, body: dict[str, Any], status: int, code: str, named: str
) -> None:
    engine = plain.application.extensions["resift"].engine
    engine.create("docs", ["text"], model)
    engine.bulk("docs", [Document("1", {"text": "x"}, model.encode(["x"])[0])])
    error = post(plain, path, status, **body)["error"]
    assert error["code"] == code
    assert named in error["message"]
    assert error["expected"]
    assert len(json.dumps(error)) < 1000
    assert plain.get("/healthz").status_code == 200
    assert len(post(plain, "/v1/embeddings", input="fire")["data"]) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[1]",
        b'"x"',
        b"\xff\xfe",
        b'{"input": NaN}',
        b'{"input": -Infinity}',
        b"[" * 50_000,
        b"null",
    ],
)
@pytest.mark.parametrize("path", ["embeddings", "rerank", "search", "feedback"])
def test_malformed_json_is_refused(plain: FlaskClient, path: str, raw: bytes) -> None:
    response = plain.post(f"/v1/{path}", data=raw, content_type="application/json")
    assert (response.status_code, response.get_json()["error"]["code"]) == (400, "malformed_json")


def test_unknown_paths_and_methods_are_errors(plain: FlaskClient) -> None:
    for response, status, code in (
        (plain.get("/nope"), 404, "no_such_path"),
        (plain.get("/v1/search"), 405, "method_not_allowed"),
        (plain.get("/v1/sessions/a%20b"), 400, "bad_input"),
    ):
        assert (response.status_code, response.get_json()["error"]["code"]) == (status, code)
    assert plain.get("/v1/search").headers["Allow"] == "OPTIONS, POST"
