"""Fingerprints (short hashes) of the queries that a model was trained on.

A model stores fingerprints instead of the queries. An evaluation uses them to leave out queries that the model has
already seen in training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

_FINGERPRINT_LENGTH = 12


def fingerprints(queries: Sequence[str]) -> list[str]:
    """Return the fingerprint of each query: a hash of 12 hexadecimal digits."""
    size = _FINGERPRINT_LENGTH // 2
    return [blake2b(query.encode("utf-8", "replace"), digest_size=size).hexdigest() for query in queries]


def joined_fingerprints(queries: Sequence[str]) -> str:
    """Return the sorted, distinct fingerprints of the queries as a single string, to be stored in ``info["seen"]``."""
    return "".join(sorted(set(fingerprints(queries))))


def fingerprints_in(info: Mapping[str, Any]) -> list[str]:
    """Return the fingerprints that :func:`joined_fingerprints` stored in ``info["seen"]``.

    Args:
        info: The ``info`` of a model or a table of word vectors.

    Returns:
        The fingerprints; an empty list for a model that was not trained on queries.
    """
    text = str(info.get("seen", ""))
    return [text[start : start + _FINGERPRINT_LENGTH] for start in range(0, len(text), _FINGERPRINT_LENGTH)]
