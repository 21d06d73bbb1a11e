"""Semantic search and session feedback for existing OpenSearch clusters, on a CPU and at the cost of BM25."""

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
    from resift.client import forget, forget_async, mark, mark_async, rewrite, rewrite_async
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
    "forget",
    "forget_async",
    "guard",
    "install",
    "load_model",
    "load_vectors",
    "mark",
    "mark_async",
    "open",
    "rewrite",
    "rewrite_async",
    "uninstall",
    "verify",
]

_MODULES = {
    "attach": "plugin.operations.attach",
    "detach": "plugin.operations.attach",
    "doctor": "plugin.operations.doctor",
    "drop": "service.index_operations",
    "forget": "client",
    "forget_async": "client",
    "guard": "plugin.operations.install",
    "install": "plugin.operations.install",
    "mark": "client",
    "mark_async": "client",
    "rewrite": "client",
    "rewrite_async": "client",
    "uninstall": "plugin.operations.install",
    "verify": "service.index_operations",
}
_DEFAULT_MODULE = "library"

if not TYPE_CHECKING:  # type checkers would accept any attribute of a module that has __getattr__

    def __getattr__(name: str) -> Any:
        """Import a public name of the package when it is first used.

        Thus ``import resift`` is fast, and encoding texts does not import the engines and the service.

        Args:
            name: The public name.
        """
        if name in __all__:
            module = import_module(f"resift.{_MODULES.get(name, _DEFAULT_MODULE)}")
            return getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
