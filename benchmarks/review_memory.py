"""Measure the memory of a review: ``python benchmarks/review_memory.py [--characters N]``.

For generated texts of several kinds, prints the estimate by which reviews are closed
(``DocumentSet.memory_in_bytes``), the memory that a review uses after its documents were ranked, and the largest memory
until then. Each kind runs in a process of its own, on Linux. The exit status is 1 if a review uses more than
its estimate.

    zipf    documents of 100 words that have Zipf's distribution
    short   documents of 12 such words
    long    documents of 5,000 such words
    unique  documents of 100 words that occur once
    pairs   documents of 200 words of two letters
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from resift.reviews.ranking import DocumentSet

KINDS = ("zipf", "short", "long", "unique", "pairs")
LENGTHS = {"zipf": 100, "short": 12, "long": 5000}


def texts(kind: str, characters: int) -> Iterator[str]:
    """Yield generated texts with a total number of characters."""
    random = np.random.default_rng(1)
    while characters > 0:
        if kind == "unique":
            words = [f"{number:x}" for number in random.integers(0, 2**40, 100)]
        elif kind == "pairs":
            words = [chr(97 + first) + chr(97 + second) for first, second in random.integers(0, 26, (200, 2))]
        else:
            words = [f"w{rank}" for rank in np.minimum(random.zipf(1.3, LENGTHS[kind]), 20_000)]
        text = " ".join(words)
        characters -= len(text)
        yield text


def rank(documents: DocumentSet) -> None:
    """Rank documents by some judgements, as a review does."""
    labels = {id: place % 2 == 0 for place, id in enumerate(documents.ids[:10])}
    documents.ranked(labels, labels)
    documents.reasons(documents.ids[0], labels, 8)


def memory(name: str) -> int:
    """Return a line of ``/proc/self/status``, in bytes."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024


def measure(kind: str, characters: int) -> bool:
    """Measure a kind of texts, print its line, and return whether the estimate is large enough."""
    rank(DocumentSet([str(number) for number in range(20)], [f"fire number {number}" for number in range(20)]))
    gc.collect()
    before = memory("VmRSS")
    bodies = list(texts(kind, characters))
    documents = DocumentSet([str(number) for number in range(len(bodies))], bodies)
    del bodies
    rank(documents)
    gc.collect()
    used, most, estimate = memory("VmRSS") - before, memory("VmHWM") - before, documents.memory_in_bytes
    print(
        f"{kind:7} {len(documents.ids):7} documents: estimate {estimate / 1e6:.0f} MB, holds {used / 1e6:.0f} MB "
        f"({used / estimate:.2f}), at most {most / 1e6:.0f} MB ({most / estimate:.2f})",
        flush=True,
    )
    return used <= estimate


def main() -> None:
    """Measure the kinds of texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--characters", type=int, default=5_000_000)
    parser.add_argument("--kind", choices=KINDS, help="by default all")
    options = parser.parse_args()
    if options.kind:
        sys.exit(not measure(options.kind, options.characters))
    command = [sys.executable, __file__, "--characters", str(options.characters)]
    sys.exit(max(subprocess.run([*command, "--kind", kind]).returncode for kind in KINDS))


if __name__ == "__main__":
    main()
