"""Meaning at BM25's cost and session feedback for existing OpenSearch clusters, on a CPU."""

from __future__ import annotations

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
    "build_model",
    "load_model",
    "load_vectors",
    "open",
]

if not TYPE_CHECKING:  # to whom a module that may have any name has all of them

    def __getattr__(name: str) -> Any:
        # encoding needs no engine, so the engines and the reranker are imported when the first one is opened
        if name in __all__:
            from resift import library

            return getattr(library, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
