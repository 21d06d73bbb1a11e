"""The commands that measure and train: ``resift eval``, ``train``, ``vectors`` and ``model``."""
