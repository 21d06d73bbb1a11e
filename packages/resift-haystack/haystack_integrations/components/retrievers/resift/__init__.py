"""The retriever of ``resift.integrations.haystack``, by the name that Haystack's packages have."""

from resift.integrations.haystack import ResiftRetriever

__all__ = ["ResiftRetriever"]
