"""openapi.json, and answers held to it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

METHODS = {"get", "post", "put", "patch", "delete"}
SPEC: dict[str, Any] = json.loads((files("resift.reranker") / "openapi.json").read_text("utf-8"))
OPERATIONS = {
    operation["operationId"]: (method, path, operation)
    for path, item in SPEC["paths"].items()
    for method, operation in item.items()
    if method in METHODS
}
ERROR = {"$ref": "#/components/schemas/Error"}


def error_schema(name: str) -> dict[str, Any]:
    """The schema of an operation's errors, which for those in other services' shapes are as these have them."""
    answer = resolved(OPERATIONS[name][2]["responses"]["default"])
    schema: dict[str, Any] = answer["content"]["application/json"]["schema"]
    return schema


def error_message(answer: dict[str, Any]) -> str:
    """What an error says, in whichever shape."""
    error = answer.get("error", answer)
    return str(error if isinstance(error, str) else error["message"])


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema that a reference names, with what stands beside the reference."""
    while "$ref" in schema:
        found: Any = SPEC
        for key in schema["$ref"].removeprefix("#/").split("/"):
            found = found[key]
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def check(schema: dict[str, Any], value: Any) -> None:
    """Assert that a value is as a schema says, and has no properties that are not named there."""
    errors = _validator(json.dumps(schema)).iter_errors(value)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


@cache
def _validator(schema: str) -> Draft202012Validator:
    components = {"schemas": _closed(SPEC["components"]["schemas"])}
    return Draft202012Validator({**_closed(json.loads(schema)), "components": components})


def _closed(schema: Any) -> Any:
    """The schema, refusing properties that it does not name, unless it says that there may be others."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        closed.setdefault("additionalProperties", False)
    return closed
