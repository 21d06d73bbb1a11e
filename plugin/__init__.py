"""The search engine: how it is reached, and what it is told."""
