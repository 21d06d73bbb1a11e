"""Vectors in a byte a number: what an index that was attached keeps of each document.

A vector is 4 + K bytes, as base64 in JSON: a little-endian 32-bit float, the unit, and the numbers in units of it as
int8. The largest is 127 units, so a number is off by half a unit at most, and rankings by such vectors are as good
(``python benchmarks/compact_vectors.py``). In a cluster ``stored_vector.painless`` reads them, and
``compact_vector.painless`` makes them of what is written through an ingest pipeline.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64

import numpy as np

from resift.arrays import Floats

_MOST = 127
MAX_ROUNDING_ERROR = 0.5 / _MOST  # by how much a number is off at most, the largest one being 1


def encode_vector(vector: Floats) -> str:
    """A vector (K,) as base64 of 4 + K bytes."""
    numbers = np.asarray(vector, np.float32)
    most = np.abs(numbers).max(initial=0)
    unit = np.float32(most / np.float32(_MOST) if most > 0 else 1)
    units = np.rint(numbers / unit).astype(np.int8)
    return b2a_base64(unit.astype("<f4").tobytes() + units.tobytes(), newline=False).decode()


def json_length(field: str, dim: int) -> int:
    """How many bytes a vector of ``dim`` numbers in a ``field`` adds to a document's JSON."""
    return len(f'"{field}":"",') + 4 * -(-(4 + dim) // 3)


def decode_vector(text: str) -> Floats | None:
    """Return the vector (K,) that :func:`encode_vector` encoded, or None for any other text."""
    try:
        raw = a2b_base64(text)
    except ValueError:
        return None
    if len(raw) <= 4:
        return None
    vector: Floats = np.frombuffer(raw, "<f4", 1) * np.frombuffer(raw, np.int8, offset=4).astype(np.float32)
    return vector
