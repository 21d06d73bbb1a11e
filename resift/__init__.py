"""Meaning at BM25's cost and session feedback for existing OpenSearch clusters, on a CPU."""

from importlib.metadata import version

from resift.errors import ResiftError
from resift.feedback import Feedback
from resift.model import Model, build_model, load_model, load_vectors
from resift.vectors import WordVectors

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
__version__ = version("resift")
