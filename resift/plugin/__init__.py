"""Search engines and session stores: how they are reached, and what Resift installs in a cluster."""

from functools import cache
from importlib.resources import files


@cache
def read_resource(name: str) -> str:
    """The text of one JSON or Painless file of the folder ``resources``, such as ``tidy_up.painless``."""
    return (files("resift.plugin") / "resources" / name).read_text("utf-8")
