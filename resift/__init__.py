"""Meaning at BM25's cost and session feedback for existing OpenSearch clusters, on a CPU."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from resift.encoders.builders import build_model
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import ResiftError
from resift.feedback.feedback import Feedback
from resift.vectors.packaged import load_vectors
from resift.vectors.table import WordVectors
from resift.version import __version__

if TYPE_CHECKING:
    from resift.client import rewrite, rewrite_async
    from resift.encoders.builders import build_model
    from resift.library import Added, Explanation, Hit, Hits, Index, Library, SearchOptions, Session, open
    from resift.plugin.operations.attach import attach, detach
    from resift.plugin.operations.doctor import doctor
    from resift.plugin.operations.install import guard, install, uninstall
    from resift.service.index_operations import drop, verify

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
    "doctor",
    "drop",
    "guard",
    "install",
    "load_model",
    "load_vectors",
    "open",
    "rewrite",
    "rewrite_async",
    "uninstall",
    "verify",
]
_HOMES = {"doctor": "plugin.operations.doctor"}
_HOMES |= dict.fromkeys(("attach", "detach"), "plugin.operations.attach") | dict.fromkeys(
    ("drop", "verify"), "service.index_operations"
)
_HOMES |= dict.fromkeys(("rewrite", "rewrite_async"), "client")
_HOMES |= dict.fromkeys(("guard", "install", "uninstall"), "plugin.operations.install")

if not TYPE_CHECKING:  # to whom a module that may have any name has all of them

    def __getattr__(name: str) -> Any:
        # encoding needs no engine, so the engines and the reranker are imported when the first one is opened
        if name in __all__:
            return getattr(import_module(f"resift.{_HOMES.get(name, 'library')}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
