"""The OpenSearch side of Resift: search engine, session store, and everything that Resift installs in a cluster."""

from functools import cache
from importlib.resources import files


@cache
def read_resource(name: str) -> str:
    """Return the text of a packaged file in the folder ``resources``, such as ``tidy_up.painless``."""
    return (files("resift.plugin") / "resources" / name).read_text("utf-8")
