"""Which epoch of EmBoost's training to keep: the best one on validation queries, or none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from resift.encoders.model import Model
from resift.vectors.table import WordVectors
from resift_lab.evaluation.data import Collection, Split, with_queries
from resift_lab.evaluation.protocol import run_retrieval
from resift_lab.evaluation.system import Encoder
from resift_lab.fingerprints import joined_fingerprints
from resift_lab.training.emboost import train
from resift_lab.training.judged_queries import relevant_documents
from resift_lab.training.options import EmBoostOptions
from resift_lab.training.progress import Progress


def choose_encoder(
    collection: Collection,
    table: WordVectors,
    blocks: Sequence[int],
    split: Split,
    options: EmBoostOptions,
    progress: Progress | None = None,
) -> tuple[Model | None, list[float]]:
    """EmBoost's network at its best epoch, and recall@1 of the validation queries before training and by epoch.

    ``table`` is the mixture of word vectors to start from, ``blocks`` holds the dimensions of each of its sources.
    Queries of ``split.train`` are trained on, those of ``split.validation`` choose; the model knows them again
    (``table.info["seen"]``). It is None if the untrained mixture is the best. Raises BadInput for a training query
    without a relevant document, and for fewer than two.
    """
    judges = with_queries(collection, split.validation.tolist())
    relevant = relevant_documents(collection)
    curve: list[float] = []
    models: list[Model] = []

    def measure(model: Model) -> None:
        curve.append(run_retrieval(Encoder(model.encode), judges).means()["recall@1"])
        models.append(model)

    measure(Model("mean", table, "mean", "cosine"))
    queries = [collection.queries[query] for query in split.train]
    targets = [relevant[query] for query in split.train]
    train(table, blocks, collection.documents, queries, targets, options, measure, progress)
    best = int(np.argmax(curve))
    if not best:
        return None, curve
    models[best].table.info["seen"] = joined_fingerprints([*queries, *judges.queries])
    return models[best], curve
