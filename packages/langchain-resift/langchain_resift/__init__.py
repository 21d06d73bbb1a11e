"""LangChain retriever of Resift (see :mod:`resift.integrations.langchain`)."""

from resift.integrations.langchain import ResiftRetriever

__all__ = ["ResiftRetriever"]
