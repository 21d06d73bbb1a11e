"""The reranker: a Flask application that searches, reranks and follows sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resift.service.config import Config

if TYPE_CHECKING:
    from resift.reranker.app import create_app

__all__ = ["Config", "create_app"]


def __getattr__(name: str) -> Any:
    # the library searches by this package's parts and has no use for Flask
    if name == "create_app":
        from resift.reranker.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
