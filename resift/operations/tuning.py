"""What is chosen for the searches of one index: found out, kept by the index, shown, and undone."""

from __future__ import annotations

from contextlib import suppress

from msgspec import structs

from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.contracts.query_dsl import document_text
from resift.encoders.model import Model
from resift.errors import MissingExtra
from resift.lab.training.weighing import DOCUMENTS, weigh
from resift.ranking.tuning import Tuning


def weigh_index(engine: Engine, info: IndexInfo, model: Model) -> Tuning | None:
    """Have an index keep the weight that ``model``'s vectors get there, and why; None where nothing can be told, for
    want of documents or of the extra ``adapt``."""
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
