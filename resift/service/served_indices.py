"""The allow-list of served indices, and its enforcement for all ways in which a request can name an index.

A request can name an index by its own name, an alias, a pattern or a list, and by lookups within a query.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from resift.contracts.documents import IndexInfo
from resift.encoders.model import Model
from resift.errors import BadInput, IndexNotServed
from resift.rewriting.request import check_brackets

_DEFAULT_SHAPE_INDEX = "shapes"
"""The index in which OpenSearch looks up an indexed shape if the query names no index."""
_BACKING_INDEX = re.compile(r"\.ds-(.+)-\d+")
"""Names of the hidden indices of a data stream. The group is the stream's name."""


@dataclass(frozen=True)
class ServedIndex:
    """An index that requests may search.

    Attributes:
        info: The index's fields and vectors.
        by_own_names: Whether the allow-list contains the index's own name, not only the name of an alias for it.
        model: The model in service.
    """

    info: IndexInfo
    by_own_names: bool
    model: Model

    @cached_property
    def searched(self) -> IndexInfo:
        """The index with the vectors that searches use. Raises ModelMismatch if they come from another model."""
        return self.info.for_search(self.model)


class ServedIndices:
    """The allow-list of indices.

    An index is served if its own name matches a pattern. A backing index of a data stream (``.ds-logs-000001``) counts
    under the stream's name (``logs``). An alias is served if the list contains its exact name. Names that begin with a
    dot, which OpenSearch reserves for itself, are never served.

    Args:
        patterns: Names and patterns, in which * matches any characters.
        *internal: Names of indices that are never served, such as the sessions' index.
    """

    def __init__(self, patterns: Sequence[str], *internal: str) -> None:
        self.patterns, self.internal = patterns, internal
        self._listed = re.compile("|".join(re.escape(pattern).replace(r"\*", ".*") for pattern in patterns), re.DOTALL)

    def has(self, index: str) -> bool:
        """Return whether an index of this name is served."""
        name = self.own_name(index)
        return not self._is_internal(name) and self._listed.fullmatch(name) is not None

    @staticmethod
    def own_name(index: str) -> str:
        """Return the name under which an index counts: for a backing index of a data stream, the stream's name."""
        match = _BACKING_INDEX.fullmatch(index)
        return match[1] if match else index

    def require(self, index: str, resolve: Callable[[str], Sequence[str]]) -> bool:
        """Check that all indices that a name refers to are served.

        Args:
            index: The name, alias, pattern or comma-separated list in a request.
            resolve: A function that returns the own names of the indices that its argument refers to.

        Returns:
            Whether the own names of all these indices match the allow-list. False if the allow-list only contains the
            name of an alias for them.

        Raises:
            IndexNotServed: An index is not served, or does not exist.
        """
        parts = [self.own_name(part) for part in index.split(",")]
        if any(map(self._is_internal, parts)):
            raise index_not_served(index)
        names = [self.own_name(name) for name in resolve(index)]
        if not names or any(map(self._is_internal, names)):
            raise index_not_served(index)
        if all(map(self._listed.fullmatch, names)):
            return True
        unlisted = [part for part in parts if part not in self.patterns]
        if unlisted and len(unlisted) < len(parts):
            names = [self.own_name(name) for name in resolve(",".join(unlisted))]
        if unlisted and not all(map(self._listed.fullmatch, names)):
            raise index_not_served(index)
        return False

    def _is_internal(self, name: str) -> bool:
        return name.startswith(".") or name in self.internal


def indices_in(query: Any) -> Iterator[str]:
    """Yield the names of other indices in which a query looks up terms, shapes, documents or stored queries.

    >>> list(indices_in({"bool": {"must": {"terms": {"id": {"index": "lists", "id": "1", "path": "ids"}}}}}))
    ['lists']

    Args:
        query: A query clause, a search body, or a list of them.

    Raises:
        BadInput: The query contains a ``wrapper`` clause that is not base64 of JSON, or a query template. Both could
            hide lookups.
    """
    pending: list[Any] = [query]
    while pending:  # not recursive: a deeply nested query would exceed Python's recursion limit
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                if _is_template(key, inner):
                    raise BadInput(f"{key} with a query template is not allowed", value=key, expected="a query")
                yield from _lookup_indices(key, inner)
                pending.append(_unwrapped(inner) if _is_wrapper(key, inner) else inner)


def _lookup_indices(key: str, inner: Any) -> Iterator[str]:
    """Yield the index names directly in a clause, or in a part of a clause. ``inner`` is the value of ``key``."""
    if key in ("like", "unlike"):
        yield from _values_of("_index", inner if isinstance(inner, list) else [inner])
    elif key == "terms" and isinstance(inner, Mapping):
        yield from _values_of("index", inner.values(), required="path")
    elif key == "percolate":
        yield from _values_of("index", [inner])
    elif key == "indexed_shape":
        yield from list(_values_of("index", [inner])) or [_DEFAULT_SHAPE_INDEX]


def _values_of(name: str, items: Iterable[Any], required: str | None = None) -> Iterator[str]:
    """Yield the value of a key in each item that is a mapping with this key, and with the ``required`` key."""
    for item in items:
        if isinstance(item, Mapping) and name in item and (required is None or required in item):
            yield str(item[name])


def _is_wrapper(key: str, inner: Any) -> bool:
    """Return whether this may be a ``wrapper`` clause, which contains a query in base64.

    A clause on a field named ``wrapper`` can look the same. It is treated as a wrapper clause too, to be safe.
    """
    return key == "wrapper" and isinstance(inner, Mapping) and "query" in inner


def _is_template(key: str, inner: Any) -> bool:
    """Return whether a part of a search body is a template from which the engine creates a query."""
    if not isinstance(inner, Mapping):
        return False
    if key == "ml_inference":
        return "query_template" in inner
    return key == "collate" and isinstance(inner.get("query"), Mapping)


def _unwrapped(clause: Any) -> Any:
    """Return the query in a ``wrapper`` clause. Raises BadInput if it is malformed or nested too deep."""
    try:
        text = b64decode(clause["query"], validate=True)
        check_brackets("wrapper", text.decode("utf-8", "replace"))
        return json.loads(text)
    except BadInput:
        raise
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BadInput(
            "malformed wrapper query",
            value=clause,
            expected='base64 of JSON; for a field of this name {"match": {"wrapper": TEXT}}',
        ) from None


def index_not_served(index: str) -> IndexNotServed:
    """Return the error for an index that is not served. It does not reveal whether the index exists."""
    return IndexNotServed(
        f"{index!r} is, or refers to, an index that is not served", value=index, expected="an index in RESIFT_INDICES"
    )
