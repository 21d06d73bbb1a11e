"""The JSON and Painless files of the folder ``resources``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def read_resource(name: str) -> str:
    """The text of one file of the folder, such as ``tidy_up.painless``."""
    return (files("resift.plugin") / "resources" / name).read_text("utf-8")
