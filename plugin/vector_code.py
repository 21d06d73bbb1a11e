"""Vectors in one byte a number, for stock pipelines, which take long to pass numbers on."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence

import numpy as np

from resift.arrays import Floats


def encode_vector(vector: Floats) -> str:
    """The code of a vector (K,): base64 of 4 + K bytes.

    The first four are the largest absolute value of the vector, a little-endian 32-bit float; the others are its
    numbers in 127ths of that value, rounded, as int8. ``resources/code_vector.painless`` does the same.
    """
    largest = np.abs(vector).max(initial=0) or np.float32(1)
    rounded = np.rint(vector / largest * 127).astype(np.int8)
    return b64encode(np.float32(largest).astype("<f4").tobytes() + rounded.tobytes()).decode()


def decode_vectors(codes: Sequence[str], dim: int) -> Floats:
    """The vectors (n, dim) float32 of n codes. Raises ValueError if one of them is not the code of ``dim`` numbers."""
    # validate, since b64decode skips by itself what is no base64, and would read another vector.
    raw = [b64decode(code, validate=True) for code in codes]
    if any(len(code) != 4 + dim for code in raw):
        raise ValueError(f"codes of {sorted({len(code) for code in raw})} bytes")
    rows = np.frombuffer(b"".join(raw), np.int8).reshape(len(raw), 4 + dim)
    largest = np.ascontiguousarray(rows[:, :4]).view("<f4")
    if not np.isfinite(largest).all():
        raise ValueError("a code that is not finite")
    return np.asarray(rows[:, 4:] * np.asarray(largest / 127, np.float32), np.float32)
