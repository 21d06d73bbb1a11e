"""Documents in: readers, and indexing that loses nothing."""
