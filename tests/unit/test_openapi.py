"""Tests that openapi.json matches the application: routes, request fields, limits, responses and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from flask import Flask
from flask.testing import FlaskClient
from openapi_document import ERROR, METHODS, OPERATIONS, SPEC, check, error_message, error_schema, resolved
from service_app import wait_for_sample

from resift import Model, __version__
from resift.contracts.documents import MAX_ID_BYTES, Document
from resift.embedded.engine import SqliteEngine
from resift.errors import ResiftError
from resift.feedback.judgements import GRADES, SOURCES
from resift.reranker import Config, create_app
from resift.service.rewriter import LEXICAL_SESSION_WINDOW, SESSION_WINDOW
from resift.sessions.sessions import MAX_INDEX, MAX_JUDGEMENTS
from resift.vectors.weights import DEFAULT_ALPHA

WITH_BODY = [name for name, (_, _, operation) in OPERATIONS.items() if "requestBody" in operation]
WITH_FIELDS = [name for name in WITH_BODY if not name.startswith("ubi")]  # bodies of UBI requests are arrays
DOCUMENTS = {"1": "fire in the bush", "2": "fire of the army", "3": "rain in the forest"}


@pytest.fixture
def app(tmp_path: Path, model: Model) -> Iterator[Flask]:
    """Return the application with the index of the examples."""
    config = Config(engine=str(tmp_path / "engine.db"), store=str(tmp_path / "sessions.db"))
    engine = SqliteEngine(config.engine)
    engine.create("resift-news", ["title"], model)
    vectors = model.encode(DOCUMENTS.values())
    documents = [Document(id, {"title": text}, vectors[i]) for i, (id, text) in enumerate(DOCUMENTS.items())]
    assert engine.bulk("resift-news", documents) == []
    app = create_app(config, engine=engine, model=model)
    yield app
    app.extensions["resift"].sessions.store.close()
    engine.close()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """Return a client, after sending the feedback and the review of the examples."""
    client = app.test_client()
    assert client.post("/v1/feedback", json=_request("feedback")[1]).status_code == 200
    assert client.put("/v1/reviews/fires", json=_request("reviewsBeginReview")[1]).status_code == 200
    for by in ("anna", ""):
        judged = client.post("/v1/reviews/fires/judgements", json={"irrelevant": ["2"], "by": by})
        assert judged.status_code == 200
    return client


def _request(name: str) -> tuple[dict[str, Any], Any]:
    """Return the schema and the example of an operation's body."""
    content = OPERATIONS[name][2]["requestBody"]["content"]["application/json"]
    example = content["example"]
    return resolved(content["schema"]), {**example, "model": "mean"} if "model" in example else example


def _url(name: str) -> str:
    """Return an operation's path, with the examples of its parameters."""
    _, path, operation = OPERATIONS[name]
    given = {its["name"]: its["example"] for its in operation.get("parameters", ())}
    filled = path.format(**{its["name"]: its["example"] for its in SPEC["paths"][path].get("parameters", ())})
    return f"{filled}?{urlencode(given)}" if given else filled


def test_documented_routes_are_the_existing_routes(app: Flask) -> None:
    routes = {
        (method.lower(), re.sub(r"<(\w+)>", r"{\1}", rule.rule))
        for rule in app.url_map.iter_rules()
        if rule.endpoint != "static"
        for method in rule.methods or ()
    }
    documented = {(method, path) for method, path, _ in OPERATIONS.values()}
    assert {(method, path) for method, path in routes if method in METHODS} == documented


def test_the_openapi_document_is_served_unchanged(client: FlaskClient) -> None:
    assert client.get("/openapi.json").get_json() == SPEC
    assert SPEC["info"]["version"] == __version__


