"""Baselines from the literature that Resift's encoders are compared with."""
