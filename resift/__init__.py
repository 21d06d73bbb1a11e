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
    from resift.library import open

__all__ = [
    "Feedback",
    "Model",
    "ResiftError",
    "WordVectors",
    "__version__",
    "build_model",
    "load_model",
    "load_vectors",
    "open",
]


def __getattr__(name: str) -> Any:
    # encoding needs no engine, so the engines and the reranker are imported when the first one is opened
    if name == "open":
        from resift.library import open

        return open
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
