"""The document openapi.json, and checks of responses against it."""

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
    """Return the schema of an operation's errors. Operations that imitate another service use its format."""
    answer = resolved(OPERATIONS[name][2]["responses"]["default"])
    schema: dict[str, Any] = answer["content"]["application/json"]["schema"]
    return schema


def error_message(answer: dict[str, Any]) -> str:
    """Return the message of an error, in any format."""
    error = answer.get("error", answer)
    return str(error if isinstance(error, str) else error["message"])


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Resolve a reference to a schema, and merge its sibling keys."""
    while "$ref" in schema:
        target: Any = SPEC
        for key in schema["$ref"].removeprefix("#/").split("/"):
            target = target[key]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def check(schema: dict[str, Any], value: Any) -> None:
    """Assert that a value matches a schema, and has no undocumented properties."""
    errors = _validator(json.dumps(schema)).iter_errors(value)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


@cache
def _validator(schema: str) -> Draft202012Validator:
    components = {"schemas": _closed(SPEC["components"]["schemas"])}
    return Draft202012Validator({**_closed(json.loads(schema)), "components": components})


def _closed(schema: Any) -> Any:
    """Return the schema with ``additionalProperties`` set to false, unless it allows further properties."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        closed.setdefault("additionalProperties", False)
    return closed
