"""Tables of word vectors from other sources: reading, mixing and writing files of other tools."""
