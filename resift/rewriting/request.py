"""Search bodies as they were written: on its way to a search pipeline a body may take another form."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from resift.contracts.query_dsl import Body

UBI = "ubi"
# What plugins' parts of ext show as fields of ext itself.
_SHOWN = {
    UBI: ("query_id", "user_query", "client_id", "application", "object_id_field", "query_attributes"),
    "rerank": ("query_context",),
}


def as_written(body: Body) -> Body:
    """The body as its client wrote it; the very same one where nothing is to be put back.

    The UBI plugin shows what stands in ``ext.ubi`` as fields of ``ext`` itself, which OpenSearch then refuses to read,
    and so does neural search with ``ext.rerank``; the Search Relevance Workbench hides the query in a ``wrapper``.

    >>> as_written({"ext": {"client_id": "anna", "user_query": None}})
    {'ext': {'ubi': {'client_id': 'anna'}}}
    """
    changed = {**_with_parts(body.get("ext")), **_unwrapped(body.get("query"))}
    return {**body, **changed} if changed else body


def _with_parts(ext: Any) -> Body:
    if not isinstance(ext, Mapping):
        return {}
    found = dict(ext)
    for part, names in _SHOWN.items():
        if part in ext or not any(name in ext for name in names):
            continue
        shown = {name: found.pop(name, None) for name in names}
        # what the client did not say is null here, which UBI's plugin does not read
        found[part] = {name: value for name, value in shown.items() if value is not None}
    return {"ext": found} if found != ext else {}


def _unwrapped(query: Any) -> Body:
    wrapper = query.get("wrapper") if isinstance(query, Mapping) and len(query) == 1 else None
    if not isinstance(wrapper, Mapping) or not isinstance(wrapper.get("query"), str):
        return {}
    try:
        found = json.loads(b64decode(wrapper["query"], validate=True))
    except (ValueError, RecursionError):  # OpenSearch says itself what is wrong
        return {}
    return {"query": found} if isinstance(found, dict) else {}
