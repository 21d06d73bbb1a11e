"""Integrations: an MCP server for agents, and retrievers for LangChain, LlamaIndex and Haystack."""
