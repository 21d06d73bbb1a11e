"""The JSON of errors that HTTP itself has, whoever finds them: the application, or the server in front of it."""

from __future__ import annotations

from typing import Any

_CODES = {
    404: "no_such_path",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    500: "internal_error",
}


def http_error(status: int, name: str, path: str, max_body: int) -> dict[str, Any]:
    """The body of an answer with a ``status`` of this ``name`` to a request for ``path``."""
    expected = f"at most {max_body} bytes" if status == 413 else "see /openapi.json"
    code = _CODES.get(status, "http_error")
    return {"error": {"code": code, "message": name, "value": path, "expected": expected}}
