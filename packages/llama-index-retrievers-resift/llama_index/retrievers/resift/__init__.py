"""The retriever of ``resift.integrations.llamaindex``, by the name that LlamaIndex's packages have."""

from resift.integrations.llamaindex import ResiftRetriever

__all__ = ["ResiftRetriever"]
