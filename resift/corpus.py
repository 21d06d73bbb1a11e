"""Character n-grams, and what a word weighs by how many documents have it; the lab has more of a corpus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def char_ngrams(word: str, sizes: Iterable[int]) -> list[str]:
    """The character n-grams of "<word>" for each of ``sizes``; the whole of it where it is shorter than a size.

    The brackets tell the beginning and the end of a word from its middle (fastText, Bojanowski et al. 2017).

    >>> char_ngrams("fire", (3, 5))
    ['<fi', 'fir', 'ire', 're>', '<fire', 'fire>']
    """
    marked = f"<{word}>"
    return [marked[start : start + size] for size in sizes for start in range(max(1, len(marked) - size + 1))]


def plain_idf(frequency: NDArray[Any], documents: int) -> NDArray[np.float64]:
    """log((N + 1) / n); a word of no document counts as a word of one."""
    return np.asarray(np.log((documents + 1) / np.maximum(frequency, 1)), np.float64)
