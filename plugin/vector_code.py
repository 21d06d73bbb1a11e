"""Vectors in a byte a number, for stock pipelines."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence

import numpy as np

from resift.arrays import Floats


def encode_vector(vector: Floats) -> str:
    """A vector in a byte a number, for stock pipelines, which are slow at passing numbers on: base64 of its largest
    absolute value, a little-endian 32-bit float, and of 127ths of that, int8."""
    most = np.abs(vector).max(initial=0) or np.float32(1)
    small = np.rint(vector / most * 127).astype(np.int8)
    return b64encode(np.float32(most).astype("<f4").tobytes() + small.tobytes()).decode()


def decode_vectors(codes: Sequence[str], dim: int) -> Floats:
    """The vectors (n, dim) of codes. Raises ValueError where one is none of ``dim`` numbers."""
    raw = [b64decode(code, validate=True) for code in codes]
    if any(len(one) != 4 + dim for one in raw):
        raise ValueError(f"codes of {sorted({len(one) for one in raw})} bytes")
    rows = np.frombuffer(b"".join(raw), np.int8).reshape(len(raw), 4 + dim)
    most = np.ascontiguousarray(rows[:, :4]).view("<f4")
    if not np.isfinite(most).all():
        raise ValueError("a code that is not finite")
    return np.asarray(rows[:, 4:] * np.asarray(most / 127, np.float32), np.float32)
