"""A search, step by step: bodies, candidates, scores, reasons."""
