"""word2doc: which document a few keywords mean."""
