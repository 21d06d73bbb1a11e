"""Resift's options in a search body, in the section ``ext.resift``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resift.errors import BadInput

OPTIONS_SECTION = "resift"
"""The name of the section in ``ext``."""


def with_options(body: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Add Resift's options to a search body, in the section ``ext.resift``.

    Args:
        body: The search body. It is not modified.
        **options: The options by name. Options with the value None are left out.

    Returns:
        A new search body with the options. If there are no options, or one of the sections ``ext`` and ``ext.resift``
        is malformed, the result is ``body`` itself.

    Raises:
        BadInput: If the body is not a dictionary.
    """
    if not isinstance(body, dict):
        raise BadInput("body is not a search body", value=body, expected="a dictionary, as OpenSearch takes it")
    added = {name: value for name, value in options.items() if value is not None}
    ext = body.get("ext") or {}
    if not added or not isinstance(ext, dict):  # let OpenSearch report a malformed ext
        return body
    section = ext.get(OPTIONS_SECTION) or {}
    if not isinstance(section, Mapping):  # let the service report a malformed section
        return body
    return {**body, "ext": {**ext, OPTIONS_SECTION: {**section, **added}}}


def without_options(body: dict[str, Any]) -> dict[str, Any]:
    """Return a search body without Resift's options, which are in the section ``ext.resift``.

    If there is no such section, the same object is returned.

    Args:
        body: The search body. It is not modified.

    >>> without_options({"size": 3, "ext": {"resift": {"session": "anna"}}})
    {'size': 3}
    """
    ext = body.get("ext")
    if not isinstance(ext, Mapping) or OPTIONS_SECTION not in ext:
        return body
    other_sections = {name: section for name, section in ext.items() if name != OPTIONS_SECTION}
    without_ext = {name: value for name, value in body.items() if name != "ext"}
    return {**without_ext, "ext": other_sections} if other_sections else without_ext
