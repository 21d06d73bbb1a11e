"""What the speed benchmarks run on: 20 Newsgroups without headers, or documents like them made from a seed."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np

from resift import load_vectors

SENTENCE = 14
UNKNOWN = 0.12


def documents(count: int) -> tuple[list[str], str]:
    """Texts and what they are. The corpus is RESIFT_DATA/20ng.*.jsonl.gz; past its end it begins anew, renumbered."""
    folder = Path(os.environ.get("RESIFT_DATA", ""))
    files = [folder / f"20ng.{split}.jsonl.gz" for split in ("train", "test")]
    if not all(file.is_file() for file in files):
        return _made(min(count, 4000)), "documents made like 20 Newsgroups (no RESIFT_DATA)"
    texts: list[str] = []
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            texts += (json.loads(line)["text"].partition("\n\n")[2] for line in lines)
    order = np.random.default_rng(0).permutation(len(texts))
    return [texts[i] for i in order[:count]], "20 Newsgroups without headers"


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
