"""The client: quick JSON, and its exceptions turned into ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import orjson
from opensearchpy.exceptions import TransportError
from opensearchpy.serializer import JSONSerializer

from resift.errors import EngineError, EngineUnavailable, IndexNotFound, NotFound

T = TypeVar("T")


class JsonSerializer(JSONSerializer):  # type: ignore[misc]
    """opensearch-py's, but quick, save for answers with documents: their whole numbers may be beyond 64 bits."""

    def __init__(self) -> None:
        self._here = threading.local()

    @contextmanager
    def floats(self) -> Iterator[None]:
        """What this thread is answered meanwhile holds no whole numbers beyond 64 bits."""
        self._here.floats = True
        try:
            yield
        finally:
            self._here.floats = False

    def dumps(self, data: Any) -> Any:
        """A request."""
        try:
            return data if isinstance(data, str) else orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY).decode()
        except TypeError:
            return super().dumps(data)

    def loads(self, s: str) -> Any:
        """What an answer says."""
        if ('"_source"' in s or '"fields"' in s) and not getattr(self._here, "floats", False):
            return super().loads(s)
        try:
            return orjson.loads(s)
        except orjson.JSONDecodeError:
            return super().loads(s)


def _reason(error: Any) -> str:
    """An OpenSearch error as one line, with its innermost cause."""
    if not isinstance(error, Mapping):
        return str(error)
    inner = error.get("caused_by") or next(iter(error.get("root_cause", [])), None)
    deepest = _reason(inner) if inner and inner.get("reason") != error.get("reason") else ""
    return f"{error.get('type')}: {error.get('reason')}" + (f" ({deepest})" if deepest else "")


def _translated(error: TransportError) -> EngineError | EngineUnavailable | NotFound:
    status = error.status_code if isinstance(error.status_code, int) else 502
    body = error.info if isinstance(error.info, Mapping) else {}
    detail = body.get("error", str(error))
    reason = _reason(detail)
    if isinstance(detail, Mapping) and detail.get("type") == "index_not_found_exception":
        return IndexNotFound(reason, value=detail.get("index"), expected="an existing index")
    if status == 404:
        return NotFound(f"OpenSearch: {reason}" if detail else "no such document", value=body.get("_id"))
    return EngineError(f"OpenSearch: {reason}", status=status)
