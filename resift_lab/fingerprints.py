"""Fingerprints of queries: what was trained on them is known again, and the queries themselves are not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

_FINGERPRINT_LENGTH = 12


def fingerprints(queries: Sequence[str]) -> list[str]:
    """A short hash of each query, 12 hexadecimal digits, by which it is known again without being kept."""
    size = _FINGERPRINT_LENGTH // 2
    return [blake2b(query.encode("utf-8", "replace"), digest_size=size).hexdigest() for query in queries]


def joined_fingerprints(queries: Sequence[str]) -> str:
    """The queries' fingerprints as ``info["seen"]`` of what was trained on them holds them: sorted, each once."""
    return "".join(sorted(set(fingerprints(queries))))


def fingerprints_in(info: Mapping[str, Any]) -> list[str]:
    """The fingerprints that ``info["seen"]`` holds; none if it was not trained on queries."""
    text = str(info.get("seen", ""))
    return [text[start : start + _FINGERPRINT_LENGTH] for start in range(0, len(text), _FINGERPRINT_LENGTH)]
