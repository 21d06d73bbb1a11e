"""A search is a rewritten query: what vectors and sessions know, said in the engine's own language."""
