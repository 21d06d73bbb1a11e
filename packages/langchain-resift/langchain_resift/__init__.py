"""The retriever of ``resift.integrations.langchain``, by the name that LangChain's packages have."""

from resift.integrations.langchain import ResiftRetriever

__all__ = ["ResiftRetriever"]
