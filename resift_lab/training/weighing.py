"""Choice of the weight of a model's vectors in an index. The weight is 0 unless the vectors improve the ranking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from resift.contracts.engine import Engine
from resift.contracts.tuning import Tuning
from resift.encoders.model import Model
from resift.errors import MissingExtra
from resift.query.dsl import document_text
from resift_lab.training.documents import sample_words
from resift_lab.training.gate import MIN_TEST_DOCUMENTS, Gate

# Documents that are sampled from an index, and the smallest number of words in a usable document.
DOCUMENTS = 5000
_MIN_WORDS = 4
# Documents that the gate searches for, and queries for each. The model was not trained on any document, so no document
# needs to be held out.
_TEST_DOCUMENTS = 1000
_ROUNDS = 3


def choose_weight(model: Model, texts: Iterable[str], seed: int = 0) -> Tuning | None:
    """Choose the weight of a model's vectors relative to BM25 in searches.

    If the model was trained on documents, its training has already chosen a weight, which is returned. Otherwise, the
    weight is chosen by searching for words from the documents (:class:`resift_lab.training.gate.Gate`).

    Args:
        model: The model whose vectors are weighed.
        texts: The texts of documents in the index.
        seed: The seed of all random choices.

    Returns:
        The weight with an explanation. None if there are too few documents, or if the model encodes only queries or
        bags of vectors.
    """
    trained: dict[str, Any] = model.table.info.get("adapted") or model.table.info.get("taught") or {}
    if trained:
        return Tuning(model.alpha, model.hash, why={"alpha": trained.get("why", "as its training chose it")})
    documents = [words for words in sample_words(texts, DOCUMENTS, seed) if len(words) >= _MIN_WORDS]
    if model.field is not None or model.bags is not None or len(documents) < MIN_TEST_DOCUMENTS:
        return None
    test_documents = np.random.default_rng(seed).permutation(len(documents))[:_TEST_DOCUMENTS]
    result = Gate(documents, test_documents.tolist(), seed, _ROUNDS).judge(model)
    if len(result.ndcg_with_vectors) < MIN_TEST_DOCUMENTS:
        return None
    return Tuning(round(result.alpha, 4), model.hash, why={"alpha": result.explanation})


def weigh_index(engine: Engine, index: str, fields: Sequence[str], model: Model) -> Tuning | None:
    """Choose the weight of a model's vectors in searches of an index. The index need not contain vectors.

    Args:
        engine: The search engine.
        index: The name of the index.
        fields: The text fields that the model encodes.
        model: The model.

    Returns:
        The weight with an explanation. None if no weight can be chosen (see :func:`choose_weight`), or the extra
        ``adapt`` is not installed.
    """
    hits = engine.sample(index, DOCUMENTS, list(fields)).hits
    with suppress(MissingExtra):
        return choose_weight(model, [document_text(hit["_source"], fields) for hit in hits])
    return None
