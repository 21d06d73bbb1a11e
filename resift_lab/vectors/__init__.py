"""Tables of word vectors made of others: read, mixed, and written for other tools."""
