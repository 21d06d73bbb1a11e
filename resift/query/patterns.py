"""Patterns of names, such as ``attr_*``, in which only ``*`` is a wildcard, as in OpenSearch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate

# Characters that are wildcards to fnmatch, and plain characters to OpenSearch.
_OTHER_WILDCARDS = re.compile(r"[\[?]")


class NamePatterns:
    """Names and patterns of names, for example of fields or indices.

    All patterns are compiled to a single regular expression, so that a name is compared only once.

    Args:
        patterns: The names and patterns. In a pattern, ``*`` matches any characters.

    >>> patterns = NamePatterns(["title", "attr_*"])
    >>> [name for name in ("title", "attr_a", "title2") if patterns.match(name)]
    ['title', 'attr_a']
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        unique = list(dict.fromkeys(patterns))
        self._names = frozenset(name for name in unique if "*" not in name)
        translated = [translate(_OTHER_WILDCARDS.sub(r"[\g<0>]", name)) for name in unique if "*" in name]
        self._expression = re.compile("|".join(translated)) if translated else None

    def __bool__(self) -> bool:
        """Return whether there is a name or a pattern."""
        return bool(self._names) or self._expression is not None

    def match(self, name: str) -> bool:
        """Return whether a name is equal to one of the names, or matches one of the patterns."""
        return name in self._names or (self._expression is not None and self._expression.match(name) is not None)
