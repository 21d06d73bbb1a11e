"""Check that requests search only the indices that the settings of the service allow.

A request can name an index by its own name, an alias, a pattern or a list, and by lookups within a query
(:mod:`resift.query.lookups`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from resift.errors import IndexNotServed
from resift.query.patterns import NamePatterns

_BACKING_INDEX = re.compile(r"\.ds-(.+)-\d+")
"""Names of the hidden indices of a data stream. The group is the stream's name."""


class ServedIndices:
    """The indices that the service may search, as given in its settings.

    An index is allowed if its name matches a pattern. For a backing index of a data stream (``.ds-logs-000001``), the
    stream's name (``logs``) must match. An alias is allowed if the settings contain its exact name. Names that begin
    with a dot are never allowed, because OpenSearch reserves them for itself. Indices of other clusters
    (``cluster:index``) are never allowed either.

    Args:
        patterns: Names and patterns, in which ``*`` matches any characters.
        *internal: Names of indices that are never allowed, such as the index that stores sessions.
    """

    def __init__(self, patterns: Sequence[str], *internal: str) -> None:
        self.patterns, self.internal = patterns, internal
        self._listed = NamePatterns(patterns)

    def has(self, index: str) -> bool:
        """Return whether the service may search an index of this name."""
        name = self.name_to_match(index)
        return not self._is_internal(name) and self._listed.match(name)

    @staticmethod
    def name_to_match(index: str) -> str:
        """Return the name of an index that is compared with the patterns in the settings.

        For a backing index of a data stream, this is the name of the data stream. For other indices, it is the name
        itself.

        Args:
            index: The name of the index.
        """
        match = _BACKING_INDEX.fullmatch(index)
        return match[1] if match else index

    def require_served(self, index: str, resolve: Callable[[str], Sequence[str]]) -> bool:
        """Check that the service may search all indices that a name refers to.

        An index may be searched if the settings list the index itself, or an alias through which the request searches
        it.

        Args:
            index: The name, alias, pattern or comma-separated list in a request.
            resolve: A function that returns the names of the indices to which a name, alias, pattern or list refers.

        Returns:
            True if the settings list all of these indices themselves, False if some are allowed only through an alias.

        Raises:
            IndexNotServed: If an index is not allowed, or does not exist.
        """
        parts = [self.name_to_match(part) for part in index.split(",")]
        # A search in "news,other:*" also reads the cluster "other". The list of index names from resolve() lacks these
        # indices, because OpenSearch resolves names of other clusters only for searches.
        if ":" in index or any(map(self._is_internal, parts)):
            raise index_not_served(index)
        names = [self.name_to_match(name) for name in resolve(index)]
        if not names or any(map(self._is_internal, names)):
            raise index_not_served(index)
        if all(map(self._listed.match, names)):
            return True
        # A pattern in the settings allows indices of matching names, but not the indices behind matching aliases.
        unlisted = [part for part in parts if "*" in part or part not in self.patterns]
        if unlisted and len(unlisted) < len(parts):
            names = [self.name_to_match(name) for name in resolve(",".join(unlisted))]
        if unlisted and not all(map(self._listed.match, names)):
            raise index_not_served(index)
        return False

    def _is_internal(self, name: str) -> bool:
        """Return whether an index of this name is never served, because OpenSearch or Resift uses it internally."""
        return name.startswith(".") or name in self.internal


def index_not_served(index: str) -> IndexNotServed:
    """Build the error for an index that the service may not search.

    The message does not reveal whether the index exists.
    """
    return IndexNotServed(
        f"{index!r} is, or refers to, an index that is not served", value=index, expected="an index in RESIFT_INDICES"
    )
