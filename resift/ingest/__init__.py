"""Read documents from files and Python objects, and index them without losing any."""
