"""Doors for agents and retrieval pipelines: an MCP server, and retrievers of three frameworks, over the library."""
