"""Property-based tests of the HTTP API: requests generated from openapi.json, or from valid requests, on both engines.

RESIFT_TEST_CASES is the number of cases of each kind (default: 8).
"""

from __future__ import annotations

import copy
import functools
import json
import os
from typing import Any

import pytest
import schemathesis
from flask.testing import FlaskClient
from hypothesis import HealthCheck, Phase, given, settings
from odd_bodies import BODIES, changed
from openapi_document import OPERATIONS, SPEC, check, error_schema
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection
from service_app import config as config
from service_app import known as known
from service_app import lasting as lasting
from service_app import plain as plain

CASES = int(os.environ.get("RESIFT_TEST_CASES", "8"))
LONG = "RESIFT_TEST_CASES" in os.environ
# The same cases in every run. If more are requested, they are random, and the smallest failing case is shown.
cases = settings(
    max_examples=CASES,
    derandomize=not LONG,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, *([Phase.shrink] if LONG else [])],
)
# OpenSearch warns about deprecated parts of bodies. Other warnings are errors of Resift.
pytestmark = pytest.mark.filterwarnings("ignore::opensearchpy.exceptions.OpenSearchWarning")
MODES = pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "wrong"])
TAKING = [name for name, (_, _, operation) in OPERATIONS.items() if {"parameters", "requestBody"} & operation.keys()]
ENGINELESS = ["embeddings", "rerank"]


@pytest.fixture
def filled(lasting: tuple[FlaskClient, str]) -> str:
    """Return the index of seven documents."""
    return lasting[1]


def assert_documented(name: str, status: int, body: bytes) -> None:
    """Assert that openapi.json allows the response of an operation, and that it is not an internal error."""
    assert status < 500, (status, body)
    # An exception in reranking does not fail a request. It is only logged.
    assert b"reranking failed" not in body, body
    if status >= 400:
        check(error_schema(name), json.loads(body))
    elif "application/json" in (content := OPERATIONS[name][2]["responses"]["200"]["content"]):
        check(content["application/json"]["schema"], json.loads(body))


@functools.cache
def schema_for(index: str) -> Any:
    """Load openapi.json for requests to the index. This takes longer than most tests."""
    spec = copy.deepcopy(SPEC)
    for schema in ("SearchRequest", "FeedbackRequest"):
        spec["components"]["schemas"][schema]["properties"]["index"] = {"enum": [index]}
    loaded = schemathesis.openapi.from_dict(spec)
    rejection = loaded.config.checks.negative_data_rejection
    rejection.expected_statuses = [*rejection.expected_statuses, "413"]
    return loaded


def run_generated(client: FlaskClient, name: str, mode: GenerationMode, index: str = "news") -> None:
    """Send requests that the schema of an operation allows, or forbids."""
    loaded = schema_for(index)
    loaded.app = client.application

    @cases
    @given(case=loaded.find_operation_by_id(name).as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        response = case.call()
        assert_documented(name, response.status_code, response.content)
        if mode is GenerationMode.NEGATIVE:
            case.validate_response(response, checks=[negative_data_rejection])

    run()


@MODES
@pytest.mark.parametrize("name", [name for name in TAKING if name not in ENGINELESS])
def test_generated_requests(known: FlaskClient, filled: str, name: str, mode: GenerationMode) -> None:
    run_generated(known, name, mode, filled)


@MODES
@pytest.mark.parametrize("name", ENGINELESS)
def test_generated_requests_that_ask_no_engine(plain: FlaskClient, name: str, mode: GenerationMode) -> None:
    run_generated(plain, name, mode)


def run_changed(client: FlaskClient, name: str, **fixed: str) -> None:
    """Send valid bodies with random changes."""
    method, path, _ = OPERATIONS[name]

    @settings(cases, max_examples=CASES * (12 if name == "search" else 3))
    @given(body=changed([{**fixed, **body} for body in BODIES[name]]))
    def run(body: dict[str, Any]) -> None:
        answer = client.open(path.format(session="anna", index="docs"), method=method.upper(), json=body)
        assert_documented(name, answer.status_code, answer.data)

    run()


@pytest.mark.parametrize("name", ["search", "feedback"])
def test_valid_bodies_with_odd_changes(known: FlaskClient, filled: str, name: str) -> None:
    run_changed(known, name, index=filled)


@pytest.mark.parametrize("name", ENGINELESS)
def test_valid_bodies_with_odd_changes_that_ask_no_engine(plain: FlaskClient, name: str) -> None:
    run_changed(plain, name)


@pytest.mark.parametrize("name", BODIES)
def test_most_bodies_are_valid_before_they_are_changed(known: FlaskClient, filled: str, name: str) -> None:
    method, path, _ = OPERATIONS[name]
    statuses, unknown = [], 0
    for body in BODIES[name]:
        named = {"index": filled, **body} if "index" in json.dumps(SPEC["paths"][path][method]["requestBody"]) else body
        answer = known.open(path.format(session="anna", index="docs"), method=method.upper(), json=named)
        statuses.append(answer.status_code)
        unknown += "unsupported_query" in answer.text
    assert statuses.count(200) >= (len(statuses) - unknown) / 2, statuses
    assert unknown <= len(statuses) * 0.7
