"""The commands of the laboratory, such as ``resift train`` and ``resift eval``."""
