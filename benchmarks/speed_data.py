"""What the speed benchmarks run on: 20 Newsgroups without headers, or documents like them made from a seed."""

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
# Words of a short document, of which the newsgroups make some 400,000.
PIECE = 12


def documents(count: int) -> tuple[list[str], str]:
    """Texts and what they are."""
    corpus = _corpus()
    if corpus is None:
        return _made(min(count, 4000)), "documents made like 20 Newsgroups (no RESIFT_DATA)"
    return [text.partition("\n\n")[2] for text in corpus[:count]], "20 Newsgroups without headers"


def messages(count: int) -> list[tuple[str, str]]:
    """Subjects and texts of messages; of documents that are made, the first words are the subject."""
    corpus = _corpus()
    if corpus is None:
        return [(" ".join(text.split()[:5]), text) for text in _made(count)]
    return [_message(text) for text in corpus[:count]]


def pieces(count: int) -> list[tuple[str, str]]:
    """Messages cut into short documents, each with the message's subject."""
    return list(islice(_cut(messages(20_000)), count))


def _cut(messages: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for subject, text in messages:
        words = text.split()
        for start in range(0, len(words), PIECE):
            yield subject, " ".join(words[start : start + PIECE])


def _message(text: str) -> tuple[str, str]:
    headers, _, body = text.partition("\n\n")
    found = re.search(r"^Subject: *(.*)", headers, re.MULTILINE)
    return found[1] if found else "", body


def _corpus() -> list[str] | None:
    """RESIFT_DATA/20ng.*.jsonl.gz with headers, in an order drawn from a seed; None where they are not there."""
    folder = Path(os.environ.get("RESIFT_DATA", ""))
    files = [folder / f"20ng.{split}.jsonl.gz" for split in ("train", "test")]
    if not all(file.is_file() for file in files):
        return None
    texts: list[str] = []
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            texts += (json.loads(line)["text"] for line in lines)
    return [texts[i] for i in np.random.default_rng(0).permutation(len(texts))]


def _made(count: int) -> list[str]:
    """Lengths, frequencies of words, share of unknown words, capitals and punctuation as in 20 Newsgroups."""
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
