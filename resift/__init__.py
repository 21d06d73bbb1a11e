"""Meaning at BM25's cost and session feedback for existing OpenSearch clusters, on a CPU."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from resift.encoders.model import Model
from resift.encoders.registry import build_model, load_model
from resift.errors import ResiftError
from resift.ranking.feedback import Feedback
from resift.vectors.packaged import load_vectors
from resift.vectors.table import WordVectors
from resift.version import __version__

if TYPE_CHECKING:
    from resift.library import Added, Explanation, Hit, Hits, Index, Library, SearchOptions, Session, open
    from resift.operations.attach import attach, detach
    from resift.operations.indices import drop, verify
    from resift.operations.installing import guard, install, uninstall
    from resift.operations.status import status

__all__ = [
    "Added",
    "Explanation",
    "Feedback",
    "Hit",
    "Hits",
    "Index",
    "Library",
    "Model",
    "ResiftError",
    "SearchOptions",
    "Session",
    "WordVectors",
    "__version__",
    "attach",
    "build_model",
    "detach",
    "drop",
    "guard",
    "install",
    "load_model",
    "load_vectors",
    "open",
    "status",
    "uninstall",
    "verify",
]
_OPERATIONS = {"attach": "attach", "detach": "attach", "drop": "indices", "status": "status", "verify": "indices"}
_OPERATIONS |= dict.fromkeys(("guard", "install", "uninstall"), "installing")

if not TYPE_CHECKING:  # to whom a module that may have any name has all of them

    def __getattr__(name: str) -> Any:
        # encoding needs no engine, so the engines and the reranker are imported when the first one is opened
        if name in __all__:
            module = f"resift.operations.{_OPERATIONS[name]}" if name in _OPERATIONS else "resift.library"
            return getattr(import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
