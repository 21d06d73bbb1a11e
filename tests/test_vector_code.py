"""Vectors in one byte a number: how close a code is, and what is no code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resift.plugin.vector_code import decode_vectors, encode_vector


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False), min_size=1, max_size=300))
def test_codes_are_within_half_a_127th_of_the_largest(values: list[float]) -> None:
    vector = np.array(values, np.float32)
    most = np.abs(vector).max()
    (found,) = decode_vectors([encode_vector(vector)], len(vector))
    assert found.dtype == np.float32
    assert (np.abs(found.astype(float) - vector) <= 0.5001 * most / 127 + 1e-38).all()


@pytest.mark.parametrize("code", ["", "AAAA", "not base64!", "é", encode_vector(np.ones(4)), "AADAfwAAAA=="])
def test_codes_that_are_none_of_three_numbers(code: str) -> None:
    with pytest.raises(ValueError):
        decode_vectors([code], 3)
