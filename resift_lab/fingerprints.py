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
    """Hash queries, so that a model can store which queries it was trained on without their texts.

    Args:
        queries: The texts of the queries.

    Returns:
        A hash of 12 hexadecimal digits for each query.
    """
    size = _FINGERPRINT_LENGTH // 2
    return [blake2b(query.encode("utf-8", "replace"), digest_size=size).hexdigest() for query in queries]


def joined_fingerprints(queries: Sequence[str]) -> str:
    """Hash queries, and join the hashes into a string that can be stored in ``info["seen"]`` of a model.

    Args:
        queries: The texts of the queries.

    Returns:
        The distinct fingerprints (hashes of 12 hexadecimal digits), sorted and joined.
    """
    return "".join(sorted(set(fingerprints(queries))))


def fingerprints_in(info: Mapping[str, Any]) -> list[str]:
    """Read the fingerprints of training queries that :func:`joined_fingerprints` stored in ``info["seen"]``.

    Args:
        info: The metadata of a model or a table of word vectors, its attribute ``info``.

    Returns:
        The fingerprints; an empty list for a model that was not trained on queries.
    """
    text = str(info.get("seen", ""))
    return [text[start : start + _FINGERPRINT_LENGTH] for start in range(0, len(text), _FINGERPRINT_LENGTH)]
