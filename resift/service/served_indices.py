"""The allow-list of served indices, and its enforcement for all ways in which a request can name an index.

A request can name an index by its own name, an alias, a pattern or a list, and by lookups within a query
(:mod:`resift.query.lookups`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from resift.contracts.documents import IndexInfo
from resift.encoders.model import Model
from resift.errors import IndexNotServed

_BACKING_INDEX = re.compile(r"\.ds-(.+)-\d+")
"""Names of the hidden indices of a data stream. The group is the stream's name."""


@dataclass(frozen=True)
class ServedIndex:
    """An index that requests may search.

    Attributes:
        info: The index's fields and vectors.
        by_own_names: Whether the allow-list of indices contains the index's own name. If false, it only contains an
            alias for the index.
        model: The model that the service uses.
    """

    info: IndexInfo
    by_own_names: bool
    model: Model

    @cached_property
    def searched(self) -> IndexInfo:
        """The index's record of the vectors that searches use.

        Raises:
            ModelMismatch: The index has vectors, but none of the service's model.
        """
        return self.info.for_search(self.model)


class ServedIndices:
    """The allow-list of indices that requests may search ("served" indices).

    An index is served if its own name matches a pattern. For a backing index of a data stream (``.ds-logs-000001``),
    the stream's name (``logs``) must match. An alias is served if the list contains its exact name. Names that begin
    with a dot, which OpenSearch reserves for itself, are never served.

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
        """Return the name that is compared with the allow-list.

        It is the name of the data stream for a backing index of a data stream, and the index's name otherwise.
        """
        match = _BACKING_INDEX.fullmatch(index)
        return match[1] if match else index

    def require(self, index: str, resolve: Callable[[str], Sequence[str]]) -> bool:
        """Check that requests may search all indices that a name refers to.

        Args:
            index: The name, alias, pattern or comma-separated list in a request.
            resolve: A function that takes a name, alias, pattern or list, and returns the concrete names of the indices
                that it refers to.

        Returns:
            True if the allow-list contains the names of all these indices. False if it only contains an alias for some
            of them.

        Raises:
            IndexNotServed: An index is not on the allow-list, or does not exist.
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


def index_not_served(index: str) -> IndexNotServed:
    """Return the error for an index that requests may not search.

    The message does not reveal whether the index exists.
    """
    return IndexNotServed(
        f"{index!r} is, or refers to, an index that is not served", value=index, expected="an index in RESIFT_INDICES"
    )
