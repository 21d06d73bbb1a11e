"""What commands say of the model that they have saved."""

from __future__ import annotations

from typing import Any


def saved_model(model: Any, out: str) -> dict[str, Any]:
    """What a report says of the model that is now in the folder ``out``."""
    return {"name": model.name, "dim": model.dim, "hash": model.hash, "folder": out}


def saved_line(model: Any, out: str) -> str:
    """The same as a line of text."""
    return f"{model.name}, {model.dim} dimensions, hash {model.hash}, in {out}"
