"""Descriptions of a saved model, for the output of commands."""

from __future__ import annotations

from typing import Any


def describe_saved_model(model: Any, out: str) -> dict[str, Any]:
    """Describe a saved model for a JSON report.

    Args:
        model: The model or reranker.
        out: The folder in which it was saved.

    Returns:
        A dictionary with the name, the number of dimensions, the hash and the folder.
    """
    return {"name": model.name, "dim": model.dim, "hash": model.hash, "folder": out}


def saved_model_line(model: Any, out: str) -> str:
    """Describe a saved model in a line of text.

    Args:
        model: The model or reranker.
        out: The folder in which it was saved.

    Returns:
        The name, the number of dimensions, the hash and the folder, separated by commas.
    """
    return f"{model.name}, {model.dim} dimensions, hash {model.hash}, in {out}"
