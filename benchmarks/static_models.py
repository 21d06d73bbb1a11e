"""Compare a converted model2vec model with the original: ``python benchmarks/static_models.py DIR``.

DIR is a folder of model2vec. $RESIFT_DATA contains collections in BEIR's layout. Prints:

- "difference": the largest difference between a cosine by Resift and the same cosine by model2vec, for all pairs of 500
  documents.
- "speed": documents per second, divided by those of resift-en in the same round, in a single thread (median and
  quartiles).

"ours" is the table converted with --corpus.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from model2vec import StaticModel
from speed_timing import rates, ratio

from resift.encoders.builders import build_model
from resift.encoders.registry import load_model
from resift.text import tokenize
from resift_lab.evaluation.data import read_collection
from resift_lab.vectors.convert import convert

if __name__ == "__main__":
    # float32, because sums of float16 vectors in model2vec are imprecise
    theirs = StaticModel.from_pretrained(sys.argv[1], max_length=None, quantize_to="float32")
    for name in ("cranfield", "cisi"):
        texts = read_collection(Path(os.environ["RESIFT_DATA"], name)).documents
        table = convert(sys.argv[1], extra_words=chain.from_iterable(map(tokenize, texts)))
        model = build_model("mean", table)
        ours, oracle = (encode(texts[:500]) for encode in (model.encode, theirs.encode))
        oracle /= np.maximum(np.linalg.norm(oracle, axis=1, keepdims=True), 1e-12)
        difference = float(np.abs(ours @ ours.T - oracle @ oracle.T).max())
        functions: dict[str, Callable[[list[str]], Any]] = {"ours": model.encode, "resift-en": load_model().encode}
        measured = rates({**functions, "model2vec": theirs.encode}, texts, rounds=15)
        print(f"{name}: {len(table)} words x {table.dim}, difference {difference:.1e}")
        for label in ("ours", "model2vec"):
            speed = ratio(measured[label], measured["resift-en"])
            print(f"  {label:<10} {speed.median:.3f} of resift-en's speed ({speed.low:.3f} to {speed.high:.3f})")
