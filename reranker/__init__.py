"""The reranker: a Flask application that searches, reranks and follows sessions."""

from resift.reranker.app import create_app
from resift.reranker.config import Config

__all__ = ["Config", "create_app"]
