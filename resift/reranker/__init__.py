"""The HTTP service: a Flask application that serves the API under ``/v1`` and the search page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resift.service.config import Config

if TYPE_CHECKING:
    from resift.reranker.app import create_app

__all__ = ["Config", "create_app"]


def __getattr__(name: str) -> Any:
    # Imported on first use, so that importing this package does not import Flask.
    if name == "create_app":
        from resift.reranker.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
