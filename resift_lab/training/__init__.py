"""Training of models and word vectors, and the evaluations that decide whether a trained model is used.

Serving a trained model needs nothing from this package.
"""
