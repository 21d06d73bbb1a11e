"""Encoders made of word vectors: codebooks, universes, and untrained models by name.

A model that is served is a table of memberships already; here is what makes such a table.
"""
