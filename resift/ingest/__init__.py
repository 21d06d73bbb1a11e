"""Reading documents from files and Python objects, and indexing them without losing any."""
