"""Which weight a model's vectors get in one index: none, unless the gate finds that they help."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
from msgspec import structs

from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.contracts.tuning import Tuning
from resift.encoders.model import Model
from resift.errors import MissingExtra
from resift.query.dsl import document_text
from resift_lab.training.documents import sample_words
from resift_lab.training.gate import ENOUGH, Gate

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


def weigh_index(engine: Engine, info: IndexInfo, model: Model) -> Tuning | None:
    """Have an index keep the weight that ``model``'s vectors get there, and why; None where nothing can be told, for
    want of documents or of the extra ``lab``."""
    hits = engine.sample(info.name, DOCUMENTS, list(info.fields)).hits
    chosen = None
    with suppress(MissingExtra):
        chosen = weigh(model, [document_text(hit["_source"], info.fields) for hit in hits])
    if chosen is None:
        return None
    why = {**info.tuning.why, **chosen.why}
    tuning = structs.replace(info.tuning, alpha=chosen.alpha, model=chosen.model, why=why)
    engine.tune(info.name, tuning)
    return tuning
