"""Encode vectors with one byte per dimension, to store them in existing indices (``resift attach INDEX --vectors``).

A vector of K dimensions takes 4 + K bytes, which are stored as base64 in JSON. The first four bytes are a scale, a
little-endian 32-bit float. The other bytes are the dimensions as int8, in units of the scale. The largest dimension is
127 units, so each dimension is rounded by at most half a unit. Rankings by these vectors are as good as rankings by
float vectors (``python benchmarks/compact_vectors.py``).

In a cluster, the script ``stored_vector.painless`` reads these vectors, and ``compact_vector.painless`` converts the
vectors of documents that are indexed through an ingest pipeline.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64

import numpy as np

from resift.arrays import Floats

_MAX_UNITS = 127

MAX_ROUNDING_ERROR = 0.5 / _MAX_UNITS
"""Maximum error of a dimension, relative to the largest dimension of the vector."""


def encode_vector(vector: Floats) -> str:
    """Encode a vector compactly as base64 text: a 32-bit scale, followed by a signed byte for each dimension.

    Args:
        vector: The vector, of shape (n_dimensions,).
    """
    values = np.asarray(vector, np.float32)
    largest = np.abs(values).max(initial=0)
    scale = np.float32(largest / np.float32(_MAX_UNITS) if largest > 0 else 1)
    units = np.rint(values / scale).astype(np.int8)
    return b2a_base64(scale.astype("<f4").tobytes() + units.tobytes(), newline=False).decode()


def json_length(field: str, dim: int) -> int:
    """Return how many bytes a compact vector field adds to the JSON of a document.

    Args:
        field: The name of the field, whose value is encoded by :func:`encode_vector`.
        dim: The number of dimensions of the vector.
    """
    return len(f'"{field}":"",') + 4 * -(-(4 + dim) // 3)


def decode_vector(text: str) -> Floats | None:
    """Decode a vector that was encoded by :func:`encode_vector`.

    Args:
        text: The base64 text, as it is stored in a document.

    Returns:
        The vector, of shape (n_dimensions,). None if the text is not base64 or too short.
    """
    try:
        raw = a2b_base64(text)
    except ValueError:
        return None
    if len(raw) <= 4:
        return None
    vector: Floats = np.frombuffer(raw, "<f4", 1) * np.frombuffer(raw, np.int8, offset=4).astype(np.float32)
    return vector
