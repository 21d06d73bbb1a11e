"""The order of /v1/search is that of its formula, computed in numpy from the engine's own scores, on both engines."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service_app import ids, post

from resift import Model, WordVectors, build_model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.feedback.feedback import Feedback
from resift.feedback.methods import METHODS
from resift.feedback.ridge import Background
from resift.reranker import Config, create_app
from resift.text import bag_of_words, tokenize

WORDS = ["fire", "bush", "flame", "smoke", "forest", "tree", "army", "gun", "soldier", "war", "rain", "river"]
QUERY = "fire rain"
RELEVANT, IRRELEVANT = ["3", "12", "30"], ["5"]
WINDOW, COUNT = 400, 60


def texts() -> list[str]:
    """Sixty texts of a few words each."""
    rng = np.random.default_rng(3)
    return [" ".join(rng.choice(WORDS, rng.integers(2, 9))) for _ in range(COUNT)]


@pytest.fixture(params=["mean", "sfbow"])
def compared(request: pytest.FixtureRequest, vectors: WordVectors) -> Model:
    """A model that compares by cosine, or by fuzzy Jaccard."""
    return build_model(request.param, vectors)


@pytest.fixture
def corpus(engine: Engine, index: str, compared: Model) -> str:
    """The texts, all but every seventh with a vector."""
    engine.create(index, ["text"], compared)
    encoded = compared.encode(texts())
    documents = [Document(str(n), {"text": text}, None if n % 7 == 1 else encoded[n]) for n, text in enumerate(texts())]
    assert engine.bulk(index, documents) == []
    engine.refresh(index)
    return index


def engine_scores(engine: Engine, index: str, text: str, boost: float = 1.0) -> np.ndarray[Any, Any]:
    """Each document's BM25 score (n,) for a text, 0 where it has none of its words."""
    clause = {"multi_match": {"query": text, "fields": ["text"], "boost": boost}}
    scores = np.zeros(COUNT)
    for hit in engine.search(index, {"query": clause, "size": COUNT}).hits:
        scores[int(hit["_id"])] = hit["_score"]
    return scores


def learned(model: Model, method: str) -> Feedback:
    """What the marks teach about this index, without a session."""
    background = np.delete(model.encode(texts()), np.arange(1, COUNT, 7), axis=0)
    marked = [texts()[int(id)] for id in RELEVANT + IRRELEVANT]
    encoded, count = model.encode(marked), len(RELEVANT)
    bags = [bag_of_words(text, model.table.idf) for text in marked]
    feedback = Feedback.learn(encoded[:count], encoded[count:], method, bags=bags)
    return replace(feedback, background=Background(background))


def similarities(model: Model, query: Any, mask: Any) -> np.ndarray[Any, Any]:
    """Each document's similarity (n,), 0 without a vector, by the textbook: cosine, or fuzzy Jaccard."""
    query, documents = (mask * np.asarray(one, np.float64) for one in (query, model.encode(texts())))
    if model.similarity == "cosine":
        found = documents @ query / (np.linalg.norm(documents, axis=1) * np.linalg.norm(query))
    else:
        a, b = np.maximum(query, 0), np.maximum(documents, 0)
        found = np.minimum(a, b).sum(1) / np.maximum(a, b).sum(1)
    found[1::7] = 0
    return found


@pytest.mark.parametrize("method", METHODS)
def test_the_order_is_that_of_the_formula(
    engine: Engine, corpus: str, compared: Model, method: str, tmp_path: Path
) -> None:
    config = Config(store=str(tmp_path / "sessions.db"), feedback=method)
    client = create_app(config, engine=engine, model=compared).test_client()
    for marked in (False, True):
        feedback = learned(compared, method) if marked else None
        if marked:
            marks = {"relevant": RELEVANT, "irrelevant": IRRELEVANT}
            post(client, "/v1/feedback", session="a", index=corpus, query=QUERY, **marks)
        query, mask = compared.encode_one(QUERY), np.ones(compared.dim)
        terms: dict[str, float] = {}
        if feedback is not None:
            query, candidates = feedback.transform_query(query), feedback.expansion_terms
            terms = {word: weight for word, weight in candidates.items() if weight >= 0.1 * max(candidates.values())}
            mask = feedback.mask.astype(float) if feedback.method.masked else mask
        length = sum(count**2 for count in Counter(tokenize(QUERY)).values()) ** 0.5
        own = engine_scores(engine, corpus, QUERY)
        words = sum((engine_scores(engine, corpus, word, weight * length) for word, weight in terms.items()), 0 * own)
        for alpha in (0.0, 0.3, 0.6):
            used = alpha if feedback is None else feedback.adjusted_alpha(alpha, compared.max_alpha)
            plus = 1 if compared.similarity == "cosine" else 0
            factor = np.exp(used / (1 - used) * (plus + similarities(compared, query, mask)))
            for widen in (False, True):
                asked = {"index": corpus, "query": QUERY, "session": "a", "alpha": alpha, "widen": widen, "size": COUNT}
                answer = post(client, "/v1/search", **asked, window=WINDOW)
                scores = {int(hit["_id"]): hit["_score"] for hit in answer["hits"]["hits"]}
                # the query finds more than a page by itself, so the words find no further documents
                assert set(scores) == set(np.flatnonzero(own).tolist())
                assert answer["hits"]["total"]["value"] == len(scores) > 10
                expected = (own + words) * factor
                if marked:
                    expected[list(map(int, IRRELEVANT))] = 0.001 * own[list(map(int, IRRELEVANT))]
                for id, score in scores.items():
                    assert score == pytest.approx(expected[id], rel=2e-4), id
                order = [expected[int(id)] for id in ids(answer)]
                assert all(after <= before * (1 + 4e-4) for before, after in pairwise(order))
