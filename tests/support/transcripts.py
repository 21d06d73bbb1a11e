"""Comparison of printed output with the output in documentation."""

from __future__ import annotations

import re

import pytest

_NUMBER = re.compile(r" *\d+\.\d+ *")  # with spaces for alignment, since 3.469 may be printed where the page has 3.47


def assert_prints(printed: str, expected: str) -> None:
    """Fail unless a text was printed as expected.

    "…" matches anything, and trailing spaces are ignored. Numbers with decimals may differ by 1.5 units of their last
    digit, since processors round differently.
    """
    printed, expected = (re.sub(r" +$", "", text, flags=re.MULTILINE).strip("\n") for text in (printed, expected))
    texts, numbers = _NUMBER.split(expected), _NUMBER.findall(expected)
    pattern = "( *[0-9.]+ *)".join(re.escape(text).replace("…", ".*") for text in texts)
    match = re.fullmatch(pattern, printed, re.DOTALL)
    assert match, f"printed:\n{printed}\nexpected:\n{expected}"
    for number, expected_number in zip(match.groups(), numbers, strict=True):
        unit = 10.0 ** -len(expected_number.strip().partition(".")[2])
        assert float(number) == pytest.approx(float(expected_number), abs=1.5 * unit), f"printed:\n{printed}"
