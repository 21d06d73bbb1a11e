"""Texts to vectors: the encoders of the papers, by name."""
