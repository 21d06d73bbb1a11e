"""Evaluation: metrics, readers of test collections, baselines, and the runs that ``resift eval`` prints."""
