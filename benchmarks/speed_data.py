"""Texts of the speed benchmarks: 20 Newsgroups without headers, or similar generated documents."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from resift import load_vectors

SENTENCE = 14
UNKNOWN = 0.12
# Words in a short document. The newsgroups give about 400,000 short documents.
PIECE = 12


def documents(count: int) -> tuple[list[str], str]:
    """Return texts, and their description."""
    corpus = _corpus()
    if corpus is None:
        return _generate(min(count, 4000)), "generated documents, similar to 20 Newsgroups (no RESIFT_DATA)"
    return [text.partition("\n\n")[2] for text in corpus[:count]], "20 Newsgroups without headers"


def messages(count: int) -> list[tuple[str, str]]:
    """Return subjects and texts of messages. The subject of a generated document is its first words."""
    corpus = _corpus()
    if corpus is None:
        return [(" ".join(text.split()[:5]), text) for text in _generate(count)]
    return [_message(text) for text in corpus[:count]]


def pieces(count: int) -> list[tuple[str, str]]:
    """Return short documents, which are pieces of messages with the message's subject."""
    return list(islice(_cut(messages(20_000)), count))


def _cut(messages: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for subject, text in messages:
        words = text.split()
        for start in range(0, len(words), PIECE):
            yield subject, " ".join(words[start : start + PIECE])


def _message(text: str) -> tuple[str, str]:
    headers, _, body = text.partition("\n\n")
    subject = re.search(r"^Subject: *(.*)", headers, re.MULTILINE)
    return subject[1] if subject else "", body


def _corpus() -> list[str] | None:
    """Return the texts in RESIFT_DATA/20ng.*.jsonl.gz with headers, in random order, or None without these files."""
    folder = Path(os.environ.get("RESIFT_DATA", ""))
    files = [folder / f"20ng.{split}.jsonl.gz" for split in ("train", "test")]
    if not all(file.is_file() for file in files):
        return None
    texts: list[str] = []
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            texts += (json.loads(line)["text"] for line in lines)
    return [texts[i] for i in np.random.default_rng(0).permutation(len(texts))]


def _generate(count: int) -> list[str]:
    """Generate texts with similar lengths, word frequencies, unknown words and punctuation as 20 Newsgroups."""
    rng, words = np.random.default_rng(0), load_vectors().words
    chance = 1 / (np.arange(len(words)) + 3.0)
    texts = []
    for length in np.clip(rng.lognormal(5.1, 0.95, count), 10, 10_000).astype(int):
        rows = rng.choice(len(words), length, p=chance / chance.sum())
        tokens = [words[row] for row in rows]
        for i in np.flatnonzero(rng.random(length) < UNKNOWN):
            tokens[i] = "".join(map(chr, rng.integers(97, 123, rng.integers(3, 12))))
        for i in range(0, length, SENTENCE):
            tokens[i] = tokens[i].capitalize()
            tokens[min(i + SENTENCE, length) - 1] += rng.choice([".", ",", "?\n\n", "!", "...\n"])
        for i in range(0, length, 11):
            tokens[i] = "\n> " + tokens[i]
        texts.append(" ".join(tokens))
    return texts
