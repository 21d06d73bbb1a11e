"""A million short documents of real text: messages cut into pieces, and cut again elsewhere where more are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from speed_data import PIECE, messages


def short_documents(count: int) -> list[tuple[str, str]]:
    """So many documents of a subject and twelve words each, no two the same piece of the same message."""
    return list(islice(_pieces(messages(200 + count // 15)), count))


def _pieces(whole: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    cut = [(subject, text.split()) for subject, text in whole]
    for first in range(0, PIECE, PIECE // 3):  # the cuts lie elsewhere each time
        for subject, words in cut:
            for start in range(first, len(words), PIECE):
                yield subject, " ".join(words[start : start + PIECE])
