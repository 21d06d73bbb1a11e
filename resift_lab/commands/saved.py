"""Descriptions of a saved model, for the output of commands."""

from __future__ import annotations

from typing import Any


def saved_model(model: Any, out: str) -> dict[str, Any]:
    """Return the description of a model that was saved in the folder ``out``, for a JSON report."""
    return {"name": model.name, "dim": model.dim, "hash": model.hash, "folder": out}


def saved_line(model: Any, out: str) -> str:
    """Return the description of a model that was saved in the folder ``out``, as a line of text."""
    return f"{model.name}, {model.dim} dimensions, hash {model.hash}, in {out}"
