"""Preparation of documents and queries for the training of word2doc."""
