"""Compares what was printed with what a page says is printed."""

from __future__ import annotations

import re

import pytest

_NUMBER = re.compile(r" *\d+\.\d+ *")  # with the spaces of its column: 3.469 may stand where a page has 3.47


def assert_prints(printed: str, expected: str) -> None:
    """Fail unless a text was printed as expected; "…" stands for anything, and spaces that end a line do not count.

    Last digits differ between processors: a number with decimals may be one and a half units of its last one away.
    """
    printed, expected = (re.sub(r" +$", "", text, flags=re.MULTILINE).strip("\n") for text in (printed, expected))
    texts, numbers = _NUMBER.split(expected), _NUMBER.findall(expected)
    pattern = "( *[0-9.]+ *)".join(re.escape(text).replace("…", ".*") for text in texts)
    found = re.fullmatch(pattern, printed, re.DOTALL)
    assert found, f"printed:\n{printed}\nexpected:\n{expected}"
    for number, wanted in zip(found.groups(), numbers, strict=True):
        unit = 10.0 ** -len(wanted.strip().partition(".")[2])
        assert float(number) == pytest.approx(float(wanted), abs=1.5 * unit), f"printed:\n{printed}"
