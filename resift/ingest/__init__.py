"""Documents in: reading files, and indexing that loses no document."""
