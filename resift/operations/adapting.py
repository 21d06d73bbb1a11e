"""Word vectors adapted to the documents that are to be searched, and what is told of the result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from resift.encoders.model import Model
from resift.lab.training.options import AdaptOptions
from resift.lab.training.self_supervised import adapt
from resift.operations.plan import Progress, Step
from resift.vectors.table import WordVectors

_FEW_JUDGES = 20


def adapt_texts(texts: Sequence[str], vectors: WordVectors, progress: Progress) -> Model | None:
    """A model adapted to ``texts``; None, with a remark, if it is no better than the untrained ``vectors``."""
    started = time.perf_counter()
    model = adapt(texts, vectors, AdaptOptions(), lambda done, total: progress(Step("adapting", done, total)))
    found = model.table.info["adapted"]
    remarks = [*adapted_lines(found, time.perf_counter() - started), *warnings(found)]
    if not found["better"]:
        remarks.append("warning: adapting made nothing better; the untrained vectors are used")
    progress(Step("\n".join(remarks)))
    return model if found["better"] else None


def adapted_lines(found: dict[str, Any], seconds: float) -> list[str]:
    """What was found with the documents that were held back."""
    lines = [
        f"{found['documents']} documents, {found['words']} words, {seconds:.0f} s",
        f"{'':21}untrained  adapted   ({found['held_back']} documents held back; p {found['p']:.4f})",
    ]
    for name, key in (("mean reciprocal rank", "mrr"), ("found first", "accuracy")):
        lines.append(f"{name:21}{found[f'{key}_before']:9.3f}{found[f'{key}_after']:9.3f}")
    return lines


def warnings(found: dict[str, Any]) -> list[str]:
    """Where the documents that judge cannot tell whether, or how much, is gained: that it is so."""
    judges = f"{found['held_back']} documents"
    if found["better"] and found["p"] >= 0.05:
        return [f"warning: the gain may be chance (p {found['p']:.2f}): {judges} are too few to tell"]
    if found["better"] and found["held_back"] < _FEW_JUDGES:
        return [f"warning: {judges} are too few to tell how much was gained; train on more documents"]
    return []
