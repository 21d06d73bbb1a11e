"""LlamaIndex retriever of Resift (see :mod:`resift.integrations.llamaindex`)."""

from resift.integrations.llamaindex import ResiftRetriever

__all__ = ["ResiftRetriever"]
