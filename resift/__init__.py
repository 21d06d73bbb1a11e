"""Meaning at BM25's cost and session feedback for existing OpenSearch clusters, on a CPU."""

from resift.encoders.model import Model
from resift.encoders.registry import build_model, load_model
from resift.errors import ResiftError
from resift.ranking.feedback import Feedback
from resift.vectors.packaged import load_vectors
from resift.vectors.table import WordVectors
from resift.version import __version__

__all__ = [
    "Feedback",
    "Model",
    "ResiftError",
    "WordVectors",
    "__version__",
    "build_model",
    "load_model",
    "load_vectors",
]
