"""Haystack retriever of Resift (see :mod:`resift.integrations.haystack`)."""

from resift.integrations.haystack import ResiftRetriever

__all__ = ["ResiftRetriever"]
