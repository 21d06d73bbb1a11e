"""The id of the request that is being answered, which OpenSearch is told too."""

from __future__ import annotations

from contextvars import ContextVar

HEADER = "X-Opaque-Id"  # OpenSearch writes it into its slow logs, its list of tasks and its deprecation log
REQUEST_ID: ContextVar[str | None] = ContextVar("resift_request_id", default=None)
