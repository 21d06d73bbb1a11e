"""Word vectors: tables, files, similarity measures and vocabularies."""
