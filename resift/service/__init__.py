"""The search service, which connects an engine, a model and sessions, and its settings."""