@pytest.mark.parametrize("name", OPERATIONS)
def test_examples_work_and_responses_match_their_schemas(client: FlaskClient, name: str) -> None:
    method, _, operation = OPERATIONS[name]
    body = None
    if name in WITH_BODY:
        schema, body = _request(name)
        check(schema, body)
    answer = client.open(_url(name), method=method.upper(), json=body)
    assert answer.status_code == 200, answer.text
    ((kind, content),) = operation["responses"]["200"]["content"].items()
    assert answer.mimetype == kind
    check(content["schema"], answer.get_json() if kind == "application/json" else answer.text)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("search", {"index": "resift-news", "query": {"match_all": {}}}),
        ("search", {"index": "resift-news", "query": "fire", "knn": 3, "alpha": 1, "window": 1, "session": "anna"}),
        ("search", {"index": "resift-news", "query": {"query": {"match": {"title": "fire"}}, "_source": False}}),
        ("search", {"index": "resift-news", "query": "fire", "session": "anna", "judged": "demote", "widen": False}),
        ("search", {"index": "resift-news", "query": "fire", "size": 2, "window": 1, "reasons": True}),
        ("rewrite", {"index": "resift-news", "body": {}}),
        ("rewrite", {"index": "resift-news", "body": {"ext": {"resift": {"query": "fire", "knn": 3}}}}),
        ("rewrite", {"index": "resift-news", "body": {"ext": {"ml_inference": {"alpha": 2}}}}),
        ("feedback", {"session": "bob", "index": "resift-news", "relevant": ["1"], "neutral": ["2"]}),
        ("feedback", {"session": "bob", "index": "resift-news", "clicked": ["1"], "skipped": ["2"]}),
        ("feedback", {"session": "anna", "index": "resift-news", "neutral": ["1", "3"]}),
        ("rerank", {"query": "fire", "documents": "the army"}),
        ("rerank", {"query": "fire", "documents": [None, {"text": "army"}], "top_n": 0, "truncate": True}),
        ("embeddings", {"input": []}),
    ],
)
def test_other_responses_match_their_schemas(client: FlaskClient, name: str, body: dict[str, Any]) -> None:
    method, _, operation = OPERATIONS[name]
    check(_request(name)[0], body)
    answer = client.open(_url(name), method=method.upper(), json=body)
    assert answer.status_code == 200, answer.text
    check(operation["responses"]["200"]["content"]["application/json"]["schema"], answer.get_json())


@pytest.mark.parametrize("size", [0, 3])
def test_a_suggestion_matches_its_schema(app: Flask, size: int) -> None:
    schema = OPERATIONS["search"][2]["responses"]["200"]["content"]["application/json"]["schema"]
    body = {"index": "resift-news", "query": "fier forrest", "size": size}

    def suggested() -> str | None:
        answer = app.test_client().post("/v1/search", json=body).get_json()
        check(schema, answer)
        suggestion: str | None = answer["resift"].get("did_you_mean")
        return suggestion

    words = app.extensions["resift"].words
    with words._sampling:  # as if another index was being sampled
        assert suggested() is None
    suggested()
    wait_for_sample()
    assert suggested() == "fire forest"


@pytest.mark.parametrize("name", WITH_FIELDS)
def test_required_fields_are_required_and_other_fields_accept_null(client: FlaskClient, name: str) -> None:
    schema, body = _request(name)
    method, _, _ = OPERATIONS[name]
    refused = 422 if "422" in OPERATIONS[name][2]["responses"] else 400
    nullable = {field for field, its in schema["properties"].items() if _takes_null(resolved(its))}
    for field in schema.get("required", ()):
        assert field not in nullable
        answer = client.open(_url(name), method=method.upper(), json={**body, field: None})
        message, _, _ = error_message(answer.get_json()).partition(" (")
        assert (answer.status_code, message) == (refused, f"{field} is missing")
    for field in nullable:
        answer = client.open(_url(name), method=method.upper(), json={**body, field: None})
        assert answer.status_code == 200, answer.text


def _takes_null(schema: dict[str, Any]) -> bool:
    return (
        "null" in schema.get("type", ())
        or None in schema.get("enum", ())
        or {"type": "null"} in schema.get("anyOf", ())
    )


