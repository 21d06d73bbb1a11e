"""Evaluation of sessions by replaying click logs."""
