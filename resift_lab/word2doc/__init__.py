"""word2doc: retrieval of a single document by a few keywords."""
