"""Short documents of real text: pieces of messages, cut at several offsets if more documents are needed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from speed_data import PIECE, messages


def short_documents(count: int) -> list[tuple[str, str]]:
    """Return ``count`` different documents with a subject and twelve words each."""
    return list(islice(_pieces(messages(200 + count // 15)), count))


def _pieces(whole: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    cut = [(subject, text.split()) for subject, text in whole]
    for first in range(0, PIECE, PIECE // 3):  # another offset of the cuts in each pass
        for subject, words in cut:
            for start in range(first, len(words), PIECE):
                yield subject, " ".join(words[start : start + PIECE])
