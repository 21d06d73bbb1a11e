"""Relevance feedback: what a session learns from judged documents, and explanations of it."""
