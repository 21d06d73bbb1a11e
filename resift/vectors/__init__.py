"""Words to numbers: tables of word vectors, their folders, and similarity."""
