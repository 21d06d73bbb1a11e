"""A static model of others beside its own package and the packaged vectors: ``python benchmarks/static_models.py DIR``.

DIR is a folder of model2vec. $RESIFT_DATA holds collections in BEIR's layout. "difference": the largest one between our
cosines and model2vec's, of all pairs of 500 documents, whole. "speed": documents a second of one thread, as a ratio to
resift-en's in the same rounds, its median and quartiles; ours is the table that --corpus makes.
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
    # in float32, for the sums of a model in float16 lose digits there
    theirs = StaticModel.from_pretrained(sys.argv[1], max_length=None, quantize_to="float32")
    for name in ("cranfield", "cisi"):
        texts = read_collection(Path(os.environ["RESIFT_DATA"], name)).documents
        table = convert(sys.argv[1], extra_words=chain.from_iterable(map(tokenize, texts)))
        model = build_model("mean", table)
        ours, oracle = (encode(texts[:500]) for encode in (model.encode, theirs.encode))
        oracle /= np.maximum(np.linalg.norm(oracle, axis=1, keepdims=True), 1e-12)
        difference = float(np.abs(ours @ ours.T - oracle @ oracle.T).max())
        functions: dict[str, Callable[[list[str]], Any]] = {"ours": model.encode, "resift-en": load_model().encode}
        found = rates({**functions, "model2vec": theirs.encode}, texts, rounds=15)
        print(f"{name}: {len(table)} words x {table.dim}, difference {difference:.1e}")
        for label in ("ours", "model2vec"):
            speed = ratio(found[label], found["resift-en"])
            print(f"  {label:<10} {speed.median:.3f} of resift-en's speed ({speed.low:.3f} to {speed.high:.3f})")
