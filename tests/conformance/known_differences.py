"""The list of known differences between searches in a session and plain searches, in ``known_differences.yml``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from answers import Difference

FILE = Path(__file__).with_name("known_differences.yml")


class Key(NamedTuple):
    """What identifies a difference: the search, the way it was sent, and the compared part of its answer."""

    search: str
    way: str
    comparison: str


class KnownDifferences:
    """The differences that are listed for a version of OpenSearch.

    Args:
        version: The version of the cluster, such as ``3.6.0``.
        file: The list, a YAML file of objects with ``searches``, ``way``, ``comparison`` and ``why``. An object with
            ``versions`` counts only for versions that begin with one of its texts.
    """

    def __init__(self, version: str, file: Path = FILE) -> None:
        entries = yaml.safe_load(file.read_text("utf-8")) or []
        self._reasons = {
            Key(search, entry["way"], entry["comparison"]): entry["why"]
            for entry in entries
            for search in entry["searches"]
            if any(version.startswith(prefix) for prefix in entry.get("versions", [""]))
        }

    def check(self, searches: Iterable[str], differences: Sequence[tuple[str, str, Difference]]) -> None:
        """Raise AssertionError for a difference that is not listed, and for a listed one that did not occur.

        Args:
            searches: The names of the searches that were sent.
            differences: The name of a search, the way it was sent, and a difference of its answer.
        """
        __tracebackhide__ = True
        occurred: Mapping[Key, str] = {
            Key(search, way, difference.comparison): difference.detail for search, way, difference in differences
        }
        names = set(searches)
        new = [_entry(key, detail) for key, detail in occurred.items() if key not in self._reasons]
        gone = [
            _entry(key, reason) for key, reason in self._reasons.items() if key.search in names and key not in occurred
        ]
        messages = []
        if new:
            messages.append(f"These differences are not listed in {FILE.name}:\n{''.join(new)}")
        if gone:
            messages.append(f"These differences no longer occur. Remove them from {FILE.name}:\n{''.join(gone)}")
        assert not messages, "\n".join(messages)


def _entry(key: Key, why: str) -> str:
    """Return a difference as an entry of the list."""
    entry = {"searches": [key.search], "way": key.way, "comparison": key.comparison, "why": why}
    return str(yaml.safe_dump([entry], sort_keys=False, allow_unicode=True, width=1000))
