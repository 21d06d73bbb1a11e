"""Which weight a model's vectors get in one index: none, unless the gate finds that they help."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from resift.encoders.model import Model
from resift.lab.training.documents import sample_words
from resift.lab.training.gate import ENOUGH, Gate
from resift.ranking.tuning import Tuning

DOCUMENTS, _FEWEST_WORDS = 5000, 4
_JUDGES, _ROUNDS = 1000, 3  # nothing was learned from any document, so all may judge


def weigh(model: Model, texts: Iterable[str], seed: int = 0) -> Tuning | None:
    """The weight of a model's vectors against the words of documents with these ``texts``, and why; None where these
    are too few to tell.

    A model that was trained on documents has a weight that documents which it had not seen have chosen, and keeps it.
    """
    trained: dict[str, Any] = model.table.info.get("adapted") or model.table.info.get("taught") or {}
    if trained:
        return Tuning(model.alpha, model.hash, why={"alpha": trained.get("why", "as its training chose it")})
    documents = [words for words in sample_words(texts, DOCUMENTS, seed) if len(words) >= _FEWEST_WORDS]
    if model.field is not None or len(documents) < ENOUGH:
        return None
    held = np.random.default_rng(seed).permutation(len(documents))[:_JUDGES]
    verdict = Gate(documents, held.tolist(), seed, _ROUNDS).judge(model)
    if len(verdict.values) < ENOUGH:
        return None
    return Tuning(round(verdict.alpha, 4), model.hash, why={"alpha": verdict.why})
