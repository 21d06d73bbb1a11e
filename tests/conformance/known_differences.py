"""The list of known differences between searches in a session and plain searches, in ``known_differences.yml``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from answers import Difference

_SHOWN = 20  # differences of generated bodies in a message
FILE = Path(__file__).with_name("known_differences.yml")


class Key(NamedTuple):
    """The identity of a difference: the search, the way it was sent, and the compared part of its answer."""

    search: str
    way: str
    comparison: str


class KnownDifferences:
    """The differences that are listed for a version of OpenSearch.

    Args:
        version: The version of the cluster, such as ``3.6.0``.
        file: The list, a YAML file. :file:`known_differences.yml` describes its entries.

    Raises:
        ValueError: A cause for generated bodies refers to a search that is not listed.
    """

    def __init__(self, version: str, file: Path = FILE) -> None:
        entries = [
            entry
            for entry in yaml.safe_load(file.read_text("utf-8")) or []
            if any(version.startswith(prefix) for prefix in entry.get("versions", [""]))
        ]
        self._reasons = {
            Key(search, entry["way"], comparison): entry["why"]
            for entry in entries
            for search in entry.get("searches", [])
            for comparison in entry["comparisons"]
        }
        self._of_generated = [entry for entry in entries if "generated" in entry]
        searches = {key.search for key in self._reasons}
        for entry in self._of_generated:
            if entry["like"] not in searches:
                raise ValueError(f"{entry['like']!r} is no longer listed. Remove what refers to it from {FILE.name}.")

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

    def check_generated(self, bodies: Mapping[str, Any], differences: Sequence[tuple[str, str, Difference]]) -> None:
        """Raise AssertionError for a difference of a generated body whose cause is not listed.

        Args:
            bodies: The generated bodies by name.
            differences: The name of a body, the way it was sent, and a difference of its answer.
        """
        __tracebackhide__ = True
        new = [
            f"{name}, {way}: {difference.detail}\n{json.dumps(bodies[name])}\n"
            for name, way, difference in differences
            if not any(_explains(entry, bodies[name], way, difference) for entry in self._of_generated)
        ]
        assert not new, f"{len(new)} differences have no cause in {FILE.name}:\n" + "\n".join(new[:_SHOWN])


def _explains(entry: Mapping[str, Any], body: Any, way: str, difference: Difference) -> bool:
    """Return whether an entry is about a difference of a generated body."""
    is_about = way == entry["way"] and difference.comparison in entry["comparisons"]
    return is_about and _names(body).issuperset(entry["generated"])


def _names(value: Any) -> set[str]:
    """Return the names of all objects' members in a JSON value."""
    if isinstance(value, list):
        return {name for item in value for name in _names(item)}
    if isinstance(value, dict):
        return {*value, *(name for item in value.values() for name in _names(item))}
    return set()


def _entry(key: Key, why: str) -> str:
    """Return a difference as an entry of the list."""
    entry = {"searches": [key.search], "way": key.way, "comparisons": [key.comparison], "why": why}
    return str(yaml.safe_dump([entry], sort_keys=False, allow_unicode=True, width=1000))