@pytest.mark.parametrize("name", WITH_FIELDS)
def test_values_outside_the_documented_limits_are_refused(client: FlaskClient, name: str) -> None:
    schema, body = _request(name)
    method, _, operation = OPERATIONS[name]
    refused = 422 if "422" in operation["responses"] else 400
    for field, its in schema["properties"].items():
        limits = resolved(its)
        wrong = [limits[bound] + step for bound, step in (("minimum", -1), ("maximum", 1)) if bound in limits]
        wrong += ["a b"] if "pattern" in limits else []
        wrong += ["zzz"] if "enum" in limits else []
        wrong += ["a" * (limits["maxLength"] + 1)] if "maxLength" in limits else []
        for value in [*wrong, [[]]]:
            answer = client.open(_url(name), method=method.upper(), json={**body, field: value})
            assert answer.status_code == (413 if len(str(value)) > 1_000_000 else refused), field
            check(error_schema(name), answer.get_json())


def test_limits_and_defaults_in_descriptions_equal_the_code() -> None:
    schemas, config = SPEC["components"]["schemas"], Config()
    search = schemas["SearchRequest"]["properties"]
    assert search["window"]["x-default"] == (
        f"{config.window}; in a session that has learned something {SESSION_WINDOW}, or {LEXICAL_SESSION_WINDOW} in an "
        "index without our vectors"
    )
    assert (config.alpha, config.max_text) == (None, search["query"]["anyOf"][0]["maxLength"])
    assert search["alpha"]["x-default"] == f"the weight of the model, such as {DEFAULT_ALPHA}"
    assert search["knn"]["x-default"].partition(";")[0] == str(config.knn)
    feedback = schemas["FeedbackRequest"]["properties"]
    assert f"at most {MAX_JUDGEMENTS} documents" in schemas["FeedbackRequest"]["description"]
    assert str(MAX_INDEX) in feedback["index"]["description"]
    assert feedback["relevant"]["items"]["maxLength"] == MAX_ID_BYTES
    judgement = schemas["Judgement"]["properties"]
    assert all(f"{value:g} {name}" in judgement["grade"]["description"] for name, value in GRADES.items() if value)
    assert set(GRADES) < set(feedback)
    assert set(judgement["source"]["enum"]) == set(SOURCES)


def _errors(kind: type[ResiftError]) -> Iterator[type[ResiftError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _errors(inner)


def test_every_error_code_is_listed_with_its_status() -> None:
    code = SPEC["components"]["schemas"]["Problem"]["properties"]["code"]
    assert set(code["enum"]) == set(code["x-statuses"])
    ours = {kind.code: kind("x").status for kind in _errors(ResiftError) if kind.__module__.startswith("resift.")}
    of_http = {"no_such_path": 404, "method_not_allowed": 405, "http_error": None}
    assert code["x-statuses"] == {**ours, **of_http}


def test_documented_errors_equal_the_applications_errors(client: FlaskClient) -> None:
    statuses = SPEC["components"]["schemas"]["Problem"]["properties"]["code"]["x-statuses"]
    answers = {
        "bad_input": client.post("/v1/rerank", json={}),
        "malformed_json": client.post("/v1/rerank", data="{", content_type="application/json"),
        "unsupported_media_type": client.post("/v1/rerank", data="{}", content_type="text/plain"),
        "host_not_allowed": client.get("/healthz", headers={"Host": "elsewhere.example"}),
        "origin_not_allowed": client.post("/v1/rerank", json={}, headers={"Origin": "http://elsewhere.example"}),
        "index_not_served": client.post("/v1/search", json={"index": ".tasks", "query": "x"}),
        "unsupported_query": client.post("/v1/search", json={"index": "resift-news", "query": {"fuzzy": {}}}),
        "not_found": client.post("/v1/feedback", json={"index": "resift-news", "session": "a", "relevant": ["9"]}),
        "index_not_found": client.post("/v1/search", json={"index": "none", "query": "x"}),
        "model_not_found": client.post("/v1/embeddings", json={"input": "x", "model": "other"}),
        "session_not_found": client.get("/v1/sessions/nobody"),
        "no_such_path": client.get("/v2"),
        "method_not_allowed": client.put("/v1/search"),
        "too_large": client.post("/v1/rerank", json={"query": "x" * 1_000_001, "documents": []}),
    }
    for code, answer in answers.items():
        assert (answer.get_json()["error"]["code"], answer.status_code) == (code, statuses[code])
        check(ERROR, answer.get_json())
