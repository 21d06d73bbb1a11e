"""Choice of the best epoch of EmBoost's training by validation queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from resift.encoders.model import Model
from resift.vectors.table import WordVectors
from resift_lab.evaluation.data import Collection, Split, with_queries
from resift_lab.evaluation.protocol import run_retrieval
from resift_lab.evaluation.system import Encoder
from resift_lab.fingerprints import joined_fingerprints
from resift_lab.training.emboost import train_emboost
from resift_lab.training.judged_queries import JudgedQueries, relevant_documents
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
    """Train EmBoost's network, and choose the epoch with the best recall@1 on the validation queries.

    With ``options.paper``, the model of the last epoch is returned, because the paper does not describe a selection.

    The model's ``table.info["seen"]`` contains fingerprints of the training and validation queries, so that an
    evaluation can exclude these queries.

    Args:
        collection: The documents and judged queries.
        table: The word vectors to start from, a concatenation of vectors from one or more sources.
        blocks: The number of dimensions of each source.
        split: The queries to train on and the validation queries.
        options: The settings of the training.
        progress: A function that is called with the number of processed queries and the total number.

    Returns:
        The model of the best epoch, or None if the untrained word vectors have the best recall@1; and a list of the
        recall@1 before training and after each epoch. With ``options.paper``, the model of the last epoch.

    Raises:
        BadInput: If a training query has no relevant document, or there are fewer than two training queries.
    """
    validation = with_queries(collection, split.validation.tolist())
    relevant = relevant_documents(collection)
    curve: list[float] = []
    best: list[Model] = []

    def measure(model: Model) -> None:
        value = run_retrieval(Encoder(model.encode), validation).means()["recall@1"]
        # Each model has its own word vectors, so the models of all epochs (134 with the paper's settings on 7,000
        # queries) would need too much memory.
        if options.paper or value > max(curve, default=-1):
            best[:] = [model]
        curve.append(value)

    measure(Model("mean", table, "mean", "cosine"))
    queries = [collection.queries[query] for query in split.train]
    judged = JudgedQueries(collection.documents, queries, [relevant[query] for query in split.train])
    train_emboost(table, blocks, judged, options, measure, progress)
    if int(np.argmax(curve)) == 0 and not options.paper:
        return None, curve
    [model] = best
    model.table.info["seen"] = joined_fingerprints([*queries, *validation.queries])
    return model, curve
