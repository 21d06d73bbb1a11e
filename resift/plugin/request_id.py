"""The id of the request that is being answered, and the one that OpenSearch is told."""

from __future__ import annotations

from contextvars import ContextVar

HEADER = "X-Opaque-Id"  # OpenSearch writes it into its slow logs, its list of tasks and its deprecation log
REQUEST_ID: ContextVar[str | None] = ContextVar("resift_request_id", default=None)
# What the caller itself gave as HEADER. Only that is handed on, and no id of ours: OpenSearch warns of each deprecated
# setting once for every X-Opaque-Id, so ids that are new with each request fill its logs.
OPAQUE_ID: ContextVar[str | None] = ContextVar("resift_opaque_id", default=None)
