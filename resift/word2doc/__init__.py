"""word2doc: which document a few keywords mean (paper 002)."""
